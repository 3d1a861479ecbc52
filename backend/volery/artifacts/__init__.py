"""Where audio comes from and where results go."""

from __future__ import annotations

from pathlib import Path

from volery.artifacts.gcs_audio import GcsSource
from volery.artifacts.gcs_client import Place
from volery.artifacts.gcs_results import GcsResults
from volery.artifacts.local import LocalResults, LocalSource
from volery.artifacts.store import AudioSource, ResultStore, SourceFile, Stored
from volery.artifacts.uris import SUPPORTED, bucket_and_name, local_path, scheme
from volery.settings import ArtifactSettings
from volery.units import ConfigurationError

__all__ = ["AudioSource", "ResultStore", "SourceFile", "Stored", "open_results", "open_source"]


def open_source(settings: ArtifactSettings | None = None) -> AudioSource:
    """The source of every kind of audio URI that is supported; without settings, as the environment has them."""
    return _EverySource(settings or ArtifactSettings())


def open_results(url: str, settings: ArtifactSettings | None = None) -> ResultStore:
    """The store of results behind a URL. It is not touched before it is used.

    Without settings, Google Cloud Storage is reached as the environment says.

    Raises:
        ConfigurationError: the URL is of no supported kind; the message names those that are.
    """
    kind = scheme(url)
    if kind not in ("file", "gs"):
        raise ConfigurationError(f"results cannot go to a {kind or 'relative'} URL; supported: {SUPPORTED}")
    try:
        if kind == "file":
            return LocalResults(Path(local_path(url)))
        return GcsResults(Place(*bucket_and_name(url)), settings or ArtifactSettings())
    except ValueError as error:
        raise ConfigurationError(f"the URL of the results cannot be used: {error}") from error


class _EverySource:
    """Hands each URI to the source that its scheme names; local files answer for what no source knows."""

    def __init__(self, settings: ArtifactSettings) -> None:
        self._local = LocalSource()
        self._gcs = GcsSource(settings)

    def open(self, uri: str, max_bytes: int) -> SourceFile:
        """Open the file behind a URI; see `AudioSource.open`."""
        source: AudioSource = self._gcs if scheme(uri) == "gs" else self._local
        return source.open(uri, max_bytes)
