"""How audio and results are addressed: `file://` URIs and plain absolute paths."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote_to_bytes

SUPPORTED = "file:///folder/name and absolute paths"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL_HOSTS = ("", "localhost")


def scheme(uri: str) -> str:
    """The lower-case scheme of a URI; `file` for an absolute path, empty where there is neither."""
    if uri.startswith("/"):
        return "file"
    found = _SCHEME.match(uri)
    return found.group(1).lower() if found else ""


def local_path(uri: str) -> str:
    """The absolute path behind a `file://` URI or an absolute path.

    A plain path is taken as it stands. In a URI, percent-encoded bytes are decoded; `?` and `#`
    belong to the name, encoded or not, since files have neither query nor fragment.

    Raises:
        ValueError: it names no absolute path of this machine; the message says why.
    """
    path = uri if uri.startswith("/") else _path_of_uri(uri)
    if "\0" in path:
        raise ValueError("a NUL byte cannot be part of a path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ValueError("it holds characters that no path can hold") from error
    return path


def _path_of_uri(uri: str) -> str:
    if scheme(uri) != "file":
        raise ValueError(f"only {SUPPORTED} are supported")
    rest = uri.partition(":")[2]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in _LOCAL_HOSTS:
            raise ValueError("a file URI with another machine's name cannot be opened; write file:///folder/name")
        rest = slash + path
    if not rest.startswith("/"):
        raise ValueError("a relative path means nothing to a worker; write file:///folder/name")
    return os.fsdecode(unquote_to_bytes(rest))
