"""What decoded audio is like."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.sounds import (
    KINDS,
    add_audio,
    add_picture,
    chatter,
    decoded,
    encode,
    pitch,
    rejection,
    tone,
    wav,
)
from volery.audio import decode, probe_seconds
from volery.audio.samples import Resampler
from volery.units import Clip, Reason, UnitFailed, UnitRejected


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_comes_out_as_the_sound_that_went_in(kind: str) -> None:
    found = decoded(encode(tone(2.0, KINDS[kind]), KINDS[kind], kind))
    assert found.duration_s == pytest.approx(2.0, abs=0.1)
    assert pitch(found.samples) == pytest.approx(440, abs=1)
    assert np.sqrt(np.mean(found.samples[8000:24000] ** 2)) == pytest.approx(0.354, abs=0.02)
    assert (found.sample_rate, found.channels, found.truncated) == (KINDS[kind], 1, False)
    assert found.samples.dtype == np.float32
    assert found.samples.ndim == 1


def test_the_container_and_the_codec_are_told() -> None:
    found = decoded(encode(tone(1.0, 48_000), 48_000, "webm opus"))
    assert (found.container, found.codec) == ("matroska,webm", "opus")


@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (44_100, 2), (8_000, 1), (48_000, 2), (96_000, 1)])
def test_wav_and_flac_of_the_same_samples_decode_to_the_same_bits(rate: int, channels: int) -> None:
    sound = np.stack([chatter(3.21, rate, seed) for seed in range(channels)])
    found = [decoded(encode(sound, rate, kind)).samples for kind in ("wav pcm_s16le", "flac flac")]
    np.testing.assert_array_equal(*found)
    assert np.abs(found[0]).max() > 0.1


def test_sixteen_bit_audio_at_16_khz_comes_through_as_it_is() -> None:
    values = np.array([0, 1, -1, 32_767, -32_768, 12_345], np.int16)
    content = wav(np.zeros(len(values), np.float32), 16_000)[:44] + values.tobytes()
    np.testing.assert_array_equal(decoded(content).samples, values / np.float32(32_768))


@pytest.mark.parametrize("channels", [2, 6])
def test_channels_are_mixed_to_their_mean(channels: int) -> None:
    sound = np.stack([chatter(1.0, 16_000, seed) for seed in range(channels)])
    found = decoded(encode(sound, 16_000, "wav pcm_f32le"))
    assert found.channels == channels
    np.testing.assert_allclose(found.samples, sound.mean(axis=0), atol=1e-7)


def test_opposite_channels_cancel() -> None:
    sound = chatter(1.0, 16_000)
    assert not decoded(encode(np.stack([sound, -sound]), 16_000, "wav pcm_f32le")).samples.any()


@pytest.mark.parametrize("kind", ["mp4 aac", "ogg opus", "flac flac", "wav pcm_f32le"])
def test_eight_channels_are_mixed_as_well(kind: str) -> None:
    container, codec = kind.split()
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48_000, layout="7.1")
        frame = av.AudioFrame(format="flt", layout="7.1", samples=48_000)
        frame.planes[0].update(np.repeat(tone(1.0, 48_000), 8).tobytes())
        frame.sample_rate, frame.pts = 48_000, 0
        for part in (frame, None):
            output.mux(stream.encode(part))
    found = decoded(buffer.getvalue())
    assert found.channels == 8
    assert pitch(found.samples) == pytest.approx(440, abs=2)


def test_values_that_are_not_finite_silence_their_own_channel_alone() -> None:
    left, right = tone(1.0, 16_000), tone(1.0, 16_000, hertz=300)
    spoilt = left.copy()
    spoilt[100:200], spoilt[300], spoilt[400] = np.nan, np.inf, -np.inf
    found = decoded(encode(np.stack([spoilt, right]), 16_000, "wav pcm_f32le")).samples
    np.testing.assert_allclose(found, (np.where(np.isfinite(spoilt), left, 0) + right) / 2, atol=1e-7)


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("level", [2.0, 32_768.0, 3e38])
def test_values_beyond_full_scale_are_clipped(rate: int, level: float) -> None:
    found = decoded(encode(tone(1.0, rate, level=level), rate, "wav pcm_f32le")).samples
    assert np.isfinite(found).all()
    assert np.abs(found).max() == 1.0


def test_a_channel_beyond_full_scale_does_not_drown_the_others() -> None:
    loud, quiet = tone(1.0, 16_000, level=1e6), tone(1.0, 16_000, hertz=300)
    found = decoded(encode(np.stack([loud, quiet]), 16_000, "wav pcm_f32le")).samples
    np.testing.assert_allclose(found, (np.clip(loud, -1, 1) + quiet) / 2, atol=1e-6)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000])
def test_resampling_keeps_time_and_shape(rate: int) -> None:
    found = decoded(encode(tone(2.0, rate), rate, "wav pcm_f32le")).samples
    assert len(found) == 32_000
    middle = slice(1000, -1000)
    np.testing.assert_allclose(found[middle], tone(2.0, 16_000)[middle], atol=2e-3)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_the_last_sound_of_a_file_is_not_lost(rate: int) -> None:
    sound = np.zeros(round(1.37 * rate), np.float32)
    sound[-rate // 100 :] = tone(0.01, rate)
    found = decoded(encode(sound, rate, "wav pcm_f32le")).samples
    assert len(found) == round(1.37 * 16_000)
    assert np.abs(found[-160:]).max() > 0.4


def test_frequencies_that_16_khz_cannot_hold_are_filtered_out() -> None:
    found = decoded(encode(tone(1.0, 48_000, hertz=12_000), 48_000, "wav pcm_f32le")).samples
    assert np.abs(found[200:-200]).max() < 0.01


@given(cuts=st.lists(st.integers(0, 50_000), max_size=12), rate=st.sampled_from([8_000, 16_000, 44_100]))
@settings(max_examples=40, deadline=None)
def test_the_output_does_not_depend_on_how_samples_come_in_pieces(cuts: list[int], rate: int) -> None:
    sound = chatter(50_000 / rate, rate)
    whole, pieces = Resampler(), Resampler()
    whole.add(sound, rate)
    for piece in np.split(sound, sorted(cuts)):
        pieces.add(piece, rate)
    np.testing.assert_array_equal(whole.finish(), pieces.finish())


def test_a_rate_that_changes_on_the_way_is_followed() -> None:
    content = encode(tone(2.0, 44_100), 44_100, "adts aac") + encode(tone(2.0, 48_000), 48_000, "adts aac")
    found = decoded(content)
    assert found.duration_s == pytest.approx(4.0, abs=0.15)
    assert pitch(found.samples[4000:28_000]) == pytest.approx(440, abs=1)
    assert pitch(found.samples[36_000:60_000]) == pytest.approx(440, abs=1)


def test_content_decides_and_not_the_name() -> None:
    stream = io.BytesIO(encode(tone(1.0, 16_000), 16_000, "flac flac"))
    stream.name = "audio.mp3"
    assert decode(stream, "audio.mp3", clip=None, max_seconds=10).codec == "flac"


def test_a_cover_picture_is_no_obstacle() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp3") as output:
        cover = output.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic
        add_audio(output, tone(2.0, 44_100), 44_100, "libmp3lame")()
        for part in (av.VideoFrame(64, 64, "rgb24"), None):
            output.mux(cover.encode(part))
    assert b"APIC" in buffer.getvalue()
    found = decoded(buffer.getvalue())
    assert found.duration_s == pytest.approx(2.0, abs=0.1)
    assert not found.truncated


def test_the_sound_of_a_video_is_taken() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        writers = [add_picture(output, frames=75), add_audio(output, tone(2.0, 44_100), 44_100, "libmp3lame")]
        for write in writers:
            write()
    found = decoded(buffer.getvalue())
    assert found.duration_s == pytest.approx(2.0, abs=0.1)
    assert not found.truncated


def test_of_several_audio_streams_the_default_one_is_taken() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        streams = [output.add_stream("flac", rate=16_000, layout="mono") for _ in range(2)]
        streams[0].disposition = av.stream.Disposition(0)
        streams[1].disposition = av.stream.Disposition.default
        for stream, hertz in zip(streams, (300, 700), strict=True):
            frame = av.AudioFrame.from_ndarray(
                np.round(tone(2.0, 16_000, hertz) * 32_767).astype(np.int16)[np.newaxis], "s16", "mono"
            )
            frame.sample_rate, frame.pts = 16_000, 0
            for part in (frame, None):
                output.mux(stream.encode(part))
    assert pitch(decoded(buffer.getvalue()).samples) == pytest.approx(700, abs=1)


def test_a_video_without_sound_has_no_stream() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        add_picture(output)()
    assert rejection(buffer.getvalue()) is Reason.AUDIO_NO_STREAM


def test_tags_may_hold_any_bytes() -> None:
    content = encode(tone(1.0, 16_000), 16_000, "wav pcm_s16le")
    tag = b"LIST" + (16).to_bytes(4, "little") + b"INFOINAM" + (4).to_bytes(4, "little") + b"\xff\xfe\xe9\x80"
    assert decoded(content + tag).duration_s == 1.0


@pytest.mark.parametrize("content", [b"", wav(tone(0.0, 16_000), 16_000)])
def test_a_file_without_a_sample_is_empty(content: bytes) -> None:
    assert rejection(content) is Reason.AUDIO_EMPTY


def test_a_file_too_short_to_resample_is_empty_and_no_bad_clip() -> None:
    content = wav(tone(0.0005, 48_000), 48_000)
    assert rejection(content) is Reason.AUDIO_EMPTY
    assert rejection(content, Clip(0.0004, None)) is Reason.AUDIO_BAD_CLIP


def test_the_place_where_a_stream_stands_does_not_matter() -> None:
    stream = io.BytesIO(wav(tone(1.0, 16_000), 16_000))
    stream.seek(1000)
    assert decode(stream, "audio", clip=None, max_seconds=10).duration_s == 1.0


@pytest.mark.parametrize("kind", ["wav pcm_s16le", "flac flac", "mp3 libmp3lame", "mp4 aac", "ogg opus", "webm opus"])
def test_a_probe_tells_the_claimed_length_and_rewinds(kind: str) -> None:
    stream = io.BytesIO(encode(tone(3.0, 48_000), 48_000, kind))
    assert probe_seconds(stream, "audio") == pytest.approx(3.0, abs=0.1)
    assert stream.tell() == 0


def test_a_probe_tells_nothing_where_the_container_claims_nothing() -> None:
    content = bytearray(encode(tone(1.0, 16_000), 16_000, "flac flac"))
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    assert probe_seconds(io.BytesIO(content), "audio") is None
    assert decoded(bytes(content)).duration_s == 1.0


def test_a_probe_rejects_what_decoding_would() -> None:
    for content, reason in ((b"", Reason.AUDIO_EMPTY), (b"no audio " * 100, Reason.AUDIO_UNDECODABLE)):
        stream = io.BytesIO(content)
        with pytest.raises(UnitRejected) as caught:
            probe_seconds(stream, "audio")
        assert caught.value.reason is reason
        assert stream.tell() == 0


class FailingStream(io.BytesIO):
    """A file on a disk that stops answering beyond some place."""

    def __init__(self, content: bytes, error: Exception) -> None:
        super().__init__(content)
        self._error = error

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > 50_000:
            raise self._error
        return super().read(size)


def test_a_stream_that_cannot_be_read_fails_the_attempt() -> None:
    stream = FailingStream(wav(chatter(10.0, 16_000), 16_000), OSError(5, "Input/output error"))
    with pytest.raises(UnitFailed, match="Input/output error") as caught:
        decode(stream, "audio", clip=None, max_seconds=100)
    assert caught.value.reason is Reason.AUDIO_UNAVAILABLE


def test_a_streams_own_verdict_passes_through() -> None:
    verdict = UnitFailed(Reason.AUDIO_CHANGED, "changed")
    stream = FailingStream(wav(chatter(10.0, 16_000), 16_000), verdict)
    with pytest.raises(UnitFailed) as caught:
        decode(stream, "audio", clip=None, max_seconds=100)
    assert caught.value is verdict


def test_a_stream_that_cannot_even_be_opened_fails_the_attempt() -> None:
    unreadable = Path("/proc/self/mem")
    if not unreadable.exists():
        pytest.skip("no file here whose reading is certain to fail")
    with unreadable.open("rb") as stream, pytest.raises(UnitFailed) as caught:
        decode(stream, "audio", clip=None, max_seconds=100)
    assert caught.value.reason is Reason.AUDIO_UNAVAILABLE
