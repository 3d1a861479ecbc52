"""Parakeet TDT through NeMo.

Windows go straight through the model's preprocessor, encoder and decoder: `transcribe` changes the
model while it runs, and with `timestamps=True` puts another decoder in place of the one set up here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from volery.speech.asr import Hypothesis, SwitchState, tidy
from volery.speech.choice import ASR_SETTING, NOT_PINNED, Pinned, parakeet_model
from volery.speech.decoding_mode import DecodingMode, ModeGuard, computer_of, decode_by_steps
from volery.speech.models import Carried
from volery.speech.parakeet_words import WordMaker, WordOffsets
from volery.speech.precision import Precision
from volery.speech.quiet import quiet_import
from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError, ModelInfo

with quiet_import():
    from nemo.collections.asr.models import ASRModel, EncDecRNNTBPEModel
    from nemo.utils import logging as nemo_logging

SHORTEST_S = 1.0
"""Shorter windows are set in the middle of so much silence, as NeMo's `transcribe` does.

A word without anything around it is heard worse, and features are normalised over frames, of which one has no spread.
"""

_SHORTEST = round(SHORTEST_S * SAMPLE_RATE)

_MOST_SYMBOLS = 10
"""Tokens of one frame where a model sets no bound: NeMo's own for graphs; eager might never leave the frame."""


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The shape of a batch: rows, and seconds of each."""

    windows: int
    seconds: float

    def halved(self) -> BatchShape:
        """Half the rows."""
        return BatchShape(self.windows // 2, self.seconds)


@dataclass(frozen=True, slots=True)
class ParakeetOptions:
    """How the engine runs.

    With a `shape` every batch is filled up to it, so that a window's words do not depend on its
    neighbours and graphs are captured once; without one, as on a CPU, which gains nothing from
    filling up, each window goes alone at its own length.
    """

    mode: DecodingMode
    precision: Precision
    shape: BatchShape | None = None


class ParakeetEngine:
    """A FastConformer-TDT model that decodes greedily in batches, in the mode and precision that were asked for."""

    def __init__(
        self,
        model: EncDecRNNTBPEModel,
        info: ModelInfo,
        device: torch.device,
        options: ParakeetOptions,
        languages: frozenset[str] | None = None,
    ) -> None:
        self.info = info
        self.languages = languages
        self._device = device
        self.options = options
        self.model = _ready(model, device, options.mode)
        options.precision.pin(self.model)
        if options.shape is not None and not options.mode.graphs:
            decode_by_steps(computer_of(self.model))
        self.guard = ModeGuard(self.model, options.mode)
        stride_s = float(self.model.cfg.preprocessor.window_stride)
        frame_s = stride_s * int(self.model.encoder.subsampling_factor)
        self._maker = WordMaker(self.model.tokenizer, frame_s, _offsets(self.model.cfg))

    @property
    def graphs(self) -> SwitchState:
        """Whether the live decoder runs CUDA graphs; on a CPU it never can, whatever its mode says."""
        return "inapplicable" if self._device.type == "cpu" else self.guard.state

    def transcribe(self, windows: Sequence[SpeechWindow]) -> list[Hypothesis]:
        """A hypothesis a window, in order; windows are batched longest first.

        Raises:
            QuarantineError: the live decoder or its precision is not what was asked for.
            torch.OutOfMemoryError: not even one window fits.
        """
        order = sorted(range(len(windows)), key=lambda index: -windows[index].duration_s)
        heard = self._decode([windows[index] for index in order], self.options.shape)
        hypotheses = dict(zip(order, heard, strict=True))
        return [hypotheses[index] for index in range(len(windows))]

    def warm_up(self) -> None:
        """Decode one batch of the largest shape: a graph captured for it serves every smaller one."""
        seconds = self.options.shape.seconds if self.options.shape else 1.0
        silence = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
        self.transcribe([SpeechWindow(0, 0.0, silence)])

    def _decode(self, windows: Sequence[SpeechWindow], shape: BatchShape | None) -> list[Hypothesis]:
        """Decode in batches; where one does not fit in memory, it and what follows in batches half as large."""
        hypotheses: list[Hypothesis] = []
        rows = shape.windows if shape else 1
        for first in range(0, len(windows), rows):
            batch = windows[first : first + rows]
            try:
                hypotheses += self._batch(batch, shape or BatchShape(1, batch[0].duration_s))
            except torch.OutOfMemoryError:
                if shape is None or rows == 1:
                    raise
            else:
                continue
            self._make_room()
            return hypotheses + self._decode(windows[first:], shape.halved())
        return hypotheses

    def _make_room(self) -> None:
        """Give memory back, and what the decoder may have half made for itself: later batches would break on it."""
        if not self.guard.captures:
            computer_of(self.model).reset_cuda_graphs_state()
        torch.cuda.empty_cache()

    @torch.inference_mode()
    def _batch(self, windows: Sequence[SpeechWindow], shape: BatchShape) -> list[Hypothesis]:
        self.options.precision.set_tf32()
        self.options.precision.check(self.model)
        self.guard.check()
        decoded = self._forward(*_padded(windows, shape))
        if self._device.type != "cpu":
            self.guard.decoded()
        self.guard.check()
        self.options.precision.check(self.model)
        return [
            Hypothesis(tidy(list(self._maker.words(heard, -_lead(window) / SAMPLE_RATE)), window.duration_s))
            for window, heard in zip(windows, decoded, strict=False)
        ]

    def _forward(self, signal: torch.Tensor, lengths: torch.Tensor) -> Sequence[Any]:
        """NeMo hypotheses of a batch, `(rows, samples)`."""
        features, feature_lengths = self.model.preprocessor(
            input_signal=signal.to(self._device), length=lengths.to(self._device)
        )
        encoded, encoded_lengths = self.model.encoder(
            audio_signal=features.to(self.options.precision.dtype), length=feature_lengths
        )
        return cast(
            "Sequence[Any]",
            self.model.decoding.rnnt_decoder_predictions_tensor(encoded, encoded_lengths, return_hypotheses=True),
        )


def _padded(windows: Sequence[SpeechWindow], shape: BatchShape) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples filled up with silence to the shape, and the length of each row; rows without a window are silent."""
    longest = max(len(window.samples) for window in windows)
    width = max(round(shape.seconds * SAMPLE_RATE), longest, _SHORTEST)
    signal = np.zeros((shape.windows, width), dtype=np.float32)
    lengths = np.full(shape.windows, width, dtype=np.int64)
    for row, window in enumerate(windows):
        lead = _lead(window)
        signal[row, lead : lead + len(window.samples)] = window.samples
        lengths[row] = max(len(window.samples), _SHORTEST)
    return torch.from_numpy(signal), torch.from_numpy(lengths)


def _lead(window: SpeechWindow) -> int:
    """Samples of silence before a short window."""
    return max(_SHORTEST - len(window.samples), 0) // 2


def _offsets(cfg: DictConfig) -> WordOffsets:
    """What the model's own calibration says of its word times; most models carry none."""
    stored = cfg.get("word_offsets") or {}
    return WordOffsets(float(stored.get("start_s", 0.0)), float(stored.get("end_s", 0.0)))


def _ready(model: EncDecRNNTBPEModel, device: torch.device, mode: DecodingMode) -> EncDecRNNTBPEModel:
    """The model on its device, frozen, without dither, and with the decoding that words need."""
    model = model.to(device).eval()
    model.freeze()
    model.preprocessor.featurizer.dither = 0.0
    model.preprocessor.featurizer.pad_to = 0
    model.change_decoding_strategy(_decoding(model.cfg.decoding, graphs=mode.graphs), verbose=False)
    return model


def _decoding(configured: DictConfig, *, graphs: bool) -> DictConfig:
    """Greedy batched TDT with token durations and confidences; word offsets are made here, not in NeMo."""
    greedy = configured.get("greedy") or {}
    most = greedy.get("max_symbols") or greedy.get("max_symbols_per_step") or _MOST_SYMBOLS
    wanted = {
        "strategy": "greedy_batch",
        "compute_timestamps": False,
        "preserve_alignments": False,
        "tdt_include_token_duration": True,
        "greedy": {
            "loop_labels": True,
            "use_cuda_graph_decoder": graphs,
            "preserve_alignments": False,
            "max_symbols": most,
        },
        "confidence_cfg": {
            "preserve_frame_confidence": True,
            "preserve_token_confidence": True,
            "exclude_blank": True,
            "method_cfg": {"name": "max_prob", "alpha": 1.0},
        },
    }
    decoding = cast("DictConfig", OmegaConf.create(OmegaConf.to_container(configured)))
    with open_dict(decoding):
        return cast("DictConfig", OmegaConf.merge(decoding, wanted))


def load_parakeet(
    name: str | None, device: torch.device, options: ParakeetOptions, pinned: Pinned = NOT_PINNED
) -> ParakeetEngine:
    """The engine for `pocket`, a `.nemo` file or a hub name; unset: Parakeet TDT 0.6B v3 from the hub.

    Raises:
        ConfigurationError: the model cannot be found, fetched or loaded, is not what is pinned, or is no TDT model.
    """
    nemo_logging.setLevel(nemo_logging.ERROR)
    chosen = parakeet_model(name, pinned)
    weights = chosen.fetch().checked()
    try:
        model = ASRModel.restore_from(str(weights.path), map_location=device)
    except Exception as error:  # a broken archive fails in many ways
        raise ConfigurationError(
            f"{ASR_SETTING}={weights.name} cannot be loaded as a NeMo model: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(model, EncDecRNNTBPEModel) or model.cfg.decoding.get("durations") in (None, []):
        raise ConfigurationError(f"{ASR_SETTING}={weights.name} is no TDT transducer, but a {type(model).__name__}")
    languages = chosen.languages if isinstance(chosen, Carried) else None  # a .nemo file does not say
    return ParakeetEngine(model, weights.info("asr"), device, options, languages)
