"""Train the pocket Parakeet, or measure one.

    python scripts/train_pocket_parakeet.py train --out build/pocket
    python scripts/train_pocket_parakeet.py evaluate build/pocket/pocket.nemo
    python scripts/train_pocket_parakeet.py compare build/pocket/pocket.nemo

Needs `volery[worker]`; `espeak-ng` too for synthetic voices, which are left out where it is absent.
Training runs on one CPU core, prints its progress and can be taken up again with `--resume`. It
keeps `last.pt`, the state of the run, and `pocket.nemo`, the averaged weights that heard the
validation takes best.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer

from pocket_parakeet import clips
from pocket_parakeet.batches import batches
from pocket_parakeet.evaluation import Figures, evaluate
from pocket_parakeet.network import build
from pocket_parakeet.sequences import Composer
from pocket_parakeet.training import Trainer
from pocket_parakeet.whole_worker import compare

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
CHECKPOINT_STEPS = 250
SEQUENCES = 100

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)
Data = Annotated[Path, typer.Option(help="Folder of the Free Spoken Digit Dataset.")]


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder for what the run makes.")],
    data: Data = SHARED / "fsdd",
    steps: Annotated[int, typer.Option(min=1)] = 6000,
    hold_out: Annotated[str | None, typer.Option(help="A speaker to train without.")] = None,
    seed: int = 0,
    resume: Annotated[bool, typer.Option(help="Go on from last.pt.")] = False,
) -> None:
    """Train a model on takes 5 to 46 of every speaker, and keep the one that hears takes 47 to 49 best."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(build(out / "tokenizer", seed), steps)
    if resume:
        trainer.resume(out / "last.pt")
    rng = np.random.default_rng([seed, trainer.step])
    speakers = _speakers(data, hold_out) - {hold_out}
    people = clips.people(data, clips.TRAINING_TAKES, speakers)
    composer = Composer(people, clips.synthetic(out / "espeak.npz", seed), rng)
    source = batches(composer, trainer.model.tokenizer, rng)
    validation = clips.people(data, clips.VALIDATION_TAKES, speakers)
    while trainer.step < steps:
        trainer.run(source, until=min(trainer.step + CHECKPOINT_STEPS, steps))
        _keep(trainer, out, validation)


def _speakers(data: Path, hold_out: str | None) -> set[str]:
    """The speakers of the dataset.

    Raises:
        typer.BadParameter: there are none, or the one to hold out is not among them.
    """
    found = clips.speakers(data)
    if not found:
        raise typer.BadParameter(
            f"{data} holds no files named digit_speaker_take.wav: name the dataset's folder with --data"
        )
    if hold_out is not None and hold_out not in found:
        raise typer.BadParameter(f"no speaker is named {hold_out!r}, only {', '.join(sorted(found))}")
    return found


def _keep(trainer: Trainer, out: Path, validation: list[clips.Clip]) -> None:
    """Save the run, and the model if it errs no more than the best one before."""
    candidate = out / "candidate.nemo"
    trainer.export(candidate)
    figures = evaluate(candidate, validation, SEQUENCES, None, seed=0)
    wrong = _wrongness(figures)
    if wrong <= trainer.best:
        trainer.best = wrong
        os.replace(candidate, out / "pocket.nemo")
    trainer.save(out / "last.pt")
    print(json.dumps({"step": trainer.step, "wrongness": wrong, **asdict(figures)}), flush=True)


def _wrongness(figures: Figures) -> float:
    """Word error rates on single takes and in sequences, and a tenth for every sound in which words were invented."""
    return figures.wer_takes + figures.wer_joined + 0.1 * len(figures.invented)


@app.command("evaluate")
def measure(
    model: Annotated[Path, typer.Argument(help="A .nemo file.")],
    data: Data = SHARED / "fsdd",
    cases: Annotated[Path, typer.Option(help="Folder of odd files with a manifest.json.")] = SHARED / "audio-cases",
    hold_out: Annotated[
        str | None, typer.Option(help="A speaker trained without: judge on all takes of that one.")
    ] = None,
    seed: int = 1,
) -> None:
    """Print a model's figures on the test takes as JSON."""
    torch.set_num_threads(1)
    known = _speakers(data, hold_out)
    takes = clips.people(data, clips.ALL_TAKES, {hold_out}) if hold_out else clips.people(data, clips.TEST_TAKES, known)
    figures = evaluate(model, takes, SEQUENCES, cases if cases.is_dir() else None, seed)
    typer.echo(json.dumps(asdict(figures), indent=2))


@app.command("compare")
def beside_nemo(
    model: Annotated[Path, typer.Argument(help="A .nemo file.")],
    data: Data = SHARED / "fsdd",
    units: Annotated[int, typer.Option(min=1)] = SEQUENCES,
    seed: int = 3,
) -> None:
    """Print what the whole worker hears in joined test takes, beside NeMo's own `transcribe`, as JSON."""
    torch.set_num_threads(1)
    takes = clips.people(data, clips.TEST_TAKES, _speakers(data, None))
    typer.echo(json.dumps(asdict(compare(model.resolve(), takes, units, seed)), indent=2))


if __name__ == "__main__":
    app()
