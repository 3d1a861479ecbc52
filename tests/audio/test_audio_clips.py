"""Clips: parts of a file, in seconds from its start."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from audio.sounds import KINDS, chatter, decoded, encode, late_speech, rejection, wav
from volery.audio import decode
from volery.units import Clip, Reason

EXACT = ("wav pcm_s16le", "flac flac", "aiff pcm_s16be", "w64 pcm_s16le", "caf pcm_s16le", "mov alac", "ogg flac")
ROUNDED = ("wav adpcm_ima_wav", "wav adpcm_ms")
"""Files whose header rounds the bytes a second, from which FFmpeg tells where a packet lies."""
LOSSY = ("mp4 aac", "ogg opus", "webm opus", "mp3 libmp3lame", "adts aac", "mpegts aac")


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (0.5, 1.25), (1.0, None), (0.00001, 2.9999)])
def test_a_clip_is_that_part_of_the_whole(start: float, end: float | None) -> None:
    content = wav(chatter(3.0, 16_000), 16_000)
    whole, clip = decoded(content).samples, decoded(content, Clip(start, end)).samples
    np.testing.assert_array_equal(clip, whole[round(start * 16_000) : None if end is None else round(end * 16_000)])


def test_a_clip_without_an_end_from_the_start_is_the_whole() -> None:
    content = wav(chatter(1.0, 44_100), 44_100)
    np.testing.assert_array_equal(decoded(content, Clip()).samples, decoded(content).samples)


@pytest.mark.parametrize("end", [1000.0, 1e15, 1e308])
def test_an_end_beyond_the_files_end_is_cut_to_it(end: float) -> None:
    found = decoded(wav(chatter(3.0, 16_000), 16_000), Clip(1.0, end))
    assert found.duration_s == 2.0
    assert not found.truncated


@pytest.mark.parametrize(
    "clip",
    [
        Clip(-0.1, None),
        Clip(2.0, 2.0),
        Clip(2.0, 1.0),
        Clip(math.nan, None),
        Clip(math.inf, None),
        Clip(0.0, math.nan),
        Clip(0.0, math.inf),
        Clip(0.0, -1.0),
        Clip(3.0, None),
        Clip(3.5, 4.0),
        Clip(1e300, None),
        Clip(1.0, 1.0 + 1e-9),
    ],
)
@pytest.mark.parametrize("kind", ["wav pcm_s16le", "mp3 libmp3lame", "ogg opus"])
def test_a_clip_that_holds_nothing_is_bad(clip: Clip, kind: str) -> None:
    content = encode(chatter(2.9, KINDS[kind]), KINDS[kind], kind)
    assert rejection(content, clip) is Reason.AUDIO_BAD_CLIP


def test_a_bad_clip_of_an_empty_file_does_not_hide_that_it_is_empty() -> None:
    assert rejection(b"", Clip(1.0, 2.0)) is Reason.AUDIO_EMPTY


def test_clips_of_wav_and_flac_are_the_same_bits() -> None:
    for clip in (Clip(1.2345, 3.1), Clip(31.2345, 33.1)):
        found = [decoded(late_speech(kind), clip).samples for kind in ("wav pcm_s16le", "flac flac")]
        np.testing.assert_array_equal(*found)


@pytest.fixture
def no_jumps(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("volery.audio.decoding._JUMP_FROM_SECONDS", math.inf)
    return monkeypatch


@pytest.mark.parametrize("clip", [Clip(31.2345, 33.1), Clip(43.5, None), Clip(40.0, 99.0)])
@pytest.mark.parametrize("kind", [*EXACT, *ROUNDED])
def test_a_late_clip_is_reached_to_the_sample(kind: str, clip: Clip, no_jumps: pytest.MonkeyPatch) -> None:
    content = late_speech(kind)
    walked = decoded(content, clip)
    no_jumps.undo()
    jumped = decoded(content, clip)
    np.testing.assert_array_equal(jumped.samples, walked.samples)
    assert not jumped.truncated


@pytest.mark.parametrize("clip", [Clip(31.2345, 33.1), Clip(43.5, None)])
@pytest.mark.parametrize("kind", LOSSY)
def test_a_late_clip_of_a_lossy_file_is_reached_to_the_millisecond(
    kind: str, clip: Clip, no_jumps: pytest.MonkeyPatch
) -> None:
    content = late_speech(kind)
    walked = decoded(content, clip).samples.astype(np.float64)
    no_jumps.undo()
    jumped = decoded(content, clip).samples.astype(np.float64)
    assert abs(len(walked) - len(jumped)) <= 16
    lag = np.argmax(np.correlate(jumped, walked[160:-160], "valid")) - 160
    assert abs(lag) <= 16


@pytest.mark.parametrize("kind", EXACT)
def test_a_jump_that_lands_too_late_is_not_trusted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decoded(late_speech(kind), Clip(31.2345, 33.1)).samples
    monkeypatch.setattr("volery.audio.containers._RUN_UP_SECONDS", -5.0)
    np.testing.assert_array_equal(decoded(late_speech(kind), Clip(31.2345, 33.1)).samples, expected)


@pytest.mark.parametrize("clip", [Clip(43.0, 48.0), Clip(50.0, 52.0), Clip(80.0, None)])
def test_a_late_clip_of_ogg_files_one_after_the_other_is_found(clip: Clip) -> None:
    content = late_speech("ogg flac") + encode(chatter(45.0, 44_100, seed=2), 44_100, "ogg flac")
    whole, part = decoded(content), decoded(content, clip)
    assert whole.duration_s == pytest.approx(90.0)
    assert part.duration_s == pytest.approx((clip.end_s or 90.0) - clip.start_s)
    first = round(clip.start_s * 16_000)
    np.testing.assert_allclose(part.samples[800:8_000], whole.samples[first + 800 : first + 8_000], atol=1e-2)


def test_a_late_clip_does_not_read_what_lies_before_it() -> None:
    class Counting(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1) -> bytes:
            block = super().read(size)
            self.taken += len(block)
            return block

    stream = Counting(wav(chatter(120.0, 16_000), 16_000))
    decode(stream, "audio", clip=Clip(100.0, 101.0), max_seconds=10)
    assert stream.taken < 500_000


@pytest.mark.parametrize("clip", [Clip(61.0, None), Clip(61.0, 62.0), Clip(1e9, None)])
@pytest.mark.parametrize("kind", [*EXACT, *LOSSY])
def test_a_late_clip_beyond_the_end_is_bad(kind: str, clip: Clip) -> None:
    content = late_speech(kind)
    assert rejection(content, clip) is Reason.AUDIO_BAD_CLIP
