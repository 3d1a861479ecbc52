"""`volery demo` shows the real thing."""

from __future__ import annotations

import json

import pytest
from command_line import Cli

from volery.cli.demo_digits import SAMPLES, said_digits
from volery.export import Format

DONE = ("conversation", "opus-copy", "silence", "too-short", "digits")


@pytest.mark.models
@pytest.mark.slow
def test_the_demo_shows_every_outcome_and_leaves_exports(cli: Cli) -> None:
    ran = cli.program("demo", COLUMNS="120", BATCH_PIPELINE_ASR_ENGINE="parakeet")
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in ran.stdout.splitlines() if line.strip()}
    assert rows["conversation"][:3] == ["done", "speech", "30.00"]
    assert [rows[key][-1] for key in ("conversation", "opus-copy", "digits")] == ["whisper-tiny.en"] * 2 + ["pocket"]
    assert rows["silence"][:2] == rows["too-short"][:2] == ["done", "no_speech"]
    assert rows["broken"] == ["rejected", "audio_undecodable"]
    assert "22 of 22 digits right, 22 with the right speaker, 0 other words heard" in ran.stdout
    assert ran.stdout.count("RTFx") == 2
    written = {path.name for path in (cli.folder / "demo-out").iterdir()}
    assert written == {f"{key}.{format}" for key in DONE for format in Format}
    opus, digits = (
        json.loads((cli.folder / "demo-out" / f"{key}.json").read_text()) for key in ("opus-copy", "digits")
    )
    assert opus["audio"]["codec"] == "opus"
    assert [speaker["id"] for speaker in digits["speakers"]] == ["SPEAKER_00", "SPEAKER_01"]
    assert not (cli.folder / "store").exists()


@pytest.mark.models
@pytest.mark.slow
def test_the_pocket_model_alone_implies_its_engine(cli: Cli) -> None:
    ran = cli.program("transcribe", str(SAMPLES / "digits.flac"), "--models", "embedded", "--asr-model", "pocket")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = " ".join(word.text for word in said_digits() if word.start_s < 5.0)
    assert said in ran.stdout


@pytest.mark.models
def test_whisper_cannot_be_asked_to_run_the_pocket_model(cli: Cli) -> None:
    ran = cli.program("transcribe", str(SAMPLES / "digits.flac"), "--asr-engine", "whisper", "--asr-model", "pocket")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "BATCH_PIPELINE_ASR_MODEL=pocket" in ran.stderr
    assert "BATCH_PIPELINE_ASR_ENGINE=whisper" in ran.stderr
