"""Results in Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from volery.artifacts.gcs_client import Client, Crc32c, Gcs, GcsError, Kind, Place
from volery.artifacts.names import FOLDER, artifact_of, shown, token_of
from volery.artifacts.store import Stored
from volery.settings import ArtifactSettings
from volery.units import ArtifactsUnavailable, ConfigurationError, Reason, StoreError, UnitFailed, VoleryError

_ROLES = {
    "written": "roles/storage.objectCreator and roles/storage.objectViewer",
    "read": "roles/storage.objectViewer",
    "listed": "roles/storage.objectViewer",
    "looked for": "roles/storage.objectViewer",
    "removed": "roles/storage.objectUser",
}
# Under one name for all workers: this needs no right to remove it again.
_CHECK = ".volery-check"
_PAGE = 1000


class GcsResults:
    """Keeps result documents in a bucket, as `<prefix>/results/<two characters>/<token>.json`."""

    def __init__(self, place: Place, settings: ArtifactSettings) -> None:
        self._bucket = place.bucket
        self._prefix = f"{place.name.strip('/')}/" if place.name.strip("/") else ""
        self._gcs = Gcs(settings)

    def write(self, token: str, document: bytes) -> str:
        """Write what nobody wrote under this name before; see `ResultStore.write`."""
        artifact = artifact_of(token)
        try:
            self._write(artifact, document)
        except GcsError as error:
            kind = UnitFailed if error.kind in (Kind.CHANGED, Kind.REFUSED) else ArtifactsUnavailable
            raise kind(Reason.PUBLISH_FAILED, self._said("written", artifact, error)) from error
        return artifact

    def read(self, artifact: str) -> bytes:
        """The document, compared with the checksum that is stored with it; see `ResultStore.read`."""
        if token_of(artifact) is None:
            raise StoreError(f"{shown(artifact)} is not the name of a result")

        def read(client: Client, how: dict[str, Any]) -> bytes:
            blob = self._blob(client, artifact)
            return bytes(blob.download_as_bytes(checksum="crc32c", **how))

        with self._told("read", artifact):
            return self._gcs.call(read)

    def stored(self) -> Iterator[Stored]:
        """Results, a page at a time; see `ResultStore.stored`."""
        pages: Iterator[Any] = iter(())

        def first_page(client: Client, how: dict[str, Any]) -> list[Any] | None:
            nonlocal pages
            prefix, fields = self._prefix + FOLDER, "items(name,size,updated),nextPageToken"
            listing = client.list_blobs(self._bucket, prefix=prefix, fields=fields, page_size=_PAGE, **how)
            pages = iter(listing.pages)
            return next_page(client, how)

        def next_page(client: Client, how: dict[str, Any]) -> list[Any] | None:
            page = next(pages, None)
            return None if page is None else list(page)

        with self._told("listed", FOLDER):
            page = self._gcs.call(first_page)
            while page is not None:
                yield from (found for blob in page if (found := self._as_stored(blob)) is not None)
                page = self._gcs.call(next_page)

    def _as_stored(self, blob: Any) -> Stored | None:
        name = str(blob.name).removeprefix(self._prefix)
        token = token_of(name)
        return Stored(name, token, int(blob.size), blob.updated.timestamp()) if token is not None else None

    def holds(self, name: str) -> bool:
        """Look for an object; see `ResultStore.holds`."""
        if token_of(name) is None:
            return False

        def look(client: Client, how: dict[str, Any]) -> bool:
            return bool(self._blob(client, name).exists(**how))

        with self._told("looked for", name):
            return self._gcs.call(look)

    def remove(self, name: str) -> bool:
        """Remove an object; see `ResultStore.remove`."""
        if token_of(name) is None:
            raise StoreError(f"{shown(name)} is not the name of a result")

        def remove(client: Client, how: dict[str, Any]) -> None:
            self._blob(client, name).delete(**how)

        try:
            self._gcs.call(remove)
        except GcsError as error:
            if error.kind is Kind.MISSING:
                return False
            raise self._store_error("removed", name, error) from error
        return True

    def check(self) -> None:
        """Write an object that stays, or learn that it is there and might be written; see `ResultStore.check`."""
        try:
            self._create(_CHECK, b"")
        except GcsError as error:
            if error.kind is not Kind.CHANGED:
                raise self._store_error("written", _CHECK, error) from error

    def _write(self, artifact: str, document: bytes) -> None:
        try:
            stored = self._create(artifact, document)
        except GcsError as error:
            if error.kind is not Kind.CHANGED:
                raise
            # An earlier request of this very write may have been heard, and only its answer lost.
            stored = self._checksum(artifact)
        if stored != Crc32c(document).text():
            raise GcsError(Kind.CHANGED, "another document has this name already")

    def _create(self, name: str, content: bytes) -> str | None:
        """Create an object, which the service compares with a checksum; the checksum of what is there now."""

        def create(client: Client, how: dict[str, Any]) -> str | None:
            blob = self._blob(client, name)
            blob.upload_from_string(
                content, content_type="application/json", checksum="crc32c", if_generation_match=0, **how
            )
            return _optional(blob.crc32c)

        return self._gcs.call(create)

    def _blob(self, client: Client, name: str) -> Any:
        return client.bucket(self._bucket).blob(self._prefix + name)

    def _checksum(self, name: str) -> str | None:
        def look(client: Client, how: dict[str, Any]) -> str | None:
            blob = self._blob(client, name)
            blob.reload(**how)
            return _optional(blob.crc32c)

        return self._gcs.call(look)

    @contextmanager
    def _told(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except GcsError as error:
            raise self._store_error(what, name, error) from error

    def _store_error(self, what: str, name: str, error: GcsError) -> VoleryError:
        said = self._said(what, name, error)
        return ConfigurationError(said) if error.kind is Kind.UNUSABLE else StoreError(said)

    def _said(self, what: str, name: str, error: GcsError) -> str:
        if error.kind is Kind.FORBIDDEN:
            why = f"grant this process's service account {_ROLES[what]} on the bucket ({error.message})"
        elif error.kind is Kind.MISSING and what in ("written", "listed"):
            why = f"there is no such bucket; create it, or correct BATCH_PIPELINE_ARTIFACTS_URL ({error.message})"
        elif error.kind is Kind.MISSING:
            why = f"there is no such object or bucket ({error.message})"
        else:
            why = error.message
        return f"gs://{self._bucket}/{self._prefix}{name} cannot be {what}: {why}"


def _optional(value: Any) -> str | None:
    return None if value is None else str(value)
