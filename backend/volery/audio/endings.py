"""What FFmpeg does not tell: whether a WAV or Ogg file breaks off before its own end."""

from __future__ import annotations

import os
from typing import BinaryIO

# Sizes at or above this stand in headers of recorders that could not go back to fill them in.
_PLACEHOLDER = 0x7FFF_0000
_MAX_OGG_PAGE = 65_307
_OGG_END_OF_STREAM = 0x04


def riff_breaks_off(stream: BinaryIO) -> bool:
    """Whether a RIFF file's `data` chunk goes beyond the end of the file. Moves the stream."""
    size = stream.seek(0, os.SEEK_END)
    place = 12
    while place + 8 <= size:
        stream.seek(place)
        header = stream.read(8)
        length = int.from_bytes(header[4:8], "little")
        if header[:4] == b"data":
            return length < _PLACEHOLDER and place + 8 + length > size
        place += 8 + length + length % 2
    return False


def ogg_breaks_off(stream: BinaryIO) -> bool:
    """Whether an Ogg file lacks the end of its last page, or that page does not end a stream.

    The page header is that of RFC 3533, section 6. Moves the stream.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _MAX_OGG_PAGE))
    tail = stream.read(_MAX_OGG_PAGE)
    start = tail.rfind(b"OggS\0")
    if start < 0:
        return False
    header = tail[start : start + 27]
    if len(header) < 27:
        return True
    lacing = tail[start + 27 : start + 27 + header[26]]
    whole = len(lacing) == header[26] and start + 27 + len(lacing) + sum(lacing) <= len(tail)
    return not whole or not header[5] & _OGG_END_OF_STREAM
