"""Write requirements-image.lock: of requirements.lock, what the image needs and tests do not.

    python scripts/image_lock.py [--check]

It follows what the installed packages say they require, so run it where requirements.lock is installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
IMAGE_LOCK = ROOT / "requirements-image.lock"
EXTRAS = frozenset({"worker", "embedded", "referee", "gcs", "postgres"})

_HEADER = """\
# What the image installs: of requirements.lock, what these extras of Volery need: {extras}.
# Made by scripts/image_lock.py; do not edit.
"""


def main() -> int:
    """Write the lock, or with `--check` say whether it is current."""
    wanted = image_lock()
    if "--check" not in sys.argv[1:]:
        IMAGE_LOCK.write_text(wanted, encoding="utf-8")
        return 0
    if IMAGE_LOCK.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{IMAGE_LOCK.name} is not current: run python scripts/image_lock.py", file=sys.stderr)
    return 1


def image_lock() -> str:
    """The lock's text."""
    needed = _closure("volery", EXTRAS)
    pins = {name: pin for name, pin in _pins(LOCK.read_text(encoding="utf-8")) if name in needed}
    if missing := needed - pins.keys() - {"volery"}:
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}: run scripts/lock.sh")
    return _HEADER.format(extras=", ".join(sorted(EXTRAS))) + "".join(pins.values())


def _closure(name: str, extras: frozenset[str]) -> set[str]:
    """A package and all that it needs on this platform, by canonical name."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        package, extra = waiting.pop()
        if (package, extra) in seen:
            continue
        seen.add((package, extra))
        for one in _required(package):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(one.name), wanted) for wanted in ("", *one.extras)]
    return {package for package, _ in seen}


def _required(package: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in requires(package) or ()]
    except PackageNotFoundError as error:
        raise SystemExit(f"{package} is not installed: run make test first") from error


def _pins(text: str) -> Iterator[tuple[str, str]]:
    """Each package of a lock by its canonical name, with its lines."""
    for lines in re.findall(r"^[A-Za-z0-9][^\n]*\n(?:[ \t]+[^\n]*\n)*", text, flags=re.MULTILINE):
        yield canonicalize_name(re.split(r"[=\[ ]", lines, maxsplit=1)[0]), lines


if __name__ == "__main__":
    sys.exit(main())
