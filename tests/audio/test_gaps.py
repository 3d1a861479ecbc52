"""What a recorder left out: times stay those of a player."""

from __future__ import annotations

import io
import math
from functools import cache

import av
import numpy as np
import pytest

from audio.sounds import KINDS, chatter, decoded, encode, rejection
from volery.audio.containers import AudioFile
from volery.units import Clip, Reason

TIMED = ("webm opus", "mp4 aac", "mov alac")
AT_S, LEFT_OUT_S = 20.0, 15.0


@cache
def with_gap(kind: str, at_s: float = AT_S, left_out_s: float = LEFT_OUT_S) -> bytes:
    """40 s of chatter as a file of a kind, from `at_s` on so much later."""
    whole = io.BytesIO(encode(chatter(40.0, KINDS[kind]), KINDS[kind], kind))
    buffer = io.BytesIO()
    with av.open(whole) as source, av.open(buffer, "w", format=kind.partition(" ")[0]) as output:
        stream = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is None or packet.pts is None:
                continue
            if packet.pts * packet.time_base >= at_s:
                packet.pts += round(left_out_s / packet.time_base)
                packet.dts += round(left_out_s / packet.time_base)
            packet.stream = stream
            output.mux(packet)
    return buffer.getvalue()


def plain(kind: str) -> bytes:
    return with_gap(kind, math.inf, 0.0)


@pytest.mark.parametrize("kind", TIMED)
def test_what_was_left_out_is_silence(kind: str) -> None:
    found, there = decoded(with_gap(kind)), decoded(plain(kind))
    assert found.duration_s == pytest.approx(there.duration_s + LEFT_OUT_S, abs=0.05)
    assert not found.truncated
    [silent] = [found.samples[round(20.1 * 16_000) : round(34.9 * 16_000)]]
    assert not silent.any()
    np.testing.assert_allclose(found.samples[:300_000], there.samples[:300_000], atol=1e-6)
    tail = there.samples[-280_000:].astype(np.float64)
    lag = np.argmax(np.correlate(found.samples[-281_000:].astype(np.float64), tail[:-1000], "valid"))
    assert abs(lag - 1000) <= 800  # 50 ms: the last packet before the gap may be cut short by its padding


@pytest.mark.parametrize(
    "clip", [Clip(5.0, 6.0), Clip(25.0, 26.0), Clip(19.0, 36.0), Clip(36.5, 38.0), Clip(50.0, 51.0)]
)
@pytest.mark.parametrize("kind", TIMED)
def test_a_clip_lies_where_it_lies_in_the_whole(kind: str, clip: Clip) -> None:
    assert clip.end_s is not None
    whole = decoded(with_gap(kind)).samples[round(clip.start_s * 16_000) : round(clip.end_s * 16_000)]
    found = decoded(with_gap(kind), clip).samples
    assert abs(len(found) - len(whole)) <= 16
    if not whole.any():
        assert not found.any()
        return
    lag = np.argmax(np.correlate(found.astype(np.float64), whole[1000:-1000].astype(np.float64), "valid")) - 1000
    assert abs(lag) <= 16


@pytest.mark.parametrize("kind", TIMED)
def test_times_that_jitter_leave_no_silence(kind: str) -> None:
    assert decoded(with_gap(kind, AT_S, 0.1)).duration_s == decoded(plain(kind)).duration_s


def test_a_time_beyond_what_the_container_claims_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "webm opus"
    monkeypatch.setattr(AudioFile, "claimed_s", 40.0)
    assert decoded(with_gap(kind, AT_S, 1e6)).duration_s == pytest.approx(40.0, abs=0.01)


def test_silence_counts_towards_the_most_that_a_unit_may_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AudioFile, "claimed_s", None)
    content = with_gap("webm opus", AT_S, 1e6)
    assert rejection(content, max_seconds=60.0) is Reason.AUDIO_TOO_LONG
    assert decoded(content, Clip(0.0, 30.0), max_seconds=60.0).duration_s == 30.0
