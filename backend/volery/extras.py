"""Packages that only an extra brings: what is said where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from volery.units import ConfigurationError


@contextmanager
def needed_from(extras: str) -> Iterator[None]:
    """Import in the block what only these extras bring, such as `worker,embedded`.

    Raises:
        ConfigurationError: a package is not installed; it names the package and the extras.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "volery":
            raise
        raise ConfigurationError(
            f"the package {error.name} is not installed: pip install 'volery[{extras}]'"
        ) from error
