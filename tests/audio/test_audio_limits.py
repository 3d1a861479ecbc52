"""Limits that hold while audio is decoded, whatever its header says."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pytest

from audio.sounds import CONTAINERS, KINDS, chatter, decoded, encode, rejection, tone, wav
from volery.audio import decode, probe_seconds
from volery.units import Clip, Reason, UnitRejected


def claiming(content: bytes, samples: int) -> bytes:
    """A FLAC file whose header claims another number of samples (STREAMINFO, RFC 9639 section 8.2)."""
    changed = bytearray(content)
    changed[21] = (changed[21] & 0xF0) | (samples >> 32)
    changed[22:26] = (samples & 0xFFFF_FFFF).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_audio_over_the_limit_is_rejected(kind: str) -> None:
    content = encode(tone(10.0, KINDS[kind]), KINDS[kind], kind)
    assert rejection(content, max_seconds=9.5) is Reason.AUDIO_TOO_LONG
    assert decoded(content, max_seconds=10.5).duration_s == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_the_limit_itself_is_allowed_and_a_sample_more_is_not(rate: int) -> None:
    sound = tone(3.0, rate)
    assert decoded(wav(sound, rate), max_seconds=3.0).duration_s == 3.0
    assert rejection(wav(np.append(sound, np.float32(0)), rate), max_seconds=3.0) is Reason.AUDIO_TOO_LONG


@pytest.mark.parametrize("kind", CONTAINERS)
def test_an_honest_claim_over_the_limit_is_rejected_undecoded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode(tone(10.0, KINDS[kind]), KINDS[kind], kind)
    monkeypatch.setattr("volery.audio.decoding._collect", lambda *_: pytest.fail("it was decoded"))
    assert rejection(content, max_seconds=5.0) is Reason.AUDIO_TOO_LONG


@pytest.mark.parametrize("claimed_s", [0, 1])
def test_a_header_that_claims_little_or_nothing_does_not_help(claimed_s: int) -> None:
    content = claiming(encode(tone(60.0, 16_000), 16_000, "flac flac"), claimed_s * 16_000)
    assert rejection(content, max_seconds=30.0) is Reason.AUDIO_TOO_LONG
    assert decoded(content).duration_s == 60.0


def test_a_header_that_claims_too_much_does_not_harm() -> None:
    content = claiming(encode(tone(2.0, 16_000), 16_000, "flac flac"), 3 * 3600 * 16_000)
    assert probe_seconds(io.BytesIO(content), "audio") == 10_800
    found = decoded(content, max_seconds=10.0)
    assert found.duration_s == 2.0
    assert found.truncated


def test_memory_stays_within_the_limit_whatever_comes() -> None:
    content = claiming(encode(np.zeros(600 * 16_000, np.float32), 16_000, "flac flac"), 16_000)
    tracemalloc.start()
    try:
        with pytest.raises(UnitRejected):
            decode(io.BytesIO(content), "audio", clip=None, max_seconds=120.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (120 + 60) * 16_000 * 4 + (4 << 20)


def test_long_audio_is_held_once_and_not_twice() -> None:
    content = encode(np.zeros(600 * 16_000, np.float32), 16_000, "flac flac")
    tracemalloc.start()
    try:
        samples = decoded(content).samples
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < samples.nbytes + 60 * 16_000 * 4 + (4 << 20)


def with_rate(content: bytes, rate: int) -> bytes:
    return content[:24] + rate.to_bytes(4, "little") + content[28:]


def test_a_slow_rate_is_resampled_within_the_limit() -> None:
    content = with_rate(wav(chatter(10.0, 16_000), 16_000), 1_000)
    assert decoded(content).duration_s == 160.0
    assert rejection(content, max_seconds=159.0) is Reason.AUDIO_TOO_LONG


@pytest.mark.parametrize("rate", [0, 1, 999, 1_000_001, 2**31 - 1, 2**32 - 1])
def test_a_rate_that_no_audio_has_is_undecodable(rate: int) -> None:
    assert rejection(with_rate(wav(chatter(0.1, 16_000), 16_000), rate)) is Reason.AUDIO_UNDECODABLE


def test_the_limit_is_on_the_clip_and_not_on_the_file() -> None:
    content = wav(chatter(20.0, 16_000), 16_000)
    assert decoded(content, Clip(5.0, 8.0), max_seconds=3.0).duration_s == 3.0
    assert decoded(content, Clip(18.0, None), max_seconds=3.0).duration_s == 2.0
    assert rejection(content, Clip(5.0, None), max_seconds=3.0) is Reason.AUDIO_TOO_LONG
    assert rejection(content, Clip(5.0, 8.1), max_seconds=3.0) is Reason.AUDIO_TOO_LONG


def test_an_error_says_what_to_do() -> None:
    with pytest.raises(UnitRejected, match=r"audio lasts longer than 1 s; .*BATCH_PIPELINE_AUDIO_MAX_SECONDS"):
        decoded(wav(tone(2.0, 16_000), 16_000), max_seconds=1.0)
