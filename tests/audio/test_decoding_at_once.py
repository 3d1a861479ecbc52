"""Several decodes at once, as the IO threads do them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from audio.sounds import KINDS, chatter, decoded, encode
from volery.units import UnitError

THREADS = 8


def outcome(content: bytes) -> str | bytes:
    try:
        return decoded(content).samples.tobytes()
    except UnitError as error:
        return str(error)


def test_threads_do_not_disturb_each_other() -> None:
    kinds = ["wav pcm_s24le", "flac flac", "mp3 libmp3lame", "mp4 aac", "ogg opus", "webm opus"]
    contents = [encode(chatter(5.0, KINDS[kind], seed), KINDS[kind], kind) for seed, kind in enumerate(kinds)]
    contents += [content[: len(content) // 2] for content in contents]
    contents += [b"", b"not audio", np.random.default_rng(1).bytes(50_000)]
    alone = [outcome(content) for content in contents]
    together = Barrier(THREADS)

    def work(turn: int) -> list[str | bytes]:
        together.wait()
        order = contents[turn:] + contents[:turn]
        found = [outcome(content) for content in order]
        return found[len(contents) - turn :] + found[: len(contents) - turn]

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, range(THREADS)):
            assert found == alone
