"""Keeping results on local disks."""

from __future__ import annotations

import errno
import os
import resource
import threading
from pathlib import Path

import pytest

from artifacts.privileges import as_nobody
from volery.artifacts import ResultStore, open_results
from volery.units import ArtifactsUnavailable, ConfigurationError, Reason, StoreError, UnitFailed

TOKEN = "3f" + "0a" * 15


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "some where" / "artifacts"


@pytest.fixture
def results(root: Path) -> ResultStore:
    return open_results(root.as_uri())


def files_under(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_plain_path_names_a_store_as_well(tmp_path: Path) -> None:
    artifact = open_results(str(tmp_path)).write(TOKEN, b"{}")
    assert (tmp_path / artifact).read_bytes() == b"{}"


def test_a_place_that_is_no_folder_is_not_taken_for_an_empty_one(results: ResultStore, root: Path) -> None:
    with pytest.raises(StoreError, match=r"no folder .*/artifacts; correct BATCH_PIPELINE_ARTIFACTS_URL"):
        list(results.stored())
    root.parent.mkdir()
    root.write_bytes(b"")
    with pytest.raises(StoreError, match="no folder"):
        list(results.stored())


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
        with pytest.raises(ArtifactsUnavailable, match="Permission denied") as caught:
            results.write(TOKEN, b"{}")
        with pytest.raises(StoreError, match="Permission denied"):
            results.check()
    assert caught.value.reason is Reason.PUBLISH_FAILED


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    results = open_results(str(tmp_path / "taken"))
    with pytest.raises(StoreError, match="cannot be written"):
        results.check()
    with pytest.raises(ArtifactsUnavailable, match="publish_failed"):
        results.write(TOKEN, b"{}")


def test_a_full_disk_is_not_the_units_fault(results: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("volery.artifacts.local.os.fsync", full)
    with pytest.raises(ArtifactsUnavailable, match="No space left") as caught:
        results.write(TOKEN, b"{}")
    assert caught.value.reason is Reason.PUBLISH_FAILED


def test_a_document_that_no_file_can_hold_is_the_units_own_trouble(results: ResultStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UnitFailed) as caught:
            results.write(TOKEN, b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not isinstance(caught.value, ArtifactsUnavailable)


def kill_while_writing(results: ResultStore) -> None:
    """Leave behind what a process leaves that is killed before it renames."""
    child = os.fork()
    if not child:
        try:
            Path.replace = lambda *_: os._exit(9)  # type: ignore[method-assign]
            results.write(TOKEN, b"half written")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_what_a_killed_write_leaves_behind_is_listed_without_token_and_can_be_removed(
    results: ResultStore, root: Path
) -> None:
    kill_while_writing(results)
    [left] = results.stored()
    assert (left.token, left.size) == (None, len(b"half written"))
    assert results.remove(left.name)
    assert files_under(root) == []


def test_what_a_killed_check_leaves_behind_is_listed(results: ResultStore, root: Path) -> None:
    root.mkdir(parents=True)
    (root / ".check-0123456789abcdef.tmp").write_bytes(b"volery\n")
    (root / ".check-me.tmp").write_bytes(b"somebody's own")
    assert [(stored.name, stored.token) for stored in results.stored()] == [(".check-0123456789abcdef.tmp", None)]


def test_folders_and_links_are_no_results(results: ResultStore, root: Path) -> None:
    (root / "results/3f" / f"{TOKEN}.json").mkdir(parents=True)
    (root / "results/3f/3fab.json").symlink_to("/etc/passwd")
    assert list(results.stored()) == []


def test_a_check_leaves_nothing_behind(results: ResultStore, root: Path) -> None:
    results.check()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("url", ["https://user:hunter2@host/x", "relative/folder", "", "file://host/x"])
def test_a_url_of_another_kind_is_refused_saying_what_is_supported(url: str) -> None:
    with pytest.raises(ConfigurationError, match="file:///") as caught:
        open_results(url)
    assert "hunter2" not in str(caught.value)
