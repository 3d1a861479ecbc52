"""The results of one run: a folder of documents, found by the keys of their units."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from volery.results import SegmentRecord, TurnRecord, WordRecord
from volery.units import ResultClass, UnitState, VoleryError

_LENIENT = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
"""A candidate's version may write fields that this one does not know."""


class RunError(VoleryError):
    """A folder does not hold the results of one run."""


class _Word(WordRecord):
    model_config = _LENIENT


class _Turn(TurnRecord):
    model_config = _LENIENT


class _Segment(SegmentRecord):
    model_config = _LENIENT


class Result(BaseModel):
    """What the gate reads of a result document."""

    model_config = _LENIENT

    key: str
    result_class: ResultClass = Field(alias="class")
    words: tuple[_Word, ...]
    turns: tuple[_Turn, ...]
    speech: tuple[_Segment, ...]


class _Head(BaseModel):
    """What says whose document it is; only those that `volery results` writes have a state."""

    model_config = _LENIENT

    key: str
    state: UnitState = UnitState.DONE


@dataclass(frozen=True)
class Unreadable:
    """A document that is no result, and why."""

    path: Path
    why: str


@dataclass
class Run:
    """A folder's documents. Results stay on disk until they are compared: there may be many thousands.

    `results` are paths by key; `unfinished` has the state of each unit whose document says that it
    has no result, as `volery results --state rejected` writes them.
    """

    folder: Path
    results: dict[str, Path] = field(default_factory=dict)
    unfinished: dict[str, UnitState] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)

    def result(self, key: str) -> Result:
        """The result of a unit.

        Raises:
            RunError: the document changed since the folder was read.
        """
        path = self.results[key]
        try:
            return Result.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise RunError(f"{path} changed while it was compared: {_in_words(error)}") from error


def read_run(folder: Path) -> Run:
    """Look for documents, `*.json`, in a folder and those below it: what `volery results -o` wrote
    there, a folder of artifacts, or the results of one arm of `volery bench`.

    Raises:
        RunError: there is no such folder, it holds no result, or two documents are of one unit.
    """
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}")
    run, taken = Run(folder), dict[str, Path]()
    for path in sorted(folder.rglob("*.json")):
        try:
            key = _take(path, run)
        except (OSError, ValueError) as error:
            run.unreadable.append(Unreadable(path, _in_words(error)))
            continue
        if taken.setdefault(key, path) is not path:
            raise RunError(
                f"{taken[key]} and {path} are both of the unit {key}: name the folder of one run, or of one arm; "
                "of artifacts, `volery results -o DIR` writes those that were committed"
            )
    if not run.results:
        raise RunError(f"{folder} holds no result{_first_of(run.unreadable)}")
    return run


def _take(path: Path, run: Run) -> str:
    """Note a document and return the key of its unit.

    Raises:
        OSError, ValueError: it cannot be read, or is no document of a unit.
    """
    content = path.read_bytes()
    head = _Head.model_validate_json(content)
    if head.state is UnitState.DONE:
        Result.model_validate_json(content)
        run.results[head.key] = path
    else:
        run.unfinished[head.key] = head.state
    return head.key


def _in_words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']}" if place else first["msg"]
    return str(getattr(error, "strerror", None) or error)


def _first_of(unreadable: list[Unreadable]) -> str:
    return f"; {unreadable[0].path} is none: {unreadable[0].why}" if unreadable else ""
