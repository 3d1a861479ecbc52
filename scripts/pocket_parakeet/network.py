"""The pocket Parakeet as NeMo builds it: tokenizer, configuration, model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sentencepiece
import torch
from nemo.collections.asr.models import EncDecRNNTBPEModel
from omegaconf import OmegaConf, open_dict

from pocket_parakeet.clips import WORDS
from pocket_parakeet.noise import SAMPLE_RATE

DURATIONS = (0, 1, 2, 3, 4)
SIGMA = 0.02
FRAME_S = 0.08
"""One frame of the encoder: 8 steps of 10 ms."""

_PIECES = 36
_LONGEST_PIECE = 3
"""Letters of a piece, the word mark included: every word has two pieces or more, so that its end is emitted too."""

_REPEATS = {"three": 4, "nine": 3, "eight": 2}
"""How often words stand in the tokenizer's text; these would otherwise be spelled letter by letter."""

_FEATURES = 64
_WIDTH = 128
_FLOOR = 1e-6
"""Mel power that counts as silence: about what white noise at -64 dB of full scale has."""


def build(tokenizer: Path, seed: int) -> EncDecRNNTBPEModel:
    """An untrained model; its tokenizer is written to a folder, which saving the model needs too.

    Features are `log(1 + power / floor)`: silence is 0, like padding, and nothing is normalised over a
    window, so that what stands far from a word cannot change how it is heard.
    """
    torch.manual_seed(seed)
    _write_tokenizer(tokenizer)
    model = EncDecRNNTBPEModel(cfg=OmegaConf.create(_config(str(tokenizer))))
    with open_dict(model.cfg):
        model.cfg.validation_ds = {"use_start_end_token": False}  # `transcribe` looks here when it is given paths
    with torch.no_grad():
        model.preprocessor.featurizer.fb /= _FLOOR  # a buffer, so it is saved and restored with the weights
        model.encoder.pre_encode.conv[0].weight /= 4  # the features are about four times as wide as usual
    return model


def _write_tokenizer(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(word for word in WORDS for _ in range(10 * _REPEATS.get(word, 1))))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=_PIECES,
        model_type="bpe",
        max_sentencepiece_length=_LONGEST_PIECE,
        character_coverage=1.0,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    pieces = (line.split("\t")[0] for line in (folder / "tokenizer.vocab").read_text().splitlines())
    (folder / "vocab.txt").write_text("\n".join(pieces))


def _config(tokenizer: str) -> dict[str, Any]:
    durations = list(DURATIONS)
    return {
        "sample_rate": SAMPLE_RATE,
        "tokenizer": {"dir": tokenizer, "type": "bpe"},
        "preprocessor": _preprocessor(),
        "spec_augment": {
            "_target_": "nemo.collections.asr.modules.SpectrogramAugmentation",
            "freq_masks": 1,
            "freq_width": 8,
            "time_masks": 1,
            "time_width": 6,
        },
        "model_defaults": {
            "enc_hidden": _WIDTH,
            "pred_hidden": _WIDTH,
            "joint_hidden": _WIDTH,
            "tdt_durations": durations,
            "num_tdt_durations": len(durations),
        },
        "encoder": _encoder(),
        "decoder": {
            "_target_": "nemo.collections.asr.modules.RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "prednet": {"pred_hidden": _WIDTH, "pred_rnn_layers": 1, "dropout": 0.05},
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint",
            "log_softmax": None,
            "num_extra_outputs": len(durations),
            "fuse_loss_wer": False,
            "jointnet": {"joint_hidden": _WIDTH, "activation": "relu", "dropout": 0.05},
        },
        "decoding": {
            "strategy": "greedy_batch",
            "model_type": "tdt",
            "durations": durations,
            "greedy": {"max_symbols": 5},
        },
        "loss": {"loss_name": "tdt", "tdt_kwargs": {"durations": durations, "sigma": SIGMA, "omega": 0.0}},
        "optim": {"name": "adamw", "lr": 1e-3},
    }


def _preprocessor() -> dict[str, Any]:
    """Up to 3.8 kHz only: the dataset was recorded at 8 kHz, and has nothing above."""
    return {
        "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
        "sample_rate": SAMPLE_RATE,
        "features": _FEATURES,
        "window_size": 0.025,
        "window_stride": 0.01,
        "n_fft": 512,
        "lowfreq": 60,
        "highfreq": 3800,
        "normalize": None,
        "log_zero_guard_type": "add",
        "log_zero_guard_value": 1.0,
        "dither": 0.0,
        "pad_to": 0,
    }


def _encoder() -> dict[str, Any]:
    """Attention reaches one second to either side: the length of the audio then matters little."""
    return {
        "_target_": "nemo.collections.asr.modules.ConformerEncoder",
        "feat_in": _FEATURES,
        "n_layers": 5,
        "d_model": _WIDTH,
        "n_heads": 4,
        "subsampling": "dw_striding",
        "subsampling_factor": 8,
        "subsampling_conv_channels": 32,
        "att_context_size": [12, 12],
        "conv_kernel_size": 9,
        "conv_norm_type": "layer_norm",
        "dropout": 0.05,
        "dropout_pre_encoder": 0.0,
        "dropout_att": 0.0,
    }
