"""The speech pipeline: decoded units in, transcripts out. It does all the work on one thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
import numpy.typing as npt
import structlog
import torch

from volery import metrics
from volery.settings import ProviderConfig, SpeechSettings
from volery.speech.asr import AsrEngine, Hypothesis, SwitchState, asked_language
from volery.speech.choice import asr_pinned, diarization_pinned, engine_of, second_vad_model
from volery.speech.device import choose_device, use_threads
from volery.speech.diarization import Diarizer, load_diarizer
from volery.speech.failures import as_unit_error, described
from volery.speech.models import POCKET, SEGMENTATION, SILERO
from volery.speech.quiet import hush
from volery.speech.second_vad import SecondVad
from volery.speech.segmentation import Segmenter
from volery.speech.segments import Activity, whole_ms
from volery.speech.speakers import with_speakers
from volery.speech.vad import Detection, PyannoteVad, SileroVad, VadEngine
from volery.speech.whisper import load_whisper
from volery.speech.windows import SpeechWindow, cut_windows, windows_of
from volery.units import (
    SAMPLE_RATE,
    ModelInfo,
    PreparedUnit,
    QuarantineError,
    ResultClass,
    Transcript,
    Turn,
    Unit,
    UnitError,
    Word,
)

ACCELERATOR_BATCH = 32
CPU_BATCH = 4
"""Segmentation windows in a batch. Every batch is filled up, and a CPU gains little from large ones."""

log = structlog.get_logger(__name__)

_UNHEARD = Detection((), Activity(np.zeros(0, dtype=np.float32), 0.0, 1.0))


@dataclass(slots=True, eq=False)
class _Work:
    """A unit on its way through the stages."""

    prepared: PreparedUnit
    language: str | None = None
    detection: Detection = _UNHEARD
    recovery: Detection | None = None
    turns: tuple[Turn, ...] = ()
    windows: list[SpeechWindow] = field(default_factory=list)
    hypotheses: list[Hypothesis] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("vad", "diarize", "asr"), 0.0))
    error: UnitError | None = None

    @property
    def unit(self) -> Unit:
        return self.prepared.unit

    @property
    def samples(self) -> npt.NDArray[np.float32]:
        return self.prepared.audio.samples

    @property
    def duration_s(self) -> float:
        return self.prepared.audio.duration_s

    @property
    def found(self) -> Detection:
        """The speech to transcribe, whichever engine found it."""
        return self.recovery or self.detection

    @property
    def has_speech(self) -> bool:
        return self.error is None and bool(self.found.speech)

    def words(self) -> list[Word]:
        """The words of all windows in unit time."""
        return [
            Word(word.text, self._at(window, word.start_s), self._at(window, word.end_s), word.confidence)
            for window, hypothesis in zip(self.windows, self.hypotheses, strict=True)
            for word in hypothesis.words
        ]

    def _at(self, window: SpeechWindow, seconds: float) -> float:
        return whole_ms(window.start_s + seconds, self.duration_s)

    def heard_language(self) -> str | None:
        """The language of most of the audio that had words."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for window, hypothesis in zip(self.windows, self.hypotheses, strict=True):
            if hypothesis.language and hypothesis.words:
                seconds[hypothesis.language] += window.duration_s
        return max(seconds, key=lambda language: seconds[language], default=None)


class SpeechPipeline:
    """VAD, diarization and ASR over groups of units; built once, used from one thread."""

    def __init__(
        self,
        settings: SpeechSettings,
        vad: VadEngine,
        diarizer: Diarizer,
        asr: AsrEngine,
        reuse: SwitchState,
        second_vad: SecondVad | None = None,
    ) -> None:
        self._settings = settings
        self.vad = vad
        self.second_vad = second_vad
        self.diarizer = diarizer
        self.asr = asr
        self._reuse = reuse

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models that results come from, one a role: vad, segmentation, embedding, asr, and perhaps second_vad."""
        models = (self.vad.info, self.diarizer.segmentation, self.diarizer.embedding, self.asr.info)
        recovering = self._recovering
        return (*models, replace(recovering.engine.info, role="second_vad")) if recovering else models

    @property
    def _recovering(self) -> SecondVad | None:
        return self.second_vad if self.second_vad and self.second_vad.recovers else None

    def switch_states(self) -> dict[str, str]:
        """Each switch that the models know, as it is on the live objects: on, off or inapplicable."""
        return {
            "vad_segmentation_reuse": self._reuse,
            "asr_cuda_graphs": self.asr.graphs,
            "vad_recovery": "on" if self._recovering else "off",
        }

    def warm_up(self) -> None:
        """Do, before readiness, what the first group would otherwise wait for."""
        second = [self.second_vad.engine] if self.second_vad else []
        for vad in (self.vad, *second):
            vad.detect(np.zeros(SAMPLE_RATE, dtype=np.float32))
        self.asr.warm_up()

    def process(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        """A transcript a unit, in order, or what went wrong with that unit.

        Raises:
            QuarantineError: this process may no longer be trusted.
        """
        works = [_Work(prepared) for prepared in group]
        with metrics.stage("vad"):
            self._each("vad", works, self._detect)
        with metrics.stage("diarize"):
            self._each("diarize", [work for work in works if work.has_speech], self._diarize)
        with metrics.stage("asr"):
            self._hear([work for work in works if work.has_speech])
        self._shadow(works)
        return [work.error or self._transcript(work) for work in works]

    def _each(self, stage: str, works: Sequence[_Work], step: Callable[[_Work], None]) -> None:
        """Run a stage unit by unit: one unit's failure is its own."""
        for work in works:
            started = perf_counter()
            try:
                step(work)
            except QuarantineError:
                raise
            except Exception as error:
                work.error = self._failure(stage, work, error)
            work.timings[stage] += perf_counter() - started

    def _failure(self, stage: str, work: _Work, error: Exception) -> UnitError:
        failure = as_unit_error(stage, error)
        if failure is not error:
            log.error("a stage failed", stage=stage, key=work.unit.key, error=described(error))
        return failure

    def _detect(self, work: _Work) -> None:
        work.language = asked_language(work.unit.options.language, self.asr.languages)
        work.detection = self.vad.detect(work.samples)
        if self._recovering and not work.detection.speech:
            work.recovery = self._recovering.recovery(work.unit.key, work.samples, work.detection)

    def _diarize(self, work: _Work) -> None:
        known = work.found.segmentation if self._reuse == "on" else None
        work.turns = self.diarizer.turns(work.samples, num_speakers=work.unit.options.num_speakers, known=known)

    def _hear(self, works: Sequence[_Work]) -> None:
        """ASR over the windows of all units together; where that fails, unit by unit."""
        for index, work in enumerate(works):
            detection = work.found
            longest_s = self._settings.asr_window_seconds
            cuts = cut_windows(detection.speech, detection.activity, work.duration_s, longest_s)
            work.windows = windows_of(index, work.samples, cuts, work.language)
        try:
            self._transcribe(works)
        except QuarantineError:
            raise
        except Exception as error:
            log.warning("asr failed on units together, now one by one", units=len(works), error=described(error))
            self._each("asr", works, lambda work: self._transcribe([work]))

    def _transcribe(self, works: Sequence[_Work]) -> None:
        windows = [window for work in works for window in work.windows]
        started = perf_counter()
        hypotheses = iter(self.asr.transcribe(windows))
        per_second = (perf_counter() - started) / max(sum(window.duration_s for window in windows), 1e-9)
        for work in works:
            work.hypotheses = [next(hypotheses) for _ in work.windows]
            work.timings["asr"] = per_second * sum(window.duration_s for window in work.windows)

    def _transcript(self, work: _Work) -> Transcript:
        words = with_speakers(work.words(), work.turns)
        spoken = ResultClass.SPEECH if words else ResultClass.NO_WORDS
        return Transcript(
            result_class=spoken if work.found.speech else ResultClass.NO_SPEECH,
            words=words,
            turns=work.turns,
            speech=work.found.speech,
            language=work.heard_language(),
            models=self.models,
            switches=tuple(self.switch_states().items()),
            timings=tuple(work.timings.items()),
            recovered=work.recovery is not None,
        )

    def _shadow(self, works: Sequence[_Work]) -> None:
        """Let the other VAD engine look at a sample of what is done; it belongs to no stage."""
        if self.second_vad:
            for work in works:
                if work.error is None:
                    self.second_vad.shadow(work.unit.key, work.samples, work.detection.speech)


def load_pipeline(speech: SpeechSettings, provider: ProviderConfig) -> SpeechPipeline:
    """Load every model that the settings ask for.

    Raises:
        ConfigurationError: a setting, a model or the machine makes the work impossible.
    """
    hush()
    device = choose_device(speech.device)
    batch = speech.speech_batch_windows or (CPU_BATCH if device.type == "cpu" else ACCELERATOR_BATCH)
    asr = _load_asr(speech, provider, device)
    segmenter = Segmenter(SEGMENTATION.find(), batch, device) if speech.vad_engine == "pyannote" else None
    vad: VadEngine = PyannoteVad(segmenter) if segmenter else SileroVad()
    diarizer = load_diarizer(speech.diarization_model, segmenter, batch, device, diarization_pinned(speech))
    second = _load_second_vad(speech, provider, batch, device)
    use_threads(speech.cpu_threads)
    reuse = reuse_state(provider.vad_segmentation_reuse_enabled, segmenter, diarizer)
    return SpeechPipeline(speech, vad, diarizer, asr, reuse, second)


def _load_second_vad(
    speech: SpeechSettings, provider: ProviderConfig, batch: int, device: torch.device
) -> SecondVad | None:
    """The engine that is not in use, where anything asks for it."""
    model = second_vad_model(speech, provider)
    if model is None:
        return None
    engine = SileroVad() if model is SILERO else PyannoteVad(Segmenter(model.find(), batch, device))
    return SecondVad(engine, shadow_share=speech.vad_shadow_sample_rate, recovers=provider.vad_recovery_enabled)


def reuse_state(enabled: bool, segmenter: Segmenter | None, diarizer: Diarizer) -> SwitchState:
    """What the reuse switch comes to with these models."""
    if segmenter is None or not diarizer.shares_model(segmenter):
        return "inapplicable"
    return "on" if enabled else "off"


def _load_asr(speech: SpeechSettings, provider: ProviderConfig, device: torch.device) -> AsrEngine:
    embedded, pinned = speech.models == "embedded", asr_pinned(speech)
    if engine_of(speech) == "whisper":
        return load_whisper(speech.asr_model, embedded=embedded, cpu_threads=speech.cpu_threads, pinned=pinned)
    # NeMo takes seconds to import and is an engine of its own.
    from volery.speech import parakeet
    from volery.speech.decoding_mode import DecodingMode
    from volery.speech.precision import precision_of

    on_accelerator = device.type != "cpu"
    options = parakeet.ParakeetOptions(
        DecodingMode(provider.asr_cuda_graphs_enabled and on_accelerator, speech.asr_cuda_graphs_allow_partial),
        precision_of(speech.asr_precision, device, tf32=speech.asr_tf32_enabled),
        parakeet.BatchShape(speech.asr_batch_windows, speech.asr_window_seconds) if on_accelerator else None,
    )
    return parakeet.load_parakeet(speech.asr_model or (POCKET if embedded else None), device, options, pinned)
