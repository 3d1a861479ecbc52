"""File names for keys, which submitters choose freely."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_DIGEST_LENGTH = 12
_DIGESTED = re.compile(rf".*-[0-9a-f]{{{_DIGEST_LENGTH}}}")
# Windows gives these to devices, whatever follows a first dot.
_DEVICES = re.compile(r"(?:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(?:\..*)?", re.IGNORECASE)


def file_name(key: str, extension: str) -> str:
    """A name for the exported result of `key`: never a path, and never the same for two keys.

    A plain key (up to 100 ASCII letters, digits, `.`, `_` and `-`) is kept as it is. Any other is
    shortened to what of it is plain, with a digest of the whole. Keys that look as if they had
    such a digest get one too. Plain keys that differ in case alone have names that do the same.
    """
    if _PLAIN.fullmatch(key) and not _DIGESTED.fullmatch(key) and not _DEVICES.fullmatch(key):
        return f"{key}.{extension}"
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", key)[:60].strip("_-") or "unit"
    return f"{readable}-{digest(key)}.{extension}"


def digest(key: str) -> str:
    """A short digest that tells keys apart."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
