"""The command line: one module a command group. What is heavy to import is imported inside commands."""

from volery.cli.application import app, main

__all__ = ["app", "main"]
