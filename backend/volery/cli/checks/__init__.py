"""What `volery doctor` looks at."""

from volery.cli.checks.check import Check, Verdict
from volery.cli.checks.everything import run_checks

__all__ = ["Check", "Verdict", "run_checks"]
