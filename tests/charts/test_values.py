"""The schema of the values: it refuses what a template would turn into something else."""

from __future__ import annotations

from typing import Any

import helm_python as helm
import pytest

from chart_rendering import CHART, Values, least_values, merged, render
from chart_settings import value_name
from volery.settings import SWITCHES


def _walk(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Any:
    """Every object of the schema that names its keys."""
    if "$ref" in schema:
        return
    if "properties" in schema:
        yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from _walk(part, (*path, name))


def _schema() -> dict[str, Any]:
    with helm.Chart.load(CHART) as chart:
        schema = chart.schema
    assert schema is not None
    return schema


def _at(path: tuple[str, ...], value: Any) -> Values:
    for key in reversed(path):
        value = {key: value}
    return dict(value)


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
@pytest.mark.parametrize("wrong", ["no", "false", "", 0, 1, None, [], {}])
def test_a_switch_is_true_or_false_and_nothing_else(switch: Any, wrong: Any) -> None:
    name = value_name(switch.setting)
    with pytest.raises(helm.HelmValuesError, match=name):
        render({"worker": {name: wrong}})


@pytest.mark.parametrize("path", [path for path, _ in _walk(_schema())], ids=lambda path: ".".join(path) or "root")
def test_an_unknown_key_is_refused_wherever_it_is(path: tuple[str, ...]) -> None:
    with pytest.raises(helm.HelmValuesError, match="lanez"):
        render(_at(path, {"lanez": 2}))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("worker", "lanes"), "2"),
        (("worker", "lanes"), 0),
        (("worker", "lanes"), 2.5),
        (("worker", "flightUnits"), 33),
        (("worker", "device"), "tpu"),
        (("worker", "httpPort"), 0),
        (("worker", "httpPort"), 80),
        (("worker", "httpHost"), "127.0.0.1"),
        (("worker", "httpHost"), "localhost"),
        (("worker", "httpHost"), ""),
        (("worker", "artifactsUrl"), "s3://bucket/volery"),
        (("worker", "artifactsUrl"), "/results"),
        (("worker", "artifactsUrl"), "file://results"),
        (("worker", "artifactsUrl"), "gs://"),
        (("worker", "artifactsUrl"), "gs:///volery"),
        (("worker", "databaseUrl"), "postgresql://user:password@host/volery"),
        (("worker", "asrModel"), 5),
        (("replicas",), "3"),
        (("replicas",), None),
        (("rollout", "maxUnavailable"), "25"),
        (("rollout", "maxUnavailable"), "125%"),
        (("image", "digest"), "latest"),
        (("podMonitor", "interval"), 10),
        (("prometheusRule", "queueAgeSeconds"), "1h"),
        (("gpu", "nodeSelector"), {"gpu": True}),
        (("serviceAccount", "annotations"), {"a": 1}),
        (("resources", "requests"), {"cpu": True}),
        (("resources", "requests"), {"memory": "16GB"}),
        (("resources", "limits"), {"memory": "16 Gi"}),
        (("resources", "limits"), {"cpu": -1}),
        (("exporter", "resources", "limits"), {"memory": "lots"}),
    ],
    ids=lambda one: ".".join(one) if isinstance(one, tuple) else str(one),
)
def test_a_value_of_a_wrong_type_or_out_of_bounds_is_refused(path: tuple[str, ...], wrong: Any) -> None:
    with pytest.raises(helm.HelmValuesError, match=path[-1]):
        render(_at(path, wrong))


def test_values_of_a_parent_chart_are_admitted() -> None:
    assert render({"global": {"region": "somewhere", "deep": {"er": [1]}}}) == render()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ({"image": {"repository": ""}}, "image.repository"),
        ({"database": {"secretName": ""}}, "database.secretName"),
        ({"worker": {"artifactsUrl": ""}}, "worker.artifactsUrl"),
    ],
)
def test_what_only_an_installation_knows_is_asked_for(missing: Values, said: str) -> None:
    with pytest.raises(helm.HelmRenderError, match=f"set {said}"):
        render(missing)


@pytest.mark.parametrize("quantity", ["500m", "4", 4, 0.5, "1.5", "16Gi", "16G", "1e9", "128974848"])
def test_a_quantity_is_written_as_kubernetes_writes_it(quantity: Any) -> None:
    assert render({"resources": {"requests": {"memory": quantity}}})


def test_the_autoscaler_may_want_as_many_workers_as_there_may_be_and_no_more() -> None:
    assert render({"autoscaling": {"enabled": True, "minReplicas": 4, "maxReplicas": 4}})
    with pytest.raises(helm.HelmRenderError, match=r"minReplicas is 5 and autoscaling\.maxReplicas only 4"):
        render({"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 4}})


_RESULTS: Values = {"worker": {"artifactsUrl": "file:///shared/my%20results/volery"}}


@pytest.mark.parametrize("mount", ["/shared", "/shared/", "/shared/my results/volery"])
def test_results_may_go_to_a_volume_that_is_mounted(mount: str) -> None:
    assert render({**_RESULTS, "extraVolumeMounts": [{"name": "results", "mountPath": mount}]})


@pytest.mark.parametrize(
    "mounts",
    [
        [],
        [{"name": "results", "mountPath": "/share"}],
        [{"name": "results", "mountPath": "/shared/my results/volery/deeper"}],
        [{"name": "results", "mountPath": "/shared", "readOnly": True}],
    ],
    ids=["none", "another", "deeper", "read-only"],
)
def test_results_that_would_vanish_with_their_pod_are_refused(mounts: list[Any]) -> None:
    said = "worker.artifactsUrl is /shared/my results/volery in the pod, and no writable volume is mounted there"
    with pytest.raises(helm.HelmRenderError, match=said):
        render({**_RESULTS, "extraVolumeMounts": mounts})


def test_a_key_file_is_in_a_volume_that_may_be_read_only() -> None:
    key: Values = {"worker": {"gcsKeyFile": "/keys/volery.json"}}
    assert render({**key, "extraVolumeMounts": [{"name": "keys", "mountPath": "/keys", "readOnly": True}]})
    with pytest.raises(helm.HelmRenderError, match=r"worker.gcsKeyFile is /keys/volery\.json .* no volume is mounted"):
        render(key)


def test_a_roll_that_could_never_begin_is_refused() -> None:
    with pytest.raises(helm.HelmRenderError, match="no pod could ever be replaced"):
        render({"rollout": {"maxSurge": 0, "maxUnavailable": "0%"}})


@pytest.mark.parametrize("path", [path for path, _ in _walk(_schema()) if path], ids=".".join)
def test_a_part_that_is_taken_away_is_asked_for_by_name(path: tuple[str, ...]) -> None:
    with pytest.raises(helm.HelmValuesError, match=path[-1]):
        render(_at(path, None))


def test_the_default_values_fit_the_schema() -> None:
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(merged(chart.values, least_values()))


def test_every_key_of_the_default_values_is_in_the_schema_and_the_other_way_round() -> None:
    with helm.Chart.load(CHART) as chart:
        values = chart.values
    for path, schema in _walk(_schema()):
        here: Any = values
        for key in path:
            here = here[key]
        assert here.keys() == schema["properties"].keys() - ({"global"} if not path else set()), path
