"""The environment that a benchmark's worker starts from: a pod's of the chart, then what is set on top."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from pydantic import SecretStr, ValidationError

from volery.bench.arms import PRIVATE, Arm
from volery.settings import PREFIX, Settings, known_names, problems_of
from volery.units import ConfigurationError

POD_ENVIRONMENT = "pod-environment.json"


@dataclass(frozen=True)
class Environment:
    """Variables of settings in layers, each over those before it: pod, profile, process, options of the command."""

    pod: Mapping[str, str]
    profile: Mapping[str, str]
    process: Mapping[str, str]
    options: Mapping[str, str]

    def of(self, arm: Arm) -> dict[str, str]:
        """The settings' variables for an arm, which has the last word."""
        layers = {**self.pod, **self.profile, **self.process, **self.options, **arm.environment}
        return dict(sorted(layers.items()))

    def settings(self, arm: Arm) -> Settings:
        """The settings for an arm.

        Raises:
            ConfigurationError: a value makes no sense; the message names the arm and the variable.
        """
        with _alone(self.of(arm)):
            try:
                return Settings()
            except ValidationError as error:
                problems = problems_of(error)
        raise ConfigurationError(f"arm {arm.name}: {problems}")


def pod_environment() -> dict[str, str]:
    """The settings that the chart gives a pod where nothing else is asked of it.

    Raises:
        ConfigurationError: the package is damaged.
    """
    try:
        said = json.loads(resources.files(__package__).joinpath(POD_ENVIRONMENT).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"volery is installed without bench/{POD_ENVIRONMENT}: install it again") from error
    return _settings_of({str(name): str(value) for name, value in said.items()})


def process_environment() -> dict[str, str]:
    """This process's own variables of settings."""
    return _settings_of({name.upper(): value for name, value in os.environ.items()})


def _settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment is settings that a run takes over: no password, nothing of a container's own."""
    known = known_names() - PRIVATE
    return {name: value for name, value in environment.items() if name in known}


def private(settings: Settings, folder: Path) -> Settings:
    """The settings with a job store and results of their own in a folder."""
    database = SecretStr(f"sqlite:///{folder / 'volery.db'}")
    return replace(
        settings,
        queue=settings.queue.model_copy(update={"database_url": database}),
        artifacts=settings.artifacts.model_copy(update={"artifacts_url": (folder / "artifacts").as_uri()}),
    )


@contextmanager
def _alone(environment: Mapping[str, str]) -> Iterator[None]:
    """Let settings be read from this environment and no other: they know no way but the process's own."""
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.upper().startswith(PREFIX)}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in environment:
            os.environ.pop(name, None)
        os.environ.update(before)
