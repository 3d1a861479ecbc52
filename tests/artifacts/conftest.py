"""Where artifacts are: folders, a bucket in an emulator, and a service that makes trouble."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from artifacts.gcs_emulator import Bucket, emulated_bucket
from artifacts.gcs_service import Service, fake_service
from artifacts.places import Folder, Place


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine may look into."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket in an emulator."""
    with emulated_bucket(monkeypatch) as bucket:
        yield bucket


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Google Cloud Storage, with trouble where a test wants it."""
    with fake_service(monkeypatch) as service:
        yield service


@pytest.fixture(params=["local", "gcs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty folder, and an empty bucket."""
    if request.param == "local":
        return Folder(tmp_path / "some where")
    bucket: Place = request.getfixturevalue("bucket")
    return bucket
