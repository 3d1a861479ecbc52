"""The manifests, rendered by the real Helm engine."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import typer

from chart_rendering import (
    CHART,
    Manifest,
    Values,
    least_values,
    manifests,
    merged,
    of_kind,
    plain_environment,
    worker_container,
)
from volery.cli import app

ROOT = Path(__file__).resolve().parents[2]
OLDEST, NEWEST = "1.28", "1.37"
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject", "TriggerAuthentication"}
EVERYTHING: Values = {
    "imagePullSecrets": [{"name": "pull"}],
    "hubToken": {"secretName": "hub"},
    "gpu": {"nodeSelector": {"pool": "l4"}, "runtimeClassName": "nvidia"},
    "priorityClassName": "batch",
    "podAnnotations": {"team": "speech"},
    "podLabels": {"team": "speech"},
    "modelCache": {"existingClaim": "models"},
    "extraVolumes": [{"name": "audio", "persistentVolumeClaim": {"claimName": "audio"}}],
    "extraVolumeMounts": [{"name": "audio", "mountPath": "/audio", "readOnly": True}],
    "serviceAccount": {"annotations": {"iam.gke.io/gcp-service-account": "volery@project.iam.gserviceaccount.com"}},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True, "runbookUrl": "https://docs.example.com/alerts"},
    "dashboards": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "scrapeFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 6432}]}],
    },
    "autoscaling": {"enabled": True},
    "referee": {"enabled": True},
    "worker": {"refereeSampleRate": 0.02},
}


def _pod(values: Values | None = None) -> Manifest:
    return dict(of_kind("Deployment", values)["spec"]["template"]["spec"])


def _pods_of_all() -> list[Manifest]:
    return [one["spec"]["template"]["spec"] for one in manifests(EVERYTHING) if one["kind"] in ("Deployment", "Job")]


def test_helm_has_no_warning_about_the_chart() -> None:
    report = helm.lint(CHART, least_values(), strict=True, kube_version="v1.34.0")
    assert [one["error"] for one in report["messages"]] == ["icon is recommended"]


def test_the_chart_is_of_the_release_that_it_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with helm.Chart.load(CHART) as chart:
        assert chart.metadata["appVersion"] == project["version"]


@pytest.mark.parametrize(
    ("values", "version"),
    [({}, NEWEST), ({"worker": {"device": "cpu"}}, NEWEST), (EVERYTHING, OLDEST), (EVERYTHING, NEWEST)],
    ids=["least", "cpu", "everything-oldest", "everything"],
)
def test_every_manifest_is_valid_kubernetes(values: Values, version: str) -> None:
    own = [one for one in manifests(values) if one["kind"] not in CUSTOM]
    assert {"Deployment", "Job", "ServiceAccount", "PodDisruptionBudget"} <= {one["kind"] for one in own}
    for manifest in own:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_rendering_twice_gives_the_same_bytes() -> None:
    values = merged(least_values(), EVERYTHING)
    once, again = (helm.Chart.load(CHART).render(values, name="volery") for _ in range(2))
    assert once == again


def test_what_needs_an_operator_is_off_by_default() -> None:
    assert {one["kind"] for one in manifests()} == {"Deployment", "Job", "PodDisruptionBudget", "ServiceAccount"}


def test_names_of_objects_fit_whatever_the_release_is_called() -> None:
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(least_values())
        texts = chart.render(merged(least_values(), EVERYTHING), name="r" * 53)
    names = [line.split()[1] for text in texts.values() for line in text.splitlines() if line.startswith("  name:")]
    assert names
    assert max(map(len, names)) <= 63


def test_a_pod_has_exactly_one_gpu() -> None:
    asked = worker_container({"resources": {"limits": {"nvidia.com/gpu": 4, "memory": "20Gi"}}})["resources"]
    assert asked["limits"] == {"nvidia.com/gpu": 1, "memory": "20Gi"}
    assert "nvidia.com/gpu" not in asked["requests"]


def test_the_gpu_may_be_a_slice_of_one() -> None:
    assert worker_container({"gpu": {"resource": "nvidia.com/mig-3g.40gb"}})["resources"]["limits"] == {
        "nvidia.com/mig-3g.40gb": 1,
        "memory": "16Gi",
    }


def test_pods_go_to_the_chosen_gpu_nodes() -> None:
    pod = _pod({"gpu": {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}}})
    assert pod["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_worker_on_the_cpu_takes_no_gpu_and_no_gpu_node() -> None:
    pod = _pod({"worker": {"device": "cpu"}, "gpu": {"nodeSelector": {"pool": "l4"}, "runtimeClassName": "nvidia"}})
    assert {"nodeSelector", "tolerations", "runtimeClassName"}.isdisjoint(pod)
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "16Gi"}


def test_no_service_may_put_variables_into_a_pod() -> None:
    assert [pod["enableServiceLinks"] for pod in _pods_of_all()] == [False] * 4


def test_no_pod_has_a_token_of_the_cluster() -> None:
    assert [pod["automountServiceAccountToken"] for pod in _pods_of_all()] == [False] * 4
    accounts = [one for one in manifests() if one["kind"] == "ServiceAccount"]
    assert [one["automountServiceAccountToken"] for one in accounts] == [False, False]


def test_containers_run_without_root_without_privileges_and_on_a_read_only_file_system() -> None:
    for pod in _pods_of_all():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_a_container_may_write_at_home_in_tmp_and_in_the_cache_of_models() -> None:
    writable = {one["mountPath"] for one in worker_container()["volumeMounts"]}
    env = {one["name"]: one.get("value") for one in worker_container()["env"]}
    assert {env["HOME"], env["HF_HOME"], "/tmp"} == writable


def test_models_may_be_kept_on_a_claim_that_pods_share() -> None:
    volumes = {one["name"]: one for one in _pod({"modelCache": {"existingClaim": "models"}})["volumes"]}
    assert volumes["models"] == {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}


def test_the_service_account_carries_the_annotations_of_workload_identity() -> None:
    [account] = [
        one
        for one in manifests(
            {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/v"}}}
        )
        if one["kind"] == "ServiceAccount" and "helm.sh/hook" not in one["metadata"].get("annotations", {})
    ]
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/v"}
    assert account["metadata"]["name"] == _pod()["serviceAccountName"]


def test_an_account_of_somebody_elses_can_be_used() -> None:
    values: Values = {"serviceAccount": {"create": False, "name": "theirs"}}
    assert _pod(values)["serviceAccountName"] == "theirs"
    assert all(
        one["metadata"]["name"].endswith("-migration") for one in manifests(values) if one["kind"] == "ServiceAccount"
    )


def test_the_schema_is_upgraded_before_an_installation_and_an_upgrade_but_not_before_a_rollback() -> None:
    job = of_kind("Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["db", "upgrade"]
    assert [one["name"] for one in container["env"] if "valueFrom" in one] == ["BATCH_PIPELINE_DATABASE_URL"]


def test_the_migration_runs_under_an_account_that_is_there_before_it() -> None:
    account = _hook_account()
    job = of_kind("Job")
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    ours, its = (one["metadata"]["annotations"] for one in (account, job))
    assert ours["helm.sh/hook"] == its["helm.sh/hook"]
    assert int(ours["helm.sh/hook-weight"]) < int(its["helm.sh/hook-weight"])


def _hook_account() -> Manifest:
    [account] = [
        one
        for one in manifests()
        if one["kind"] == "ServiceAccount" and "helm.sh/hook" in one["metadata"].get("annotations", {})
    ]
    return account


def test_a_pod_that_was_given_no_gpu_sees_none() -> None:
    cpu: Values = {"worker": {"device": "cpu"}}
    without = [of_kind("Deployment", cpu), of_kind("Deployment", component="exporter"), of_kind("Job")]
    for pod in (one["spec"]["template"]["spec"] for one in without):
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in pod["containers"][0]["env"]
    assert "NVIDIA_VISIBLE_DEVICES" not in plain_environment()


def test_a_migration_takes_no_gpu() -> None:
    [container] = of_kind("Job", EVERYTHING)["spec"]["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]


def test_an_image_is_pulled_by_its_digest_where_there_is_one() -> None:
    digest = f"sha256:{'0123456789abcdef' * 4}"
    assert worker_container()["image"] == "registry.example.com/volery:0.1.0"
    assert worker_container({"image": {"digest": digest}})["image"] == f"registry.example.com/volery@{digest}"


def test_the_port_of_the_setting_is_the_port_that_is_probed_and_scraped() -> None:
    values: Values = {"worker": {"httpPort": 8123}, "networkPolicy": {"enabled": True}, "podMonitor": {"enabled": True}}
    container = worker_container(values)
    assert container["ports"] == [{"name": "http", "containerPort": 8123}]
    assert {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")} == {"http"}
    assert of_kind("NetworkPolicy", values)["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 8123}]
    assert of_kind("PodMonitor", values)["spec"]["podMetricsEndpoints"][0]["port"] == "http"


def _labels(manifest: Manifest) -> dict[str, str]:
    return dict(manifest["spec"]["template"]["metadata"]["labels"])


@pytest.mark.parametrize("kind", ["Deployment", "PodDisruptionBudget"])
def test_selectors_of_the_objects_around_a_worker_find_its_pods_and_no_others(kind: str) -> None:
    wanted = of_kind(kind, EVERYTHING)["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= _labels(of_kind("Deployment")).items()
    others = [of_kind("Deployment", EVERYTHING, component=component) for component in ("exporter", "referee")]
    for other in (of_kind("Job"), *others):
        assert not wanted.items() <= _labels(other).items()


def test_workers_the_exporter_and_the_referee_are_scraped_and_migrations_are_not() -> None:
    selector = of_kind("PodMonitor", EVERYTHING)["spec"]["selector"]
    [component] = selector["matchExpressions"]
    assert component["values"] == ["worker", "exporter", "referee"]
    for deployment in (of_kind("Deployment", EVERYTHING, component=name) for name in component["values"]):
        assert selector["matchLabels"].items() <= _labels(deployment).items()
        assert _labels(deployment)[component["key"]] in component["values"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert "http" in [port["name"] for port in container["ports"]]
    assert _labels(of_kind("Job"))[component["key"]] not in component["values"]


def test_the_exporter_runs_without_a_gpu_and_knows_the_job_store_alone() -> None:
    pod = of_kind("Deployment", EVERYTHING, component="exporter")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == ["exporter"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert {"nodeSelector", "tolerations", "runtimeClassName"}.isdisjoint(pod)
    assert [one["name"] for one in container["env"] if "valueFrom" in one] == ["BATCH_PIPELINE_DATABASE_URL"]


def test_the_referee_has_a_gpu_of_its_own_and_everything_that_a_worker_has_to_reach_audio_and_results() -> None:
    pod = of_kind("Deployment", EVERYTHING, component="referee")["spec"]["template"]["spec"]
    worker = _pod(EVERYTHING)
    [container] = pod["containers"]
    assert container["args"] == ["referee", "--follow"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "8Gi"}
    for same in ("nodeSelector", "tolerations", "runtimeClassName", "volumes", "serviceAccountName"):
        assert pod[same] == worker[same], same
    assert container["volumeMounts"] == worker["containers"][0]["volumeMounts"]


def test_a_referee_on_the_cpu_takes_no_gpu_and_no_gpu_node() -> None:
    pod = of_kind("Deployment", merged(EVERYTHING, {"worker": {"refereeDevice": "cpu"}}), component="referee")
    pod = pod["spec"]["template"]["spec"]
    assert {"nodeSelector", "tolerations", "runtimeClassName"}.isdisjoint(pod)
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "8Gi"}
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in pod["containers"][0]["env"]


def test_either_the_referee_or_the_workers_audit() -> None:
    rate = "BATCH_PIPELINE_REFEREE_SAMPLE_RATE"
    [referee] = of_kind("Deployment", EVERYTHING, component="referee")["spec"]["template"]["spec"]["containers"]
    assert {"name": rate, "value": "0.02"} in referee["env"]
    assert plain_environment(EVERYTHING)[rate] == "0"
    assert plain_environment({"worker": {"refereeSampleRate": 0.02}})[rate] == "0.02"


def test_a_referee_without_a_sample_is_refused() -> None:
    with pytest.raises(helm.HelmRenderError, match=r"worker\.refereeSampleRate"):
        manifests({"referee": {"enabled": True}})


def test_another_setting_of_the_audit_leaves_the_workers_alone_where_the_referee_has_it() -> None:
    more = merged(EVERYTHING, {"worker": {"refereeSampleRate": 0.5}})
    assert of_kind("Deployment", more) == of_kind("Deployment", EVERYTHING)


def test_a_changed_switch_leaves_the_exporter_alone() -> None:
    changed: Values = {"worker": {"asrCudaGraphsEnabled": False}}
    assert of_kind("Deployment", changed, component="exporter") == of_kind("Deployment", component="exporter")


def test_every_container_runs_a_command_that_there_is() -> None:
    for pod in _pods_of_all():
        command: Any = typer.main.get_command(app)
        for word in (word for word in pod["containers"][0]["args"] if not word.startswith("-")):
            command = command.commands[word]


def test_a_second_fleet_on_the_same_job_store_can_do_without_an_exporter() -> None:
    deployments = [one for one in manifests({"exporter": {"enabled": False}}) if one["kind"] == "Deployment"]
    assert deployments == [of_kind("Deployment")]


def test_a_label_of_the_values_cannot_hide_a_pod_from_its_selectors() -> None:
    labels = of_kind("Deployment", {"podLabels": {"team": "speech"}})["spec"]["template"]["metadata"]["labels"]
    assert labels["team"] == "speech"
    assert of_kind("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels.items()


def _trigger(values: Values) -> dict[str, Any]:
    [trigger] = of_kind("ScaledObject", values)["spec"]["triggers"]
    return dict(trigger)


def test_the_autoscaler_asks_the_job_store_and_decides_on_the_number_of_pods_alone() -> None:
    values: Values = {"autoscaling": {"enabled": True, "unitsPerWorker": 100}}
    assert "replicas" not in of_kind("Deployment", values)["spec"]
    assert _trigger(values)["metadata"]["targetQueryValue"] == "100"
    [secret] = of_kind("TriggerAuthentication", values)["spec"]["secretTargetRef"]
    assert secret == {"parameter": "connection", "name": "volery-database", "key": "url"}
    assert of_kind("ScaledObject", values)["spec"]["scaleTargetRef"] == {
        "name": of_kind("Deployment")["metadata"]["name"]
    }
    assert of_kind("ScaledObject", values)["spec"]["minReplicaCount"] == 0
