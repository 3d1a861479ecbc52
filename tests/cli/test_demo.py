"""`volery demo` shows the real thing."""

from __future__ import annotations

import json

import pytest
from command_line import Cli

from volery.export import Format

DONE = ("conversation", "conversation-opus", "silence", "too-short")


@pytest.mark.models
@pytest.mark.slow
def test_the_demo_shows_every_outcome_and_leaves_exports(cli: Cli) -> None:
    ran = cli.program("demo", COLUMNS="120")
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in ran.stdout.splitlines() if line.strip()}
    assert rows["conversation"][:4] == ["done", "speech", "30.00", "s"]
    assert rows["silence"][:2] == rows["too-short"][:2] == ["done", "no_speech"]
    assert rows["broken"] == ["rejected", "audio_undecodable"]
    assert "SPEAKER_00" in ran.stdout
    assert "SPEAKER_01" in ran.stdout
    assert "RTFx" in ran.stdout
    written = {path.name for path in (cli.folder / "demo-out").iterdir()}
    assert written == {f"{key}.{format}" for key in DONE for format in Format}
    opus = json.loads((cli.folder / "demo-out" / "conversation-opus.json").read_text())
    assert opus["audio"]["codec"] == "opus"
    assert not (cli.folder / "store").exists()
