"""`volery submit`: put units into the queue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from volery.cli.exits import UsageError
from volery.cli.inputs import Collected, collect
from volery.cli.output import messages, say, write, write_json
from volery.cli.stores import with_store
from volery.queue import JobStore, Submitted

_SHOWN = 20


def submit(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Audio files, folders (searched for audio), globs, URIs, manifests (.jsonl), or - for a manifest "
            "on standard input.",
        ),
    ],
    key: Annotated[str | None, typer.Option(help="Key of the unit; for a single one.")] = None,
    owner: Annotated[str | None, typer.Option(help="Owner; owners take turns. (default: default)")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first. (default: 0)")] = None,
    stream: Annotated[str | None, typer.Option(help="Recording that the units are parts of, in this order.")] = None,
    num_speakers: Annotated[int | None, typer.Option(help="How many people speak, if known.")] = None,
    language: Annotated[str | None, typer.Option(help="Language spoken, such as en, if known.")] = None,
    clip_start: Annotated[float | None, typer.Option(help="Start of the part to transcribe, in seconds.")] = None,
    clip_end: Annotated[float | None, typer.Option(help="End of the part to transcribe, in seconds.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Start units anew whose key has other audio.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Submit audio to the queue: all of it, or none where something is wrong.

    Prints the key of every unit. The same key with the same audio again changes nothing.
    """
    options = {
        "key": key,
        "owner": owner,
        "priority": priority,
        "stream": stream,
        "num_speakers": num_speakers,
        "language": language,
        "clip": _clip(clip_start, clip_end),
    }
    with messages().status("looking for audio"):
        found = collect(paths, {name: value for name, value in options.items() if value is not None})
    if key is not None and len(found.units) > 1:
        raise UsageError(f"--key names one unit, but there are {len(found.units)}")

    async def add(store: JobStore) -> Submitted:
        return await store.submit(found.units, replace=replace)

    with messages().status(f"submitting {len(found.units)} units"):
        submitted = with_store(add, create=True)
    (_print_json if as_json else _print)(found, submitted)


def _clip(start_s: float | None, end_s: float | None) -> dict[str, Any] | None:
    if start_s is None and end_s is None:
        return None
    return {"start_s": start_s or 0.0, "end_s": end_s}


def _print_json(found: Collected, submitted: Submitted) -> None:
    write_json(
        {
            "new": submitted.new,
            "replaced": submitted.replaced,
            "unchanged": submitted.unchanged,
            "keys": [unit.key for unit in found.units],
            "skipped": [str(path) for path in found.skipped],
        }
    )


def _print(found: Collected, submitted: Submitted) -> None:
    """Keys on standard output, all of them where a program reads; the rest is for a person."""
    shown = found.units[:_SHOWN] if sys.stdout.isatty() else found.units
    write("".join(f"{unit.key}\n" for unit in shown))
    if len(shown) < len(found.units):
        say(f"… and {len(found.units) - len(shown)} more")
    if found.skipped:
        say(f"skipped {_files(found.skipped)}")
    counts = {"new": submitted.new, "replaced": submitted.replaced, "unchanged": submitted.unchanged}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    say(f"{len(found.units)} submitted: {said}", "green")


def _files(paths: list[Path]) -> str:
    names = ", ".join(str(path) for path in paths[:5]) + (" …" if len(paths) > 5 else "")
    return f"{len(paths)} file{'s' if len(paths) > 1 else ''} hidden or not named like audio: {names}"
