"""Run `volery demo` for real and draw what it prints into docs/demo.svg.

python scripts/demo_picture.py
"""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console

from volery.cli.demo import run_parts, show

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "demo.svg"
WIDTH = 100


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        parts = run_parts(Path(folder))
    console.print("$ volery demo", style="bold")
    show(parts, console)
    PICTURE.write_text(drawn(console), encoding="utf-8")


def drawn(console: Console) -> str:
    """What was printed as SVG, with the same ids every time and no font to be fetched from elsewhere."""
    svg = console.export_svg(title="volery demo", unique_id="volery-demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
