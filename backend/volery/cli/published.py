"""Published results as commands name them: folders, documents, and artifacts in the cloud."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from volery.artifacts import open_results
from volery.artifacts.uris import local_path, scheme
from volery.cli.exits import UsageError
from volery.settings import ArtifactSettings

if TYPE_CHECKING:
    from volery.referee.cases import Case


def cases_in(
    results: Sequence[str], language: str | None, artifacts: ArtifactSettings, scratch: Path
) -> dict[str, Case]:
    """The units whose results are named, by key; documents in the cloud are fetched into `scratch`.

    Raises:
        UsageError: there are none, one of them cannot be read, or two are of one unit.
        StoreError: the cloud cannot be reached.
    """
    from volery.referee.documents import case_of

    cases: dict[str, Case] = {}
    for path in _documents(results, artifacts, scratch):
        try:
            case = case_of(path, language)
        except (OSError, ValidationError) as error:
            raise UsageError(f"{path} is no result: {_in_words(error)}") from None
        if case.key in cases:
            raise UsageError(f"two results are of the unit {case.key}: name those of one run")
        cases[case.key] = case
    return cases


def _documents(results: Sequence[str], artifacts: ArtifactSettings, scratch: Path) -> Iterator[Path]:
    from volery.bench.gate.runs import RunError, read_run

    for number, name in enumerate(results):
        path = Path(name)
        if scheme(name) == "gs":
            path = scratch / str(number)
            _fetch(name, artifacts, path)
        elif name.startswith("file:"):
            path = Path(local_path(name))
        if path.is_file():
            yield path
            continue
        try:
            yield from read_run(path).results.values()
        except RunError as error:
            raise UsageError(str(error)) from error


def _fetch(url: str, artifacts: ArtifactSettings, folder: Path) -> None:
    store = open_results(url, artifacts)
    folder.mkdir()
    for one in store.stored():
        if one.token is not None:
            (folder / f"{one.token}.json").write_bytes(store.read(one.name))


def _in_words(error: OSError | ValidationError) -> str:
    """Without its own words: they may quote the document."""
    if isinstance(error, ValidationError):
        return f"{error.error_count()} fields cannot be read"
    return str(error.strerror)
