"""A model hub at its boundary: the library's downloads, into a real cache folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import constants, errors

MAIN = "c" * 40
"""The commit that `main` stands for."""


@dataclass
class FakeHub:
    """Holds the `files` of one repository at every revision; what it was asked for is in `asked`."""

    cache: Path
    files: dict[str, bytes] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def fails(self, kind: type[errors.HfHubHTTPError], status: int) -> None:
        """Answer every download with an error."""
        response = httpx2.Response(status, request=httpx2.Request("GET", "https://hub.example.com"))
        self.error = kind("Client error\nand many more lines", response=response)

    def download(self, repo: str, file: str, revision: str | None = None, **_: Any) -> str:
        """As `hf_hub_download`."""
        return str(self._put(repo, revision, [file]) / file)

    def snapshot(self, repo: str, revision: str | None = None, allow_patterns: Any = ("*",), **_: Any) -> str:
        """As `snapshot_download`."""
        names = [name for name in self.files if any(fnmatch(name, one) for one in allow_patterns)]
        return str(self._put(repo, revision, names))

    def _put(self, repo: str, revision: str | None, names: list[str]) -> Path:
        self.asked.append((repo, revision))
        if self.error is not None:
            raise self.error
        top = self.cache / f"models--{repo.replace('/', '--')}"
        (top / "refs").mkdir(parents=True, exist_ok=True)
        (top / "refs" / "main").write_text(MAIN)
        folder = top / "snapshots" / (revision or MAIN)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(self.files[name])
        return folder


def install(monkeypatch: pytest.MonkeyPatch, cache: Path) -> FakeHub:
    """Put a fake hub in place of the library's downloads; looking into the cache stays the library's."""
    hub = FakeHub(cache)
    real: Callable[..., str] = huggingface_hub.snapshot_download

    def snapshot(repo: str, *, local_files_only: bool = False, **asked: Any) -> str:
        return real(repo, local_files_only=True, **asked) if local_files_only else hub.snapshot(repo, **asked)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub.download)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("volery.speech.hub.hub_problem", lambda: None)
    return hub
