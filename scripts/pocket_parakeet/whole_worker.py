"""Words through the whole worker, beside NeMo's own `transcribe` on the same units as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from nemo.collections.asr.metrics.wer import word_error_rate
from nemo.collections.asr.models import ASRModel

from pocket_parakeet.clips import Clip
from pocket_parakeet.evaluation import Listener, joined
from pocket_parakeet.noise import SAMPLE_RATE, Samples
from pocket_parakeet.sequences import SpokenSequence

_TAIL_S = (0.0, 0.0, 5.0, 20.0)
"""Silence behind the words, by turns: VAD is there to keep it from the model."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Word error rates from 0 up; `engine_differs` counts units that the engine and `transcribe` hear differently."""

    units: int
    words: int
    wer_nemo_transcribe: float
    wer_engine: float
    engine_differs: int
    wer_worker: float
    worker_differs: int


def compare(model: Path, takes: Sequence[Clip], count: int, seed: int) -> Comparison:
    """So many units of joined takes: by NeMo, by the engine, and by submit, worker and results."""
    spoken = {f"unit-{n:04}": one for n, one in enumerate(_units(takes, count, seed))}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        heard = _by_worker(root, model, {key: _write(root / f"{key}.wav", one) for key, one in spoken.items()})
        samples = {key: _read(root / f"{key}.wav") for key in spoken}
    listener = Listener(model)
    engine = {key: listener.text(one) for key, one in samples.items()}
    nemo = _by_nemo(model, samples)
    said = [one.text for one in spoken.values()]
    return Comparison(
        units=count,
        words=sum(len(text.split()) for text in said),
        wer_nemo_transcribe=_wer(nemo, spoken),
        wer_engine=_wer(engine, spoken),
        engine_differs=sum(engine[key] != nemo[key] for key in spoken),
        wer_worker=_wer(heard, spoken),
        worker_differs=sum(heard[key] != nemo[key] for key in spoken),
    )


def _units(takes: Sequence[Clip], count: int, seed: int) -> list[SpokenSequence]:
    units = []
    for n, sequence in enumerate(joined(takes, count, np.random.default_rng(seed))):
        tail = np.zeros(round(_TAIL_S[n % len(_TAIL_S)] * SAMPLE_RATE), np.float32)
        units.append(SpokenSequence(np.concatenate([sequence.samples, tail]), sequence.words))
    return units


def _wer(heard: Mapping[str, str], spoken: Mapping[str, SpokenSequence]) -> float:
    return float(word_error_rate([heard[key] for key in spoken], [one.text for one in spoken.values()]))


def _write(path: Path, sequence: SpokenSequence) -> Path:
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes((np.clip(sequence.samples, -1, 1) * 32767).astype(np.int16).tobytes())
    return path


def _read(path: Path) -> Samples:
    """As the worker decodes it: all three ways hear the same samples."""
    with wave.open(str(path), "rb") as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype=np.int16)
    return (samples / 32768).astype(np.float32)


def _by_nemo(model: Path, samples: Mapping[str, Samples]) -> dict[str, str]:
    nemo = ASRModel.restore_from(str(model), map_location=torch.device("cpu"))
    heard = nemo.transcribe(list(samples.values()), batch_size=1, verbose=False)
    return {key: one.text for key, one in zip(samples, heard, strict=True)}


def _by_worker(root: Path, model: Path, files: Mapping[str, Path]) -> dict[str, str]:
    """What `volery submit`, `volery worker --burst` and `volery results` make of the files, by key."""
    settings = {
        "DATABASE_URL": f"sqlite:///{root / 'store.db'}",
        "ARTIFACTS_URL": (root / "artifacts").as_uri(),
        "MODELS": "embedded",
        "ASR_MODEL": str(model),
        "ASR_ENGINE": "parakeet",
        "DEVICE": "cpu",
    }
    environ = {**os.environ, **{f"BATCH_PIPELINE_{name}": value for name, value in settings.items()}}
    manifest = root / "manifest.jsonl"
    manifest.write_text("".join(json.dumps({"key": key, "path": str(path)}) + "\n" for key, path in files.items()))
    for arguments in (["submit", str(manifest)], ["worker", "--burst"], ["results", "-o", str(root / "results")]):
        command = [str(Path(sys.executable).with_name("volery")), *arguments]
        subprocess.run(command, env=environ, check=True, stdout=sys.stderr)
    documents = [json.loads(path.read_text()) for path in (root / "results").rglob("*.json")]
    return {document["key"]: document["text"] for document in documents}
