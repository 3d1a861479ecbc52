"""What log lines hold, and what they never do."""

from __future__ import annotations

import pytest
import structlog

from volery.logs import configure_logging
from volery.settings import LogSettings


def fails(spoken: str) -> None:
    raise RuntimeError(f"{len(spoken)} characters are too many")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_says_where_something_failed_and_nothing_of_what_was_at_hand(
    log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogSettings.model_validate({"log_format": log_format}))
    try:
        fails("".join(["call", "me", "ishmael"]))
    except RuntimeError as error:
        structlog.get_logger().error("unexpected", exc_info=error)
    logged = capsys.readouterr().err
    assert "fails" in logged
    assert "13 characters are too many" in logged
    assert "callmeishmael" not in logged


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_key_can_steer_the_terminal_that_shows_the_log(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings.model_validate({"log_format": log_format}))
    structlog.get_logger().warning("lease lost", key="\x1b]0;owned\x07\u202edne")
    logged = capsys.readouterr().err
    assert "owned" in logged
    assert not any(command in logged for command in ("\x1b]", "\x07", "\u202e"))
