"""States of units, as options name them."""

from __future__ import annotations

from volery.cli.exits import UsageError
from volery.units import UnitState


def parse_states(text: str) -> tuple[UnitState, ...]:
    """States of a comma-separated list, each once.

    Raises:
        UsageError: one of them is unknown; names those that are known.
    """
    names = dict.fromkeys(name.strip().lower() for name in text.split(","))
    known = {state.value: state for state in UnitState}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"unknown state {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)
