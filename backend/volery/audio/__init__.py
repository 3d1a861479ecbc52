"""Bytes in, 16 kHz mono float32 out, or a typed reason why not."""

from volery.audio.decoding import Decoded, decode, probe_seconds

__all__ = ["Decoded", "decode", "probe_seconds"]
