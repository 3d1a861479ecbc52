"""The fleet's dashboard, asked of a real Prometheus that scrapes a real worker and the exporter."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from dashboards.description import Figure, Graph, Row, Table
from dashboards.fleet import FLEET_DASHBOARD

pytestmark = [pytest.mark.slow, pytest.mark.models, pytest.mark.timeout(600)]

VOLERY = str(Path(sys.executable).with_name("volery"))
NOTHING_WENT_WRONG = ("charged: {{outcome}}", "refunded: {{reason}}", "failed: {{purpose}}")
"""Legends of queries that are empty where no attempt was charged, no lease refunded and no second VAD failed."""


@pytest.fixture(scope="module")
def prometheus() -> str:
    found = shutil.which("prometheus")
    if found is None:
        pytest.skip("Prometheus is not installed (Debian's package prometheus has it)")
    return found


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _running(*command: str, log: Path, **environment: str) -> Iterator[None]:
    """A process that is asked to stop at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _eventually(holds: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
    """Ask other processes again and again; they have no other way to tell."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := holds():
                return found
        except OSError:
            pass
        time.sleep(0.5)
    pytest.fail(f"waited {seconds:.0f} s for {what}")


class _Fleet:
    """A worker, the exporter and Prometheus over one job store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: _free_port() for name in ("worker", "exporter", "prometheus")}
        self.settings = {
            "BATCH_PIPELINE_DATABASE_URL": f"sqlite:///{folder / 'volery.db'}",
            "BATCH_PIPELINE_ARTIFACTS_URL": (folder / "artifacts").as_uri(),
            "BATCH_PIPELINE_HTTP_HOST": "127.0.0.1",
            "BATCH_PIPELINE_POLL_SECONDS": "0.2",
            "BATCH_PIPELINE_REFEREE_SAMPLE_RATE": "1",
            "BATCH_PIPELINE_VAD_SHADOW_SAMPLE_RATE": "1",
        }

    @contextmanager
    def running(self, prometheus: str) -> Iterator[None]:
        """All three, until the end."""
        self._volery("db", "upgrade")
        with ExitStack() as stack:
            for name, options in (("exporter", ("--interval", "1")), ("worker", ("--models", "embedded"))):
                command = (VOLERY, name, *options, "--http-port", str(self.ports[name]))
                stack.enter_context(_running(*command, log=self.folder / f"{name}.log", **self._environment(name)))
            stack.enter_context(_running(*self._prometheus(prometheus), log=self.folder / "prometheus.log"))
            yield

    def submit(self, *keys: str) -> None:
        """Submit the packaged recording of digits under each key."""
        audio = Path(str(resources.files("volery.samples").joinpath("digits.flac"))).as_uri()
        lines = [
            {"key": key, "audio_uri": audio, "clip": {"start_s": n, "end_s": n + 4.0}} for n, key in enumerate(keys)
        ]
        manifest = self.folder / "units.jsonl"
        manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        self._volery("submit", str(manifest))

    def ask(self, query: str) -> list[Any]:
        """Prometheus' answer."""
        words = urllib.parse.urlencode({"query": query})
        url = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/query?{words}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return list(json.load(answer)["data"]["result"])

    def done(self, units: int) -> None:
        """Wait until Prometheus has seen so many units done."""
        self._seen_twice('batch_pipeline_units_total{outcome="done"}', f"== {units}")

    def audited(self) -> None:
        """Wait until Prometheus has seen the referee audit a unit."""
        self._seen_twice("batch_pipeline_referee_disagreement_count", "> 0")

    def _seen_twice(self, series: str, holds: str) -> None:
        """Wait for a series that has been scraped often enough for a rate."""
        query = f"sum({series}) {holds} and sum(increase({series}[5m])) >= 0"
        _eventually(lambda: self.ask(query), query)

    def _volery(self, *arguments: str) -> None:
        subprocess.run([VOLERY, *arguments], check=True, env=self._environment("worker"), timeout=120)

    def _environment(self, name: str) -> dict[str, str]:
        model = {"BATCH_PIPELINE_ASR_MODEL": "pocket"} if name == "worker" else {}
        return {**os.environ, **self.settings, **model}

    def _prometheus(self, program: str) -> tuple[str, ...]:
        targets = [
            {"targets": [f"127.0.0.1:{self.ports[name]}"], "labels": {"namespace": "speech", "pod": name}}
            for name in ("worker", "exporter")
        ]
        config = {"scrape_configs": [{"job_name": "volery", "scrape_interval": "1s", "static_configs": targets}]}
        (self.folder / "prometheus.yaml").write_text(json.dumps(config), encoding="utf-8")
        return (
            program,
            f"--config.file={self.folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.ports['prometheus']}",
        )


def _queries(rows: tuple[Row, ...]) -> dict[str, str]:
    """Each query of the dashboard for this fleet, by its panel and legend."""
    found = {}
    for panel in (panel for row in rows for panel in row.panels):
        match panel:
            case Graph():
                queries = panel.queries
            case Figure() | Table():
                queries = (panel.query,)
        for query in queries:
            if query.legend not in NOTHING_WENT_WRONG:
                expr = query.expr.replace("$namespace", "speech").replace("$job", "volery")
                found[f"{panel.title} ({type(panel).__name__}): {query.legend}"] = expr
    return found


def test_every_query_of_the_fleet_dashboard_has_an_answer_while_a_worker_drains_a_queue(
    prometheus: str, tmp_path: Path
) -> None:
    fleet = _Fleet(tmp_path)
    with fleet.running(prometheus):
        fleet.submit("a", "b", "c")
        fleet.done(3)
        fleet.submit("d", "e", "f")
        fleet.done(6)
        fleet.audited()
        answers = {name: fleet.ask(query) for name, query in _queries(FLEET_DASHBOARD.rows).items()}
        assert {name for name, answer in answers.items() if not answer} == set()
        [(_, hours)] = [one["value"] for one in answers["Audio-hours per GPU-hour (Figure): "]]
        assert float(hours) > 0
