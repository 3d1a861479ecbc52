"""All checks in order; those that need settings are left out where the settings make no sense."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from volery.artifacts import open_results
from volery.artifacts.deadlines import within
from volery.cli.checks.check import Check, Verdict
from volery.cli.checks.machine import check_accelerator, check_python, check_resources
from volery.cli.checks.software import check_models, check_packages
from volery.cli.environment import quiet_logs, read
from volery.cli.stores import open_and_close
from volery.settings import ArtifactSettings, QueueSettings, Settings, check_environment
from volery.units import ConfigurationError, NoStoreError, VoleryError

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
    if settings.referee.referee_sample_rate:
        yield check_audit(settings)
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


def check_audit(settings: Settings) -> Check:
    """The referee has its packages, and its models can be had as far as that is known before they are loaded."""
    from volery.referee.opening import check_referee

    try:
        models = check_referee(settings)
    except VoleryError as error:
        return Check("Referee", Verdict.FAILED, "cannot work, and no worker starts", str(error))
    share = settings.referee.referee_sample_rate
    return Check("Referee", Verdict.OK, f"audits {share:.3g} of the units with {', '.join(models)}")


def check_store(settings: QueueSettings) -> Check:
    """The job store answers and has a schema that this version runs on; where there is none, none is made."""
    try:
        asyncio.run(asyncio.wait_for(open_and_close(settings), _PATIENCE_SECONDS))
    except TimeoutError:
        return Check("Job store", Verdict.FAILED, "no answer in time", "check BATCH_PIPELINE_DATABASE_URL")
    except NoStoreError as error:
        return _no_store(error.path, chosen="database_url" in settings.model_fields_set)
    except VoleryError as error:
        return Check("Job store", Verdict.FAILED, "cannot be used", str(error))
    return Check("Job store", Verdict.OK, "reachable, its schema is this version's")


def _no_store(path: Path, *, chosen: bool) -> Check:
    """No trouble on a fresh machine; where somebody chose the path, perhaps a slip in it."""
    above = next(folder for folder in path.absolute().parents if os.path.exists(folder))
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        found = f"there is no store yet at {path}, and {above} is no folder that can be written to"
        return Check("Job store", Verdict.FAILED, found, "correct BATCH_PIPELINE_DATABASE_URL")
    advice = "`volery submit` or `volery db upgrade` makes one"
    if chosen:
        advice += "; if there should be one, correct BATCH_PIPELINE_DATABASE_URL"
    verdict = Verdict.WARNING if chosen else Verdict.OK
    return Check("Job store", verdict, f"there is no store yet at {path}", advice)


def check_artifacts(settings: ArtifactSettings) -> Check:
    """Results can be written."""
    try:
        within(_PATIENCE_SECONDS, open_results(settings.artifacts_url, settings).check)
    except TimeoutError:
        return Check("Results", Verdict.FAILED, "no answer in time", "check BATCH_PIPELINE_ARTIFACTS_URL")
    except VoleryError as error:
        return Check("Results", Verdict.FAILED, "cannot be written", str(error))
    return Check("Results", Verdict.OK, f"can be written to {settings.artifacts_url}")
