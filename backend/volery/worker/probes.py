"""The HTTP port, served from threads of its own so that a blocked event loop cannot hide."""

from __future__ import annotations

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from volery.units import ConfigurationError
from volery.worker.board import Board
from volery.worker.health import Health
from volery.worker.page import page

log = structlog.get_logger(__name__)


class ProbeServer:
    """Answers `/metrics`, `/healthz` and `/readyz`, and with a board `/` for a person, until it is closed."""

    def __init__(
        self,
        health: Health,
        host: str,
        port: int,
        *,
        registry: CollectorRegistry = REGISTRY,
        board: Board | None = None,
    ) -> None:
        """Listen at once; port 0 picks a free one. `/metrics` serves the series of `registry`.

        Raises:
            ConfigurationError: the address cannot be had.
        """
        handler = type("Handler", (_Handler,), {"health": health, "registry": registry, "board": board})
        server = _Server6 if ":" in host else _Server
        try:
            self._server = server((host, port), handler)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {error}; set BATCH_PIPELINE_HTTP_PORT to a free port, or 0"
            ) from error
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, name="probes", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that was bound."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what ended an answer in a line, and nothing where the client hung up."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            log.error("unexpected failure of a probe", exc_info=error)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    health: Health
    registry: CollectorRegistry
    board: Board | None
    timeout = 30.0
    """Seconds for which a connection may be silent: each has a thread."""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
            case "/healthz":
                self._verdict(self.health.unhealthy())
            case "/readyz":
                self._verdict(self.health.unready())
            case "/" if self.board is not None:
                self._answer(200, page(self.board, self.health).encode(), "text/html; charset=utf-8")
            case _:
                page_too = "/, " if self.board is not None else ""
                self._answer(404, f"try {page_too}/metrics, /healthz or /readyz\n".encode())

    def do_HEAD(self) -> None:
        self.do_GET()

    def _verdict(self, trouble: str | None) -> None:
        self._answer(200 if trouble is None else 503, f"{trouble or 'ok'}\n".encode())

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds; they are not worth a line each."""
