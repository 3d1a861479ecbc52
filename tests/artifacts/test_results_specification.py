"""Results are kept alike wherever they go: on local disks and in Google Cloud Storage."""

from __future__ import annotations

import time

import pytest

from artifacts.places import Place
from volery.artifacts import ResultStore, open_results
from volery.units import Reason, StoreError, UnitFailed

TOKEN = "3f" + "0a" * 15
OTHER = "3f" + "0b" * 15
DOCUMENT = '{"text": "naïve\\r\\n夏"}'.encode()


@pytest.fixture
def results(place: Place) -> ResultStore:
    return open_results(place.uri("arti facts"))


def test_a_document_is_read_back_under_the_name_that_writing_gave(results: ResultStore) -> None:
    assert results.read(results.write(TOKEN, DOCUMENT)) == DOCUMENT


def test_the_token_alone_names_what_is_written(results: ResultStore, place: Place) -> None:
    artifact = results.write(TOKEN, b'{"key": "../../x"}')
    assert artifact == f"results/3f/{TOKEN}.json"
    assert place.names() == [f"arti facts/{artifact}"]


def test_a_store_may_be_the_whole_place(place: Place) -> None:
    artifact = open_results(place.uri()).write(TOKEN, DOCUMENT)
    assert place.names() == [artifact]


def test_a_large_document_is_read_back(results: ResultStore) -> None:
    document = bytes(range(256)) * 40_000
    assert results.read(results.write(TOKEN, document)) == document


def test_opening_a_store_touches_nothing(results: ResultStore, place: Place) -> None:
    assert place.names() == []


def test_writing_the_same_again_is_harmless(results: ResultStore) -> None:
    assert results.write(TOKEN, DOCUMENT) == results.write(TOKEN, DOCUMENT)
    assert results.read(f"results/3f/{TOKEN}.json") == DOCUMENT


@pytest.mark.parametrize("token", ["", "a", "../../x", "a/b", "ab\0", "ab.json", "äöü", "ab\n", "a" * 200])
def test_a_token_that_is_no_plain_name_is_refused(results: ResultStore, place: Place, token: str) -> None:
    with pytest.raises(UnitFailed) as caught:
        results.write(token, DOCUMENT)
    assert caught.value.reason is Reason.PUBLISH_FAILED
    assert place.names() == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../secret.json",
        "results/../../secret.json",
        "results/3f/../../../secret.json",
        f"results/aa/{TOKEN}.json",
        f"results/3f/{TOKEN}.json\n",
        f"results/3f/{TOKEN}.json/..",
    ],
)
def test_a_name_that_no_write_gives_is_neither_read_nor_removed(results: ResultStore, place: Place, name: str) -> None:
    results.write(TOKEN, DOCUMENT)
    place.put("secret.json", b"secret")
    with pytest.raises(StoreError, match="not the name of a result"):
        results.read(name)
    with pytest.raises(StoreError, match="not the name of a result"):
        results.remove(name)
    assert "secret.json" in place.names()


def test_reading_a_result_that_is_not_there_is_told(results: ResultStore) -> None:
    with pytest.raises(StoreError, match=r"cannot (be )?read"):
        results.read(f"results/3f/{TOKEN}.json")


def test_a_check_passes_again_and_again_and_is_no_result(results: ResultStore) -> None:
    results.check()
    results.check()
    assert list(results.stored()) == []


def test_an_empty_store_lists_nothing(results: ResultStore, place: Place) -> None:
    place.put("arti facts/notes.txt", b"so that the place is there")
    assert list(results.stored()) == []


def test_a_store_holds_what_was_written_and_not_removed(results: ResultStore) -> None:
    artifact = results.write(TOKEN, DOCUMENT)
    assert results.holds(artifact)
    assert not results.holds(f"results/3f/{OTHER}.json")
    assert not results.holds("results/3f")
    results.remove(artifact)
    assert not results.holds(artifact)


def test_everything_that_was_written_is_listed_with_its_token_size_and_time(results: ResultStore, place: Place) -> None:
    before = time.time()
    results.write(TOKEN, DOCUMENT)
    results.write(OTHER, b"{}")
    listed = {stored.token: stored for stored in results.stored()}
    assert {token: stored.name for token, stored in listed.items()} == {
        TOKEN: f"results/3f/{TOKEN}.json",
        OTHER: f"results/3f/{OTHER}.json",
    }
    assert listed[TOKEN].size == len(DOCUMENT)
    assert before - 1 <= listed[TOKEN].written_at <= time.time() + 1


def test_what_the_store_did_not_write_is_not_listed(results: ResultStore, place: Place) -> None:
    for name in ("results/notes.txt", "results/3f/x.json", "results/3f/.hidden", f"backup/{TOKEN}.json"):
        place.put(f"arti facts/{name}", b"not ours")
    place.put(f"other/results/3f/{TOKEN}.json", b"another store's")
    assert list(results.stored()) == []


def test_what_is_removed_is_gone_and_removing_it_again_says_so(results: ResultStore, place: Place) -> None:
    artifact = results.write(TOKEN, DOCUMENT)
    kept = results.write(OTHER, DOCUMENT)
    assert results.remove(artifact)
    assert not results.remove(artifact)
    assert place.names() == [f"arti facts/{kept}"]
