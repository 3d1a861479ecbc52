"""Keeps the libraries' chatter out of a worker's output."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_import() -> Iterator[None]:
    """Import libraries that warn at import: torchcodec of FFmpeg, NeMo (pyannote.audio imports it) of telemetry."""
    logging.getLogger("nv_one_logger").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def hush() -> None:
    """Silence warnings that pyannote and Lightning repeat for every unit or every load."""
    for module in (r"pyannote\.", r"lightning\.", r"torch\.", r"torchaudio\."):
        warnings.filterwarnings("ignore", module=module)
    for message in ("Mean of empty slice", "invalid value encountered in divide"):
        warnings.filterwarnings("ignore", message, RuntimeWarning)  # pyannote's means over units with too little speech
    for name in ("faster_whisper", "lightning", "lightning.pytorch", "lightning.fabric", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
