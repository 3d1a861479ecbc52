"""The audio of `volery demo`: two conversations, and what else comes along in a queue."""

from __future__ import annotations

import importlib.util
import random
import wave
from pathlib import Path

from volery.cli.demo_digits import SAMPLES
from volery.cli.manifest import file_uri
from volery.units import SAMPLE_RATE, ConfigurationError, Unit

CONVERSATION = "conversation"
DIGITS = "digits"

_OPUS_RATE = 48_000
_OPUS_BITS = 32_000


def demo_units(folder: Path) -> list[Unit]:
    """The telephone conversation and its companions, those that have to be made written to `folder`.

    Raises:
        ConfigurationError: the package that carries the conversation is not installed.
    """
    conversation = sample_conversation()
    return [
        _unit(CONVERSATION, conversation),
        _unit("opus-copy", _opus_copy(conversation, folder / "conversation.opus")),
        _unit("silence", _silence(folder / "silence.wav", 5.0)),
        _unit("too-short", _silence(folder / "too-short.wav", 0.02)),
        _unit("broken", _random_bytes(folder / "broken.wav")),
    ]


def digits_unit() -> Unit:
    """The two synthetic voices that read digits to each other."""
    return _unit(DIGITS, SAMPLES / "digits.flac")


def sample_conversation() -> Path:
    """The telephone conversation of two people that pyannote.audio ships, found without importing it.

    Raises:
        ConfigurationError: it is not installed.
    """
    # find_spec("pyannote.audio") imports only the namespace package above it.
    spec = importlib.util.find_spec("pyannote.audio") if importlib.util.find_spec("pyannote") else None
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        if (path := Path(folder, "sample", "sample.wav")).is_file():
            return path
    raise ConfigurationError("the demo needs pyannote.audio: pip install 'volery[worker,embedded]'")


def _unit(key: str, path: Path) -> Unit:
    return Unit(key=key, audio_uri=file_uri(path), owner="demo")


def _opus_copy(source: Path, target: Path) -> Path:
    try:
        import av
    except ImportError as error:
        raise ConfigurationError("the demo needs av: pip install 'volery[worker,embedded]'") from error

    with av.open(str(source)) as read, av.open(str(target), "w", format="ogg") as written:
        stream = written.add_stream("libopus", rate=_OPUS_RATE, layout="mono", bit_rate=_OPUS_BITS)
        resampler = av.AudioResampler(format="s16", layout="mono", rate=_OPUS_RATE, frame_size=_OPUS_RATE // 50)
        for frame in [*read.decode(audio=0), None]:
            for resampled in resampler.resample(frame):
                written.mux(stream.encode(resampled))
        written.mux(stream.encode(None))
    return target


def _silence(path: Path, seconds: float) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(bytes(2 * round(seconds * SAMPLE_RATE)))
    return path


def _random_bytes(path: Path) -> Path:
    path.write_bytes(random.Random(0).randbytes(20_000))
    return path
