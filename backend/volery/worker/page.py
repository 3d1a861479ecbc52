"""The page of a worker, for a person: plain HTML, no script, nothing fetched from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from volery import __version__
from volery.worker.board import Board
from volery.worker.health import Health
from volery.worker.timeline import Phase


def page(board: Board, health: Health) -> str:
    """The page as it is now."""
    view = board.view()
    share = view.budget_in_use_s / view.budget_limit_s if view.budget_limit_s else 0.0
    return str(
        _template().render(
            board=view,
            phases=[phase.value for phase in Phase],
            budget_percent=round(100 * min(share, 1.0), 1),
            unhealthy=health.unhealthy(),
            unready=health.unready(),
            version=__version__,
        )
    )


@cache
def _template() -> Any:
    # The exporter and commands without a page do not need it.
    import jinja2

    text = files("volery.worker").joinpath("page.html.jinja").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(text)
