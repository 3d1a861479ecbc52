"""Packages that only an extra brings: what is said where one is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
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
        raise _missing(error.name, extras) from error


def require(packages: Iterable[str], extras: str) -> None:
    """Make sure that packages, by the names that they are imported under, are there; none is imported.

    Raises:
        ConfigurationError: one is not installed; it names the package and the extras.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise _missing(package, extras)


def _missing(package: str | None, extras: str) -> ConfigurationError:
    return ConfigurationError(f"the package {package} is not installed: pip install 'volery[{extras}]'")
