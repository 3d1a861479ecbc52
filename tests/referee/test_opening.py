"""What is known of a referee before its process begins."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

from volery.referee import opening
from volery.referee.opening import check_referee
from volery.settings import RefereeSettings, Settings


def test_every_package_of_the_extra_is_looked_for() -> None:
    required = [line for line in metadata.requires("volery") or () if re.search(r"extra == ['\"]referee['\"]", line)]
    names = [re.split(r"[^A-Za-z0-9._-]", line)[0].replace("-", "_") for line in required]
    assert sorted(names) == sorted(opening._PACKAGES)


def test_nothing_is_asked_of_a_referee_that_audits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_PACKAGES", ("no_such_package",))
    assert check_referee(Settings(referee=RefereeSettings(referee_sample_rate=0.0))) == ()
