"""A worker over a real store: every unit ends, whatever is wrong with it."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace

import pytest

from volery.artifacts import open_source
from volery.artifacts.store import SourceFile
from volery.units import (
    PreparedUnit,
    QuarantineError,
    Reason,
    ResultClass,
    Transcript,
    Unit,
    UnitError,
    UnitFailed,
    UnitState,
)
from volery.worker.publication import Published
from volery.worker.timeline import Phase, Span
from volery.worker.worker import Ending
from worker.stubs import Bench, digest_each, transcript_of


async def test_a_burst_ends_when_everything_is_done(bench: Bench) -> None:
    await bench.submit(*[0.2] * 20)
    assert await bench.worker().run() is Ending.FINISHED
    assert set((await bench.states()).values()) == {"done"}
    assert set((await bench.endings())["u7"]) == {"done"}


async def test_a_burst_over_an_empty_store_ends(bench: Bench) -> None:
    assert await bench.worker().run() is Ending.FINISHED


async def test_a_result_is_stored_under_its_lease_token_and_holds_what_was_found(bench: Bench) -> None:
    await bench.submit(0.5, stream="call", place=3, privacy_generation=2)
    await bench.worker().run()
    record = await bench.store.get("u0")
    assert record is not None
    assert record.artifact is not None
    token = (await bench.store.grants("u0"))[0].token
    assert token in record.artifact
    document = json.loads(bench.results.read(record.artifact))
    assert document["key"] == "u0"
    assert (document["stream"], document["place"], document["privacy_generation"]) == ("call", 3, 2)
    assert document["class"] == "speech"
    assert document["duration_s"] == 0.5
    assert document["attempt"] == 1
    assert document["words"][0]["speaker"] == "SPEAKER_00"
    assert document["switches"]["prepare_flight"] == "on"
    assert {"fetch_decode", "gpu_wait"} <= document["timings"].keys()


@pytest.mark.parametrize(("recovered", "said"), [(True, {"recovered": True}), (False, {})])
async def test_only_the_result_of_a_recovered_unit_says_so(
    bench: Bench, recovered: bool, said: dict[str, bool]
) -> None:
    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        return [replace(transcript_of(one), recovered=recovered) for one in group]

    await bench.submit(0.5)
    await bench.worker(process).run()
    record = await bench.store.get("u0")
    assert record is not None
    assert record.artifact is not None
    document = json.loads(bench.results.read(record.artifact))
    assert {name: value for name, value in document.items() if name == "recovered"} == said


async def test_who_is_told_of_a_units_end_learns_what_was_committed_for_it(bench: Bench) -> None:
    [unit] = await bench.submit(0.5)
    await bench.worker().run()
    record = await bench.store.get("u0")
    assert record is not None
    assert record.artifact is not None
    assert [ended.published for ended in bench.ended] == [Published(unit, record.artifact)]


async def test_a_unit_that_is_not_done_has_nothing_published(bench: Bench) -> None:
    await bench.store.submit([Unit("u0", (bench.folder / "missing.wav").as_uri())])
    await bench.worker().run()
    assert [(ended.state, ended.published) for ended in bench.ended] == [(UnitState.REJECTED, None)]


@pytest.mark.parametrize("prepare", [True, False])
async def test_results_do_not_depend_on_preparation(bench: Bench, prepare: bool) -> None:
    await bench.submit(*[0.1 * n for n in range(1, 10)])
    groups: list[list[PreparedUnit]] = []

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        groups.append(list(group))
        return digest_each(group)

    await bench.worker(process, prepare=prepare).run()
    found = {one.unit.key: transcript_of(one).words[0].text for group in groups for one in group}
    for key, word in found.items():
        record = await bench.store.get(key)
        assert record is not None
        assert record.artifact is not None
        assert json.loads(bench.results.read(record.artifact))["text"] == word
    assert len(found) == 9


async def test_audio_that_can_never_work_is_rejected_and_its_neighbours_end_done(bench: Bench) -> None:
    await bench.submit(0.2, 0.2)
    (bench.folder / "noise.bin").write_bytes(bytes(range(256)) * 40)
    await bench.store.submit(
        [
            Unit(key="missing", audio_uri=(bench.folder / "nowhere.wav").as_uri()),
            Unit(key="folder", audio_uri=bench.folder.as_uri()),
            Unit(key="noise", audio_uri=(bench.folder / "noise.bin").as_uri()),
        ]
    )
    await bench.worker().run()
    states = await bench.states()
    assert states == {"u0": "done", "u1": "done", "missing": "rejected", "folder": "rejected", "noise": "rejected"}
    reasons = {key: record.reason for key in states if (record := await bench.store.get(key)) is not None}
    assert reasons["missing"] == Reason.AUDIO_MISSING
    assert reasons["folder"] == Reason.AUDIO_NOT_A_FILE
    assert reasons["noise"] == Reason.AUDIO_UNDECODABLE


async def test_a_unit_that_fails_alone_is_tried_again_and_at_last_dead(bench: Bench) -> None:
    await bench.submit(0.2, 0.2)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        return [
            UnitFailed(Reason.SPEECH_FAILED, "no luck") if one.unit.key == "u1" else transcript_of(one) for one in group
        ]

    await bench.worker(process).run()
    assert await bench.states() == {"u0": "done", "u1": "dead"}
    assert await bench.attempts() == {"u0": 0, "u1": 3}
    record = await bench.store.get("u1")
    assert record is not None
    assert record.error == "no luck"


async def test_a_group_that_fails_as_a_whole_is_taken_apart_to_find_the_culprit(bench: Bench) -> None:
    await bench.submit(*[0.2] * 4)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        if any(one.unit.key == "u2" for one in group):
            raise RuntimeError("this one breaks the model")
        return digest_each(group)

    await bench.worker(process).run()
    assert await bench.states() == {"u0": "done", "u1": "done", "u2": "dead", "u3": "done"}
    assert await bench.attempts() == {"u0": 0, "u1": 0, "u2": 3, "u3": 0}


async def test_the_audio_of_a_group_that_breaks_is_freed_without_the_garbage_collector(bench: Bench) -> None:
    await bench.submit(0.2)
    broken: list[weakref.ref[object]] = []

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        broken.extend(weakref.ref(one.audio.samples) for one in group)
        raise RuntimeError("this one breaks the model")

    gc.disable()
    try:
        await bench.worker(process).run()
        assert [samples() for samples in broken] == [None] * 3
    finally:
        gc.enable()


class _ChangingFile:
    """A file whose digest says that it changed while it was read."""

    def __init__(self, file: SourceFile) -> None:
        self.stream, self.size, self.close = file.stream, file.size, file.close

    def sha256(self) -> str:
        raise UnitFailed(Reason.AUDIO_CHANGED, "the file grew")


class _ChangingSource:
    def open(self, uri: str, max_bytes: int) -> SourceFile:
        return _ChangingFile(open_source().open(uri, max_bytes))


async def test_a_file_that_keeps_changing_ends_dead_with_its_reason(bench: Bench) -> None:
    await bench.submit(0.2)
    await bench.worker(source=_ChangingSource()).run()
    record = await bench.store.get("u0")
    assert record is not None
    assert (record.state, record.reason, record.attempts) == (UnitState.DEAD, Reason.AUDIO_CHANGED, 3)


async def test_an_unforeseen_error_of_the_source_ends_in_a_reason(bench: Bench) -> None:
    class Broken:
        def open(self, uri: str, max_bytes: int) -> SourceFile:
            raise ZeroDivisionError("surprise")

    await bench.submit(0.2)
    await bench.worker(source=Broken()).run()
    record = await bench.store.get("u0")
    assert record is not None
    assert (record.state, record.reason) == (UnitState.DEAD, Reason.AUDIO_UNAVAILABLE)


async def test_a_result_that_cannot_be_written_fails_its_unit_alone(bench: Bench) -> None:
    await bench.submit(0.2, 0.2)
    results = bench.results

    class HalfBroken:
        def write(self, token: str, document: bytes) -> str:
            if b'"u1"' in document:
                raise UnitFailed(Reason.PUBLISH_FAILED, "disk full")
            return results.write(token, document)

    await bench.worker(results=HalfBroken()).run()
    assert await bench.states() == {"u0": "done", "u1": "dead"}


async def test_a_unit_larger_than_the_decode_budget_is_decoded_inside_the_gpu_section(bench: Bench) -> None:
    await bench.submit(3.0, 0.2, 3.0)
    worker = bench.worker(decode_budget_seconds=2.0)
    await worker.run()
    assert set((await bench.states()).values()) == {"done"}


async def test_the_budgets_are_never_overdrawn_and_end_empty(bench: Bench) -> None:
    await bench.submit(*[0.5 + 0.1 * (n % 7) for n in range(40)])
    worker = bench.worker(decode_budget_seconds=5.0, group_seconds=4.0, lanes=3, flight_units=6)
    await worker.run()
    assert set((await bench.states()).values()) == {"done"}
    assert 0 < worker.budget.high_water <= 5.0
    assert worker.section_budget.high_water <= 4.0
    assert (worker.budget.in_use, worker.section_budget.in_use) == (0.0, 0.0)


async def test_preparations_are_returned_before_publication(bench: Bench) -> None:
    await bench.submit(0.2, 0.3)
    results = bench.results
    held_while_publishing: list[float] = []

    class Looking:
        def write(self, token: str, document: bytes) -> str:
            held_while_publishing.append(worker.budget.in_use)
            return results.write(token, document)

    worker = bench.worker(results=Looking())
    await worker.run()
    assert worker.budget.high_water > 0.0
    assert held_while_publishing == [0.0, 0.0]


async def test_only_one_group_is_on_the_gpu_thread_at_a_time(bench: Bench) -> None:
    await bench.submit(*[0.1] * 24)
    running = threading.Semaphore(1)
    threads: set[str] = set()

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        assert running.acquire(blocking=False), "two groups at once"
        threads.add(threading.current_thread().name)
        outcomes = digest_each(group)
        running.release()
        return outcomes

    await bench.worker(process, lanes=4, flight_units=3).run()
    assert set((await bench.states()).values()) == {"done"}
    assert threads == {"gpu"}


async def test_a_quarantine_refunds_every_lease_and_publishes_nothing(bench: Bench) -> None:
    await bench.submit(*[0.2] * 8)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        raise QuarantineError("decoding_mode", "graphs came back by themselves")

    worker = bench.worker(process)
    assert await worker.run() is Ending.QUARANTINED
    assert set((await bench.states()).values()) == {"ready"}
    assert set((await bench.attempts()).values()) == {0}
    assert {ending for all_of in (await bench.endings()).values() for ending in all_of} == {"refund:quarantine"}
    assert worker.health.unhealthy() == "quarantined: decoding_mode"
    assert not list(bench.folder.glob("artifacts/**/*.json"))


async def test_a_second_worker_finishes_what_a_quarantined_one_gave_back(bench: Bench) -> None:
    await bench.submit(*[0.2] * 5)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        raise QuarantineError("decoding_mode", "wrong mode")

    await bench.worker(process).run()
    await bench.worker().run()
    assert set((await bench.states()).values()) == {"done"}


async def test_a_unit_that_quarantines_every_worker_ends_dead(bench: Bench) -> None:
    await bench.submit(0.2)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        raise QuarantineError("decoding_mode", "wrong mode")

    for _ in range(4):
        await bench.worker(process).run()
    record = await bench.store.get("u0")
    assert record is not None
    assert (record.state, record.reason, record.attempts) == (UnitState.DEAD, Reason.QUARANTINED_TWICE, 3)


async def test_silence_is_published_as_such(bench: Bench) -> None:
    await bench.submit(0.2)
    await bench.worker(lambda group: [Transcript(ResultClass.NO_SPEECH) for _ in group]).run()
    record = await bench.store.get("u0")
    assert record is not None
    assert record.result_class is ResultClass.NO_SPEECH


async def test_a_burst_waits_for_a_unit_that_another_process_holds(bench: Bench) -> None:
    await bench.submit(0.2)
    held = await bench.store.pull("another process", 1, 60.0)
    run = asyncio.create_task(bench.worker().run())
    refused = 0
    while refused < 3:  # the worker looks several times and stays
        await bench.store.counts()
        refused += 1
        await asyncio.sleep(0.03)
    assert not run.done()
    await bench.store.reject(held[0].token, Reason.AUDIO_EMPTY, "nothing in it")
    assert await run is Ending.FINISHED


@pytest.mark.parametrize("call", ["renew", "reap"])
async def test_a_worker_that_can_no_longer_keep_its_leases_ends_at_once(bench: Bench, call: str) -> None:
    await bench.submit(0.1)
    go_on = threading.Event()

    async def broken(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        go_on.wait(10.0)
        return digest_each(group)

    setattr(bench.store, call, broken)
    with pytest.raises(RuntimeError, match="new thread"):
        await bench.worker(process, lease_seconds=2.0).run()
    go_on.set()
    assert set((await bench.states()).values()) == {"ready"}
    assert set((await bench.attempts()).values()) == {0}


def test_the_worker_knows_no_torch() -> None:
    code = "import sys, volery.worker.worker; sys.exit('torch' in sys.modules or 'pyannote' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_spans_say_who_prepared_waited_held_the_gpu_and_published(bench: Bench) -> None:
    await bench.submit(0.1, 0.2)
    spans: list[Span] = []
    await bench.worker(on_span=spans.append, lanes=1).run()
    assert [span.phase for span in spans if span.phase is not Phase.PREPARATION] == [
        Phase.ADMISSION,
        Phase.GPU_WAIT,
        Phase.GROUP,
        Phase.GPU_SECTION,
        Phase.PUBLICATION,
    ]
    assert {span.lane for span in spans} == {0}
    section, group = (next(span for span in spans if span.phase is phase) for phase in (Phase.GPU_SECTION, Phase.GROUP))
    assert section.began_s <= group.began_s <= group.ended_s <= section.ended_s
    assert (group.units, section.units) == (2, 2)
    assert group.audio_s == section.audio_s == pytest.approx(0.3)
