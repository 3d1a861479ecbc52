"""The init step that brings the hub's models before a worker starts."""

from __future__ import annotations

from typing import Any

from chart_rendering import Manifest, Values, of_kind, worker_container

REVISION, DIGEST = "a" * 40, "b" * 64


def _steps(values: Values | None = None) -> list[Manifest]:
    return list(of_kind("Deployment", values)["spec"]["template"]["spec"].get("initContainers", ()))


def _environment(container: Manifest) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_models_are_pulled_into_the_cache_that_the_worker_reads() -> None:
    [step] = _steps()
    assert step["args"] == ["models", "pull"]
    assert step["image"] == worker_container()["image"]
    home = _environment(step)["HF_HOME"]
    assert home == _environment(worker_container())["HF_HOME"]
    assert {"name": "models", "mountPath": home} in step["volumeMounts"]


def test_embedded_models_are_not_pulled() -> None:
    assert _steps({"worker": {"models": "embedded"}}) == []


def test_the_step_pulls_what_the_worker_will_load() -> None:
    values: Values = {
        "worker": {"asrModel": "someone/model", "asrModelRevision": REVISION, "asrModelSha256": DIGEST},
        "hubToken": {"secretName": "hub"},
    }
    [step] = _steps(values)
    environment, of_worker = _environment(step), _environment(worker_container(values))
    assert environment["BATCH_PIPELINE_ASR_MODEL_REVISION"] == REVISION
    assert environment["BATCH_PIPELINE_ASR_MODEL_SHA256"] == DIGEST
    assert {name: value for name, value in of_worker.items() if name not in environment} == {
        "BATCH_PIPELINE_DATABASE_URL": {"secretKeyRef": {"name": "volery-database", "key": "url"}}
    }
    assert environment.pop("NVIDIA_VISIBLE_DEVICES") == "void"
    assert environment.items() <= of_worker.items()


def test_the_step_takes_no_gpu_and_no_more_than_the_worker() -> None:
    [step] = _steps()
    assert step["resources"] == {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}}


def test_the_step_runs_as_unprivileged_as_the_worker() -> None:
    [step] = _steps()
    assert step["securityContext"] == worker_container()["securityContext"]
    written = {one["mountPath"] for one in step["volumeMounts"]}
    assert written == {one["mountPath"] for one in worker_container()["volumeMounts"]}


def test_a_model_at_a_path_is_seen_by_the_step() -> None:
    mounted = {"name": "audio", "mountPath": "/audio", "readOnly": True}
    volume = {"name": "audio", "persistentVolumeClaim": {"claimName": "audio"}}
    [step] = _steps({"extraVolumes": [volume], "extraVolumeMounts": [mounted]})
    assert mounted in step["volumeMounts"]
