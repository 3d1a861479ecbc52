"""Write what follows from the settings and the rendered chart: values, their schema, the pod's environment, switches.

Fails where settings, config/ and the chart disagree. With --check nothing is written: what is stale is
shown as a diff, and the exit code is 1.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from chart_rendering import CHART, plain_environment
from chart_settings import with_worker_schema, with_worker_values
from flag_registry import disagreements, read_register, registry_page
from volery.settings import DECLARED

ROOT = Path(__file__).resolve().parent.parent
VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"
POD_ENVIRONMENT = ROOT / "backend" / "volery" / "bench" / "pod-environment.json"
REGISTRY = ROOT / "docs" / "feature-flag-registry.md"


def main() -> None:
    """Write the files, each after those that it is made from, or with --check compare them."""
    check = "--check" in sys.argv[1:]
    stale = False
    for path, make in FILES.items():
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        made = make()
        if made != there and check:
            sys.stdout.writelines(_difference(path, there, made))
            stale = True
        elif made != there:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made, encoding="utf-8")
    sys.exit("stale: run scripts/generate_config.py" if stale else 0)


def registry() -> str:
    """The page of switches, where all that it is made from agrees."""
    register = read_register()
    if found := disagreements(register):
        sys.exit("\n".join(found))
    return registry_page(register)


def _difference(path: Path, there: str, made: str) -> Iterator[str]:
    name = str(path.relative_to(ROOT))
    yield from difflib.unified_diff(
        there.splitlines(keepends=True), made.splitlines(keepends=True), name, f"{name} (made anew)"
    )


def pod_environment() -> str:
    """The worker's plain environment with the chart's default values.

    What every installation says for itself, the place of its results, has no default and is left out,
    as is the list of what is set.
    """
    environment = plain_environment()
    del environment["BATCH_PIPELINE_ARTIFACTS_URL"], environment[DECLARED]
    return json.dumps(environment, indent=2, sort_keys=True) + "\n"


FILES: dict[Path, Callable[[], str]] = {
    VALUES: lambda: with_worker_values(VALUES.read_text(encoding="utf-8")),
    SCHEMA: lambda: with_worker_schema(SCHEMA.read_text(encoding="utf-8")),
    POD_ENVIRONMENT: pod_environment,
    REGISTRY: registry,
}

if __name__ == "__main__":
    main()
