"""`volery gc`: remove what nobody needs any more, beside workers that run."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.status import Status

from volery.artifacts import ResultStore, Stored, open_results
from volery.cli.environment import load_settings
from volery.cli.exits import UsageError
from volery.cli.output import messages, say, write_json
from volery.cli.stores import opened
from volery.queue.pruning import Age, OldUnit, Pruning, Standing
from volery.settings import Settings

_PAGE = 500
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LEASES = 2  # what is younger than so many leases is never looked at


def gc(
    older_than: Annotated[
        str, typer.Option(help="Prune units and grants that ended longer ago than this: 12h, 30d, 8w.")
    ] = "30d",
    with_results: Annotated[
        bool, typer.Option("--with-results", help="Prune done units as well, and remove their results with them.")
    ] = False,
    safe_age: Annotated[str, typer.Option(help="Leave alone what was written more recently than this.")] = "1d",
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="Remove results of leases that the job store has no record of, too. "
            "Only where no other job store keeps its results in the same place.",
        ),
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this, only say what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Remove results that no unit names and never will, and prune finished units and grants by age.

    A result that no unit names is what a worker wrote whose lease was lost before it could commit,
    or that of a unit that was requeued or replaced. Safe beside running workers. Units that are
    done stay, with their results, unless --with-results is given; even then a unit stays whose
    result is not found.
    """
    settings = load_settings()
    wanted = _wanted(settings, older_than, safe_age, with_results=with_results, unknown=unknown, apply=apply)
    results = open_results(settings.artifacts.artifacts_url, settings.artifacts)
    with messages().status("looking for what may go") as status:
        collected = asyncio.run(_collect(settings, results, wanted, status))
    if as_json:
        write_json({"applied": apply, **asdict(collected)})
    else:
        _say(collected, wanted, older_than, settings.artifacts.artifacts_url)


@dataclass(frozen=True)
class Wanted:
    """What is to be looked for, and whether it is to go. Ages are in seconds."""

    age: Age
    safe_age_s: float
    unknown: bool
    apply: bool


@dataclass
class Collected:
    """What went, or would go.

    `unknown` results are those of leases that the store has no record of; units are `left` whose
    results were not found.
    """

    results_seen: int = 0
    results_unnamed: int = 0
    results_unknown: int = 0
    leftovers: int = 0
    bytes: int = 0
    units: int = 0
    units_results: int = 0
    units_left: int = 0
    grants: int = 0


def parse_age(text: str) -> float:
    """Seconds that an age such as 90s, 12h or 30d stands for.

    Raises:
        UsageError: it is no such thing.
    """
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"{text!r} is no age; write a number and one of {', '.join(_SECONDS)}, such as 30d")
    return float(found[1]) * _SECONDS[found[2]]


def _wanted(
    settings: Settings, older_than: str, safe_age: str, *, with_results: bool, unknown: bool, apply: bool
) -> Wanted:
    age_s, safe_s, least_s = parse_age(older_than), parse_age(safe_age), _LEASES * settings.queue.lease_seconds
    if safe_s < least_s:
        raise UsageError(f"--safe-age must be at least {_LEASES} leases, which are {least_s:g} s")
    if age_s < safe_s:
        # A grant tells whose a result is: it must not go before its result could.
        raise UsageError(f"--older-than must be at least --safe-age, which is {safe_s:g} s")
    return Wanted(Age(age_s, done=with_results), safe_s, unknown, apply)


async def _collect(settings: Settings, results: ResultStore, wanted: Wanted, status: Status) -> Collected:
    """Results first: once its grant is pruned, nothing tells whose a result was."""
    collected = Collected()
    async with opened(settings.queue) as store:
        pruning = store.pruning()
        async for page in _pages(results.stored()):
            await _sweep(page, pruning, results, wanted, collected)
            status.update(f"{collected.results_seen} results looked at")
        async for units in pruning.old_units(wanted.age):
            await _prune_units(units, pruning, results, wanted, collected)
            status.update(f"{collected.units} units to prune")
        async for grants in pruning.old_grants(wanted.age):
            collected.grants += await pruning.delete_grants(grants) if wanted.apply else len(grants)
    return collected


async def _pages(stored: Iterator[Stored]) -> AsyncIterator[list[Stored]]:
    while page := await asyncio.to_thread(lambda: list(islice(stored, _PAGE))):
        yield page


async def _sweep(
    page: Sequence[Stored], pruning: Pruning, results: ResultStore, wanted: Wanted, collected: Collected
) -> None:
    """Remove what of a page no unit names and never will.

    All of the page was there before the job store is asked, and so was the lease that it was
    written under. Its age is one more precaution, for a job store that was put back from a backup.
    """
    before = time.time() - wanted.safe_age_s
    tokens = {one.token: one.name for one in page if one.token is not None}
    standings = await pruning.standings(tokens)
    old = [one for one in page if one.written_at < before]
    leftovers = [one for one in old if one.token is None]
    unnamed = [one for one in old if one.token and standings[one.token] is Standing.UNNAMED]
    unknown = [one for one in old if one.token and standings[one.token] is Standing.UNKNOWN]
    going = [*leftovers, *unnamed, *(unknown if wanted.unknown else ())]
    if wanted.apply:
        await _each(results.remove, [one.name for one in going])
    collected.results_seen += len(tokens)
    collected.leftovers += len(leftovers)
    collected.results_unnamed += len(unnamed)
    collected.results_unknown += len(unknown)
    collected.bytes += sum(one.size for one in going)


async def _prune_units(
    old: Sequence[OldUnit], pruning: Pruning, results: ResultStore, wanted: Wanted, collected: Collected
) -> None:
    """A result goes before its unit. Where it is not found, the unit stays: it may lie in another place."""
    artifacts = await pruning.results_of(old)
    found = await _each(results.remove if wanted.apply else results.holds, artifacts)
    missing = {name for name, was_there in zip(artifacts, found, strict=True) if not was_there}
    going = [unit for unit in old if unit.artifact not in missing]
    collected.units_results += len(artifacts) - len(missing)
    collected.units_left += len(old) - len(going)
    if not wanted.apply:
        collected.units += len(going)
        collected.grants += await pruning.grants_of(going)
        return
    pruned = await pruning.delete_units(going, wanted.age)
    collected.units += pruned.units
    collected.grants += pruned.grants


async def _each(what: Callable[[str], bool], names: Sequence[str]) -> list[bool]:
    return await asyncio.gather(*(asyncio.to_thread(what, name) for name in names))


def _say(collected: Collected, wanted: Wanted, older_than: str, place: str) -> None:
    gone = "removed" if wanted.apply else "to remove"
    pruned = "pruned" if wanted.apply else "to prune"
    unknown = collected.results_unknown if wanted.unknown else 0
    results = collected.results_unnamed + unknown
    say(
        f"{results} of {collected.results_seen} results {gone}, which no unit names, "
        f"and {collected.leftovers} leftovers of writes that broke off: {decimal(collected.bytes)}"
    )
    say(
        f"{collected.units} units, {collected.units_results} results of theirs and {collected.grants} grants "
        f"{pruned}, which ended more than {older_than} ago"
    )
    if collected.units_left:
        say(
            f"{collected.units_left} units left: their results are not in {place}; "
            "if they lie elsewhere, correct BATCH_PIPELINE_ARTIFACTS_URL",
            "yellow",
        )
    if collected.results_unknown and not wanted.unknown:
        say(
            f"{collected.results_unknown} results are of leases that this job store has no record of: left alone; "
            "if no other job store keeps its results there, --unknown removes them",
            "yellow",
        )
    if not wanted.apply:
        say("nothing was changed; add --apply to do it", "yellow")
