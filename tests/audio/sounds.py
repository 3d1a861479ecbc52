"""Sounds for tests, and files made of them by FFmpeg's own encoders."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.container import OutputContainer

from volery.audio import Decoded, decode
from volery.units import Clip, Reason, UnitRejected

Array = npt.NDArray[np.float32]

# Every container and codec that a test can write, with a rate that the codec takes.
KINDS = {
    "wav pcm_s16le": 44_100,
    "wav pcm_u8": 11_025,
    "wav pcm_s24le": 48_000,
    "wav pcm_s32le": 96_000,
    "wav pcm_f32le": 22_050,
    "wav pcm_f64le": 16_000,
    "wav pcm_mulaw": 8_000,
    "wav pcm_alaw": 8_000,
    "wav adpcm_ima_wav": 8_000,
    "wav adpcm_ms": 8_000,
    "w64 pcm_s16le": 44_100,
    "aiff pcm_s16be": 44_100,
    "au pcm_s16be": 32_000,
    "caf pcm_s16le": 44_100,
    "flac flac": 44_100,
    "ogg flac": 44_100,
    "ogg opus": 48_000,
    "webm opus": 48_000,
    "matroska pcm_s16le": 44_100,
    "mp3 libmp3lame": 44_100,
    "mp4 aac": 44_100,
    "mov alac": 44_100,
    "adts aac": 44_100,
    "mpegts aac": 48_000,
    "ac3 ac3": 48_000,
    "asf wmav2": 44_100,
    "wv wavpack": 44_100,
    "tta tta": 44_100,
}
CONTAINERS = ("wav pcm_s16le", "flac flac", "mp3 libmp3lame", "mp4 aac", "webm opus", "ogg opus")


def tone(seconds: float, rate: int, hertz: float = 440.0, level: float = 0.5) -> Array:
    """A sine, mono."""
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def chatter(seconds: float, rate: int, seed: int = 1) -> Array:
    """Band-limited noise whose loudness wanders: no two stretches of it are alike."""
    random = np.random.default_rng(seed)
    count = round(seconds * rate)
    spectrum = np.fft.rfft(random.standard_normal(count))
    spectrum[np.fft.rfftfreq(count, 1 / rate) > 3000] = 0
    noise = np.fft.irfft(spectrum, count)
    loudness = np.interp(np.arange(count), np.arange(0, count + rate, rate // 4), _steps(random, count, rate))
    return (0.5 * loudness * noise / np.abs(noise).max()).astype(np.float32)


def _steps(random: np.random.Generator, count: int, rate: int) -> npt.NDArray[np.float64]:
    return random.uniform(0.1, 1.0, len(np.arange(0, count + rate, rate // 4)))


def wav(samples: Array, rate: int) -> bytes:
    """16-bit WAV of float samples, shape `(samples,)` or `(channels, samples)`."""
    planes = np.atleast_2d(samples)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(len(planes))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.round(planes.T * 32_767).astype("<i2").tobytes())
    return buffer.getvalue()


@cache
def late_speech(kind: str) -> bytes:
    """45 s of chatter as a file of a kind."""
    return encode(chatter(45.0, KINDS[kind]), KINDS[kind], kind)


def encode(samples: Array, rate: int, kind: str, **options: str) -> bytes:
    """A file of a kind such as `webm opus`; samples as for `wav`."""
    container, codec = kind.split()
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container, container_options=options) as output:
        add_audio(output, samples, rate, codec)()
    return buffer.getvalue()


def add_audio(output: OutputContainer, samples: Array, rate: int, codec: str) -> Callable[[], None]:
    """Add an audio stream; the returned call writes it, once every stream is added."""
    planes = np.atleast_2d(samples)
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(planes)]
    stream = output.add_stream(codec, rate=rate, layout=layout)
    if codec == "wmav2":
        stream.bit_rate = 128_000
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(planes), format="fltp", layout=layout)
    frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 0
    return lambda: _write(output, stream, [frame])


def add_picture(output: OutputContainer, frames: int = 25) -> Callable[[], None]:
    """Add a video stream, as `add_audio` does."""
    stream = output.add_stream("mpeg4", rate=25)
    stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
    pictures = [av.VideoFrame(64, 64, "yuv420p") for _ in range(frames)]
    for index, picture in enumerate(pictures):
        picture.pts = index
    return lambda: _write(output, stream, pictures)


def _write(output: OutputContainer, stream: Any, frames: Sequence[av.AudioFrame | av.VideoFrame]) -> None:
    for frame in (*frames, None):
        output.mux(stream.encode(frame))


def decoded(content: bytes, clip: Clip | None = None, max_seconds: float = 7200.0) -> Decoded:
    return decode(io.BytesIO(content), "audio", clip=clip, max_seconds=max_seconds)


def rejection(content: bytes, clip: Clip | None = None, max_seconds: float = 7200.0) -> Reason:
    """Why content is rejected; `DID NOT RAISE` is a failed test."""
    try:
        found = decoded(content, clip, max_seconds)
    except UnitRejected as error:
        return error.reason
    raise AssertionError(f"decoded to {found.duration_s} s of {found.codec} in {found.container}")


def pitch(samples: Array, rate: int = 16_000) -> float:
    """The strongest frequency, in Hz."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))
