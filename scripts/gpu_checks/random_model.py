"""A TDT model of Parakeet's shape with random weights: the work of a real one, where no real one can be had.

The shape of parakeet-tdt-0.6b-v3 is the XLarge row of NeMo's published FastConformer-Transducer
configuration, with the 128 mel bands, the 8192 pieces and the durations 0 to 4 of that checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import sentencepiece
import torch
from omegaconf import OmegaConf

from volery.speech.quiet import quiet_import
from volery.units import SAMPLE_RATE

with quiet_import():
    from nemo.collections.asr.models import EncDecRNNTBPEModel
    from nemo.utils import logging as nemo_logging

Samples = npt.NDArray[np.float32]

NAME = "random-0.6b"
SEED = 7

TOKENS_PER_SECOND = 4.0
"""About as many as in speech."""

_DRAWN = 256
_SYLLABLES = [f"{a}{b}{c}" for a in "bdfghklmnprstvwz" for b in "aeiou" for c in ("", "n", "s", "l")]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a FastConformer-TDT model."""

    features: int = 128
    layers: int = 24
    width: int = 1024
    heads: int = 8
    subsampling_channels: int = 256
    kernel: int = 9
    prediction: int = 640
    prediction_layers: int = 2
    pieces: int = 8192
    durations: tuple[int, ...] = (0, 1, 2, 3, 4)


PARAKEET = Shape()


def build(folder: Path, samples: Samples, shape: Shape = PARAKEET) -> Path:
    """Write a model as NeMo does, and return its path. On audio like `samples` it emits words and blanks in turn."""
    nemo_logging.setLevel(nemo_logging.ERROR)
    torch.manual_seed(SEED)
    tokenizer = _tokenizer(folder / "tokenizer", shape.pieces)
    model = EncDecRNNTBPEModel(cfg=OmegaConf.create(_config(tokenizer, shape))).eval()
    _loosen(model, samples, shape)
    path = folder / f"{NAME}.nemo"
    model.save_to(str(path))
    return path


def _tokenizer(folder: Path, pieces: int) -> Path:
    """Byte pairs of made-up words; the corpus is large enough for as many pieces as are asked for."""
    folder.mkdir(parents=True)
    corpus, rng = folder / "corpus.txt", random.Random(SEED)
    words = ("".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(max(4 * pieces, 2000)))
    corpus.write_text("\n".join(words))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=pieces,
        model_type="bpe",
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    vocabulary = (line.split("\t")[0] for line in (folder / "tokenizer.vocab").read_text().splitlines())
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    return folder


@torch.inference_mode()
def _loosen(model: EncDecRNNTBPEModel, samples: Samples, shape: Shape) -> None:
    """Make the joint's outputs differ from step to step, and its tokens as frequent as those of speech.

    An untrained joint hears every frame alike and says one token for ever. Duration 0 keeps the decoder
    on its frame, which is rare in speech, so it is biased away.
    """
    joint, output = model.joint, model.joint.joint_net[-1]
    encoded, lengths = _heard(model, samples)
    _spread(joint.enc, encoded[0].T)
    _spread(joint.pred, _said(model, shape))
    joint.pred.weight.mul_(0.5)
    output.weight.normal_(std=shape.prediction**-0.5)
    output.weight[shape.pieces] = 0.0  # blank wins by its bias alone, or some states would never be left
    output.bias.zero_()
    output.bias[-len(shape.durations)] -= 2.0
    output.bias[[index for index, piece in enumerate(model.tokenizer.vocab) if piece.startswith("▁")]] += 1.0
    wanted = TOKENS_PER_SECOND * len(samples) / SAMPLE_RATE
    _bias_blank(output.bias[shape.pieces], lambda: len(_decoded(model, encoded, lengths)) > wanted)


def _bias_blank(bias: torch.Tensor, too_many: Callable[[], bool]) -> None:
    """Halve an interval until the bias is the largest that lets enough tokens through."""
    least, most = 0.0, 10.0
    for _ in range(8):
        bias.fill_((least + most) / 2)
        least, most = (float(bias), most) if too_many() else (least, float(bias))
    bias.fill_(least)


def _heard(model: EncDecRNNTBPEModel, samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """What the encoder makes of audio, `(1, width, frames)`, and its length."""
    signal = torch.from_numpy(samples)[None]
    features, lengths = model.preprocessor(input_signal=signal, length=torch.tensor([signal.shape[1]]))
    encoded, encoded_lengths = model.encoder(audio_signal=features, length=lengths)
    return encoded, encoded_lengths


def _decoded(model: EncDecRNNTBPEModel, encoded: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    (heard,) = model.decoding.rnnt_decoder_predictions_tensor(encoded, lengths, return_hypotheses=True)
    return cast("torch.Tensor", heard.y_sequence)


def _said(model: EncDecRNNTBPEModel, shape: Shape) -> torch.Tensor:
    """What the prediction net makes of tokens drawn by lot, `(tokens, prediction)`."""
    tokens = torch.randint(shape.pieces, (_DRAWN, 1))
    predicted, _ = model.decoder.predict(tokens, None, add_sos=False, batch_size=len(tokens))
    return cast("torch.Tensor", predicted[:, 0])


def _spread(layer: torch.nn.Linear, inputs: torch.Tensor) -> None:
    """Scale and shift a layer until its outputs have mean 0 and variance 1 over these inputs."""
    outputs = layer(inputs)
    scale = 1 / outputs.std(0).clamp_min(1e-6)
    layer.weight.mul_(scale[:, None])
    layer.bias.sub_(outputs.mean(0)).mul_(scale)


def _config(tokenizer: Path, shape: Shape) -> dict[str, Any]:
    durations = list(shape.durations)
    return {
        "sample_rate": SAMPLE_RATE,
        "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": SAMPLE_RATE,
            "features": shape.features,
            "window_size": 0.025,
            "window_stride": 0.01,
            "n_fft": 512,
            "dither": 0.0,
        },
        "model_defaults": {
            "enc_hidden": shape.width,
            "pred_hidden": shape.prediction,
            "joint_hidden": shape.prediction,
            "tdt_durations": durations,
            "num_tdt_durations": len(durations),
        },
        "encoder": _encoder(shape),
        "decoder": {
            "_target_": "nemo.collections.asr.modules.RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "prednet": {"pred_hidden": shape.prediction, "pred_rnn_layers": shape.prediction_layers},
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint",
            "log_softmax": None,
            "num_extra_outputs": len(durations),
            "fuse_loss_wer": False,
            "jointnet": {"joint_hidden": shape.prediction, "activation": "relu"},
        },
        "decoding": {
            "strategy": "greedy_batch",
            "model_type": "tdt",
            "durations": durations,
            "greedy": {"max_symbols": 10},
        },
        "loss": {"loss_name": "tdt", "tdt_kwargs": {"durations": durations}},
        "optim": {"name": "adamw", "lr": 1e-3},
    }


def _encoder(shape: Shape) -> dict[str, Any]:
    return {
        "_target_": "nemo.collections.asr.modules.ConformerEncoder",
        "feat_in": shape.features,
        "n_layers": shape.layers,
        "d_model": shape.width,
        "n_heads": shape.heads,
        "subsampling": "dw_striding",
        "subsampling_factor": 8,
        "subsampling_conv_channels": shape.subsampling_channels,
        "conv_kernel_size": shape.kernel,
        "use_bias": False,
        "xscaling": False,
    }
