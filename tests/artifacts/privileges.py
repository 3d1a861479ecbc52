"""Permissions that bite even where the tests run as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65_534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to open everything, for a while; any other user has no such right anyway."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
