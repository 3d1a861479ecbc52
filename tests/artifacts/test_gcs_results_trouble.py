"""Results in Google Cloud Storage when something is wrong: with the bucket, with rights, with the network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from artifacts.gcs_service import (
    Fault,
    Service,
    hangs,
    refuses,
    resets,
    sends,
    stores_and_resets,
    trickles,
)
from volery.artifacts import ResultStore, open_results
from volery.settings import ArtifactSettings
from volery.units import ArtifactsUnavailable, ConfigurationError, Reason, StoreError, UnitFailed

TOKEN = "3f" + "0a" * 15
ARTIFACT = f"results/3f/{TOKEN}.json"
DOCUMENT = '{"text": "naïve"}'.encode()


def store(url: str = "gs://bucket/prefix", **settings: object) -> ResultStore:
    return open_results(url, ArtifactSettings.model_validate({"gcs_deadline_seconds": 60.0, **settings}))


@pytest.fixture(scope="session")
def key() -> dict[str, str]:
    """The JSON key of a service account that does not exist."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": "worker@project.iam.gserviceaccount.com",
        "private_key_id": "0123456789abcdef",
        "private_key": private.decode(),
    }


@pytest.mark.parametrize("fault", [refuses(503), refuses(429), resets])
def test_what_passes_is_retried(service: Service, fault: Fault) -> None:
    service.next(fault, fault)
    results = store()
    artifact = results.write(TOKEN, DOCUMENT)
    service.next(fault)
    assert results.read(artifact) == DOCUMENT


@pytest.mark.parametrize(
    "fault", [refuses(503), refuses(404), refuses(403, "forbidden"), refuses(401), resets, hangs, trickles]
)
def test_a_bucket_that_cannot_be_written_is_not_the_units_fault(service: Service, fault: Fault) -> None:
    service.always(fault)
    with pytest.raises(ArtifactsUnavailable) as caught:
        store(gcs_deadline_seconds=0.5).write(TOKEN, DOCUMENT)
    assert caught.value.reason is Reason.PUBLISH_FAILED
    assert "gs://bucket/prefix" in caught.value.message


@pytest.mark.parametrize("fault", [refuses(400), refuses(413)])
def test_a_document_that_is_refused_is_the_units_own_trouble(service: Service, fault: Fault) -> None:
    service.next(fault)
    with pytest.raises(UnitFailed) as caught:
        store().write(TOKEN, DOCUMENT)
    assert not isinstance(caught.value, ArtifactsUnavailable)


def test_a_write_whose_answer_was_lost_is_found_to_have_been_done(service: Service) -> None:
    service.next(stores_and_resets)
    results = store()
    assert results.read(results.write(TOKEN, DOCUMENT)) == DOCUMENT


def test_a_document_that_is_there_is_never_overwritten(service: Service) -> None:
    service.put(f"prefix/{ARTIFACT}", b"another")
    with pytest.raises(UnitFailed, match="another document"):
        store().write(TOKEN, DOCUMENT)
    assert service.objects[f"prefix/{ARTIFACT}"][1] == b"another"


def test_a_document_that_arrives_damaged_is_not_read(service: Service) -> None:
    service.put(f"prefix/{ARTIFACT}", DOCUMENT)
    service.next(sends(DOCUMENT.replace(b"text", b"tezt")))
    with pytest.raises(StoreError, match="checksum"):
        store().read(ARTIFACT)


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_listing_goes_over_all_pages(service: Service, size: int) -> None:
    service.page_size = size
    names = [f"results/3{number}/3{number}ab.json" for number in range(5)]
    for name in names:
        service.put(f"prefix/{name}", DOCUMENT)
    assert [stored.name for stored in store().stored()] == names


def test_a_listing_that_breaks_off_is_told(service: Service) -> None:
    service.page_size = 1
    service.put("prefix/results/aa/aa1.json", DOCUMENT)
    service.put("prefix/results/ab/ab1.json", DOCUMENT)
    service.next(None, refuses(403, "forbidden"))
    listing = store().stored()
    assert next(listing).token == "aa1"
    with pytest.raises(StoreError, match="objectViewer"):
        next(listing)


def test_a_result_that_may_not_be_removed_is_told_with_the_role_to_grant(service: Service) -> None:
    service.put(f"prefix/{ARTIFACT}", DOCUMENT)
    service.next(refuses(403, "forbidden"))
    with pytest.raises(StoreError, match=r"roles/storage\.objectUser"):
        store().remove(ARTIFACT)


# At startup


def test_a_result_that_cannot_be_looked_for_is_told_and_not_taken_for_gone(service: Service) -> None:
    service.always(refuses(403, "forbidden"))
    with pytest.raises(StoreError, match=r"cannot be looked for: grant .*roles/storage\.objectViewer"):
        store().holds(ARTIFACT)


def test_a_missing_bucket_is_told_with_what_to_do(service: Service) -> None:
    with pytest.raises(StoreError, match=r"no such bucket; create it, or correct BATCH_PIPELINE_ARTIFACTS_URL"):
        store("gs://elsewhere").check()


def test_a_bucket_that_may_not_be_written_is_told_with_the_roles_to_grant(service: Service) -> None:
    service.always(refuses(403, "forbidden", "worker@project does not have storage.objects.create access"))
    with pytest.raises(StoreError, match=r"worker@project does not have storage\.objects\.create") as caught:
        store().check()
    assert "roles/storage.objectCreator" in str(caught.value)


@pytest.mark.parametrize("fault", [refuses(503), resets, hangs])
def test_a_service_that_does_not_answer_is_told(service: Service, fault: Fault) -> None:
    service.always(fault)
    with pytest.raises(StoreError, match="cannot be written"):
        store(gcs_deadline_seconds=0.5).check()


def test_a_check_leaves_one_object_however_often_it_is_done(service: Service) -> None:
    for _ in range(3):
        store().check()
    assert list(service.objects) == ["prefix/.volery-check"]


def test_a_key_file_gives_the_credentials(service: Service, tmp_path: Path, key: dict[str, str]) -> None:
    service.needs_token = True
    file = tmp_path / "key.json"
    file.write_text(json.dumps({**key, "token_uri": f"{service.url}/token"}))
    store(gcs_key_file=file).check()
    with pytest.raises(ConfigurationError, match="there are no credentials"):
        store().check()


@pytest.mark.parametrize("content", [b"", b"{", b'{"private_key": "hunter2"}', b"\xff", None])
def test_a_file_that_is_no_key_is_told_and_nothing_in_it_shown(
    service: Service, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match="BATCH_PIPELINE_GCS_KEY_FILE") as caught:
        store(gcs_key_file=file).check()
    assert "hunter2" not in str(caught.value)


def test_a_key_that_is_refused_is_told_and_the_clock_brought_to_mind(
    service: Service, tmp_path: Path, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "token_status", 400)
    file = tmp_path / "key.json"
    file.write_text(json.dumps({**key, "token_uri": f"{service.url}/token"}))
    with pytest.raises(ConfigurationError, match="this machine's clock"):
        store(gcs_key_file=file).check()


def test_a_machine_without_credentials_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(ConfigurationError, match=r"workload identity.*BATCH_PIPELINE_GCS_KEY_FILE"):
        store().check()


def test_an_installation_without_the_package_is_told_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'volery\[gcs\]'"):
        store().check()


@pytest.mark.parametrize("url", ["gs:bucket", "gs://", "gs://Bucket/x", "gs://user:hunter2@bucket/x", "gs://b/x"])
def test_a_url_that_names_no_bucket_is_told(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        open_results(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["gs://bucket", "gs://bucket/", "gs://bucket//"])
def test_a_bucket_without_prefix_holds_results_at_its_top(service: Service, url: str) -> None:
    store(url).write(TOKEN, DOCUMENT)
    assert list(service.objects) == [ARTIFACT]


def test_a_large_document_goes_up_in_parts_and_its_session_is_not_shown(service: Service) -> None:
    service.next(refuses(403, "forbidden", "no"))
    with pytest.raises(ArtifactsUnavailable) as caught:
        store().write(TOKEN, b"x" * (9 << 20))
    assert "upload" not in caught.value.message
