"""Keeping results on local disks."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from artifacts.privileges import as_nobody
from volery.artifacts import ResultStore, open_results
from volery.units import ConfigurationError, Reason, StoreError, UnitFailed

TOKEN = "3f" + "0a" * 15


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "some where" / "artifacts"


@pytest.fixture
def results(root: Path) -> ResultStore:
    return open_results(root.as_uri())


def files_under(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_document_is_read_back_under_the_name_that_writing_gave(results: ResultStore) -> None:
    assert results.read(results.write(TOKEN, b"{}")) == b"{}"


def test_the_token_alone_names_the_file(results: ResultStore, root: Path) -> None:
    artifact = results.write(TOKEN, b'{"key": "../../x"}')
    assert artifact == f"results/3f/{TOKEN}.json"
    assert files_under(root.parent) == [f"artifacts/{artifact}"]


def test_a_plain_path_names_a_store_as_well(tmp_path: Path) -> None:
    artifact = open_results(str(tmp_path)).write(TOKEN, b"{}")
    assert (tmp_path / artifact).read_bytes() == b"{}"


def test_opening_a_store_touches_nothing(results: ResultStore, root: Path) -> None:
    assert not root.parent.exists()


@pytest.mark.parametrize("token", ["", "a", "../../x", "a/b", "ab\0", "ab.json", "äöü", "ab\n", "a" * 200])
def test_a_token_that_is_no_plain_name_is_refused(results: ResultStore, root: Path, token: str) -> None:
    with pytest.raises(UnitFailed) as caught:
        results.write(token, b"{}")
    assert caught.value.reason is Reason.PUBLISH_FAILED
    assert not root.exists()


@pytest.mark.parametrize(
    "artifact",
    [
        "",
        "/etc/passwd",
        "../secret.json",
        "results/../../secret.json",
        "results/3f/../../../secret.json",
        f"results/aa/{TOKEN}.json",
        f"results/3f/{TOKEN}.json\n",
        f"results/3f/{TOKEN}.json/..",
        "results/3f/.3f.tmp",
    ],
)
def test_a_name_that_no_write_gives_is_not_read(results: ResultStore, root: Path, artifact: str) -> None:
    results.write(TOKEN, b"{}")
    (root.parent / "secret.json").write_bytes(b"secret")
    with pytest.raises(StoreError, match="not the name of a result"):
        results.read(artifact)


def test_reading_a_result_that_is_not_there_is_told(results: ResultStore) -> None:
    with pytest.raises(StoreError, match="No such file"):
        results.read(f"results/3f/{TOKEN}.json")


def test_a_reader_sees_all_of_a_document_or_nothing(results: ResultStore) -> None:
    documents = [b"a" * 3_000_000, b"b" * 10]
    artifact = results.write(TOKEN, documents[0])
    started = threading.Event()

    def write_again_and_again() -> None:
        for turn in range(60):
            results.write(TOKEN, documents[turn % 2])
            started.set()

    writer = threading.Thread(target=write_again_and_again)
    writer.start()
    started.wait()
    while writer.is_alive():
        assert results.read(artifact) in documents
    writer.join()


def test_document_and_folder_are_on_disk_before_writing_returns(
    results: ResultStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.check()
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append(f"sync {'file' if path.suffix == '.tmp' else path.relative_to(root)}")
        fsync(descriptor)

    def noted_replace(path: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(path, target)

    monkeypatch.setattr("volery.artifacts.local.os.fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    results.write(TOKEN, b"{}")
    assert steps == ["sync .", "sync results", "sync file", "rename", "sync results/3f"]


def test_a_disk_that_fills_up_fails_the_publication_and_leaves_nothing_behind(results: ResultStore, root: Path) -> None:
    artifact = results.write(TOKEN, b"first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(UnitFailed) as caught:
            results.write(TOKEN, b"x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.reason is Reason.PUBLISH_FAILED
    assert files_under(root) == [artifact]
    assert results.read(artifact) == b"first"


def test_a_folder_that_may_not_be_written_fails_publication_and_check(open_folder: Path) -> None:
    results = open_results(str(open_folder))
    results.check()
    open_folder.chmod(0o555)
    with as_nobody():
        with pytest.raises(UnitFailed, match="Permission denied") as caught:
            results.write(TOKEN, b"{}")
        with pytest.raises(StoreError, match="Permission denied"):
            results.check()
    assert caught.value.reason is Reason.PUBLISH_FAILED


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    results = open_results(str(tmp_path / "taken"))
    with pytest.raises(StoreError, match="cannot be written"):
        results.check()
    with pytest.raises(UnitFailed, match="publish_failed"):
        results.write(TOKEN, b"{}")


def test_a_check_leaves_nothing_behind(results: ResultStore, root: Path) -> None:
    results.check()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["gs://bucket/prefix", "https://user:hunter2@host/x", "relative/folder", "", "file://host/x"]
)
def test_a_url_of_another_kind_is_refused_saying_what_is_supported(url: str) -> None:
    with pytest.raises(ConfigurationError, match="file:///") as caught:
        open_results(url)
    assert "hunter2" not in str(caught.value)
