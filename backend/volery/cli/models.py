"""`volery models`: which models the settings ask for, whether they are here, and whether they are the right ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from volery.cli.environment import load_settings
from volery.cli.exits import ExitCode
from volery.cli.output import say, tables, write_json
from volery.settings import Settings
from volery.units import ConfigurationError

if TYPE_CHECKING:
    from volery.speech.models import Model, Weights

State = Literal["verified", "not pinned", "differs", "refused", "missing"]

_STYLES: dict[State, str] = {
    "verified": "green",
    "not pinned": "yellow",
    "differs": "bold red",
    "refused": "bold red",
    "missing": "red",
}
_WRONG: tuple[State, ...] = ("differs", "refused", "missing")
_PIPELINE_ROLES = ("segmentation", "embedding")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

models = typer.Typer(no_args_is_help=True, help="Models: list them, verify their digests, fetch them.")


@dataclass(frozen=True)
class Found:
    """A model that the settings ask for in a role, and what was found of it.

    `state` is `verified` where the digest is the pinned one, `refused` where it is but the model loads others
    that no digest covers. `problem` says what to do.
    """

    role: str
    name: str
    source: str
    revision: str | None
    licence: str
    expected_sha256: str | None
    found_sha256: str | None
    path: str | None
    state: State
    problem: str | None


@models.command("list")
def list_models(as_json: Json = False) -> None:
    """Show every model that the present settings use: its licence, where it is from, its pinned and found digest.

    Files are hashed, and never opened. How is in docs/reference/models.md.
    """
    found = _all_found(load_settings())
    if as_json:
        _write(found)
        return
    tables().print(*map(_block, found), sep="\n")


@models.command()
def verify(as_json: Json = False) -> None:
    """Compare every model that the present settings use with its pinned digest.

    Exits with 3 where one is missing or another than is pinned. A model without a pin is pointed out, no more.
    """
    found = _all_found(load_settings())
    if as_json:
        _write(found)
    for one in found:
        _say_verdict(one)
    if any(one.state in _WRONG for one in found):
        raise typer.Exit(ExitCode.CONFIGURATION)


@models.command()
def pull() -> None:
    """Fetch the hub's models that the present settings use into the local cache, and verify every model.

    What is there already is not fetched again, unless it is another than is pinned. The cache lies below HF_HOME.
    """
    for role, model in _chosen(load_settings()):
        weights = _pulled(role, model)
        _checked(role, weights)
        _say_elsewhere(role, weights)
        say(f"{role}: {model.name} is here{'' if model.pin else ', unchecked: no digest is pinned'}")


def _chosen(settings: Settings) -> Sequence[tuple[str, Model]]:
    from volery.referee.models import chosen_models as chosen_by_the_referee
    from volery.speech.choice import chosen_models

    return (*chosen_models(settings.speech, settings.provider), *chosen_by_the_referee(settings))


def _all_found(settings: Settings) -> list[Found]:
    return [_found(role, model) for role, model in _chosen(settings)]


def _found(role: str, model: Model) -> Found:
    found = Found(
        role=role,
        name=model.name,
        source=model.kind,
        revision=model.revision,
        licence=model.licence,
        expected_sha256=model.pin.sha256 if model.pin else None,
        found_sha256=None,
        path=None,
        state="missing",
        problem=None,
    )
    try:
        weights = model.find()
        found = dataclasses.replace(
            found, source=weights.source, path=str(weights.path), found_sha256=weights.digest, state=_state(weights)
        )
        _checked(role, weights)
    except ConfigurationError as error:
        state: State = "refused" if found.state == "verified" else found.state
        return dataclasses.replace(found, state=state, problem=str(error))
    return found


def _state(weights: Weights) -> State:
    if weights.pin is None:
        return "not pinned"
    return "differs" if weights.differs else "verified"


def _checked(role: str, weights: Weights) -> None:
    """What a loader does before it opens a model.

    Raises:
        ConfigurationError: it would refuse.
    """
    from volery.speech.choice import checked_pipeline

    checked_pipeline(weights) if _is_pipeline(role, weights) else weights.checked()


def _is_pipeline(role: str, weights: Weights) -> bool:
    return role in _PIPELINE_ROLES and weights.path.is_dir()


def _say_elsewhere(role: str, weights: Weights) -> None:
    from volery.speech.choice import elsewhere

    outside = elsewhere(weights.path) if _is_pipeline(role, weights) else ()
    if outside:
        say(f"{role}: {weights.name} takes models from elsewhere, not fetched here: {'; '.join(outside)}", "yellow")


def _pulled(role: str, model: Model) -> Weights:
    from volery.speech.hub import HubModel

    if not isinstance(model, HubModel):
        return model.find()
    try:
        here = model.find()
    except ConfigurationError:
        say(f"{role}: fetching {model.name} at {model.revision or 'main'} from the hub")
        return model.fetch()
    if here.differs:
        say(f"{role}: {model.name} in the cache is another than is pinned; fetching it again", "yellow")
        return model.fetch(again=True)
    return here


def _write(found: Sequence[Found]) -> None:
    write_json({"models": [dataclasses.asdict(one) for one in found]}, indent=2)


def _say_verdict(one: Found) -> None:
    if one.problem is not None:
        say(f"{one.role}: {one.problem}", _STYLES[one.state])
    elif one.state == "not pinned":
        say(f"{one.role}: {one.name} is here, unchecked: no digest is pinned; found {one.found_sha256}", "yellow")
    else:
        say(f"{one.role}: {one.name} is what is pinned")


def _block(one: Found) -> Group:
    """One model, its facts below each other, so that digests stay whole however narrow the terminal is."""
    facts = Table.grid("", "", padding=(0, 0, 0, 2), pad_edge=True)
    for name, fact in _facts(one):
        facts.add_row(name, fact)
    return Group(Text.assemble((one.role, "bold"), f"  {one.name}"), facts)


def _facts(one: Found) -> Iterator[tuple[str, Text]]:
    yield "state", Text(one.state, _STYLES[one.state])
    facts = {
        "from": one.source,
        "revision": one.revision,
        "licence": one.licence,
        "pinned": one.expected_sha256,
        "found": one.found_sha256,
        "at": one.path,
        "problem": one.problem,
    }
    yield from ((name, Text(fact, overflow="fold")) for name, fact in facts.items() if fact is not None)
