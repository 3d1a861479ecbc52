"""The page of a worker: what each lane does, the last flights and troubles, the switches."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from time import monotonic

import pytest

from volery.units import PreparedUnit, Reason, Transcript, UnitError, UnitRejected, UnitState
from volery.worker.board import Board
from volery.worker.budget import DecodeBudget
from volery.worker.health import Health
from volery.worker.page import page
from volery.worker.probes import ProbeServer
from volery.worker.publication import UnitEnded
from volery.worker.timeline import Phase, Span
from worker.stubs import Bench, digest_each

CHROMIUM = shutil.which("chromium")
SWITCHES = {"prepare_flight": "on", "asr_cuda_graphs": "inapplicable"}


@pytest.fixture
def board() -> Board:
    board = Board()
    board.begin(2, DecodeBudget(1800.0), SWITCHES)
    return board


@pytest.fixture
def health() -> Health:
    health = Health(stall_seconds=15.0)
    health.models_ready, health.store_seen = True, monotonic()
    return health


@pytest.fixture
def server(board: Board, health: Health) -> Iterator[ProbeServer]:
    server = ProbeServer(health, "127.0.0.1", 0, board=board)
    yield server
    server.close()


def fly(board: Board, lane: int, *phases: Phase, units: int = 8) -> None:
    """A lane goes through phases, each of one second."""
    for at, phase in enumerate(phases):
        board.span(Span(lane, phase, float(at), at + 1.0, units, 240.0 if phase is not Phase.ADMISSION else 0.0))


@pytest.mark.parametrize(
    ("phases", "doing"),
    [
        ((), "asking for work"),
        ((Phase.ADMISSION,), "preparing"),
        ((Phase.ADMISSION, Phase.PREPARATION), "waiting for the GPU"),
        ((Phase.ADMISSION, Phase.PREPARATION, Phase.GPU_WAIT), "GPU section"),
        ((Phase.ADMISSION, Phase.PREPARATION, Phase.GPU_WAIT, Phase.GROUP), "GPU section"),
        ((Phase.ADMISSION, Phase.PREPARATION, Phase.GPU_WAIT, Phase.GROUP, Phase.GPU_SECTION), "publishing"),
        (tuple(Phase), "asking for work"),
    ],
)
def test_a_lane_does_what_follows_the_phase_that_ended(board: Board, phases: tuple[Phase, ...], doing: str) -> None:
    fly(board, 1, *phases)
    idle, lane = board.view().lanes
    assert (lane.lane, lane.doing) == (1, doing)
    assert idle.doing == "asking for work"


def test_a_flight_is_kept_with_the_seconds_of_its_phases(board: Board) -> None:
    fly(board, 0, Phase.ADMISSION, Phase.PREPARATION, Phase.GPU_WAIT, Phase.GROUP, Phase.GROUP, Phase.GPU_SECTION)
    assert board.view().flights == ()
    fly(board, 0, Phase.PUBLICATION)
    (flight,) = board.view().flights
    assert (flight.units, flight.audio_s) == (8, 240.0)
    assert flight.phases["group"] == 2.0
    assert flight.phases["publication"] == 1.0


def test_a_flight_that_published_nothing_is_kept_once_its_lane_has_another(board: Board) -> None:
    fly(board, 0, Phase.ADMISSION, Phase.PREPARATION, units=3)
    fly(board, 0, Phase.ADMISSION)
    assert [flight.units for flight in board.view().flights] == [3]


def test_only_the_last_flights_and_troubles_are_kept_and_the_newest_comes_first(board: Board) -> None:
    for n in range(100):
        fly(board, 0, Phase.ADMISSION, Phase.PUBLICATION, units=n)
        board.ended(UnitEnded(f"u{n}", UnitState.DEAD, Reason.SPEECH_FAILED, "why"))
    view = board.view()
    assert [flight.units for flight in view.flights] == list(range(99, 87, -1))
    assert [trouble.key for trouble in view.troubles] == [f"u{n}" for n in range(99, 79, -1)]
    assert view.ended == {"dead": 100}


def test_a_failure_that_is_tried_again_is_a_trouble_and_a_success_is_none(board: Board) -> None:
    board.ended(UnitEnded("a", UnitState.DONE))
    board.ended(UnitEnded("b", UnitState.READY, Reason.SPEECH_FAILED, "why"))
    assert board.view().ended == {"done": 1, "retry": 1}
    assert [(trouble.key, trouble.outcome) for trouble in board.view().troubles] == [("b", "retry")]


def test_a_unit_whose_result_cannot_be_written_is_a_trouble_and_has_not_ended(board: Board) -> None:
    board.ended(UnitEnded("a", UnitState.LEASED, Reason.PUBLISH_FAILED, "no space left"))
    assert board.view().ended == {}
    assert [(trouble.key, trouble.outcome) for trouble in board.view().troubles] == [("a", "waiting")]


def test_what_a_unit_is_called_cannot_become_markup(board: Board, health: Health) -> None:
    board.ended(UnitEnded("<script>alert(1)</script>", UnitState.REJECTED, Reason.AUDIO_UNDECODABLE, "<b>"))
    shown = page(board, health)
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_the_page_says_why_a_worker_is_not_healthy(board: Board, health: Health) -> None:
    assert "healthy and ready" in page(board, health)
    health.draining = True
    assert "takes no work: draining" in page(board, health)
    health.quarantined = "decoding_mode"
    assert "unhealthy: quarantined: decoding_mode" in page(board, health)


def test_the_page_is_there_before_models_are_loaded(health: Health) -> None:
    health.models_ready = False
    assert "Models are not loaded yet" in page(Board(), health)


def test_a_port_without_a_board_has_no_page(health: Health) -> None:
    server = ProbeServer(health, "127.0.0.1", 0)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=10)
    server.close()


async def test_a_real_worker_shows_its_lane_in_the_gpu_section_and_then_its_flight(bench: Bench) -> None:
    board, reached, go_on = Board(), threading.Event(), threading.Event()

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        reached.set()
        assert go_on.wait(30)
        return [*digest_each(group[:-1]), UnitRejected(Reason.LANGUAGE_UNSUPPORTED, "no")]

    await bench.submit(0.5, 0.5, 0.5)
    worker = bench.worker(process, lanes=1, on_span=board.span)
    board.begin(worker.lanes, worker.budget, worker.switch_states())

    async def look() -> None:
        await asyncio.to_thread(reached.wait, 30)
        view = board.view()
        assert [lane.doing for lane in view.lanes] == ["GPU section"]
        assert view.budget_in_use_s == pytest.approx(1.5)
        go_on.set()

    await asyncio.gather(worker.run(), look())
    (flight,) = board.view().flights
    assert flight.units == 3
    assert set(flight.phases) == set(Phase)
    assert board.view().budget_in_use_s == 0.0


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_the_lanes_the_budget_the_switches_and_the_troubles(board: Board, server: ProbeServer) -> None:
    fly(board, 0, *Phase)
    fly(board, 1, Phase.ADMISSION)
    board.ended(UnitEnded("call-7", UnitState.REJECTED, Reason.AUDIO_UNDECODABLE, "no audio stream"))
    command = [CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    shown = subprocess.run(
        [*command, f"http://127.0.0.1:{server.port}/"], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    for told in ("<td>preparing</td>", "0 of 1800 audio-seconds", "inapplicable", "call-7", "no audio stream"):
        assert told in shown
