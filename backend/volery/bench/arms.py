"""Arms: the configurations that a benchmark compares, as words on a command line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from volery.settings import PREFIX, SWITCHES, known_names

SHORT_NAMES = {
    "prepare": "prepare_flight",
    "reuse": "vad_segmentation_reuse",
    "graphs": "asr_cuda_graphs",
    "recovery": "vad_recovery",
}
"""What arms call the switches."""

_VARIABLES = {switch.name: switch.environment for switch in SWITCHES}

PRIVATE = frozenset(f"{PREFIX}{name}" for name in ("DATABASE_URL", "ARTIFACTS_URL"))
"""What every run has of its own and nobody can set."""


@dataclass(frozen=True)
class Arm:
    """A configuration by name; `environment` holds the variables that it sets, whatever else is set."""

    name: str
    environment: Mapping[str, str]

    @property
    def folder(self) -> str:
        """A name for the folder of its results."""
        return folder_of(self.name)


def folder_of(arm: str) -> str:
    """What the folder of an arm's results is called."""
    return re.sub(r"[^A-Za-z0-9=+._-]", "_", arm).lstrip(".")


def parse_arms(text: str) -> tuple[Arm, ...]:
    """The arms of a command line, separated by commas.

    Raises:
        ValueError: an arm makes no sense; the message names it and says what would.
    """
    arms = tuple(parse_arm(name.strip()) for name in text.split(",") if name.strip())
    if not arms:
        raise ValueError("no arm is named: try all-on,all-off")
    if twice := _repeated(arm.folder for arm in arms):
        raise ValueError(f"two arms are called {twice}, or nearly so: name each once")
    return arms


def parse_arm(name: str) -> Arm:
    """One arm: words joined with `+`.

    `all-on` and `all-off` turn every switch of class `ops_kill` on or off and leave those of class
    `behaviour` as they ship: what the arms say stays the same. `prepare` (or `reuse`, `graphs`,
    `recovery`) turns one on and, as the first of its kind, sets the others as `all-off` does;
    `no-prepare` turns one off and, as the first, sets the others as `all-on` does. `NAME=VALUE` is
    any setting, with or without `BATCH_PIPELINE_`. Words may refine an `all-on` or `all-off` before
    them, and contradict nothing else.

    Raises:
        ValueError: it makes no sense.
    """
    every: dict[str, str] = {}
    said: dict[str, str] = {}
    others: dict[str, str] = {}
    for word in name.split("+"):
        if word in ("all-on", "all-off"):
            new = _every(on=word == "all-on")
            _refuse_contradiction(name, every | said, new)
            every = new
            continue
        if "=" in word:
            new = _assignment(name, word)
        else:
            new = _switch(name, word)
            others = others or _every(on=word.startswith("no-"))
        _refuse_contradiction(name, said, new)
        said |= new
    return Arm(name, (every or others) | said)


def _refuse_contradiction(arm: str, said: Mapping[str, str], new: Mapping[str, str]) -> None:
    for name, value in new.items():
        if said.get(name, value) != value:
            raise ValueError(f"arm {arm}: it sets {name} to two different values; leave one of them out")


def _switch(arm: str, word: str) -> dict[str, str]:
    switch = SHORT_NAMES.get(word.removeprefix("no-"))
    if switch is None:
        raise ValueError(
            f"arm {arm}: {word or 'an empty word'} is neither all-on, all-off, a switch ({', '.join(SHORT_NAMES)}), "
            "no- and a switch, nor NAME=VALUE"
        )
    return {_VARIABLES[switch]: _flag(not word.startswith("no-"))}


def _every(*, on: bool) -> dict[str, str]:
    """Every switch: on or off where it is a kill switch, as it ships where it may change answers."""
    return {one.environment: _flag(on if one.kind == "ops_kill" else one.default) for one in SWITCHES}


def _assignment(arm: str, word: str) -> dict[str, str]:
    said, _, value = word.partition("=")
    name = PREFIX + said.strip().upper().removeprefix(PREFIX)
    if name in PRIVATE:
        raise ValueError(f"arm {arm}: {name} cannot be set, every run has its own")
    if name not in known_names():
        raise ValueError(f"arm {arm}: {name} is no setting; docs/reference/settings.md lists them")
    return {name: value}


def _flag(on: bool) -> str:
    return "true" if on else "false"


def _repeated(names: Iterable[str]) -> str | None:
    return next((name for name, times in Counter(name.casefold() for name in names).items() if times > 1), None)
