"""Volery: a batch speech worker that leases, transcribes, diarizes and publishes once."""

from importlib.metadata import version

__version__ = version("volery")
