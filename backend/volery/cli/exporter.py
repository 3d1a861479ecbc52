"""`volery exporter`: the queue's series for Prometheus."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from volery.cli.environment import load_settings, override


def exporter(
    interval: Annotated[float, typer.Option(min=1.0, help="Seconds between counts.")] = 15.0,
    http_port: Annotated[int | None, typer.Option(help="Metrics and probe port; 0: a free one (HTTP_PORT).")] = None,
) -> None:
    """Serve how many units wait, for how long, and how they ended, at /metrics.

    It needs the job store alone, no models and no GPU. One is enough for a fleet. Runs until SIGTERM or Ctrl-C.
    """
    from volery.exporter import run_exporter

    override(http_port=http_port)
    asyncio.run(run_exporter(load_settings(), interval))
