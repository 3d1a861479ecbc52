"""The referee at work on one unit, in a process of its own: fetch, hear, compare, ask the larger model if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pydantic import ValidationError

from volery.artifacts import open_results, open_source
from volery.artifacts.uris import local_path, scheme
from volery.referee.cases import Case, Judgement, Listener, RefereeError, RefereeReason
from volery.referee.devices import Choice
from volery.referee.disagreement import code_of, distance
from volery.referee.documents import Published
from volery.settings import Settings
from volery.units import ConfigurationError, StoreError, UnitError
from volery.worker.preparation import AudioLoader

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Judge:
    """Judges one unit after the other. The second model, which is loaded when first needed, decides where
    the first disagrees beyond the threshold; where there is none, what the first disagrees about counts.
    """

    def __init__(
        self, settings: Settings, first: Listener, load_second: Callable[[], Listener] | None, choice: Choice
    ) -> None:
        self._threshold = settings.referee.referee_threshold
        self._results = open_results(settings.artifacts.artifacts_url, settings.artifacts)
        self._loader = AudioLoader(open_source(settings.artifacts), settings.audio, settings.worker.group_seconds)
        self._first = first
        self._load_second = load_second
        self.choice = choice

    def judge(self, case: Case) -> Judgement:
        """Judge a unit's published words.

        Raises:
            RefereeError: its result or its audio cannot be had, the audio is another by now, a model
                does not know its language, or the second cannot be loaded.
        """
        began_s = perf_counter()
        published = self._published(case)
        samples = self._samples(case, published)
        language = code_of(case.unit.options.language or published.language)
        first = counts = _opinion(self._first, samples, language, published)
        second = self._second if first.disagreement > self._threshold else None
        if second is not None:
            counts = min(
                first, _opinion(second, samples, language, published), key=lambda one: (one.disagreement, one.edits)
            )
        return Judgement(
            key=case.key,
            disagreement=counts.disagreement,
            first=first.disagreement,
            escalated=second is not None,
            edits=counts.edits,
            words=counts.words,
            language=counts.language,
            device=self.choice.device,
            seconds=perf_counter() - began_s,
        )

    @cached_property
    def _second(self) -> Listener | None:
        try:
            return self._load_second and self._load_second()
        except ConfigurationError as error:
            raise RefereeError(RefereeReason.NOT_STARTED, str(error)) from error

    def _published(self, case: Case) -> Published:
        try:
            if scheme(case.artifact) == "file":
                return Published.model_validate_json(Path(local_path(case.artifact)).read_bytes())
            return Published.model_validate_json(self._results.read(case.artifact))
        except ValidationError as error:  # whose own words quote the document
            said = f"its result {case.artifact} has {error.error_count()} fields that cannot be read"
        except (OSError, StoreError) as error:
            said = f"its result {case.artifact} cannot be read: {error}"
        raise RefereeError(RefereeReason.RESULT, f"{case.key}: {said}") from None

    def _samples(self, case: Case, published: Published) -> npt.NDArray[np.float32]:
        try:
            opened = self._loader.open(case.unit)
            audio = self._loader.load(case.unit, opened, self._loader.max_seconds)
        except UnitError as error:
            raise RefereeError(RefereeReason.AUDIO, f"{case.key}: {error}") from error
        if audio.info.sha256 != published.audio.sha256:
            raise RefereeError(RefereeReason.AUDIO, f"{case.key}: its audio changed since it was transcribed")
        return audio.samples


@dataclass(frozen=True, slots=True)
class _Opinion:
    disagreement: float
    edits: int
    words: int
    language: str | None


def _opinion(
    listener: Listener, samples: npt.NDArray[np.float32], language: str | None, published: Published
) -> _Opinion:
    heard = listener.hear(samples, language)
    spoken = language or heard.language
    found = distance(published.text, heard.text, spoken)
    return _Opinion(found.disagreement, found.edits, found.words, spoken)
