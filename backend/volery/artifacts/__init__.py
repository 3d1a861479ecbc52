"""Where audio comes from and where results go."""

from __future__ import annotations

from pathlib import Path

from volery.artifacts.local import LocalResults, LocalSource
from volery.artifacts.store import AudioSource, ResultStore, SourceFile
from volery.artifacts.uris import SUPPORTED, local_path, scheme
from volery.units import ConfigurationError

__all__ = ["AudioSource", "ResultStore", "SourceFile", "open_results", "open_source"]


def open_source() -> AudioSource:
    """The source of every kind of audio URI that is supported."""
    return LocalSource()


def open_results(url: str) -> ResultStore:
    """The store of results behind a URL. It is not touched before it is used.

    Raises:
        ConfigurationError: the URL is of no supported kind; the message names those that are.
    """
    if scheme(url) != "file":
        raise ConfigurationError(f"results cannot go to a {scheme(url) or 'relative'} URL; supported: {SUPPORTED}")
    try:
        return LocalResults(Path(local_path(url)))
    except ValueError as error:
        raise ConfigurationError(f"the URL of the results cannot be used: {error}") from error
