"""`volery gc`: what goes, what stays, and that nothing which is needed ever goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, result_of
from queue_database import Database
from sqlalchemy import update

from artifacts.gcs_emulator import emulated_bucket
from artifacts.places import Folder, Place
from volery.artifacts import ResultStore, Stored, open_results
from volery.artifacts.gcs_results import GcsResults
from volery.artifacts.local import LocalResults
from volery.cli.exits import ExitCode
from volery.queue import JobStore, Publication
from volery.queue.pruning import Pruning
from volery.queue.tables import grants, units
from volery.settings import Settings
from volery.units import Reason, RefundReason, ResultClass, StoreError

DAY = 86_400.0


@pytest.fixture(params=["local", "gcs"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where results go: a folder, and a bucket."""
    if request.param == "local":
        folder = Folder(tmp_path / "store" / "artifacts")
        folder.path.mkdir(parents=True)
        yield folder
        return
    with emulated_bucket(monkeypatch) as bucket:
        monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", bucket.uri())
        yield bucket


@dataclass
class Fleet:
    """Workers' doings, step by step, over the store and the results that commands use."""

    cli: Cli
    place: Place
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> ResultStore:
        return open_results(Settings().artifacts.artifacts_url)

    def lease(self, *keys: str) -> None:
        """Submit units and lease them."""

        async def pull(store: JobStore) -> None:
            self.tokens |= {lease.unit.key: lease.token for lease in await store.pull("w", 32, 3600)}

        self.cli.add(*keys)
        self.cli.store(pull)

    def write(self, *keys: str) -> list[str]:
        """Write results under leases; their names."""
        return [self.results.write(self.tokens[key], result_of(key).to_json()) for key in keys]

    def commit(self, *keys: str) -> None:
        """Commit what was written."""
        self.cli.store(lambda store: self.committed(store, *keys))

    async def committed(self, store: JobStore, *keys: str) -> None:
        for key in keys:
            token = self.tokens[key]
            name = f"results/{token[:2]}/{token}.json"
            assert await store.complete([Publication(token, name, ResultClass.SPEECH, 2.0)])

    def finish(self, *keys: str) -> list[str]:
        """Make units done; the names of their results."""
        self.lease(*keys)
        names = self.write(*keys)
        self.commit(*keys)
        return names

    def lose(self, *keys: str) -> list[str]:
        """Write results of units whose lease is then lost; their names."""
        self.lease(*keys)
        names = self.write(*keys)
        for key in keys:
            self.cli.store(lambda store, key=key: store.fail(self.tokens[key], Reason.PUBLISH_FAILED, "lost"))
        self.cli("cancel", *keys)
        return names

    def reject(self, *keys: str) -> None:
        """Make units rejected."""
        self.lease(*keys)
        for key in keys:
            self.cli.store(lambda store, key=key: store.reject(self.tokens[key], Reason.AUDIO_EMPTY, "nothing"))

    def grow_old(self, days: float) -> None:
        """Let all of it have happened so much earlier."""
        database = Database(Settings().queue.database_url.get_secret_value())
        past = days * DAY
        asyncio.run(database.execute(update(units).values(finished_at=units.c.finished_at - past)))
        asyncio.run(database.execute(update(grants).values(ended_at=grants.c.ended_at - past)))
        self.place.grow_old(days)

    def keys(self) -> list[str]:
        return [record.unit.key for record in self.cli.records()]

    def gc(self, *options: str) -> dict[str, Any]:
        """What a run says that it did."""
        ran = self.cli("gc", "--json", *options)
        assert ran.exit_code == 0, ran.stderr
        return dict(json.loads(ran.stdout))


@pytest.fixture
def fleet(cli: Cli, place: Place) -> Fleet:
    assert cli.records() == []  # the job store is there now
    return Fleet(cli, place)


NOTHING = {
    "results_seen": 0,
    "results_unnamed": 0,
    "results_unknown": 0,
    "leftovers": 0,
    "bytes": 0,
    "units": 0,
    "units_results": 0,
    "units_left": 0,
    "grants": 0,
}


def test_an_empty_store_has_nothing_to_go(fleet: Fleet) -> None:
    assert fleet.gc("--apply") == {"applied": True, **NOTHING}


def test_without_apply_it_says_what_would_go_and_changes_nothing(fleet: Fleet) -> None:
    [name, *_] = fleet.lose("lost")
    fleet.finish("done")
    fleet.reject("rejected")
    size = len(fleet.results.read(name))
    fleet.grow_old(31)
    before = fleet.place.names()
    said = fleet.gc()
    assert said == {
        **NOTHING,
        "applied": False,
        "results_seen": 2,
        "results_unnamed": 1,
        "bytes": size,
        "units": 2,
        "grants": 2,
    }
    assert fleet.place.names() == before
    assert fleet.keys() == ["lost", "done", "rejected"]


def test_with_apply_it_does_what_it_said(fleet: Fleet) -> None:
    fleet.lose("lost")
    kept = fleet.finish("done")
    fleet.reject("rejected")
    fleet.grow_old(31)
    said = fleet.gc()
    assert fleet.gc("--apply") == {**said, "applied": True}
    assert fleet.place.names() == kept
    assert fleet.keys() == ["done"]
    assert fleet.gc("--apply") == {"applied": True, **NOTHING, "results_seen": 1}


def test_what_is_young_stays(fleet: Fleet) -> None:
    names = fleet.lose("lost")
    fleet.reject("rejected")
    fleet.grow_old(0.9)
    said = fleet.gc("--apply")
    assert (said["results_unnamed"], said["units"], said["grants"]) == (0, 0, 0)
    assert fleet.place.names() == names


def test_results_go_after_the_safe_age_and_units_after_theirs(fleet: Fleet) -> None:
    fleet.lose("lost")
    fleet.grow_old(8)
    said = fleet.gc("--apply", "--safe-age", "1w", "--older-than", "10d")
    assert (said["results_unnamed"], said["units"]) == (1, 0)
    assert fleet.gc("--apply", "--safe-age", "1w", "--older-than", "7d")["units"] == 1


def test_the_result_of_a_unit_that_was_requeued_goes(fleet: Fleet) -> None:
    fleet.finish("again")
    fleet.grow_old(2)
    fleet.cli("requeue", "again")
    assert fleet.gc("--apply")["results_unnamed"] == 1
    assert fleet.place.names() == []


def test_done_units_go_with_their_results_where_that_is_asked_for(fleet: Fleet) -> None:
    fleet.finish("old")
    fleet.grow_old(31)
    kept = fleet.finish("young")
    said = fleet.gc("--apply", "--with-results")
    assert (said["units"], said["units_results"], said["grants"]) == (1, 1, 1)
    assert fleet.place.names() == kept
    assert fleet.keys() == ["young"]


def test_old_grants_of_units_that_stay_go_and_their_results_stay_known(fleet: Fleet) -> None:
    fleet.lease("a")
    fleet.cli.store(lambda store: store.refund([fleet.tokens["a"]], RefundReason.DRAIN))
    fleet.lease()
    fleet.write("a")
    fleet.commit("a")
    fleet.grow_old(31)
    assert fleet.gc("--apply")["grants"] == 1
    assert fleet.gc("--apply") == {"applied": True, **NOTHING, "results_seen": 1}


# What another store may need


def test_results_of_leases_that_nobody_knows_of_are_told_and_left_alone(fleet: Fleet) -> None:
    names = [fleet.results.write("ab" * 16, b"another store's")]
    fleet.grow_old(1000)
    assert fleet.gc("--apply") == {"applied": True, **NOTHING, "results_seen": 1, "results_unknown": 1}
    assert fleet.place.names() == names
    assert "no record" in fleet.cli("gc").stderr


def test_results_of_leases_that_nobody_knows_of_go_where_that_is_asked_for(fleet: Fleet) -> None:
    fleet.results.write("ab" * 16, b"nobody's")
    fleet.grow_old(2)
    fleet.results.write("cd" * 16, b"young")
    said = fleet.gc("--apply", "--unknown")
    assert (said["results_unknown"], said["bytes"]) == (1, 8)
    assert fleet.place.names() == [f"results/cd/{'cd' * 16}.json"]


def test_what_is_no_result_is_left_alone(fleet: Fleet) -> None:
    fleet.place.put("results/ab/notes.txt", b"mine")
    fleet.place.put("elsewhere/x.json", b"mine")
    fleet.grow_old(1000)
    fleet.gc("--apply", "--unknown")
    assert fleet.place.names() == ["elsewhere/x.json", "results/ab/notes.txt"]


# Beside workers


def test_what_is_written_and_not_yet_committed_stays_however_old_it_is(fleet: Fleet) -> None:
    fleet.lease("slow")
    names = fleet.write("slow")
    fleet.grow_old(1000)
    fleet.gc("--apply", "--with-results", "--unknown")
    fleet.commit("slow")
    assert fleet.place.names() == names


def while_listing(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
    """Do something once the results were listed, before the job store is asked about them."""
    for kind in (LocalResults, GcsResults):
        listed = kind.stored

        def stored(self: Any, listed: Callable[[Any], Iterator[Stored]] = listed) -> Iterator[Stored]:
            yield from listed(self)
            what()

        monkeypatch.setattr(kind, "stored", stored)


def test_a_result_that_is_committed_while_it_is_listed_stays(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.lease("late")
    names = fleet.write("late")
    fleet.grow_old(1000)
    while_listing(monkeypatch, lambda: fleet.commit("late"))
    assert fleet.gc("--apply", "--unknown")["results_unnamed"] == 0
    assert fleet.place.names() == names


def test_a_unit_that_is_leased_written_and_committed_while_results_are_listed_keeps_its_result(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.lose("lost")
    fleet.grow_old(31)
    while_listing(monkeypatch, lambda: fleet.finish("new"))
    assert fleet.gc("--apply", "--unknown")["results_unnamed"] == 1
    token = fleet.tokens["new"]
    assert fleet.place.names() == [f"results/{token[:2]}/{token}.json"]


def before(monkeypatch: pytest.MonkeyPatch, step: str, what: Callable[[], None]) -> None:
    """Do something right before a step of the pruning."""
    real = getattr(Pruning, step)

    async def delayed(self: Pruning, *arguments: Any) -> Any:
        await asyncio.to_thread(what)
        return await real(self, *arguments)

    monkeypatch.setattr(Pruning, step, delayed)


@pytest.mark.parametrize("step", ["results_of", "delete_units"])
def test_a_unit_that_is_requeued_while_it_is_pruned_stays_and_its_new_result_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fleet.finish("again")
    fleet.grow_old(31)

    def redo() -> None:
        fleet.cli.store(lambda store: store.requeue(["again"]))
        fleet.lease()
        fleet.write("again")
        fleet.commit("again")

    before(monkeypatch, step, redo)
    assert fleet.gc("--apply", "--with-results")["units"] == 0
    token = fleet.tokens["again"]
    assert fleet.place.names() == [f"results/{token[:2]}/{token}.json"]
    assert fleet.cli("results", "--key", "again").exit_code == 0


def test_a_unit_that_is_cut_short_after_its_result_went_is_left_and_told(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.finish("old")
    fleet.grow_old(31)
    with monkeypatch.context() as broken:

        def die() -> None:
            raise StoreError("the database went away")

        before(broken, "delete_units", die)
        assert fleet.cli("gc", "--apply", "--with-results").exit_code == ExitCode.STORE
    assert fleet.gc("--apply", "--with-results")["units_left"] == 1
    assert fleet.keys() == ["old"]


# Places that are not the one


@pytest.mark.parametrize("options", [[], ["--apply"], ["--apply", "--with-results"]])
def test_a_place_for_results_that_is_not_there_is_refused_and_nothing_changed(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    fleet.finish("done")
    fleet.reject("rejected")
    fleet.grow_old(31)
    file = tmp_path / "file"
    file.write_bytes(b"")
    for wrong in (tmp_path / "typo", file):
        monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", wrong.as_uri())
        ran = fleet.cli("gc", *options)
        assert ran.exit_code == ExitCode.STORE
        assert f"{wrong}; correct BATCH_PIPELINE_ARTIFACTS_URL" in " ".join(ran.stderr.split())
    assert fleet.keys() == ["done", "rejected"]


@pytest.mark.parametrize("options", [[], ["--apply"]])
def test_units_whose_results_are_not_there_are_left_and_counted(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    names = fleet.finish("a", "b")
    fleet.reject("rejected")
    fleet.grow_old(31)
    right = Settings().artifacts.artifacts_url
    fleet.place.put("another/notes.txt", b"mine")
    monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", fleet.place.uri("another"))
    said = fleet.gc("--with-results", *options)
    assert (said["units"], said["units_results"], said["units_left"], said["grants"]) == (1, 0, 2, 1)
    assert "2 units left: their results are not in" in fleet.cli("gc", "--with-results").stderr
    assert {"a", "b"} <= set(fleet.keys())
    monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", right)
    assert fleet.gc("--apply", "--with-results")["units_results"] == len(names)


def test_with_results_a_dry_run_counts_what_a_real_one_removes(fleet: Fleet) -> None:
    fleet.finish("a", "b")
    [gone] = fleet.finish("c")
    fleet.results.remove(gone)
    fleet.grow_old(31)
    said = fleet.gc("--with-results")
    assert (said["units"], said["units_results"], said["units_left"]) == (2, 2, 1)
    assert fleet.gc("--apply", "--with-results") == {**said, "applied": True}
    assert fleet.keys() == ["c"]


def test_a_result_that_another_run_removed_meanwhile_is_no_trouble(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    [name] = fleet.lose("lost")
    fleet.grow_old(2)
    while_listing(monkeypatch, lambda: fleet.results.remove(name) and None)
    assert fleet.gc("--apply")["results_unnamed"] == 1


def test_grants_stay_as_long_as_a_result_of_theirs_cannot_be_removed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.lose("lost")
    fleet.grow_old(31)

    def refuse(self: object, name: str) -> bool:
        raise StoreError(f"{name} cannot be removed: no")

    for kind in (LocalResults, GcsResults):
        monkeypatch.setattr(kind, "remove", refuse)
    ran = fleet.cli("gc", "--apply")
    assert (ran.exit_code, "cannot be removed: no" in ran.stderr) == (ExitCode.STORE, True)
    assert len(fleet.cli.store(lambda store: store.grants())) == 1


def test_a_person_is_told_what_would_go_and_how_to_do_it(fleet: Fleet) -> None:
    fleet.lose("lost")
    fleet.grow_old(31)
    said = fleet.cli("gc").stderr
    assert "1 of 1 results to remove" in said
    assert "1 units, 0 results of theirs and 1 grants to prune" in said
    assert "add --apply" in said
    assert "removed" in fleet.cli("gc", "--apply").stderr


def test_what_a_killed_write_left_behind_goes_once_it_is_old(cli: Cli, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "store" / "artifacts")
    fleet = Fleet(cli, folder)
    cli("db", "upgrade")
    folder.put("results/ab/.abcd.01234567.tmp", b"half")
    assert fleet.gc("--apply")["leftovers"] == 1  # `put` makes files that are years old
    folder.put("results/ab/.abcd.01234567.tmp", b"half")
    (folder.path / "results/ab/.abcd.01234567.tmp").touch()
    assert fleet.gc("--apply")["leftovers"] == 0
    assert folder.names() == ["results/ab/.abcd.01234567.tmp"]


# Options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--older-than", "soon"], "is no age"),
        (["--older-than", "30"], "is no age"),
        (["--older-than", "-1d"], "is no age"),
        (["--safe-age", "1 fortnight"], "is no age"),
        (["--safe-age", "3m"], "at least 2 leases, which are 240 s"),
        (["--older-than", "23h"], "at least --safe-age"),
    ],
)
def test_ages_that_make_no_sense_or_are_not_safe_are_refused(cli: Cli, options: list[str], said: str) -> None:
    ran = cli("gc", "--apply", *options)
    assert (ran.exit_code, said in ran.stderr) == (ExitCode.USAGE, True), ran.stderr


def test_a_store_of_results_that_cannot_be_listed_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", "gs://bucket")
    monkeypatch.setenv("BATCH_PIPELINE_GCS_DEADLINE_SECONDS", "0.3")
    cli("db", "upgrade")
    ran = cli("gc")
    assert (ran.exit_code, "gs://bucket/results/ cannot be listed" in ran.stderr) == (ExitCode.STORE, True)
