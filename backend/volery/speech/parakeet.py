"""Parakeet TDT through NeMo.

Windows go straight through the model's preprocessor, encoder and decoder: `transcribe` changes the
model while it runs, and with `timestamps=True` puts another decoder in place of the one set up here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from volery.speech import models
from volery.speech.asr import Hypothesis, HypothesisWord, SwitchState, tidy
from volery.speech.quiet import quiet_import
from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError, ModelInfo

with quiet_import():
    from nemo.collections.asr.models import ASRModel, EncDecRNNTBPEModel
    from nemo.collections.asr.parts.submodules.transducer_decoding.tdt_label_looping import (
        GreedyBatchedTDTLabelLoopingComputer,
    )
    from nemo.utils import logging as nemo_logging

SETTING = "BATCH_PIPELINE_ASR_MODEL"
HUB_MODEL = "nvidia/parakeet-tdt-0.6b-v3"
_WORD_START = "▁"


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The shape of every batch on an accelerator: windows, and seconds of the longest one."""

    windows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Token:
    piece: str
    id: int
    frame: int
    duration: int
    confidence: float


class ParakeetEngine:
    """A FastConformer-TDT model that decodes greedily in batches."""

    languages = None

    def __init__(
        self, model: EncDecRNNTBPEModel, info: ModelInfo, device: torch.device, shape: BatchShape, *, graphs: bool
    ) -> None:
        self.info = info
        self._device = device
        self._shape = shape
        self._model = _ready(model, device, graphs=graphs)
        stride_s = float(self._model.cfg.preprocessor.window_stride)
        self._frame_s = stride_s * int(self._model.encoder.subsampling_factor)

    @property
    def computer(self) -> GreedyBatchedTDTLabelLoopingComputer:
        """The object that decodes, as it is now: its mode is the truth about graphs."""
        return self._model.decoding.decoding.decoding_computer

    @property
    def graphs(self) -> SwitchState:
        """Whether the live decoder runs CUDA graphs; on a CPU it never can, whatever its mode says."""
        if self._device.type == "cpu":
            return "inapplicable"
        return "on" if self.computer.allow_cuda_graphs and self.computer.cuda_graphs_mode is not None else "off"

    def transcribe(self, windows: Sequence[SpeechWindow]) -> list[Hypothesis]:
        """A hypothesis a window, in order.

        On an accelerator the windows are batched, longest first, each batch filled up to one
        shape; on a CPU, which gains nothing from filling up, each goes alone at its own length.
        """
        if self._device.type == "cpu":
            return [self._batch([window], BatchShape(1, window.duration_s))[0] for window in windows]
        order = sorted(range(len(windows)), key=lambda index: -windows[index].duration_s)
        hypotheses: dict[int, Hypothesis] = {}
        for first in range(0, len(order), self._shape.windows):
            indices = order[first : first + self._shape.windows]
            batch = self._batch([windows[index] for index in indices], self._shape)
            hypotheses.update(zip(indices, batch, strict=True))
        return [hypotheses[index] for index in range(len(windows))]

    def warm_up(self) -> None:
        """Decode one batch of the largest shape, so that nothing grows later."""
        seconds = self._shape.seconds if self._device.type != "cpu" else 1.0
        silence = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
        self.transcribe([SpeechWindow(0, 0.0, silence)])

    @torch.inference_mode()
    def _batch(self, windows: Sequence[SpeechWindow], shape: BatchShape) -> list[Hypothesis]:
        signal = np.zeros((shape.windows, round(shape.seconds * SAMPLE_RATE)), dtype=np.float32)
        lengths = np.full(shape.windows, signal.shape[1], dtype=np.int64)
        for row, window in enumerate(windows):
            lengths[row] = len(window.samples)
            signal[row, : lengths[row]] = window.samples
        encoded, encoded_lengths = self._model.forward(
            input_signal=torch.from_numpy(signal).to(self._device),
            input_signal_length=torch.from_numpy(lengths).to(self._device),
        )
        decoded = self._model.decoding.rnnt_decoder_predictions_tensor(encoded, encoded_lengths, return_hypotheses=True)
        return [
            Hypothesis(tidy(list(self._words(heard)), window.duration_s))
            for window, heard in zip(windows, decoded, strict=False)
        ]

    def _words(self, heard: Any) -> Iterator[HypothesisWord]:
        """Words of a NeMo hypothesis, from its own token times and confidences.

        A word lasts from its first token to the end of its last one; its confidence is the mean
        of its tokens' probabilities.
        """
        for tokens in _by_word(list(self._tokens(heard))):
            start_s = tokens[0].frame * self._frame_s
            end_s = (tokens[-1].frame + max(tokens[-1].duration, 1)) * self._frame_s
            confidence = sum(token.confidence for token in tokens) / len(tokens)
            for text in self._model.tokenizer.ids_to_text([token.id for token in tokens]).split():
                yield HypothesisWord(text, start_s, end_s, confidence)

    def _tokens(self, heard: Any) -> Iterator[_Token]:
        ids = [int(token) for token in heard.y_sequence]
        pieces = self._model.tokenizer.ids_to_tokens(ids)
        frames, durations = (np.asarray(values).tolist() for values in (heard.timestamp, heard.token_duration))
        confidences = [float(value) for value in heard.token_confidence]
        for fields in zip(pieces, ids, frames, durations, confidences, strict=True):
            yield _Token(*fields)


def _by_word(tokens: Sequence[_Token]) -> list[list[_Token]]:
    words: list[list[_Token]] = []
    for token in tokens:
        if not words or token.piece.startswith(_WORD_START):
            words.append([])
        words[-1].append(token)
    return words


def _ready(model: EncDecRNNTBPEModel, device: torch.device, *, graphs: bool) -> EncDecRNNTBPEModel:
    """The model on its device, frozen, without dither, and with the decoding that words need."""
    model = model.to(device).eval()
    model.freeze()
    model.preprocessor.featurizer.dither = 0.0
    model.preprocessor.featurizer.pad_to = 0
    model.change_decoding_strategy(
        _decoding(model.cfg.decoding, graphs=graphs and device.type == "cuda"), verbose=False
    )
    return model


def _decoding(configured: DictConfig, *, graphs: bool) -> DictConfig:
    """Greedy batched TDT with token durations and confidences; word offsets are made here, not in NeMo."""
    wanted = {
        "strategy": "greedy_batch",
        "compute_timestamps": False,
        "preserve_alignments": False,
        "tdt_include_token_duration": True,
        "greedy": {"loop_labels": True, "use_cuda_graph_decoder": graphs, "preserve_alignments": False},
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


def load_parakeet(name: str | None, device: torch.device, shape: BatchShape, *, graphs: bool) -> ParakeetEngine:
    """The engine for a `.nemo` file or a hub name; unset: Parakeet TDT 0.6B v3 from the hub.

    Raises:
        ConfigurationError: the model cannot be found, fetched or loaded, or is no TDT model.
    """
    nemo_logging.setLevel(nemo_logging.ERROR)
    weights = _weights(name or HUB_MODEL)
    try:
        model = ASRModel.restore_from(str(weights.path), map_location=device)
    except Exception as error:  # a broken archive fails in many ways
        raise ConfigurationError(
            f"{SETTING}={weights.name} cannot be loaded as a NeMo model: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(model, EncDecRNNTBPEModel) or model.cfg.decoding.get("durations") in (None, []):
        raise ConfigurationError(f"{SETTING}={weights.name} is no TDT transducer, but a {type(model).__name__}")
    return ParakeetEngine(model, weights.info("asr"), device, shape, graphs=graphs)


def _weights(name: str) -> models.Weights:
    if models.is_local(name):
        return models.Weights(Path(name).name, "path", models.local_path(name, SETTING))
    with models.from_hub(name, SETTING):
        return models.Weights(name, "hub", Path(ASRModel.from_pretrained(name, return_model_file=True)))
