"""On how many threads the small models run."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_operators_run_on_one_thread_only_for_a_while() -> None:
    from volery.speech.device import one_thread

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            inside = torch.get_num_threads()
        assert (inside, torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.models
def test_embeddings_are_the_same_on_however_many_threads() -> None:
    from volery.speech.embedding import CamPlusPlusEmbedding
    from volery.speech.models import EMBEDDING

    embedding = CamPlusPlusEmbedding(EMBEDDING.find().path, torch.device("cpu"))
    waveforms = torch.randn(3, 1, 32_000, generator=torch.Generator().manual_seed(0))[[0, 0, 1, 2, 2]]
    masks = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(embedding(waveforms, masks))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    assert np.isnan(found[0]).all(axis=1).tolist() == [False, False, True, False, False]
