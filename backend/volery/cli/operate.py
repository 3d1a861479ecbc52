"""`volery requeue`, `volery cancel` and `volery db`: what an operator does to the store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from volery.cli.environment import queue_settings
from volery.cli.exits import ExitCode, UnknownUnitError, UsageError
from volery.cli.output import say
from volery.cli.states import parse_states
from volery.cli.stores import with_store
from volery.queue import JobStore, upgrade
from volery.queue.schema import SCHEMA_VERSION
from volery.units import UnitState

db = typer.Typer(help="Look after the job store.", no_args_is_help=True)

_Keys = Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Units.", show_default=False)]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; elsewhere than at a terminal nobody is asked.")]


def requeue(
    keys: _Keys = None,
    states: Annotated[
        str | None, typer.Option("--state", help="Finished states, comma-separated: every unit in one of them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every finished unit, done ones too.")] = False,
    yes: _Yes = False,
) -> None:
    """Make finished units ready again, with a clean record: those named, or all in some states.

    A done unit is transcribed anew; its old result is no longer its result.
    """
    named = _named(keys, ("--all", every), ("--state", states is not None))
    wanted = _finished(states)
    if every:
        _confirm("Make every finished unit ready again?", yes)

    async def again(store: JobStore) -> int:
        await _require_known(store, named)
        return await store.requeue(named, states=wanted)

    _report(with_store(again), "ready again", named)


def cancel(
    keys: _Keys = None,
    every: Annotated[bool, typer.Option("--all", help="Every unfinished unit.")] = False,
    yes: _Yes = False,
) -> None:
    """Cancel unfinished units; whoever works on one loses the lease."""
    named = _named(keys, ("--all", every))
    if every:
        _confirm("Cancel every unfinished unit?", yes)

    async def end(store: JobStore) -> int:
        await _require_known(store, named)
        return await store.cancel(named, all_unfinished=every)

    _report(with_store(end), "cancelled", named)


@db.command("upgrade")
def upgrade_store() -> None:
    """Bring the job store up to this version's schema, creating it where there is none."""
    found = upgrade(queue_settings().database_url.get_secret_value())
    say(_what_an_upgrade_did(found), "green")


def _what_an_upgrade_did(found: int) -> str:
    """What became of a store whose schema was `found`, 0 where it had none."""
    if not found:
        return f"the job store was empty; schema {SCHEMA_VERSION} is created in it"
    if found < SCHEMA_VERSION:
        return f"the job store is upgraded from schema {found} to {SCHEMA_VERSION}"
    return f"the job store is up to date (schema {found})"


def _named(keys: Sequence[str] | None, *others: tuple[str, bool]) -> list[str]:
    """The keys, which are one way of several to say which units.

    Raises:
        UsageError: none of the ways was used, or more than one.
    """
    ways = [("keys", bool(keys)), *others]
    if sum(used for _, used in ways) != 1:
        raise UsageError(f"say which units with one of: {', '.join(way for way, _ in ways)}")
    return list(dict.fromkeys(keys or ()))


def _finished(states: str | None) -> tuple[UnitState, ...]:
    wanted = parse_states(states) if states is not None else tuple(state for state in UnitState if state.is_final)
    if unfinished := [state.value for state in wanted if not state.is_final]:
        raise UsageError(f"only finished units can be made ready again, and {unfinished[0]} ones are not finished")
    return wanted


def _confirm(question: str, yes: bool) -> None:
    """Ask at a terminal; a program that gives --all has decided already."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise typer.Exit(ExitCode.INTERRUPTED)


async def _require_known(store: JobStore, keys: Sequence[str]) -> None:
    if not keys:
        return
    known = {record.unit.key async for record in store.records(keys=keys)}
    if unknown := [key for key in keys if key not in known]:
        shown = ", ".join(unknown[:5]) + (" …" if len(unknown) > 5 else "")
        raise UnknownUnitError(f"no unit has the key {shown}; nothing was changed")


def _report(count: int, what: str, named: Sequence[str]) -> None:
    rest = len(named) - count
    left = f"; {rest} left as {'it was' if rest == 1 else 'they were'}" if named and rest else ""
    say(f"{count} {what}{left}", "green" if count else "yellow")
