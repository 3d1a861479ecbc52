"""The names of results: made from lease tokens alone, never from keys."""

from __future__ import annotations

import re

from volery.units import Reason, UnitFailed

FOLDER = "results/"
"""What the name of every result starts with."""

_TOKEN = re.compile(r"[0-9A-Za-z]{2,128}")
_ARTIFACT = re.compile(r"results/([0-9A-Za-z]{2})/(\1[0-9A-Za-z]*)\.json")


def artifact_of(token: str) -> str:
    """The name of the result that is written under a lease token: `results/<two characters>/<token>.json`.

    Raises:
        UnitFailed: `publish_failed` where the token is no plain name.
    """
    if not _TOKEN.fullmatch(token):
        raise UnitFailed(Reason.PUBLISH_FAILED, "the lease token is not made of letters and digits alone")
    return f"{FOLDER}{token[:2]}/{token}.json"


def token_of(artifact: str) -> str | None:
    """The lease token that a result is named after; None where this is not the name of a result."""
    found = _ARTIFACT.fullmatch(artifact)
    return found.group(2) if found else None


def shown(name: str) -> str:
    """A name or path as an error may show it: printable, and not for pages."""
    text = name.encode(errors="backslashreplace").decode()
    return repr(text if len(text) <= 300 else f"{text[:300]}…")
