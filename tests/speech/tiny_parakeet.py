"""A very small FastConformer-TDT model with random weights, in the format that NeMo writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sentencepiece
import torch
from nemo.collections.asr.models import EncDecRNNTBPEModel
from omegaconf import OmegaConf

TEXT = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "hello", "there", "today"]


def build(folder: Path) -> Path:
    """Write the model and return its path. Its joint is shaken until it emits many words and blanks."""
    torch.manual_seed(7)
    model = EncDecRNNTBPEModel(cfg=OmegaConf.create(_config(_tokenizer(folder))))
    with torch.no_grad():
        joint = model.joint.joint_net[-1]
        joint.weight.normal_(std=2.0)
        model.joint.enc.weight.normal_(std=1.0)
        model.joint.pred.weight.normal_(std=4.0)
        joint.bias[[index for index, piece in enumerate(model.tokenizer.vocab) if piece.startswith("▁")]] += 5.0
        joint.bias[len(model.tokenizer.vocab)] += 5.0
    path = folder / "tiny.nemo"
    model.save_to(str(path))
    return path


def _tokenizer(folder: Path) -> Path:
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(f"{a} {b}" for a in TEXT for b in TEXT))
    target = folder / "tokenizer"
    target.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(target / "tokenizer"),
        vocab_size=48,
        model_type="bpe",
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    pieces = (line.split("\t")[0] for line in (target / "tokenizer.vocab").read_text().splitlines())
    (target / "vocab.txt").write_text("\n".join(pieces))
    return target


def _config(tokenizer: Path) -> dict[str, Any]:
    durations = [0, 1, 2, 3, 4]
    features, width = 80, 32
    return {
        "sample_rate": 16000,
        "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16000,
            "features": features,
            "window_size": 0.025,
            "window_stride": 0.01,
            "n_fft": 512,
        },
        "model_defaults": {
            "enc_hidden": width,
            "pred_hidden": width,
            "joint_hidden": width,
            "tdt_durations": durations,
            "num_tdt_durations": len(durations),
        },
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            "feat_in": features,
            "n_layers": 2,
            "d_model": width,
            "n_heads": 4,
            "subsampling": "dw_striding",
            "subsampling_factor": 8,
            "subsampling_conv_channels": 16,
            "conv_kernel_size": 9,
        },
        "decoder": {
            "_target_": "nemo.collections.asr.modules.RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "prednet": {"pred_hidden": width, "pred_rnn_layers": 1},
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint",
            "log_softmax": None,
            "num_extra_outputs": len(durations),
            "fuse_loss_wer": False,
            "jointnet": {"joint_hidden": width, "activation": "relu"},
        },
        "decoding": {"strategy": "greedy_batch", "model_type": "tdt", "durations": durations, "greedy": {}},
        "loss": {"loss_name": "tdt", "tdt_kwargs": {"durations": durations}},
        "optim": {"name": "adamw", "lr": 1e-3},
    }
