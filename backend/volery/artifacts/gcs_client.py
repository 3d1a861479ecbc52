"""Reaching Google Cloud Storage: credentials, deadlines, and its errors in words a person can act on.

`google.cloud.storage` retries what may pass. It is imported when it is first needed: only
installations with the extra `gcs` have it.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar

from volery.artifacts.deadlines import within
from volery.settings import PREFIX, ArtifactSettings

T = TypeVar("T")
Client = Any  # google.cloud.storage has no types

_KEY_FILE = f"{PREFIX}GCS_KEY_FILE"
_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 20.0  # between two bytes of an answer
_RETRY_AFTER_SECONDS = 0.25  # doubled with each retry
_LONGEST_MESSAGE = 300
# Answers with status 403 that are not about what this process may do.
_PASSING = ("rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded", "accountDisabled")


class Kind(Enum):
    """What an error means to whoever made the call."""

    UNUSABLE = auto()
    """This process lacks a package or credentials."""
    MISSING = auto()
    """There is no such bucket or object."""
    FORBIDDEN = auto()
    """The credentials are good and do not allow it."""
    CHANGED = auto()
    """The object is not, or no longer, what it has to be."""
    REFUSED = auto()
    """The request itself is at fault."""
    UNAVAILABLE = auto()
    """It may work later."""


class GcsError(Exception):
    """A call failed; the message is for a person and holds no secret."""

    def __init__(self, kind: Kind, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(message)


@dataclass(frozen=True)
class Place:
    """A bucket, and the object in it or what the names of the objects in it start with."""

    bucket: str
    name: str

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.name}"


class Gcs:
    """A client that is made when it is first used. Safe to use from several threads."""

    def __init__(self, settings: ArtifactSettings) -> None:
        self._key_file = settings.gcs_key_file
        self._deadline_s = settings.gcs_deadline_seconds
        self._lock = threading.Lock()
        self._made: Client = None
        self._how: dict[str, Any] = {}

    def call(self, work: Callable[[Client, dict[str, Any]], T]) -> T:
        """Do something with the client; its second argument are the keywords for every request.

        Raises:
            GcsError: it failed, or took longer than the deadline with all its retries.
        """
        try:
            return within(self._deadline_s, lambda: work(self._client(), self._how))
        except TimeoutError as error:
            raise GcsError(Kind.UNAVAILABLE, f"no answer within {self._deadline_s:g} s") from error
        except GcsError:
            raise
        except Exception as error:
            if (known := in_words(error)) is None:
                raise
            raise known from error

    def _client(self) -> Client:
        with self._lock:
            if self._made is None:
                self._made, self._how = self._make(), self._ways()
            return self._made

    def _make(self) -> Client:
        # It warns of what `in_words` says better.
        logging.getLogger("google.auth").setLevel(logging.ERROR)
        # The library would ask for each bucket's location, for traces that nobody records.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        try:
            from google.cloud import storage  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise GcsError(
                Kind.UNUSABLE, f"the package for gs:// is missing ({error.name}): pip install 'volery[gcs]'"
            ) from error
        credentials = _credentials(self._key_file) if self._key_file else None
        # Objects are reached by their bucket alone: with no project asked for, none has to be found out.
        return storage.Client(project=None, credentials=credentials)

    def _ways(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY  # type: ignore[import-untyped,unused-ignore]

        retry = DEFAULT_RETRY.with_delay(initial=_RETRY_AFTER_SECONDS).with_timeout(self._deadline_s)
        timeout = (min(_CONNECT_SECONDS, self._deadline_s), min(_SILENCE_SECONDS, self._deadline_s))
        return {"retry": retry, "timeout": timeout}


class Crc32c:
    """The checksum that is stored with every object."""

    def __init__(self, content: bytes = b"") -> None:
        import google_crc32c

        self._checksum: Any = google_crc32c.Checksum(content)  # type: ignore[no-untyped-call]

    def update(self, content: bytes) -> None:
        """Add what follows."""
        self._checksum.update(content)

    def text(self) -> str:
        """The checksum so far, as Google Cloud Storage writes it."""
        return base64.b64encode(self._checksum.digest()).decode()


def _credentials(key_file: Path) -> Any:
    from google.oauth2 import service_account

    try:
        return service_account.Credentials.from_service_account_file(str(key_file))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise GcsError(Kind.UNUSABLE, f"{_KEY_FILE}: {key_file} cannot be read: {error.strerror}") from error
    except ValueError:
        # What the parser says may quote the file.
        raise GcsError(Kind.UNUSABLE, f"{_KEY_FILE}: {key_file} is not the JSON key of a service account") from None


def in_words(error: Exception) -> GcsError | None:
    """What a library raised, told; None for what none of them raises on account of the service."""
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import (  # type: ignore[import-untyped,unused-ignore]
        DataCorruption,
        InvalidResponse,
    )
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    if isinstance(error, RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    if isinstance(error, GoogleAPICallError | InvalidResponse):
        return _of_status(error.response)
    if isinstance(error, GoogleAuthError):
        return _of_credentials(error)
    if isinstance(error, DataCorruption):
        return GcsError(Kind.UNAVAILABLE, "what arrived does not match its checksum")
    if isinstance(error, RequestException | HTTPError | OSError):
        return GcsError(Kind.UNAVAILABLE, f"the connection failed ({type(error).__name__})")
    return None


def _of_status(response: Any) -> GcsError:
    status, (reason, message) = int(response.status_code), _said(response)
    said = f"status {status}" + (f": {message}" if message else "")
    if status == 401:
        return GcsError(Kind.UNUSABLE, f"its credentials are not accepted ({said})")
    if status == 403:
        return GcsError(Kind.UNAVAILABLE if reason in _PASSING else Kind.FORBIDDEN, said)
    kinds = {404: Kind.MISSING, 412: Kind.CHANGED, 416: Kind.CHANGED, 408: Kind.UNAVAILABLE, 429: Kind.UNAVAILABLE}
    return GcsError(kinds.get(status, Kind.UNAVAILABLE if status >= 500 else Kind.REFUSED), said)


def _said(response: Any) -> tuple[str, str]:
    """The service's own reason and message. The library's text is not shown: it quotes whole URLs."""
    try:
        said = response.json()["error"]
        reason = str(said["errors"][0]["reason"]) if said.get("errors") else ""
        message = " ".join(str(said.get("message", "")).split())
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return "", ""
    return reason, message[:_LONGEST_MESSAGE]


def _of_credentials(error: Exception) -> GcsError:
    from google.auth.exceptions import DefaultCredentialsError, TransportError

    if isinstance(error, TransportError):
        return GcsError(Kind.UNAVAILABLE, "no token can be had just now: the connection failed")
    if isinstance(error, DefaultCredentialsError):
        return GcsError(
            Kind.UNUSABLE,
            "there are no credentials: run where a service account is attached (workload identity), "
            f"or name a key file in {_KEY_FILE}",
        )
    if getattr(error, "retryable", False):
        return GcsError(Kind.UNAVAILABLE, "no token can be had just now")
    return GcsError(
        Kind.UNUSABLE,
        "its credentials are refused: check that the key or the service account still exists, "
        "and that this machine's clock is right",
    )
