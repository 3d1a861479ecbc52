"""`volery bench`: the real worker in several configurations, compared."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich import progress as rich_progress

from volery.cli.environment import load_settings, quiet_logs
from volery.cli.exits import ExitCode, UsageError
from volery.cli.formats import make_folder
from volery.cli.inputs import collect
from volery.cli.output import messages, say, tables, write_json
from volery.cli.progress import progress_bar
from volery.export.names import file_name
from volery.settings import PREFIX
from volery.units import Unit

if TYPE_CHECKING:
    from volery.bench.arms import Arm
    from volery.bench.bench import Bench, Plan
    from volery.bench.profiles import Profile
    from volery.bench.run import Run
    from volery.worker.publication import UnitEnded

T = TypeVar("T")


def bench(
    manifests: Annotated[
        list[str] | None, typer.Argument(metavar="MANIFEST", help="Units: whatever `volery submit` takes.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Simulate a device and its work instead, such as l4: no models, no audio.")
    ] = None,
    arms: Annotated[
        str,
        typer.Option(
            help="Configurations, separated by commas: all-on, all-off (the kill switches), prepare+reuse (those on), "
            "no-graphs (that one off), NAME=VALUE, or several joined with +. The first is what others are compared "
            "with."
        ),
    ] = "all-on,all-off",
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each arm, in turn.")] = 3,
    lanes: Annotated[int | None, typer.Option(help="Lanes of the worker (LANES).")] = None,
    flight: Annotated[int | None, typer.Option(help="Units that a lane leases in one pull (FLIGHT_UNITS).")] = None,
    io: Annotated[
        str | None,
        typer.Option(
            help="Seconds that a fetch, a publication and an admission take beyond what they do: "
            "fetch=0.43,publish=uniform:0.1:0.3,admission=lognormal:0.05:0.5. (default: the profile's, or none)"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the receipt, tables, charts and results.")] = Path("bench-out"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the receipt instead of tables.")] = False,
) -> None:
    """Compare configurations of the real worker over the same units, by audio-hours per GPU-section-hour.

    Every run has a job store and results of its own. The worker starts from the environment that
    the chart gives a pod; BATCH_PIPELINE_ variables of this process come on top, then --lanes and
    --flight, then an arm's own settings. Arms are warmed before anything is timed and then run in
    turn. The receipt is rewritten after every run and says what really ran.
    """
    quiet_logs(load_settings())
    device, units = _work(manifests or [], profile)
    options = {"LANES": lanes, "FLIGHT_UNITS": flight}
    make_folder(out)
    with tempfile.TemporaryDirectory(prefix="volery-bench-") as folder:
        units = device.make_units(Path(folder)) if device else units
        plan = _plan(units, device, arms, repeats, io, options)
        benchmark = _run(plan, out)
    receipt = benchmark.receipt()
    if as_json:
        write_json(receipt.model_dump(mode="json"), indent=1)
    else:
        from volery.bench.tables import print_receipt

        print_receipt(receipt, tables())
    say(f"\nreceipt.json, table.txt, report.html and results are in {out}/")
    if any(arm.failed_units for arm in receipt.arms):
        raise typer.Exit(ExitCode.UNITS_FAILED)


def _work(manifests: Sequence[str], profile: str | None) -> tuple[Profile | None, list[Unit]]:
    """The device to simulate, or the units to run over.

    Raises:
        UsageError: neither or both are named, or they make no sense.
    """
    from volery.bench.profiles import load_profile, profile_names

    if bool(manifests) == (profile is not None):
        raise UsageError(f"name either a MANIFEST or a --profile (there is {', '.join(profile_names())})")
    if profile is not None:
        return _sensible(lambda: load_profile(profile)), []
    with messages().status("looking for audio"):
        return None, collect(manifests, {}).units


def _plan(
    units: Sequence[Unit],
    device: Profile | None,
    arms: str,
    repeats: int,
    io: str | None,
    options: dict[str, int | None],
) -> Plan:
    from volery.bench.arms import parse_arms
    from volery.bench.bench import Plan
    from volery.bench.delays import IoDelays, parse_io
    from volery.bench.environment import Environment, pod_environment, process_environment
    from volery.bench.models import real_models, simulated_by

    delays = device.delays if device else IoDelays()
    return Plan(
        arms=_sensible(lambda: parse_arms(arms)),
        units=units,
        repeats=repeats,
        delays=_sensible(lambda: parse_io(io or "", delays)),
        environment=Environment(
            pod=pod_environment(),
            profile=device.environment if device else {},
            process=process_environment(),
            options={PREFIX + name: str(value) for name, value in options.items() if value is not None},
        ),
        load_models=simulated_by(device) if device else real_models(),
        profile=device,
    )


def _sensible(parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ValueError as error:
        raise UsageError(str(error)) from error


def _run(plan: Plan, out: Path) -> Bench:
    """Run a plan; whatever ends it, what is finished is written."""
    from volery.bench.bench import Bench

    with progress_bar() as bar:
        benchmark = Bench(plan, out, _Watcher(plan, out, bar))
        try:
            asyncio.run(benchmark.run())
        except KeyboardInterrupt:
            say(f"interrupted; what is finished is in {out}/")
            raise
        finally:
            _write(benchmark, out)
    return benchmark


def _write(benchmark: Bench, out: Path) -> None:
    from volery.bench.report import write_report
    from volery.bench.tables import write_tables

    receipt = benchmark.receipt()
    if receipt.arms:
        write_tables(receipt, out / "table.txt")
        write_report(receipt, benchmark.arms, out / "report.html")


class _Watcher:
    """Shows how a benchmark goes on, and keeps the results of each arm's last run.

    As its receipt replaces an earlier bench's, the results of the arms that one named go.
    """

    def __init__(self, plan: Plan, out: Path, bar: rich_progress.Progress) -> None:
        from volery.bench.receipt import arms_named_in

        self._plan = plan
        self._out = out
        self._bar = bar
        total = len(plan.arms) * plan.repeats * len(plan.units)
        self._task = bar.add_task("", total=total)
        self._earlier = arms_named_in(out / "receipt.json")

    def doing(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def begins(self, arm: str, repeat: int) -> None:
        self.doing(f"{arm}, repeat {repeat} of {self._plan.repeats}")

    def ended(self, unit: UnitEnded) -> None:
        if unit.state.is_final:
            self._bar.advance(self._task)

    def finished(self, arm: Arm, run: Run) -> None:
        self._drop_earlier()
        results = self._out / "results" / arm.folder
        make_folder(results)
        _drop_results(results)
        for result in run.results:
            (results / file_name(result.key, "json")).write_bytes(result.to_json())

    def _drop_earlier(self) -> None:
        from volery.bench.arms import folder_of

        for folder in filter(None, map(folder_of, self._earlier)):
            results = self._out / "results" / folder
            _drop_results(results)
            with suppress(OSError):  # it is gone already, or somebody else keeps something in it
                results.rmdir()
        self._earlier = ()


def _drop_results(folder: Path) -> None:
    for old in folder.glob("*.json"):
        old.unlink()
