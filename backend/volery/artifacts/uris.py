"""How audio and results are addressed: `file://` URIs, plain absolute paths and `gs://` URIs."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote_to_bytes

SUPPORTED = "file:///folder/name, absolute paths and gs://bucket/name"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL_HOSTS = ("", "localhost")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_LONGEST_OBJECT_BYTES = 1024


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


def bucket_and_name(uri: str) -> tuple[str, str]:
    """The bucket and the object's name behind a `gs://` URI; the name may be empty.

    A name is taken as it stands: in `gs://` URIs nothing is percent-encoded, and `?` and `#`
    belong to it.

    Raises:
        ValueError: there can be no such bucket or object; the message says why.
    """
    if scheme(uri) != "gs" or uri[2:5] != "://":
        raise ValueError(f"only {SUPPORTED} are supported")
    bucket, _, name = uri[5:].partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise ValueError("a bucket's name has 3 or more lower-case letters, digits, dots, dashes and underscores")
    if any(character in name for character in "\0\r\n") or name in (".", ".."):
        raise ValueError("no object can have this name")
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds characters that no object's name can hold") from error
    if len(encoded) > _LONGEST_OBJECT_BYTES:
        raise ValueError(f"an object's name has at most {_LONGEST_OBJECT_BYTES} bytes")
    return bucket, name


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
