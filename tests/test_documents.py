"""What is written by hand must not fall behind the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from volery.units import Reason, UnitState

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_code_is_explained(reason: Reason) -> None:
    assert f"`{reason}`" in (ROOT / "docs" / "concepts.md").read_text()


@pytest.mark.parametrize("state", [state for state in UnitState if state.is_final])
def test_every_final_state_is_explained(state: UnitState) -> None:
    assert f"`{state}`" in (ROOT / "docs" / "concepts.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    import re

    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []
