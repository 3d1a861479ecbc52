"""Check CUDA-graph decoding against eager decoding on this machine, and write a receipt.

    python scripts/gpu_check.py --model parakeet.nemo --audio meeting.wav --out receipt.json

Needs `volery[worker]`, and no network. Without an accelerator it checks what it can, and says what
it could not. Exits with 1 where a check failed, with 2 where nothing could be checked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

import volery.speech  # noqa: F401  # before torch: it decides how torch's threads wait
from gpu_checks import random_model
from gpu_checks.bench import Bench
from gpu_checks.engines import Plan
from gpu_checks.machine import code, machine, versions
from gpu_checks.receipt import Receipt, verdict
from gpu_checks.sounds import Heard, listen
from gpu_checks.table import show
from volery.settings import SpeechSettings
from volery.speech.device import choose_device, use_threads
from volery.speech.models import POCKET
from volery.speech.parakeet import BatchShape
from volery.speech.precision import precision_of
from volery.speech.quiet import hush
from volery.units import SAMPLE_RATE, ConfigurationError, UnitError

Precise = Literal["float32", "bfloat16"]

_BATCH_WINDOWS: int = SpeechSettings.model_fields["asr_batch_windows"].default
_WINDOW_SECONDS: float = SpeechSettings.model_fields["asr_window_seconds"].default

_LEARNED_S = 30
"""Of the audio, heard by a random model while it is made, so that it finds words in it."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def check(
    model: Annotated[str, typer.Option(help=f"A .nemo file, {POCKET}, or {random_model.NAME}.")] = POCKET,
    audio: Annotated[list[Path] | None, typer.Option(help="Speech to decode; give it again for more files.")] = None,
    out: Annotated[Path, typer.Option(help="Where the receipt goes.")] = Path("gpu-receipt.json"),
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each mode.")] = 7,
    windows: Annotated[int, typer.Option(min=1, help="Windows in a batch.")] = _BATCH_WINDOWS,
    seconds: Annotated[float, typer.Option(min=1, max=60, help="Longest window.")] = _WINDOW_SECONDS,
    precision: Annotated[Precise, typer.Option(help="Type of the weights.")] = "float32",
    allow_partial: Annotated[bool, typer.Option("--allow-partial", help="Accept partial graphs.")] = False,
) -> None:
    """Run the checks, write the receipt, show it."""
    hush()
    use_threads(0)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        receipt = _checked(model, audio or [], BatchShape(windows, seconds), precision, repeats, allow_partial)
    except (ConfigurationError, UnitError, OSError) as error:
        typer.echo(f"nothing was checked: {error}", err=True)
        raise typer.Exit(2) from error
    out.write_text(receipt.model_dump_json(indent=2) + "\n", encoding="utf-8")
    console = Console()
    show(receipt, console)
    console.print(f"The receipt is in {out}", soft_wrap=True, markup=False)
    raise typer.Exit(1 if receipt.failed else 0)


def _checked(
    model: str, audio: list[Path], shape: BatchShape, precision: Precise, repeats: int, allow_partial: bool
) -> Receipt:
    """The receipt of every check of a model."""
    device = choose_device("auto")
    heard = listen(audio, 2 * shape.windows + 1, shape.seconds)
    with _named(model, heard) as name:
        pinned = precision_of(precision, device, tf32=False)
        bench = Bench(Plan(name, device, pinned, shape, heard.windows, repeats, allow_partial))
        bench.run()
    return _receipt(bench, heard)


@contextmanager
def _named(model: str, heard: Heard) -> Iterator[str]:
    """A model as the engine loads it; one of random weights lasts as long as the check."""
    if model != random_model.NAME:
        yield model
        return
    with tempfile.TemporaryDirectory() as folder:
        yield str(random_model.build(Path(folder), heard.samples[: _LEARNED_S * SAMPLE_RATE]))


def _receipt(bench: Bench, heard: Heard) -> Receipt:
    plan, checks = bench.plan, tuple(bench.checks)
    cuda_graphs, detail = verdict(checks, accelerated=plan.accelerated)
    return Receipt(
        made_at=datetime.now(UTC),
        cuda_graphs=cuda_graphs,
        cuda_graphs_detail=detail,
        checks=checks,
        machine=machine(plan.device),
        versions=versions(),
        code=code(),
        model=bench.model,
        precision=str(plan.precision.dtype).removeprefix("torch."),
        sound=heard.sound,
        configurations=tuple(bench.configurations),
        comparisons=tuple(bench.comparisons),
        timing=bench.timing,
        memory=tuple(bench.memory),
    )


if __name__ == "__main__":
    app()
