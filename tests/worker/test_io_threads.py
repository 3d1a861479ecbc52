"""Whose turn it is on the IO threads, and on the GPU."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from volery.worker.gpu import GpuLock
from volery.worker.io_threads import IoQueue, IoThreads, Work


def queue_of(*works: Work) -> IoQueue:
    queue = IoQueue()
    for work in works:
        queue.put(work, (Future(), lambda: None))
    return queue


def taken(queue: IoQueue, calls: int) -> list[Work]:
    return [found[0] for found in (queue.take() for _ in range(calls)) if found is not None]


def test_fetches_and_publications_share_the_threads_evenly_while_both_wait() -> None:
    queue = queue_of(*[Work.PUBLISH] * 8, *[Work.FETCH] * 8)
    running = taken(queue, 5)
    assert sorted(running.count(work) for work in (Work.FETCH, Work.PUBLISH)) == [2, 3]


def test_a_thread_that_comes_free_goes_to_whichever_has_fewer() -> None:
    queue = queue_of(*[Work.PUBLISH] * 8)
    assert taken(queue, 5) == [Work.PUBLISH] * 5
    for _ in range(8):
        queue.put(Work.FETCH, (Future(), lambda: None))
    queue.done(Work.PUBLISH)
    queue.done(Work.PUBLISH)
    assert taken(queue, 2) == [Work.FETCH, Work.FETCH]


@pytest.mark.parametrize("work", [Work.FETCH, Work.PUBLISH])
def test_alone_either_has_every_thread(work: Work) -> None:
    assert taken(queue_of(*[work] * 8), 5) == [work] * 5


def test_the_lane_with_the_gpu_comes_first_then_what_was_begun() -> None:
    assert taken(queue_of(Work.FETCH, Work.DECODE, Work.SECTION), 3) == [Work.SECTION, Work.DECODE, Work.FETCH]


def test_outcomes_and_errors_arrive() -> None:
    io = IoThreads(2)
    assert io.submit(Work.FETCH, divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        io.submit(Work.FETCH, divmod, 7, 0).result()
    io.close()


def test_closing_cancels_what_waits_and_lets_what_runs_finish() -> None:
    io = IoThreads(1)
    started, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        go_on.wait()
        return "finished"

    running, waiting = io.submit(Work.FETCH, slow), io.submit(Work.PUBLISH, slow)
    started.wait()
    io.close()
    go_on.set()
    assert waiting.cancelled()
    assert running.result() == "finished"


def test_lanes_have_the_gpu_in_the_order_in_which_they_asked() -> None:
    lock, told = GpuLock(), []
    first, second, third = (lock.ask(lambda name=name: told.append(name)) for name in ("a", "b", "c"))
    assert (first.has_gpu, second.has_gpu) == (True, False)
    second.close()
    first.close()
    assert third.has_gpu
    assert told == ["c"]


def test_a_turn_that_is_closed_twice_is_closed_once() -> None:
    lock = GpuLock()
    first, second, third = (lock.ask(lambda: None) for _ in range(3))
    first.close()
    first.close()
    assert second.has_gpu
    assert not third.has_gpu
