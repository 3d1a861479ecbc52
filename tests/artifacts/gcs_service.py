"""As much of Google Cloud Storage as artifacts need, with the trouble that an emulator cannot make.

It keeps to generations and preconditions, and each request may meet a fault: a function that is
given the request's handler and answers in place of the service.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
import pytest

BUCKET = "bucket"
TOKEN = "ya29.secret-token"

Fault = Callable[["Request"], None]


class Service:
    """Objects of one bucket by name, what was asked, and the faults to come."""

    token_status = 200

    def __init__(self) -> None:
        self.objects: dict[str, tuple[int, bytes]] = {}
        self.encodings: dict[str, str] = {}
        self.page_size = 1000
        self.asked: list[str] = []
        self.needs_token = False
        self.over = threading.Event()
        self.url = ""
        self._generation = 0
        self._faults: deque[Fault | None] = deque()
        self._fault: Fault | None = None

    def put(self, name: str, content: bytes, encoding: str | None = None) -> str:
        """Store an object, in place of the one of that name; its URI."""
        self._generation += 1
        self.objects[name] = (self._generation, content)
        if encoding:
            self.encodings[name] = encoding
        return f"gs://{BUCKET}/{name}"

    def next(self, *faults: Fault | None) -> None:
        """What the next requests meet, one each; None: nothing."""
        self._faults.extend(faults)

    def always(self, fault: Fault) -> None:
        """What every request meets after those."""
        self._fault = fault

    def fault(self) -> Fault | None:
        """What the request at hand meets."""
        return self._faults.popleft() if self._faults else self._fault

    def facts(self, name: str) -> dict[str, Any]:
        """The resource of an object."""
        generation, content = self.objects[name]
        return {
            "name": name,
            "bucket": BUCKET,
            "generation": str(generation),
            "size": str(len(content)),
            "crc32c": crc32c(content),
            "updated": "2026-01-02T03:04:05.678Z",
            **({"contentEncoding": self.encodings[name]} if name in self.encodings else {}),
        }


def crc32c(content: bytes) -> str:
    """The checksum as the service writes it."""
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


@contextmanager
def fake_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that this process takes for Google Cloud Storage."""
    service = Service()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Request, service))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", service.url)
    try:
        yield service
    finally:
        service.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Request(BaseHTTPRequestHandler):
    """One request: answered as the service does, unless it meets a fault."""

    protocol_version = "HTTP/1.1"

    def __init__(self, service: Service, *rest: Any) -> None:
        self.service = service
        super().__init__(*rest)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # the client has given up
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = "media" if self.query.get("alt") == "media" else url.path.partition("/")[2].partition("/")[0]
        if url.path == "/token":
            said = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
            self.json(
                self.service.token_status, said if self.service.token_status == 200 else {"error": "invalid_grant"}
            )
            return
        self.service.asked.append(f"{self.command} {kind}")
        if fault := self.service.fault():
            fault(self)
        else:
            self.serve()

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def serve(self) -> None:
        """Answer as the service does."""
        found = re.fullmatch(r"(?:/upload|/download)?/storage/v1/b/([^/]+)/o(?:/(.+))?", urlsplit(self.path).path)
        if self.service.needs_token and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.refuse(401, "required", "Anonymous caller")
        elif found is None or found.group(1) != BUCKET:
            self.refuse(404, "notFound", "The specified bucket does not exist.")
        elif found.group(2) is None:
            self._upload() if self.command == "POST" else self._list()
        else:
            self._one(unquote(found.group(2)))

    def _one(self, name: str) -> None:
        held = self.service.objects.get(name)
        if held is None or self.query.get("generation", str(held[0])) != str(held[0]):
            self.refuse(404, "notFound", f"No such object: {BUCKET}/{name}")
        elif self.command == "DELETE":
            del self.service.objects[name]
            self.json(204, None)
        elif self.query.get("alt") == "media":
            self.media(held[1])
        else:
            self.json(200, self.service.facts(name))

    def _list(self) -> None:
        prefix, start = self.query.get("prefix", ""), int(self.query.get("pageToken", 0))
        names = sorted(name for name in self.service.objects if name.startswith(prefix))
        end = start + self.service.page_size
        more = {"nextPageToken": str(end)} if end < len(names) else {}
        self.json(200, {"items": [self.service.facts(name) for name in names[start:end]], **more})

    def _upload(self) -> None:
        name = self.upload()
        self.json(200, self.service.facts(name)) if name else self.refuse(412, "conditionNotMet", "Precondition Failed")

    def upload(self) -> str | None:
        """Store what the request brings; its name, or None where something has it already."""
        head = b"Content-Type: " + self.headers["Content-Type"].encode() + b"\r\n\r\n"
        meta, content = message_from_bytes(head + self.body).get_payload()
        name = str(json.loads(meta.get_payload())["name"])
        if self.query.get("ifGenerationMatch") == "0" and name in self.service.objects:
            return None
        self.service.put(name, content.get_payload(decode=True))
        return name

    def media(self, content: bytes, *, sent: bytes | None = None) -> None:
        """An object's bytes, or the part that is asked for; `sent` goes out in place of them."""
        status, part = 200, content
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(asked[1]), int(asked[2] or len(content) - 1)
            status, part = 206, content[start : end + 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(part if sent is None else sent)))
        self.send_header("X-Goog-Hash", f"crc32c={crc32c(content)}")
        self.send_header("X-Goog-Stored-Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(part if sent is None else sent)

    def json(self, status: int, document: Any) -> None:
        """A JSON document."""
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status: int, reason: str, message: str) -> None:
        """An error."""
        error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
        self.json(status, {"error": error})


def refuses(status: int, reason: str = "backendError", message: str = "") -> Fault:
    """The request ends with an error."""
    return lambda request: request.refuse(status, reason, message)


def resets(request: Request) -> None:
    """The connection breaks before any answer."""
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.close_connection = True
    request.connection.close()


def stores_and_resets(request: Request) -> None:
    """The object is stored, and the connection breaks before that is said."""
    request.upload()
    resets(request)


def hangs(request: Request) -> None:
    """No answer ever comes."""
    request.service.over.wait()


def trickles(request: Request) -> None:
    """The answer comes a byte at a time, and never to its end."""
    request.send_response(206)
    request.send_header("Content-Length", "1000000")
    request.end_headers()
    while not request.service.over.wait(0.05):
        request.wfile.write(b"x")
        request.wfile.flush()


def sends(content: bytes) -> Fault:
    """These bytes come, whatever the object holds."""

    def fault(request: Request) -> None:
        name = unquote(urlsplit(request.path).path.rpartition("/o/")[2])
        request.media(request.service.objects[name][1], sent=content)

    return fault


def breaks_off(request: Request) -> None:
    """Half of what was promised comes, then the connection breaks."""
    start, end = map(int, re.findall(r"\d+", request.headers["Range"]))
    name = unquote(urlsplit(request.path).path.rpartition("/o/")[2])
    content = request.service.objects[name][1][start : end + 1]
    request.send_response(206)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content[: len(content) // 2])
    request.wfile.flush()
    request.close_connection = True
