"""What an operator does: requeue, cancel, upgrade."""

from __future__ import annotations

import pytest
from command_line import Cli

from volery.cli import operate
from volery.queue.schema import SCHEMA_VERSION
from volery.units import UnitState


def states(cli: Cli) -> dict[str, str]:
    return {record.unit.key: record.state.value for record in cli.records()}


def test_a_finished_unit_is_made_ready_again_by_key(cli: Cli) -> None:
    cli.reject("bad")
    result = cli("requeue", "bad")
    assert (result.exit_code, states(cli)) == (0, {"bad": "ready"})
    assert "1 ready again" in result.stderr


def test_units_in_a_state_are_made_ready_again(cli: Cli) -> None:
    cli.reject("bad")
    cli.finish("good")
    cli("requeue", "--state", "dead,rejected")
    assert states(cli) == {"bad": "ready", "good": "done"}


def test_every_finished_unit_is_made_ready_again(cli: Cli) -> None:
    cli.reject("bad")
    cli.finish("good")
    cli("requeue", "--all", "--yes")
    assert set(states(cli).values()) == {UnitState.READY}


def test_unfinished_states_cannot_be_requeued(cli: Cli) -> None:
    assert cli("requeue", "--state", "leased").exit_code == 2


def test_a_unit_that_is_not_finished_is_left_as_it_was_and_that_is_said(cli: Cli) -> None:
    cli.add("waiting")
    assert "0 ready again; 1 left as it was" in cli("requeue", "waiting").stderr


def test_units_are_cancelled_by_key_or_all(cli: Cli) -> None:
    cli.add("a", "b", "c")
    cli("cancel", "a")
    assert states(cli) == {"a": "cancelled", "b": "ready", "c": "ready"}
    assert "2 cancelled" in cli("cancel", "--all").stderr


def test_an_unknown_key_changes_nothing(cli: Cli) -> None:
    cli.add("a")
    result = cli("cancel", "a", "nobody")
    assert result.exit_code == 1
    assert "nobody" in result.stderr
    assert states(cli) == {"a": "ready"}


def test_units_are_named_in_one_way(cli: Cli) -> None:
    assert cli("requeue").exit_code == 2
    assert cli("requeue", "a", "--all").exit_code == 2
    assert cli("cancel").exit_code == 2


def test_the_store_is_created_by_an_upgrade_which_says_so(cli: Cli) -> None:
    created = cli("db", "upgrade")
    assert created.exit_code == 0
    assert (cli.folder / "store" / "volery.db").exists()
    assert "is created" in created.stderr
    again = cli("db", "upgrade")
    assert again.exit_code == 0
    assert f"up to date (schema {SCHEMA_VERSION})" in again.stderr


def test_an_upgrade_says_from_which_schema_it_came(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operate, "upgrade", lambda url: SCHEMA_VERSION - 1)
    said = cli("db", "upgrade").stderr
    assert f"from schema {SCHEMA_VERSION - 1} to {SCHEMA_VERSION}" in said
