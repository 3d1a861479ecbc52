"""Published results as commands name them: folders, documents, and artifacts in the cloud."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from volery.artifacts import open_results
from volery.artifacts.uris import local_path, scheme
from volery.cli.exits import UsageError
from volery.settings import ArtifactSettings

if TYPE_CHECKING:
    from volery.referee.cases import Case
    from volery.referee.report import Refused


@dataclass
class Named:
    """What is behind the names: units by key, and the documents that are none, by path."""

    cases: dict[str, Case] = field(default_factory=dict)
    unreadable: list[Refused] = field(default_factory=list)


def named_results(results: Sequence[str], language: str | None, artifacts: ArtifactSettings, scratch: Path) -> Named:
    """The units whose results are named; documents in the cloud are fetched into `scratch`.

    Raises:
        UsageError: there are none, or two are of one unit.
        StoreError: the cloud cannot be reached.
    """
    from volery.referee.documents import case_of

    named = Named()
    for path in _documents(results, artifacts, scratch, named):
        try:
            case = case_of(path, language)
        except (OSError, ValidationError) as error:
            named.unreadable.append(_refused(path, _in_words(error)))
            continue
        if case.key in named.cases:
            raise UsageError(f"two results are of the unit {case.key}: name those of one run")
        named.cases[case.key] = case
    if not named.cases:
        raise UsageError(named.unreadable[0].message if named.unreadable else "no result is named")
    return named


def _documents(results: Sequence[str], artifacts: ArtifactSettings, scratch: Path, named: Named) -> Iterator[Path]:
    from volery.bench.gate.runs import RunError, read_run

    for number, name in enumerate(results):
        path = _fetched(name, artifacts, scratch / str(number))
        if path.is_file():
            yield path
            continue
        try:
            run = read_run(path)
        except RunError as error:
            raise UsageError(str(error)) from error
        named.unreadable += [_refused(one.path, one.why) for one in run.unreadable]
        yield from run.results.values()


def _refused(path: Path, why: str) -> Refused:
    from volery.referee.cases import RefereeReason
    from volery.referee.report import Refused

    return Refused(str(path), RefereeReason.RESULT, f"{path} is no result: {why}")


def _fetched(name: str, artifacts: ArtifactSettings, scratch: Path) -> Path:
    """Where the documents lie, once those in the cloud are here.

    Raises:
        UsageError: nothing can be read by such a URL.
    """
    kind = scheme(name)
    if kind == "gs":
        _fetch(name, artifacts, scratch)
        return scratch
    if kind == "file":
        return Path(local_path(name))
    if kind and "://" in name:
        raise UsageError(f"{name}: only folders, documents, file:///… and gs://bucket/… can be read")
    return Path(name)


def _fetch(url: str, artifacts: ArtifactSettings, folder: Path) -> None:
    store = open_results(url, artifacts)
    folder.mkdir()
    for one in store.stored():
        if one.token is not None:
            (folder / f"{one.token}.json").write_bytes(store.read(one.name))


def _in_words(error: OSError | ValidationError) -> str:
    """Without its own words: they may quote the document."""
    if isinstance(error, ValidationError):
        wrong = [".".join(map(str, one["loc"])) for one in error.errors(include_input=False)]
        return f"wrong or missing: {', '.join(filter(None, wrong))}" if any(wrong) else "it is not JSON"
    return str(error.strerror)
