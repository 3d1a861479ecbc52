"""Puts what the scripts and the speech tests keep beside them on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import volery.speech  # noqa: F401  # before torch: it decides how torch's threads wait

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "speech")]
