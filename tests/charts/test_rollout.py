"""How pods are replaced, and how long each is given to start and to stop."""

from __future__ import annotations

from typing import Any

import pytest

from chart_rendering import Values, of_kind, render, worker_container


def _deployment(values: Values | None = None) -> dict[str, Any]:
    return dict(of_kind("Deployment", values)["spec"])


def _notes(values: Values) -> str:
    return " ".join(render(values)["volery-worker/templates/NOTES.txt"].split())


def test_a_roll_needs_no_spare_gpu() -> None:
    assert _deployment()["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"},
    }


@pytest.mark.parametrize(("drain", "linger", "grace"), [(300, 30, 360), (0, 30, 60), (12.5, 0, 43), (1800, 0.5, 1831)])
def test_a_pod_is_given_its_drain_and_a_last_scrape_before_it_is_killed(
    drain: float, linger: float, grace: int
) -> None:
    values = {"worker": {"drainSeconds": drain, "quarantineLingerSeconds": linger}}
    assert _deployment(values)["template"]["spec"]["terminationGracePeriodSeconds"] == grace


def test_a_pod_may_load_models_for_as_long_as_the_values_say() -> None:
    for seconds in (900, 901, 5):
        probe = worker_container({"probes": {"startupSeconds": seconds}})["startupProbe"]
        assert seconds <= probe["periodSeconds"] * probe["failureThreshold"] < seconds + probe["periodSeconds"]


def test_a_pod_counts_as_started_once_it_is_ready_and_then_must_stay_healthy() -> None:
    container = worker_container()
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/readyz", "liveness": "/healthz", "readiness": "/readyz"}


def test_a_pod_that_is_no_longer_alive_is_not_given_a_whole_drain() -> None:
    probe = worker_container({"worker": {"drainSeconds": 3600}})["livenessProbe"]
    assert probe["terminationGracePeriodSeconds"] == 60


def test_a_slow_roll_is_not_called_stuck() -> None:
    spec = _deployment({"worker": {"drainSeconds": 3600}})
    assert spec["progressDeadlineSeconds"] > spec["template"]["spec"]["terminationGracePeriodSeconds"] + 900


def test_a_quarantined_worker_is_scraped_before_it_ends() -> None:
    interval = of_kind("PodMonitor", {"podMonitor": {"enabled": True}})["spec"]["podMetricsEndpoints"][0]["interval"]
    linger = worker_container()["env"]
    seconds = next(one["value"] for one in linger if one["name"] == "BATCH_PIPELINE_QUARANTINE_LINGER_SECONDS")
    assert float(interval.removesuffix("s")) * 2 < float(seconds)


@pytest.mark.parametrize(
    ("values", "waves"),
    [
        ({"replicas": 1}, 1),
        ({"replicas": 4}, 4),
        ({"replicas": 8}, 4),
        ({"replicas": 9}, 5),
        ({"replicas": 8, "rollout": {"maxUnavailable": "100%"}}, 1),
        ({"replicas": 8, "rollout": {"maxUnavailable": 3}}, 3),
        ({"replicas": 8, "rollout": {"maxSurge": 2, "maxUnavailable": 0}}, 4),
        ({"replicas": 2, "autoscaling": {"enabled": True, "maxReplicas": 16}}, 4),
    ],
)
def test_the_time_until_a_switch_is_in_force_everywhere_is_stated(values: Values, waves: int) -> None:
    assert f"replaces the pods in {waves} wave" in _notes(values)
    assert f"in force in every pod after at most {waves * (360 + 900)} s" in _notes(values)


def test_the_notes_say_how_each_switch_is_set() -> None:
    notes = _notes({"worker": {"asrCudaGraphsEnabled": False}})
    assert "worker.asrCudaGraphsEnabled false" in notes
    assert "worker.prepareFlightEnabled true" in notes
    assert "worker.vadRecoveryEnabled false" in notes
