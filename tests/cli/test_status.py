"""What `volery status` says."""

from __future__ import annotations

import json

from command_line import Cli


def test_units_are_counted_by_state(cli: Cli) -> None:
    cli.reject("bad")
    cli.add("a", "b")
    document = json.loads(cli("status", "--json").stdout)
    assert document["units"] == {"ready": 2, "leased": 0, "done": 0, "rejected": 1, "dead": 0, "cancelled": 0}
    assert (document["available"], document["backing_off"]) == (2, 0)
    assert document["oldest_available_s"] >= 0


def test_failures_are_shown_with_key_reason_and_error(cli: Cli) -> None:
    cli.reject("bad")
    [failure] = json.loads(cli("status", "--json").stdout)["recent_failures"]
    assert (failure["key"], failure["state"], failure["reason"], failure["error"]) == (
        *("bad", "rejected", "audio_empty", "it holds no bytes"),
    )
    shown = cli("status").stdout
    assert "bad" in shown
    assert "audio_empty" in shown
    assert "it holds no bytes" in shown


def test_only_the_latest_failures_are_shown_latest_first(cli: Cli) -> None:
    for number in range(12):
        cli.reject(f"bad-{number}")
    failures = json.loads(cli("status", "--json").stdout)["recent_failures"]
    assert [failure["key"] for failure in failures] == [f"bad-{number}" for number in range(11, 1, -1)]


def test_an_empty_store_has_a_status(cli: Cli) -> None:
    cli("db", "upgrade")
    assert json.loads(cli("status", "--json").stdout)["oldest_available_s"] is None
    assert "0 could be leased now" in cli("status").stdout


def test_watching_is_not_for_programs(cli: Cli) -> None:
    assert cli("status", "--watch", "--json").exit_code == 2
