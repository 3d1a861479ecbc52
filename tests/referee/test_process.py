"""The referee's process: one for all, noticed when it fails, and never left behind."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from referee_stubs import case_of, chatty, hang_until_killed, judgement, no_models, stub
from structlog.testing import capture_logs

from volery import metrics
from volery.referee import process
from volery.referee.cases import Judgement, RefereeError, RefereeReason
from volery.referee.process import RefereeProcess

ENOUGH_S = 60.0


@pytest.fixture
def referee(tmp_path: Path) -> Iterator[RefereeProcess]:
    with RefereeProcess(stub(tmp_path)) as referee:
        yield referee


def lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def pid_that_hangs(folder: Path) -> int:
    """Wait until a case hangs; the process that it hangs in."""
    return int((folder / "told").read_text())


def begin_to_hang(referee: RefereeProcess, folder: Path, deadline_s: float = ENOUGH_S) -> tuple[Future[Judgement], int]:
    os.mkfifo(folder / "told")
    future = referee.ask(case_of("hang"), deadline_s)
    return future, pid_that_hangs(folder)


def wait_for_end(pidfd: int) -> bool:
    """Whether a process ends; waits for it."""
    ended, _, _ = select.select([pidfd], [], [], ENOUGH_S)
    os.close(pidfd)
    return bool(ended)


def test_eight_requests_at_once_share_one_process_and_one_load_and_keep_their_order(
    referee: RefereeProcess, tmp_path: Path
) -> None:
    asked: list[str] = []
    judged: dict[str, Judgement] = {}
    asking, together = threading.Lock(), threading.Barrier(8)

    def ask(key: str) -> None:
        together.wait()
        with asking:
            asked.append(key)
            future = referee.ask(case_of(key), ENOUGH_S)
        judged[key] = future.result()

    threads = [threading.Thread(target=ask, args=(f"unit-{index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [pid] = lines(tmp_path, "starts")
    assert lines(tmp_path, "cases") == [f"{key} {pid}" for key in asked]
    assert judged == {key: judgement(key) for key in asked}
    assert int(pid) != os.getpid()


def test_no_process_begins_before_the_first_case(referee: RefereeProcess) -> None:
    assert [one.name for one in multiprocessing.active_children()] == []


def test_a_process_killed_in_a_request_fails_it_and_a_fresh_one_serves_the_next(
    referee: RefereeProcess, tmp_path: Path
) -> None:
    future, pid = begin_to_hang(referee, tmp_path)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RefereeError, match="exit code -9") as caught:
        future.result()
    assert caught.value.reason is RefereeReason.DIED
    assert referee.judge(case_of("next"), ENOUGH_S) == judgement("next")
    assert len(set(lines(tmp_path, "starts"))) == 2


def test_a_crash_fails_only_the_case_that_it_met(referee: RefereeProcess, tmp_path: Path) -> None:
    futures = [referee.ask(case_of(key), ENOUGH_S) for key in ("first", "abort", "next")]
    assert [type(future.exception()) for future in futures] == [type(None), RefereeError, type(None)]
    assert len(set(lines(tmp_path, "starts"))) == 2


def test_a_process_that_ended_while_idle_costs_no_case(referee: RefereeProcess, tmp_path: Path) -> None:
    referee.judge(case_of("first"), ENOUGH_S)
    pid = int(lines(tmp_path, "starts")[0])
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert wait_for_end(pidfd)
    assert referee.judge(case_of("next"), ENOUGH_S) == judgement("next")


def test_a_request_past_its_deadline_fails_its_process_is_ended_and_a_fresh_one_serves_the_next(
    referee: RefereeProcess, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "told")
    late, following = referee.ask(case_of("hang"), 0.5), referee.ask(case_of("next"), ENOUGH_S)
    pidfd = os.pidfd_open(pid_that_hangs(tmp_path))
    with pytest.raises(RefereeError, match=r"no answer within 0\.5 s") as caught:
        late.result()
    assert caught.value.reason is RefereeReason.DEADLINE
    assert wait_for_end(pidfd)
    assert following.result() == judgement("next")


def test_a_process_that_is_stopped_dead_is_ended_at_the_deadline(referee: RefereeProcess, tmp_path: Path) -> None:
    referee.judge(case_of("first"), ENOUGH_S)
    pid = int(lines(tmp_path, "starts")[0])
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(RefereeError) as caught:
        referee.judge(case_of("second"), 0.1)
    assert caught.value.reason is RefereeReason.DEADLINE
    assert wait_for_end(pidfd)


def test_a_case_that_cannot_be_judged_leaves_the_process_as_it_is(tmp_path: Path) -> None:
    with RefereeProcess(stub(tmp_path)) as referee:
        with pytest.raises(RefereeError, match="the audio is gone") as caught:
            referee.judge(case_of("refuse"), ENOUGH_S)
        assert caught.value.reason is RefereeReason.AUDIO
        assert referee.judge(case_of("next"), ENOUGH_S) == judgement("next")
    assert len(lines(tmp_path, "starts")) == 1


def test_after_an_error_that_nobody_expected_a_fresh_process_serves_the_next(
    referee: RefereeProcess, tmp_path: Path
) -> None:
    with capture_logs() as logs, pytest.raises(RefereeError, match=r"ValueError at .*referee_stubs\.py:\d+$") as caught:
        referee.judge(case_of("break"), ENOUGH_S)
    assert caught.value.reason is RefereeReason.UNEXPECTED
    assert "heard" not in f"{caught.value} {logs}"
    referee.judge(case_of("next"), ENOUGH_S)
    assert len(lines(tmp_path, "starts")) == 2


def test_models_that_cannot_be_had_are_not_asked_for_again_at_once(tmp_path: Path) -> None:
    with RefereeProcess(stub(tmp_path, no_models)) as referee:
        for key in ("first", "second"):
            with pytest.raises(RefereeError, match="the model cannot be had") as caught:
                referee.judge(case_of(key), ENOUGH_S)
            assert caught.value.reason is RefereeReason.NOT_STARTED
        assert len(lines(tmp_path, "starts")) == 1


def test_models_that_could_not_be_had_are_asked_for_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_AGAIN_SECONDS", 0.0)
    with RefereeProcess(stub(tmp_path, no_models)) as referee:
        for key in ("first", "second"):
            with pytest.raises(RefereeError):
                referee.judge(case_of(key), ENOUGH_S)
        assert len(lines(tmp_path, "starts")) == 2


def test_the_device_is_said_in_a_line_of_the_log_and_in_a_series(referee: RefereeProcess) -> None:
    with capture_logs() as logs:
        referee.judge(case_of("first"), ENOUGH_S)
    [line] = [line for line in logs if line["event"] == "the referee's models are loaded"]
    assert (line["device"], line["why"], line["log_level"]) == ("cpu", "no_room", "warning")
    shown = {tuple(one.labels.values()) for one in metrics.REFEREE_DEVICE.collect()[0].samples if one.value == 1}
    assert shown == {("cpu", "no_room")}


def test_the_process_lets_its_parent_go_first_and_keeps_off_its_standard_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with RefereeProcess(stub(tmp_path, chatty)) as referee:
        assert referee.judge(case_of("nice"), ENOUGH_S).seconds == 19
    said = capfd.readouterr()
    assert ["a library's greeting" in text for text in (said.out, said.err)] == [False, True]


def test_closing_ends_the_process_and_all_that_waits_for_it(referee: RefereeProcess, tmp_path: Path) -> None:
    hanging, pid = begin_to_hang(referee, tmp_path)
    pidfd = os.pidfd_open(pid)
    waiting = referee.ask(case_of("waiting"), ENOUGH_S)
    referee.close()
    assert wait_for_end(pidfd)
    assert waiting.cancelled()
    for refused in (hanging.result, lambda: referee.judge(case_of("late"), ENOUGH_S)):
        with pytest.raises(RefereeError) as caught:
            refused()
        assert caught.value.reason is RefereeReason.CLOSED


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process ends after its case")
def test_a_parent_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "told")
    parent = multiprocessing.get_context("spawn").Process(target=hang_until_killed, args=(str(tmp_path),))
    parent.start()
    pid = pid_that_hangs(tmp_path)
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.join()
    assert wait_for_end(pidfd)


def test_nothing_heavy_is_imported_into_the_worker() -> None:
    code = (
        "import sys, volery.referee.audit, volery.referee.process\n"
        "print(*{'torch', 'faster_whisper', 'ctranslate2', 'transformers', 'jiwer', 'whisper_normalizer', 'numpy'}"
        " & sys.modules.keys())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == []
