"""Audio containers, opened through FFmpeg (PyAV) with nothing but their bytes to go by."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from fractions import Fraction
from types import TracebackType
from typing import BinaryIO, Self

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import EOFError as EndOfFile
from av.error import FFmpegError
from av.packet import Packet

from volery.audio.endings import ogg_breaks_off, riff_breaks_off
from volery.audio.samples import is_usable
from volery.units import Reason, UnitError, UnitFailed, UnitRejected

# The formats that FFmpeg may find in a file. Playlists, scripts and stream descriptions (hls, dash,
# concat, sdp, …), which name other files or hosts to open, are not among them and must never be.
_FORMATS = (
    *("aac", "ac3", "aiff", "amr", "ape", "asf", "au", "avi", "caf", "dts", "eac3", "flac", "flv", "matroska"),
    *("mov", "mp3", "mpeg", "mpegts", "nistsphere", "ogg", "tta", "voc", "w64", "wav", "wv"),
)
_OPTIONS = {"format_whitelist": ",".join(_FORMATS), "protocol_whitelist": "none"}

# Formats whose files state their length and where each packet lies; others estimate both from bit rates.
_EXACT = ("aiff", "au", "caf", "flac", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2", "ogg", "w64", "wav")

# In these only PCM is exact: the places and the length of other codecs come from a rounded number of bytes a second.
_EXACT_FOR_PCM = ("w64", "wav")

# Formats whose packets carry a time of their own, and in which recorders of calls leave out what was silent or lost.
_TIMED = ("matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2")

# Formats that are found by scanning for a short bit pattern: any large file holds a frame or two by chance.
_SCANNED = ("aac", "ac3", "dts", "eac3", "mp3", "mpeg")
_CHANCE_SECONDS = 0.1
# MPEG layer I, unused for decades; yet FFmpeg finds it in half of all tables of small negative numbers.
_NEVER_MEANT = "mp1"
# Encoder delay and padding make a stream a little longer or shorter than what is stated.
_PROMISE_SLACK_SECONDS = 0.1
# A decoder needs a run-up after a jump: 80 ms for Opus, a frame or two for AAC and Vorbis.
_RUN_UP_SECONDS = 1.0
_LAST_TIMESTAMP = 1 << 62
# Stands in for a stream that names none: FFmpeg's own, microseconds.
_ANY_TIME_BASE = Fraction(1, 1_000_000)
# No codec packs less than 0.8 ms; a header that cuts a file into single samples would take hours to follow.
_SHORTEST_PACKET_SECONDS = 0.0003
_MANY_PACKETS = 10_000
# How often reading goes on after the container itself could not be read.
_MAX_BREAKS = 16

av.logging.set_level(None)


class AudioFile:
    """The best audio stream of a file, opened; a context manager.

    `damaged` turns true where a part of the file could not be read or decoded.

    Raises:
        UnitRejected: `audio_empty`, `audio_undecodable` or `audio_no_stream`.
        UnitFailed: `audio_unavailable` where the stream cannot be read.
    """

    def __init__(self, stream: BinaryIO, uri: str) -> None:
        self._stream = stream
        self._uri = uri
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._container.close()

    @property
    def container(self) -> str:
        """FFmpeg's name of the container format."""
        return str(self._container.format.name)

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec."""
        return str(self._audio.codec_context.codec.canonical_name)

    @property
    def claimed_s(self) -> float | None:
        """Length in seconds that the container claims or that its bit rate suggests; None where unknown."""
        if self._audio.duration:
            return float(self._audio.duration * self._time_base)
        return self._container.duration / av.time_base if self._container.duration else None

    @property
    def keeps_time(self) -> bool:
        """Whether the time of a frame says where it lies, rather than how much was decoded before it."""
        return self.container in _TIMED

    def frames(self) -> Iterator[AudioFrame]:
        """Decoded frames from here to the end of the file, past whatever is damaged.

        Raises:
            UnitRejected: `audio_undecodable` where next to nothing comes out of very many packets.
            UnitFailed: `audio_unavailable` where the stream cannot be read.
        """
        count, seconds = 0, 0.0
        for _ in range(_MAX_BREAKS):
            try:
                for packet in self._container.demux(self._audio):
                    frames = self._decoded(packet)
                    count, seconds = count + 1, seconds + sum(frame.samples / frame.sample_rate for frame in frames)
                    if _is_dust(count, seconds):
                        raise undecodable(self._uri)
                    yield from frames
                    self._input.check(self._uri)
                return
            except IndexError:
                # PyAV 18 stumbles at the very end of a file in which more streams turned up on the way.
                return
            except FFmpegError:
                self._input.check(self._uri)
                self.damaged = True

    def packets_reach(self, seconds: float) -> bool:
        """Whether the stream's packets last longer than `seconds`; cheap, and read no further than that.

        Unlike a length in a header, packets do exist. Reopens the file: frames start anew.
        """
        total = 0.0
        try:
            for count, packet in enumerate(self._container.demux(self._audio), start=1):
                total += float((packet.duration or 0) * self._time_base)
                if total > seconds or _is_dust(count, total):
                    break
        except (FFmpegError, IndexError):
            pass
        finally:
            self._input.check(self._uri)
            self.reopen()
        return total > seconds

    def jump(self, first: AudioFrame, seconds: float) -> Iterator[AudioFrame]:
        """Frames from shortly before `seconds` of a file whose first frame is `first`; none where that fails.

        Not beyond the length that is claimed: several Ogg files one after the other claim none, and a jump would
        never leave the first.
        """
        if self._is_exact and first.pts is not None and seconds < (self.claimed_s or 0.0):
            target = min(first.pts + int((seconds - _RUN_UP_SECONDS) / self._time_base), _LAST_TIMESTAMP)
            try:
                self._container.seek(target, stream=self._audio)
            except FFmpegError:
                return
            yield from self.frames()

    def reopen(self) -> None:
        """Start anew from the file's beginning."""
        self._container.close()
        self._open()

    def is_chance(self, decoded_s: float) -> bool:
        """Whether the `decoded_s` seconds found in the file are bytes that only look like audio."""
        return self.damaged and decoded_s < _CHANCE_SECONDS and self.container in _SCANNED

    def breaks_off(self, decoded_s: float) -> bool:
        """Whether a file that decoded to `decoded_s` seconds should have held more."""
        if self._states_length() and (self.claimed_s or 0.0) - decoded_s > _PROMISE_SLACK_SECONDS:
            return True
        if self.container == "wav":
            return riff_breaks_off(self._stream)
        return self.container == "ogg" and ogg_breaks_off(self._stream)

    def _states_length(self) -> bool:
        if self.container == "mp3":
            # FFmpeg knows an encoder delay only from a LAME tag, which counts the frames as well.
            return bool(self._audio.start_time)
        return self._is_exact and (self._audio.duration is not None or len(self._container.streams) == 1)

    @property
    def _is_exact(self) -> bool:
        return self.container in _EXACT and (self.container not in _EXACT_FOR_PCM or self.codec.startswith("pcm_"))

    def _open(self) -> None:
        self._input = _Input(self._stream)
        self._container = self._opened()
        self.damaged = False
        try:
            self._audio: AudioStream = self._best_stream()
        except BaseException:
            self._container.close()
            raise
        self._audio.codec_context.thread_count = 1
        self._time_base = self._audio.time_base or _ANY_TIME_BASE

    def _best_stream(self) -> AudioStream:
        best = self._container.streams.best("audio")
        if isinstance(best, AudioStream):
            if best.codec_context is None or best.codec_context.name.startswith(_NEVER_MEANT):
                raise undecodable(self._uri)
            return best
        if self._container.streams.audio or len(self._container.streams) == 0:
            raise undecodable(self._uri)
        raise UnitRejected(Reason.AUDIO_NO_STREAM, f"{self._uri} holds no audio stream")

    def _opened(self) -> InputContainer:
        if self._input.is_empty():
            self._input.check(self._uri)
            raise UnitRejected(Reason.AUDIO_EMPTY, f"{self._uri} holds no bytes")
        try:
            # Without a name FFmpeg judges by content alone; `replace` because tags may hold any bytes.
            return av.open(self._input, "r", container_options=_OPTIONS, metadata_errors="replace")
        except FFmpegError as error:
            self._input.check(self._uri)
            raise undecodable(self._uri) from error

    def _decoded(self, packet: Packet[AudioStream]) -> list[AudioFrame]:
        try:
            frames = packet.decode()
        except EndOfFile:
            return []
        except FFmpegError:
            self.damaged = True
            return []
        usable = [frame for frame in frames if is_usable(frame)]
        self.damaged |= len(usable) < len(frames)
        return usable


def _is_dust(packets: int, seconds: float) -> bool:
    return packets > _MANY_PACKETS and seconds < packets * _SHORTEST_PACKET_SECONDS


def undecodable(uri: str) -> UnitRejected:
    """The rejection of a file that no decoder makes sense of."""
    return UnitRejected(Reason.AUDIO_UNDECODABLE, f"{uri} holds nothing that can be decoded as audio")


class _Input:
    """A binary stream as FFmpeg may use it: nothing is raised into C, trouble is kept for `check`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._trouble: Exception | None = None
        self.seek(0)

    def is_empty(self) -> bool:
        """Whether there is not a single byte; rewinds."""
        first = self.read(1)
        self.seek(0)
        return not first

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end and after trouble."""
        if self._trouble is not None:
            return b""
        try:
            return self._stream.read(size)
        except (OSError, UnitError) as error:
            self._trouble = error
            return b""

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move as files do; -1 for a place that no file has, such as damaged headers point to."""
        try:
            return self._stream.seek(offset, whence)
        except (ValueError, OverflowError):
            return -1
        except OSError as error:
            if error.errno != errno.EINVAL:
                self._trouble = error
            return -1

    def tell(self) -> int:
        """The position in bytes."""
        return self._stream.tell()

    def check(self, uri: str) -> None:
        """Raise what reading ran into, if anything."""
        if isinstance(self._trouble, UnitError):
            raise self._trouble
        if self._trouble is not None:
            raise UnitFailed(
                Reason.AUDIO_UNAVAILABLE, f"{uri} cannot be read just now: {self._trouble}"
            ) from self._trouble
