"""A diarization pipeline on disk, laid out as community-1 is on the hub: the real segmentation
model, beside an embedding and a PLDA whose weights are random."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch

CONFIG = """
pipeline:
  name: pyannote.audio.pipelines.SpeakerDiarization
  params:
    clustering: VBxClustering
    segmentation: $model/segmentation
    segmentation_batch_size: 32
    embedding: $model/embedding
    embedding_batch_size: 4
    embedding_exclude_overlap: true
    plda: $model/plda
params:
  clustering: {threshold: 0.6, Fa: 0.07, Fb: 0.8}
  segmentation: {min_duration_off: 0.0}
"""


def build(folder: Path, segmentation: Path) -> Path:
    """Write the pipeline and return its folder."""
    for part in ("segmentation", "embedding", "plda"):
        (folder / part).mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    shutil.copy(segmentation, folder / "segmentation" / "pytorch_model.bin")
    _embedding(folder / "embedding" / "pytorch_model.bin")
    _plda(folder / "plda")
    return folder


def _embedding(path: Path) -> None:
    import lightning
    import pyannote.audio
    from pyannote.audio.core.task import Problem, Resolution, Specifications
    from pyannote.audio.models.embedding import WeSpeakerResNet34

    torch.manual_seed(7)
    model = WeSpeakerResNet34()
    torch.save(
        {
            "state_dict": model.state_dict(),
            "hyper_parameters": dict(model.hparams),
            "pytorch-lightning_version": lightning.__version__,
            "pyannote.audio": {
                "versions": {"torch": str(torch.__version__), "pyannote.audio": pyannote.audio.__version__},
                "architecture": {"module": "pyannote.audio.models.embedding", "class": "WeSpeakerResNet34"},
                "specifications": Specifications(Problem.REPRESENTATION, Resolution.CHUNK, duration=5.0),
            },
        },
        path,
    )


def _plda(folder: Path) -> None:
    chance = np.random.default_rng(7)
    np.savez(
        folder / "xvec_transform.npz", mean1=np.zeros(256), mean2=np.zeros(128), lda=chance.normal(size=(256, 128))
    )
    np.savez(
        folder / "plda.npz",
        mu=np.zeros(128),
        tr=np.eye(128) + 0.1 * chance.normal(size=(128, 128)),
        psi=np.linspace(2, 1, 128),
    )
