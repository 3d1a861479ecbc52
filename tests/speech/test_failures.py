"""What an exception of a model means for its unit and for the process."""

from __future__ import annotations

import pytest

from volery.units import QuarantineError, Reason, UnitRejected

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("2 GiB"), MemoryError("batch too large")])
def test_running_out_of_memory_is_a_reason_of_its_own(error: Exception) -> None:
    from volery.speech.failures import as_unit_error

    assert as_unit_error("asr", error).reason is Reason.SPEECH_OUT_OF_MEMORY


def test_a_broken_accelerator_quarantines_the_process() -> None:
    from volery.speech.failures import as_unit_error

    with pytest.raises(QuarantineError, match="accelerator_error"):
        as_unit_error("vad", torch.AcceleratorError("an illegal memory access was encountered"))


def test_any_other_failure_names_its_stage_and_kind_but_not_its_text() -> None:
    from volery.speech.failures import as_unit_error

    failure = as_unit_error("asr", ValueError("they said: hello"))
    assert failure.reason is Reason.SPEECH_FAILED
    assert "asr" in failure.message
    assert "ValueError" in failure.message
    assert "hello" not in str(failure)


def test_the_error_of_a_unit_stays_what_it_is() -> None:
    from volery.speech.failures import as_unit_error

    rejected = UnitRejected(Reason.LANGUAGE_UNSUPPORTED, "no")
    assert as_unit_error("vad", rejected) is rejected
