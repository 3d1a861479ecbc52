"""All checks in order; those that need settings are left out where the settings make no sense."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from volery.artifacts import open_results
from volery.artifacts.deadlines import within
from volery.cli.checks.check import Check, Verdict
from volery.cli.checks.machine import check_accelerator, check_python, check_resources
from volery.cli.checks.software import check_models, check_packages
from volery.cli.environment import quiet_logs, read
from volery.cli.stores import opened
from volery.settings import ArtifactSettings, QueueSettings, Settings, check_environment
from volery.units import ConfigurationError, VoleryError

_PATIENCE_SECONDS = 15.0


def run_checks() -> Iterator[Check]:
    """Look at everything, one thing after the other."""
    yield check_python()
    yield check_resources()
    yield check_settings()
    try:
        settings = read(Settings)
    except ConfigurationError:
        return
    quiet_logs(settings)
    yield check_accelerator(settings.speech.device)
    yield from check_packages()
    yield from check_models(settings.speech)
    yield check_store(settings.queue)
    yield check_artifacts(settings.artifacts)


def check_settings() -> Check:
    """Values that make no sense, and names that no setting has."""
    try:
        unknown = check_environment()
        read(Settings)
    except ConfigurationError as error:
        return Check("Settings", Verdict.FAILED, str(error), "correct the environment")
    if unknown:
        found = f"unknown: {', '.join(unknown)}"
        return Check("Settings", Verdict.WARNING, found, "they have no effect: remove them, or correct their names")
    return Check("Settings", Verdict.OK, "every value makes sense")


def check_store(settings: QueueSettings) -> Check:
    """The job store answers and has a schema that this version runs on."""
    try:
        asyncio.run(asyncio.wait_for(_open_and_close(settings), _PATIENCE_SECONDS))
    except TimeoutError:
        return Check("Job store", Verdict.FAILED, "no answer in time", "check BATCH_PIPELINE_DATABASE_URL")
    except VoleryError as error:
        return Check("Job store", Verdict.FAILED, "cannot be used", str(error))
    return Check("Job store", Verdict.OK, "reachable, its schema is this version's")


async def _open_and_close(settings: QueueSettings) -> None:
    async with opened(settings, create=True):
        pass


def check_artifacts(settings: ArtifactSettings) -> Check:
    """Results can be written."""
    try:
        within(_PATIENCE_SECONDS, open_results(settings.artifacts_url, settings).check)
    except TimeoutError:
        return Check("Results", Verdict.FAILED, "no answer in time", "check BATCH_PIPELINE_ARTIFACTS_URL")
    except VoleryError as error:
        return Check("Results", Verdict.FAILED, "cannot be written", str(error))
    return Check("Results", Verdict.OK, f"can be written to {settings.artifacts_url}")
