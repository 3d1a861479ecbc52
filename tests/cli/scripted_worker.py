"""`volery` with a scripted pipeline in the place of the models: for how its worker command ends.

The first argument names the script, the rest are the command line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import ModuleType

from volery import cli
from volery.units import PreparedUnit, QuarantineError, ResultClass, Transcript


def leave_a_thread_behind() -> None:
    """A library's, that does not end when the process should."""
    threading.Thread(target=threading.Event().wait, daemon=False).start()


class Pipeline:
    """Finds nothing in any unit, unless its script says otherwise."""

    models = ()

    def __init__(self, script: str) -> None:
        self._script = script

    def warm_up(self) -> None:
        """Get stuck, or nothing."""
        if self._script == "loading":
            leave_a_thread_behind()
            print("loading", flush=True)
            threading.Event().wait()

    def switch_states(self) -> dict[str, str]:
        """None."""
        return {}

    def process(self, group: Sequence[PreparedUnit]) -> list[Transcript]:
        """Work as the script says."""
        if self._script in ("quarantine", "stuck"):
            leave_a_thread_behind()
        if self._script == "quarantine":
            raise QuarantineError("test", "as the script says")
        if self._script == "stuck":
            print("stuck", flush=True)
            threading.Event().wait()
        return [Transcript(ResultClass.NO_SPEECH) for _ in group]


script = sys.argv.pop(1)
models = ModuleType("volery.speech.pipeline")
vars(models).update(SpeechPipeline=Pipeline, load_pipeline=lambda *_: Pipeline(script))
sys.modules[models.__name__] = models  # so that nothing here loads torch
cli.main()
