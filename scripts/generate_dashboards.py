"""Write the chart's dashboards from their descriptions.

With --check nothing is written; the exit code is 1 where a file is stale.
"""

from __future__ import annotations

import sys

from chart_rendering import CHART
from dashboards.fleet import FLEET_DASHBOARD
from dashboards.grafana import as_json
from dashboards.switches import switches_dashboard
from dashboards.worker import WORKER_DASHBOARD

FOLDER = CHART / "dashboards"


def main() -> None:
    """Write the files, or with --check compare them."""
    made = {f"{one.name}.json": as_json(one) for one in (FLEET_DASHBOARD, WORKER_DASHBOARD, switches_dashboard())}
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    stale = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if "--check" in sys.argv[1:]:
        sys.exit(f"stale dashboards: {', '.join(stale)}: run scripts/generate_dashboards.py" if stale else 0)
    for name in stale:
        if name in made:
            (FOLDER / name).write_text(made[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()


if __name__ == "__main__":
    main()
