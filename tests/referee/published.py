"""Published units for the referee to judge, and stubs of what listens."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from blank_result import AUDIO, blank_result
from volery.artifacts import open_results
from volery.referee.cases import Case, Heard
from volery.results import ClipRecord, UnitResult, WordRecord
from volery.settings import ArtifactSettings, AudioSettings, RefereeSettings, Settings
from volery.units import Clip, ResultClass, Unit, UnitOptions


def settings_in(folder: Path, *, audio: dict[str, object] | None = None, **referee: object) -> Settings:
    """Settings whose results are in a folder."""
    return Settings(
        artifacts=ArtifactSettings(artifacts_url=(folder / "artifacts").as_uri()),
        audio=AudioSettings.model_validate(audio or {}),
        referee=RefereeSettings.model_validate(referee),
    )


def document(unit: Unit, words: str, audio: Path, language: str | None = None) -> UnitResult:
    """The result of a unit in which these words were found."""
    found = tuple(
        WordRecord(text=word, start_s=n / 4, end_s=n / 4 + 0.2, confidence=0.9, speaker=None)
        for n, word in enumerate(words.split())
    )
    return blank_result(
        unit.key,
        owner=unit.owner,
        result_class=ResultClass.SPEECH if found else ResultClass.NO_SPEECH,
        duration_s=1.0,
        language=language,
        text=words,
        words=found,
        audio=AUDIO.model_copy(
            update={
                "uri": unit.audio_uri,
                "sha256": hashlib.sha256(audio.read_bytes()).hexdigest(),
                "clip": ClipRecord(start_s=unit.clip.start_s, end_s=unit.clip.end_s) if unit.clip else None,
            }
        ),
    )


def publish(
    settings: Settings,
    key: str,
    words: str,
    audio: Path,
    *,
    clip: Clip | None = None,
    asked: str | None = None,
    language: str | None = None,
) -> Case:
    """Publish a unit; `asked` is the language that its submitter named, `language` the one in its result."""
    unit = Unit(key, audio.as_uri(), clip=clip, options=UnitOptions(language=asked))
    results = open_results(settings.artifacts.artifacts_url)
    token = hashlib.sha256(key.encode()).hexdigest()
    return Case(unit, results.write(token, document(unit, words, audio, language).to_json()))


@dataclass
class Says:
    """Hears the same in everything, and remembers how much audio and which language it was given."""

    text: str
    language: str | None = None
    given: list[tuple[int, str | None]] = field(default_factory=list)

    def hear(self, samples: npt.NDArray[np.float32], language: str | None) -> Heard:
        self.given.append((len(samples), language))
        return Heard(self.text, self.language)


@dataclass
class Loading:
    """Loads a listener and counts how often."""

    listener: Says
    loaded: int = 0

    def __call__(self) -> Says:
        self.loaded += 1
        return self.listener
