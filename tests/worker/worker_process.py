"""A worker process with a stub `process`, to be killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from volery.units import PreparedUnit, Transcript, UnitError
from worker.stubs import Bench, digest_each


@dataclass(frozen=True)
class Order:
    """What a worker process is to do: over which store, and with which unit or every one to go wrong.

    A group that holds the unit `killer` kills the process, as a broken driver would; with `hangs`
    every group takes for ever.
    """

    folder: Path
    database_url: str
    lease_seconds: float
    killer: str = ""
    hangs: bool = False


def work(order: Order, groups: Connection) -> None:
    """The main function of the process; it says of every group whose it is."""
    asyncio.run(_work(order, groups))


async def _work(order: Order, groups: Connection) -> None:
    bench = await Bench.open(order.folder, database_url=order.database_url)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        keys = [one.unit.key for one in group]
        groups.send(keys)
        if order.hangs:
            signal.pause()
        if order.killer in keys:
            os.kill(os.getpid(), signal.SIGKILL)
        return digest_each(group)

    await bench.worker(process, lease_seconds=order.lease_seconds).run()
