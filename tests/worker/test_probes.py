"""The HTTP port: answered from threads of its own, whatever the event loop does."""

from __future__ import annotations

import asyncio
import http.client
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from time import monotonic

import pytest
from structlog.testing import capture_logs

from volery import metrics
from volery.units import ConfigurationError, PreparedUnit, Transcript, UnitError
from volery.worker import health as health_module
from volery.worker.board import Board
from volery.worker.health import Health
from volery.worker.probes import ProbeServer, _Handler
from worker.stubs import Bench, digest_each


@pytest.fixture
def health() -> Health:
    return Health(stall_seconds=15.0)


@pytest.fixture
def server(health: Health) -> Iterator[ProbeServer]:
    server = ProbeServer(health, "127.0.0.1", 0)
    yield server
    server.close()


def get(server: ProbeServer, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{host}:{server.port}{path}", timeout=10) as answer:
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


class Clock:
    """The clock of the health module, which can be put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        monkeypatch.setattr(health_module, "monotonic", lambda: monotonic() + self.ahead)


def test_an_event_loop_that_is_blocked_is_unhealthy_once_it_has_not_turned_for_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, health = Clock(monkeypatch), Health(stall_seconds=1000.0)
    blocked, go_on = threading.Event(), threading.Event()

    async def beat_and_block() -> None:
        beating = asyncio.create_task(health.beat())
        await asyncio.sleep(0)
        blocked.set()
        go_on.wait()
        beating.cancel()

    loop = threading.Thread(target=asyncio.run, args=(beat_and_block(),))
    server = ProbeServer(health, "127.0.0.1", 0)
    loop.start()
    blocked.wait()
    clock.ahead = 500.0
    before = get(server, "/healthz")
    clock.ahead = 1001.0
    status, body = get(server, "/healthz")
    go_on.set()
    loop.join()
    server.close()
    assert before == (200, "ok\n")
    assert status == 503
    assert body.startswith("the event loop has not turned for 100")


async def test_a_gpu_thread_that_is_stuck_in_a_group_is_unhealthy_after_five_minutes_and_twice_its_length(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    stuck, go_on = threading.Event(), threading.Event()

    def get_stuck(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        stuck.set()
        go_on.wait()
        return digest_each(group)

    await bench.submit(50.0)
    worker = bench.worker(get_stuck, health_stall_seconds=10_000.0)
    server = ProbeServer(worker.health, "127.0.0.1", 0)
    run = asyncio.create_task(worker.run())
    await asyncio.get_running_loop().run_in_executor(None, stuck.wait)
    clock.ahead = 200.0
    before = get(server, "/healthz")
    clock.ahead = 401.0
    status, body = get(server, "/healthz")
    clock.ahead = 0.0
    go_on.set()
    await run
    after = get(server, "/healthz")
    server.close()
    assert before == after == (200, "ok\n")
    assert status == 503
    assert body.startswith("a group of 50 audio-seconds has been on the GPU thread for 40")


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


def test_an_unknown_path_says_what_there_is(server: ProbeServer, health: Health) -> None:
    assert get(server, "/nothing") == (404, "try /metrics, /healthz or /readyz\n")
    with_a_page = ProbeServer(health, "127.0.0.1", 0, board=Board())
    assert get(with_a_page, "/nothing") == (404, "try /, /metrics, /healthz or /readyz\n")
    with_a_page.close()


def head(server: ProbeServer, path: str) -> tuple[int, int | None, bytes]:
    """The status of an answer to HEAD, the length that it claims, and what there is of a body."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        claimed, body = answer.length, answer.fp.read()
        return answer.status, claimed, body


def test_a_head_request_is_answered_as_a_get_without_the_body(health: Health) -> None:
    server = ProbeServer(health, "127.0.0.1", 0, board=Board())
    for path, status in {"/": 200, "/healthz": 200, "/readyz": 503, "/metrics": 200, "/nothing": 404}.items():
        answered, claimed, body = head(server, path)
        assert (answered, body) == (status, b""), path
        assert claimed, path
    server.close()


class Held:
    """Makes `/healthz` wait, as a slow answer does, and remembers the thread that answers."""

    def __init__(self, health: Health, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.thread = threading.current_thread()
        self.error: Exception | None = None
        monkeypatch.setattr(health, "unhealthy", self._wait)

    def _wait(self) -> str | None:
        self.thread = threading.current_thread()
        self.asked.set()
        self.go_on.wait()
        if self.error is not None:
            raise self.error
        return None

    def hang_up_on(self, server: ProbeServer) -> None:
        """Ask and be gone before the answer; returns when nobody is answered any more."""
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            self.asked.wait()
        self.go_on.set()
        self.thread.join()


def test_a_client_that_hangs_up_leaves_nothing_in_the_log(
    server: ProbeServer, health: Health, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Held(health, monkeypatch)
    with capture_logs() as logs:
        held.hang_up_on(server)
    assert logs == []
    assert capsys.readouterr() == ("", "")


def test_an_answer_that_fails_is_one_line_of_the_log(
    server: ProbeServer, health: Health, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Held(health, monkeypatch)
    held.error = RuntimeError("no verdict")
    with capture_logs() as logs:
        held.hang_up_on(server)
    assert [(line["event"], line["exc_info"]) for line in logs] == [("unexpected failure of a probe", held.error)]
    assert capsys.readouterr() == ("", "")


def test_a_client_that_says_nothing_keeps_no_thread_for_ever(
    server: ProbeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Handler, "timeout", _Handler.timeout / 1000)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
        assert silent.recv(1) == b""


def test_a_port_that_is_taken_is_a_clear_error(server: ProbeServer, health: Health) -> None:
    with pytest.raises(ConfigurationError, match="BATCH_PIPELINE_HTTP_PORT"):
        ProbeServer(health, "127.0.0.1", server.port)


def test_a_cluster_with_ipv6_alone_is_answered(health: Health) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    server = ProbeServer(health, "::", 0)
    assert get(server, "/healthz", "[::1]") == (200, "ok\n")
    server.close()
