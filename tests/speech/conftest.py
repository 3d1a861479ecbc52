"""What the speech tests share: decoded audio, and pipelines that are loaded once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from speech_audio import decoded

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline


@pytest.fixture(scope="session")
def talk(conversation: Path) -> npt.NDArray[np.float32]:
    """The half-minute conversation, decoded."""
    return decoded(conversation)


@pytest.fixture(scope="session")
def pipeline() -> SpeechPipeline:
    """The embedded models with every switch on."""
    return load()


@pytest.fixture(scope="session")
def plain_pipeline() -> SpeechPipeline:
    """The embedded models without reuse of segmentation scores."""
    return load(vad_segmentation_reuse_enabled=False)


def load(**switches: bool) -> SpeechPipeline:
    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    return load_pipeline(SpeechSettings(models="embedded", device="cpu", cpu_threads=1), ProviderConfig(**switches))


@pytest.fixture(scope="session")
def nemo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Parakeet with random weights."""
    import tiny_parakeet

    return tiny_parakeet.build(tmp_path_factory.mktemp("parakeet"))
