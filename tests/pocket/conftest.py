"""What the tests of the pocket Parakeet share: the training package, which is a script and not installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
