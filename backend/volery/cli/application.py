"""Puts the commands together, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from volery import __version__
from volery.cli.bench import bench
from volery.cli.demo import demo
from volery.cli.doctor import doctor
from volery.cli.exits import ExitCode, exit_code_of, exit_now
from volery.cli.exporter import exporter
from volery.cli.flags import flags
from volery.cli.gate import gate
from volery.cli.gc import gc
from volery.cli.models import models
from volery.cli.operate import cancel, db, requeue
from volery.cli.output import drop_output, is_full, say_error, write
from volery.cli.referee import referee
from volery.cli.results import results
from volery.cli.status import status
from volery.cli.submit import submit
from volery.cli.transcribe import transcribe
from volery.cli.worker import worker
from volery.units import VoleryError


class _Commands(TyperGroup):
    """The root group: what a command raises ends as a line on standard error and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command and flush what it printed, so that a closed pipe shows here."""
        try:
            outcome = super().invoke(ctx)
            sys.stdout.flush()
        except VoleryError as error:
            say_error(str(error))
            raise typer.Exit(exit_code_of(error)) from error
        except KeyboardInterrupt:
            exit_now(ExitCode.INTERRUPTED)
        except typer.Abort as error:  # Ctrl-C or the end of input at a question
            raise typer.Exit(ExitCode.INTERRUPTED) from error
        except BrokenPipeError as error:
            drop_output()
            raise typer.Exit(ExitCode.PIPE_CLOSED) from error
        except OSError as error:
            if not is_full(error):
                raise
            drop_output()
            say_error(f"cannot write what was asked for: {error.strerror}")
            raise typer.Exit(ExitCode.CONFIGURATION) from error
        return outcome


app = typer.Typer(
    cls=_Commands,
    name="volery",
    help="Lease audio, transcribe it, say who spoke, publish each result once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(submit)
app.command()(worker)
app.command()(transcribe)
app.command()(status)
app.command()(results)
app.command()(requeue)
app.command()(cancel)
app.command()(gc)
app.add_typer(db, name="db")
app.command()(exporter)
app.command()(flags)
app.add_typer(models, name="models")
app.command()(gate)
app.command()(referee)
app.command()(doctor)
app.command()(demo)
app.command()(bench)


def _show_version(wanted: bool) -> None:
    if wanted:
        write(f"volery {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The `volery` program."""
    _mend_streams()
    try:
        app()
    except Exception:
        traceback.print_exc()
        say_error("this is a bug in Volery; the traceback above says where")
        sys.exit(ExitCode.BUG)


def _mend_streams() -> None:
    """Make both streams fit to print to: a closed one is None, and one that is not UTF-8 may refuse a key."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
