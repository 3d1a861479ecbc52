"""A bench over real speech with real models: figures of what ran, and the same words in every arm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Cli

from bench.real_units import write_manifest


@pytest.mark.models
@pytest.mark.slow
def test_arms_with_real_models_say_the_same_and_the_receipt_says_what_ran(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write_manifest(shared_data, tmp_path / "units").read_text().splitlines()
    few = tmp_path / "units" / "few.jsonl"
    few.write_text("\n".join([*lines[:2], lines[45], lines[46], lines[-1]]))
    for name, value in {"MODELS": "embedded", "DEVICE": "cpu", "CPU_THREADS": "1"}.items():
        monkeypatch.setenv(f"BATCH_PIPELINE_{name}", value)
    arms = "all-on,no-prepare+no-reuse"
    run = Cli(tmp_path)("bench", str(few), "--arms", arms, "--repeats", "1", "--out", str(tmp_path / "out"))
    assert run.exit_code == 0
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    on, off = receipt["arms"]
    assert (on["ran"]["switches"]["vad_segmentation_reuse"], off["ran"]["switches"]["vad_segmentation_reuse"]) == (
        "on",
        "off",
    )
    assert on["ran"]["models"]["devices"] == {"segmentation": "cpu", "asr": "cpu"}
    assert len(on["ran"]["models"]["models"]["asr"]["digest"]) == 64
    assert "asr_cuda_graphs: asked on, ran inapplicable" in on["differences"]
    assert on["audio_hours_per_gpu_hour"]["median"] > 0
    said = [_words(tmp_path / "out" / "results" / arm["name"]) for arm in receipt["arms"]]
    assert said[0] == said[1]
    assert sum(map(len, said[0].values())) > 0


def _words(folder: Path) -> dict[str, list[str]]:
    documents = (json.loads(path.read_text()) for path in folder.glob("*.json"))
    return {one["key"]: [word["text"] for word in one["words"]] for one in documents}
