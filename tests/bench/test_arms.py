"""What an arm is called is what it sets."""

from __future__ import annotations

import pytest

from volery.bench.arms import SHORT_NAMES, parse_arm, parse_arms
from volery.settings import PREFIX, SWITCHES

PREPARE, REUSE, GRAPHS, RECOVERY = (switch.environment for switch in SWITCHES)


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("all-on", {PREPARE: "true", REUSE: "true", GRAPHS: "true", RECOVERY: "false"}),
        ("all-off", {PREPARE: "false", REUSE: "false", GRAPHS: "false", RECOVERY: "false"}),
        ("prepare+reuse", {PREPARE: "true", REUSE: "true", GRAPHS: "false", RECOVERY: "false"}),
        ("no-prepare", {PREPARE: "false", REUSE: "true", GRAPHS: "true", RECOVERY: "false"}),
        ("no-prepare+no-graphs", {PREPARE: "false", REUSE: "true", GRAPHS: "false", RECOVERY: "false"}),
        ("all-off+graphs", {PREPARE: "false", REUSE: "false", GRAPHS: "true", RECOVERY: "false"}),
        ("all-on+recovery", {PREPARE: "true", REUSE: "true", GRAPHS: "true", RECOVERY: "true"}),
        ("graphs+all-on", {PREPARE: "true", REUSE: "true", GRAPHS: "true", RECOVERY: "false"}),
        ("recovery", {PREPARE: "false", REUSE: "false", GRAPHS: "false", RECOVERY: "true"}),
        ("no-recovery", {PREPARE: "true", REUSE: "true", GRAPHS: "true", RECOVERY: "false"}),
        ("LANES=3", {f"{PREFIX}LANES": "3"}),
        (
            "lanes=3+no-reuse",
            {PREPARE: "true", REUSE: "false", GRAPHS: "true", RECOVERY: "false", f"{PREFIX}LANES": "3"},
        ),
        ("BATCH_PIPELINE_FLIGHT_UNITS=4", {f"{PREFIX}FLIGHT_UNITS": "4"}),
        (f"all-on+{PREPARE}=false", {PREPARE: "false", REUSE: "true", GRAPHS: "true", RECOVERY: "false"}),
    ],
)
def test_an_arm_sets_what_its_words_say(name: str, environment: dict[str, str]) -> None:
    assert parse_arm(name).environment == environment


def test_all_on_is_what_ships() -> None:
    assert parse_arm("all-on").environment == {
        switch.environment: "true" if switch.default else "false" for switch in SWITCHES
    }


def test_every_switch_has_a_short_name() -> None:
    assert sorted(SHORT_NAMES.values()) == sorted(switch.name for switch in SWITCHES)


@pytest.mark.parametrize("name", ["all", "no-", "prepare+", "no-all-on", "LINES=3", "=3"])
def test_an_arm_that_makes_no_sense_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"arm {name.replace('+', '.')}: "):
        parse_arms(f"all-on,{name}")


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("all-on+all-off", PREPARE),
        ("prepare+no-prepare", PREPARE),
        ("reuse+graphs+no-reuse", REUSE),
        ("graphs+all-off", GRAPHS),
        ("recovery+all-on", RECOVERY),
        (f"prepare+{PREPARE}=false", PREPARE),
        (f"{PREPARE}=false+all-on", PREPARE),
        ("LANES=2+lanes=3", f"{PREFIX}LANES"),
    ],
)
def test_an_arm_that_contradicts_itself_is_refused_and_names_the_setting(name: str, setting: str) -> None:
    with pytest.raises(ValueError, match=f"it sets {setting} to two different values"):
        parse_arm(name)


def test_an_arm_may_say_a_thing_twice() -> None:
    assert parse_arm("all-on+LANES=2+prepare+LANES=2").environment == {
        **parse_arm("all-on").environment,
        f"{PREFIX}LANES": "2",
    }


def test_what_every_run_has_of_its_own_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="every run has its own"):
        parse_arm("DATABASE_URL=sqlite:////tmp/x.db")


def test_arms_whose_results_would_share_a_folder_are_refused() -> None:
    with pytest.raises(ValueError, match="name each once"):
        parse_arms("ASR_MODEL=/a,ASR_MODEL=_a")


def test_no_arm_is_no_bench() -> None:
    with pytest.raises(ValueError, match="try all-on,all-off"):
        parse_arms(" , ")
