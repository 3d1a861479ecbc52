"""Which units belong to a sample: told from the key alone, so that a fleet samples evenly and repeatably."""

from __future__ import annotations

import hashlib

_BYTES = 8


def sampled(key: str, share: float, purpose: str) -> bool:
    """Whether a unit is in the sample of a share between 0 and 1 of all units.

    A larger share's sample holds that of every smaller one. Samples of different purposes are
    independent of each other.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=_BYTES, person=purpose.encode()).digest()
    return int.from_bytes(digest) < share * (1 << 8 * _BYTES)
