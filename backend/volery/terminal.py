"""Text that is shown at a terminal, which takes some characters for commands."""

from __future__ import annotations

_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they show what follows in another order
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS) if chr(code) not in "\n\t"}


def plain(text: str) -> str:
    """Text that cannot steer a terminal: each control character, those of direction too, is U+FFFD."""
    return text.translate(_CONTROLS)
