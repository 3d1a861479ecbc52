"""Files that break off or are damaged: what decodes is used, and nothing crashes or hangs."""

from __future__ import annotations

import io
import random
from functools import cache

import numpy as np
import pytest

from audio.sounds import KINDS, chatter, decoded, encode, rejection, tone, wav
from volery.audio import probe_seconds
from volery.units import Clip, Reason, UnitFailed, UnitRejected

FUZZED = (
    *("wav pcm_s16le", "wav pcm_f32le", "flac flac", "mp3 libmp3lame", "mp4 aac", "webm opus", "ogg opus"),
    *("adts aac", "mpegts aac", "mov alac", "ogg flac"),
)
CUT = ("wav pcm_s16le", "wav pcm_s24le", "flac flac", "mp3 libmp3lame", "webm opus", "ogg opus", "ogg flac")


@cache
def sound(kind: str) -> bytes:
    options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"} if kind == "mp4 aac" else {}
    return encode(chatter(3.0, KINDS[kind]), KINDS[kind], kind, **options)


@pytest.mark.parametrize("part", [0.5, 0.83])
@pytest.mark.parametrize("kind", CUT)
def test_a_file_that_breaks_off_gives_what_there_is(kind: str, part: float) -> None:
    content = sound(kind)
    whole, cut = decoded(content), decoded(content[: round(len(content) * part)])
    assert cut.truncated
    assert not whole.truncated
    assert 0 < cut.duration_s < whole.duration_s
    common = slice(0, round(0.6 * len(cut.samples)))
    np.testing.assert_allclose(cut.samples[common], whole.samples[common], atol=1e-4)


def test_a_clip_that_lies_before_the_break_is_whole() -> None:
    content = sound("flac flac")
    cut = content[: round(len(content) * 0.8)]
    assert not decoded(cut, Clip(0.5, 1.0)).truncated
    assert decoded(cut, Clip(0.5, None)).truncated


def test_a_length_that_is_told_from_a_rounded_bit_rate_is_no_promise() -> None:
    content = encode(chatter(45.0, 8_000), 8_000, "wav adpcm_ms").replace(b"fact", b"skip", 1)
    assert not decoded(content).truncated
    assert decoded(content[:-2_000]).truncated


def test_a_recorder_that_could_not_go_back_to_its_header_left_a_whole_file() -> None:
    content = bytearray(wav(tone(1.0, 16_000), 16_000))
    for size in (b"\xff\xff\xff\xff", b"\x00\xf0\xff\x7f"):
        content[4:8] = content[40:44] = size
        found = decoded(bytes(content))
        assert found.duration_s == pytest.approx(1.0, abs=0.01)
        assert not found.truncated


def test_an_mp4_without_its_index_is_undecodable() -> None:
    content = encode(tone(2.0, 44_100), 44_100, "mp4 aac")
    assert rejection(content[: len(content) // 2]) is Reason.AUDIO_UNDECODABLE


@pytest.mark.parametrize("kind", ["flac flac", "mp3 libmp3lame", "ogg opus"])
def test_damage_in_the_middle_costs_no_more_than_the_middle(kind: str) -> None:
    content = bytearray(sound(kind))
    start = round(len(content) * 0.5)
    content[start : start + 3000] = random.Random(1).randbytes(3000)
    found = decoded(bytes(content))
    assert found.truncated
    assert found.duration_s > 1.9
    whole = decoded(sound(kind)).samples
    np.testing.assert_allclose(found.samples[:14_000], whole[:14_000], atol=1e-4)


def test_a_file_with_nothing_but_damage_behind_its_header_is_undecodable() -> None:
    content = sound("flac flac")
    noise = random.Random(1).randbytes(len(content))
    assert rejection(content[:4200] + noise[4200:]) is Reason.AUDIO_UNDECODABLE


def test_a_stream_that_turns_up_on_the_way_does_not_matter() -> None:
    content = bytearray(encode(tone(20.0, 48_000), 48_000, "mpegts aac"))
    # A transport packet: 188 bytes, the number of its stream in the second and third, 0x40 where a frame starts.
    starts = [place for place in range(0, len(content), 188) if content[place + 1 : place + 3] == b"\x41\x00"]
    content[starts[-5] + 2] = 0x23
    assert decoded(bytes(content)).duration_s == pytest.approx(20.0, abs=0.5)


def test_a_header_that_cuts_a_file_into_single_samples_is_not_followed_for_hours() -> None:
    content = bytearray(encode(tone(5.0, 44_100), 44_100, "caf pcm_s16le"))
    frames_a_packet = content.index(b"desc") + 12 + 20
    assert content[frames_a_packet : frames_a_packet + 4] == b"\0\0\0\1"
    content[frames_a_packet + 3] = 2
    assert rejection(bytes(content)) is Reason.AUDIO_UNDECODABLE


def mangled(content: bytes, chance: random.Random) -> bytes:
    """The content cut short, or with bytes changed anywhere or in its header, or both."""
    changed = bytearray(content)
    if chance.random() < 0.5:
        del changed[chance.randrange(len(changed)) :]
    reach = chance.choice((200, 1000, len(changed)))
    for _ in range(chance.choice((0, 1, 5, 50)) if changed else 0):
        changed[chance.randrange(min(reach, len(changed)))] = chance.choice((0, 127, 255, chance.randrange(256)))
    return bytes(changed)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", FUZZED)
def test_mangled_files_decode_or_are_told(kind: str) -> None:
    chance = random.Random(kind)
    for _ in range(60):
        content = mangled(sound(kind), chance)
        clip = chance.choice((None, None, Clip(0.5, 1.5), Clip(40.0, None)))
        try:
            probe_seconds(io.BytesIO(content), "audio")
            found = decoded(content, clip, max_seconds=100.0)
        except (UnitRejected, UnitFailed):
            continue
        assert 0 < found.duration_s <= 100.001
        assert np.abs(found.samples).max() <= 1.0


def test_damage_makes_no_noise_on_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(7)
    for kind in FUZZED:
        for _ in range(5):
            try:
                decoded(mangled(sound(kind), chance))
            except UnitRejected:
                continue
    assert capfd.readouterr() == ("", "")
