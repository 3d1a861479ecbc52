"""The software: packages of the extras, and models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING

from volery.artifacts.deadlines import within
from volery.cli.checks.check import Check, Verdict
from volery.settings import SpeechSettings
from volery.units import ConfigurationError

if TYPE_CHECKING:
    from volery.speech.models import Weights

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
    try:
        from volery.speech import models
    except ModuleNotFoundError as error:
        advice = "where a worker is to run: pip install 'volery[worker,embedded]'"
        yield Check("Models", Verdict.WARNING, f"not looked for: {error.name} is not installed", advice)
        return
    yield _weights("vad (silero)", models.silero_weights)
    yield _weights("segmentation", models.segmentation_weights)
    yield _weights("embedding", models.embedding_weights)
    yield _weights("asr (whisper)", models.whisper_weights)
    yield _weights("asr (pocket)", models.pocket_weights)
    yield check_hub(speech.models)


def _weights(name: str, find: Callable[[], Weights]) -> Check:
    try:
        info = find().info(name)
    except ConfigurationError as error:
        return Check(f"Model {name}", Verdict.WARNING, "not found", str(error))
    return Check(f"Model {name}", Verdict.OK, f"{info.name} ({info.source}), sha256 {info.digest[:12]}")


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
