"""Settings as commands read them: flags become environment variables first, so there is one source."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from volery.logs import configure_logging
from volery.settings import PREFIX, QueueSettings, Settings, check_environment, problems_of
from volery.units import ConfigurationError

Group = TypeVar("Group")


def override(**flags: object) -> None:
    """Set the environment variable of every setting that a flag was given for; None leaves it alone."""
    for name, value in flags.items():
        if value is not None:
            os.environ[f"{PREFIX}{name}".upper()] = str(value)


def load_settings() -> Settings:
    """All settings, with logging set up as they say.

    Raises:
        ConfigurationError: a value or a name makes no sense; the message holds no value.
    """
    check_environment()
    settings = read(Settings)
    configure_logging(settings.log)
    return settings


def quiet_logs(settings: Settings) -> None:
    """Log warnings only, unless the settings ask for something else: for commands that show progress."""
    if "log_level" not in settings.log.model_fields_set:
        configure_logging(settings.log.model_copy(update={"log_level": "WARNING"}))


def queue_settings() -> QueueSettings:
    """The settings of the job store, for commands that need nothing else.

    Raises:
        ConfigurationError: as for `load_settings`.
    """
    return load_settings().queue


def read(group: Callable[[], Group]) -> Group:
    """Read settings from the environment.

    Raises:
        ConfigurationError: a value makes no sense; the message names the variable, not its value.
    """
    try:
        return group()
    except ValidationError as error:
        raise ConfigurationError(problems_of(error)) from None
