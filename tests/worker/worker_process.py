"""A worker process with a stub `process`, to be killed: `python worker_process.py FOLDER [KEY]`.

A group that holds the unit KEY kills the process, as a broken driver would. Every group first
says so on standard output.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from volery.units import PreparedUnit, Transcript, UnitError
from worker.stubs import Bench, digest_each


async def main(folder: Path, killer: str, lease_seconds: float) -> None:
    bench = await Bench.open(folder)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        keys = [one.unit.key for one in group]
        print("group", *keys, flush=True)
        if killer == "hang":
            signal.pause()
        if killer in keys:
            os.kill(os.getpid(), signal.SIGKILL)
        return digest_each(group)

    await bench.worker(process, lease_seconds=lease_seconds).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
