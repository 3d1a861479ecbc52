"""The HTTP port: answered from threads of its own, whatever the event loop does."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from time import monotonic

import pytest

from volery import metrics
from volery.units import ConfigurationError
from volery.worker import health as health_module
from volery.worker.health import Health
from volery.worker.probes import ProbeServer


@pytest.fixture
def health() -> Health:
    return Health(stall_seconds=15.0)


@pytest.fixture
def server(health: Health) -> Iterator[ProbeServer]:
    server = ProbeServer(health, "127.0.0.1", 0)
    yield server
    server.close()


def get(server: ProbeServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_hold_the_series_of_the_design(server: ProbeServer) -> None:
    metrics.STAGE_SECONDS.labels("vad").observe(0.1)
    status, body = get(server, "/metrics")
    assert status == 200
    assert 'batch_pipeline_stage_seconds_bucket{le="0.1",stage="vad"}' in body


def test_a_process_that_loads_its_models_is_healthy_and_not_ready(server: ProbeServer) -> None:
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz") == (503, "models are loading\n")


def test_a_process_with_models_and_a_store_is_ready(server: ProbeServer, health: Health) -> None:
    health.models_ready, health.store_seen = True, monotonic()
    assert get(server, "/readyz") == (200, "ok\n")


def test_a_draining_process_is_healthy_and_not_ready(server: ProbeServer, health: Health) -> None:
    health.models_ready, health.store_seen, health.draining = True, monotonic(), True
    assert get(server, "/healthz")[0] == 200
    assert get(server, "/readyz") == (503, "draining\n")


def test_a_store_that_has_not_answered_makes_the_process_unready(server: ProbeServer, health: Health) -> None:
    health.models_ready, health.store_seen = True, monotonic() - 61.0
    assert get(server, "/readyz")[0] == 503


def test_a_quarantined_process_is_unhealthy_and_says_why(server: ProbeServer, health: Health) -> None:
    health.quarantined = "decoding_mode"
    assert get(server, "/healthz") == (503, "quarantined: decoding_mode\n")


def test_a_blocked_event_loop_is_unhealthy(
    server: ProbeServer, health: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    health._beat = monotonic() - 16.0
    status, body = get(server, "/healthz")
    assert status == 503
    assert "event loop" in body


@pytest.mark.parametrize(
    ("audio_seconds", "ran", "healthy"), [(7200.0, 7200.0, True), (7200.0, 15_000.0, False), (30.0, 400.0, False)]
)
def test_a_group_counts_as_stuck_in_proportion_to_its_audio(
    health: Health, monkeypatch: pytest.MonkeyPatch, audio_seconds: float, ran: float, healthy: bool
) -> None:
    health.group_begins(audio_seconds)
    later = monotonic() + ran
    monkeypatch.setattr(health_module, "monotonic", lambda: later)
    assert (health.unhealthy() is None) is healthy
    health.group_ends()
    assert health.unhealthy() is None


def test_an_unknown_path_says_what_there_is(server: ProbeServer) -> None:
    assert get(server, "/nothing")[0] == 404


def test_a_port_that_is_taken_is_a_clear_error(server: ProbeServer, health: Health) -> None:
    with pytest.raises(ConfigurationError, match="BATCH_PIPELINE_HTTP_PORT"):
        ProbeServer(health, "127.0.0.1", server.port)
