"""Google Cloud Storage in this process: an emulator, and a bucket in it as tests reach past the code under test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from http.server import ThreadingHTTPServer

import pytest
from gcp_storage_emulator.handlers.buckets import create_bucket
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage
from google.cloud import storage


@dataclass(frozen=True)
class Bucket:
    """A bucket that a test may fill and look into."""

    name: str
    held: Storage

    def grow_old(self, days: float) -> None:
        """Let every object have been written so much earlier."""
        for facts in self.held.objects[self.name].values():
            written = datetime.fromisoformat(facts["updated"]) - timedelta(days=days)
            facts["updated"] = written.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def put(self, name: str, content: bytes, content_encoding: str | None = None) -> str:
        """Write an object; its URI."""
        blob = self._bucket().blob(name, chunk_size=1 << 18)  # what is sent in one piece, the emulator takes for text
        blob.content_encoding = content_encoding
        blob.upload_from_string(content, content_type="application/octet-stream")
        return self.uri(name)

    def get(self, name: str) -> bytes:
        """What an object holds."""
        return bytes(self._bucket().blob(name).download_as_bytes())

    def delete(self, name: str) -> None:
        """Remove an object."""
        self._bucket().blob(name).delete()

    def names(self) -> list[str]:
        """The names of all objects."""
        return sorted(blob.name for blob in self._bucket().list_blobs())

    def uri(self, name: str = "") -> str:
        """The URI of an object, or of the bucket."""
        return f"gs://{self.name}/{name}"

    def _bucket(self) -> storage.Bucket:
        return storage.Client(project="test").bucket(self.name)


@contextmanager
def emulated_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket in an emulator that this process and its children take for Google Cloud Storage."""
    held = Storage(use_memory_fs=True)
    create_bucket("volery-test", held)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(RequestHandler, held))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
    try:
        yield Bucket("volery-test", held)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
