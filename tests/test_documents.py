"""What is written by hand must not fall behind the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from volery.cli import app
from volery.units import Reason, UnitState

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BY_HAND = [document for document in DOCUMENTS if not document.read_text().startswith("<!-- Made by")]


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_code_is_explained(reason: Reason) -> None:
    assert f"`{reason}`" in (ROOT / "docs" / "concepts.md").read_text()


@pytest.mark.parametrize("state", [state for state in UnitState if state.is_final])
def test_every_final_state_is_explained(state: UnitState) -> None:
    assert f"`{state}`" in (ROOT / "docs" / "concepts.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


def commands_in(document: Path) -> list[list[str]]:
    """Every command line of volery in a document's code, up to a comment or to what another program is given."""
    code = re.findall(r"```\w*\n(.*?)```|`([^`]+)`", document.read_text(), re.DOTALL)
    lines = "\n".join(block or inline for block, inline in code).replace("\\\n", " ").splitlines()
    found = [re.search(r"(?:^|-- |run --rm |\$ )volery ([a-z].*)", line) for line in lines]
    return [re.split(r" +#| [|;&>]", one[1])[0].split() for one in found if one]


@pytest.mark.parametrize("document", BY_HAND, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_document_exists_with_its_options(document: Path) -> None:
    for words in commands_in(document):
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            assert words[0] in command.commands, words
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match(r"-[a-z-]", word)}
        assert used <= options, (command.name, words)


INSTALLATION = re.compile(r"pip install '?(\.|volery)(?:\[([a-z,]+)\])?")


@pytest.mark.parametrize("name", ["README.md", "docs/getting-started.md"])
def test_the_first_installation_that_a_page_names_is_of_a_checkout(name: str) -> None:
    found = INSTALLATION.search((ROOT / name).read_text())
    assert found
    assert found[1] == "."


def test_every_extra_that_a_document_installs_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    for document in BY_HAND:
        named = [extra for _, some in INSTALLATION.findall(document.read_text()) for extra in some.split(",") if extra]
        assert set(named) <= extras, document


def test_command_lines_are_found_where_they_are_written() -> None:
    found = {words[0] for document in BY_HAND for words in commands_in(document)}
    assert {"worker", "status", "results", "flags", "requeue", "doctor", "db", "models", "gc"} <= found
