"""`volery results`: what units came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from volery.artifacts import open_results
from volery.artifacts.store import ResultStore
from volery.cli.environment import load_settings
from volery.cli.exits import ExitCode, NoResultError, OutputError, UnknownUnitError, UsageError, exit_code_of
from volery.cli.formats import FORMATS_HELP, make_folder, parse_formats, write_export, write_file
from volery.cli.output import say, say_error, write, write_json
from volery.cli.states import parse_states
from volery.cli.stores import with_store
from volery.export import Format, export, file_name
from volery.queue import JobStore, UnitRecord
from volery.results import UnitReport, UnitResult
from volery.units import StoreError, UnitState, VoleryError


def results(
    key: Annotated[str | None, typer.Option(help="One unit, in whatever state it is.")] = None,
    formats: Annotated[str, typer.Option("--format", help=FORMATS_HELP)] = Format.JSON.value,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write to; without it, results are printed.")
    ] = None,
    states: Annotated[
        str, typer.Option("--state", help="States of the units, comma-separated; others than done have only JSON.")
    ] = UnitState.DONE.value,
) -> None:
    """Print or write the results of units: as JSON, one object for a --key, else a line for each unit.

    The object of a unit holds its key, state and attempts, the reason and the error where there
    is one, and the fields of its result where it is done.
    """
    wanted = parse_formats(formats)
    if output is None and len(wanted) > 1:
        raise UsageError("several formats cannot be printed together; name a folder with -o")
    if output is not None:
        make_folder(output)
    if key is None and output is None and wanted[0] in (Format.SRT, Format.VTT):
        raise UsageError(
            f"{wanted[0]} subtitles of several units make no file: name one unit with --key, or a folder with -o"
        )
    artifacts = load_settings().artifacts
    delivery = _Delivery(open_results(artifacts.artifacts_url, artifacts), wanted, output, headed=key is None)
    if key is not None:
        with_store(lambda store: _one(store, key, delivery))
        return
    wanted_states = parse_states(states)
    if worst := with_store(lambda store: _every(store, wanted_states, delivery)):
        raise typer.Exit(worst)


@dataclass(frozen=True)
class _Delivery:
    """Where results come from, as what they are wanted, and where they go."""

    results: ResultStore
    formats: Sequence[Format]
    output: Path | None
    headed: bool = False
    """Whether text that is printed has the unit's key above it; the other formats say it themselves."""

    def deliver(self, record: UnitRecord, *, indent: int | None = None) -> None:
        """Write or print one unit."""
        document = self._document(record)
        for format in self.formats:
            if format is Format.JSON:
                self._deliver_json(merged(record, document), record.unit.key, indent)
            elif document is None:
                raise NoResultError(f"{record.unit.key} has no result: {_standing(record)}")
            else:
                self._deliver_export(_parsed(document, record), format)

    def _document(self, record: UnitRecord) -> dict[str, Any] | None:
        if record.state is not UnitState.DONE or record.artifact is None:
            return None
        try:
            return _fields(self.results.read(record.artifact), record)
        except StoreError as error:
            raise StoreError(f"the result of {record.unit.key}: {error}") from error

    def _deliver_json(self, document: dict[str, Any], key: str, indent: int | None) -> None:
        if self.output is None:
            write_json(document, indent=indent)
        else:
            write_file(
                self.output / file_name(key, Format.JSON), json.dumps(document, ensure_ascii=False, indent=1) + "\n"
            )

    def _deliver_export(self, result: UnitResult, format: Format) -> None:
        if self.output is None:
            heading = f"# {result.key}\n\n" if self.headed and format is Format.TXT else ""
            write(heading + export(result, format) + ("\n" if heading else ""))
        else:
            write_export(result, format, self.output / file_name(result.key, format))


def _fields(document: bytes, record: UnitRecord) -> dict[str, Any]:
    """The fields of a result, of whatever version."""
    with suppress(ValueError, RecursionError):
        fields = json.loads(document)
        if isinstance(fields, dict) and fields.get("key") == record.unit.key and "class" in fields:
            return fields
    raise StoreError(
        f"{record.artifact} is damaged, {len(document)} bytes that are no result of this unit: bring the object back "
        f"from a backup, or transcribe the unit again with `volery requeue`"
    )


def merged(record: UnitRecord, document: dict[str, Any] | None) -> dict[str, Any]:
    """The one object that says everything of a unit: its report, and its result's own fields."""
    report = UnitReport(
        key=record.unit.key,
        state=record.state,
        reason=record.reason,
        error=record.error,
        attempts=record.attempts,
        owner=record.unit.owner,
    ).model_dump(mode="json", exclude_none=True)
    return report | (document or {}) | report


def _parsed(document: dict[str, Any], record: UnitRecord) -> UnitResult:
    try:
        return UnitResult.model_validate(document)
    except ValidationError as error:
        raise StoreError(
            f"the result of {record.unit.key} is not one that this version reads "
            f"({error.error_count()} fields differ): use the version that made it, or --format json"
        ) from error


def _standing(record: UnitRecord) -> str:
    return f"it is {record.state}" + (f": {record.reason}: {record.error}" if record.reason else "")


async def _one(store: JobStore, key: str, delivery: _Delivery) -> None:
    record = await store.get(key)
    if record is None:
        raise UnknownUnitError(f"no unit has the key {key!r}")
    delivery.deliver(record, indent=2)


async def _every(store: JobStore, states: Sequence[UnitState], delivery: _Delivery) -> ExitCode:
    """Deliver units one by one, saying which cannot be; the gravest of the codes."""
    delivered, worst = 0, ExitCode.OK
    async for record in store.records(states=states):
        try:
            delivery.deliver(record)
            delivered += 1
        except (UsageError, OutputError):
            raise
        except VoleryError as error:
            say_error(str(error))
            worst = max(worst, exit_code_of(error))
    if delivery.output is not None:
        say(f"{delivered} units written to {delivery.output}", "green")
    return worst
