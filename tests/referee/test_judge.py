"""How one unit is judged: which model decides, in which language, over which audio."""

from __future__ import annotations

from pathlib import Path

import pytest

from referee.published import Loading, Says, publish, settings_in
from volery.referee.cases import Case, RefereeError, RefereeReason
from volery.referee.devices import Choice, Why
from volery.referee.judge import Judge
from volery.settings import Settings
from volery.units import SAMPLE_RATE, Clip, ConfigurationError, Unit
from worker.stubs import write_wav

CPU = Choice("cpu", Why.ASKED)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path, referee_threshold=0.25)


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    return write_wav(tmp_path / "unit.wav", 1.0)


def _judge(settings: Settings, first: str, second: str | None = None) -> tuple[Judge, Loading]:
    loading = Loading(Says(second or ""))
    return Judge(settings, Says(first, "en"), None if second is None else loading, CPU), loading


def test_what_the_first_model_agrees_with_never_loads_the_second(settings: Settings, audio: Path) -> None:
    judge, second = _judge(settings, "one two three four", "nothing of the kind")
    judgement = judge.judge(publish(settings, "u0", "one two 3", audio))
    assert (judgement.key, judgement.disagreement, judgement.words) == ("u0", 0.25, 4)
    assert not judgement.escalated
    assert second.loaded == 0


def test_disagreement_that_the_second_model_does_not_share_does_not_count(settings: Settings, audio: Path) -> None:
    judge, second = _judge(settings, "won too free for", "one two three four")
    judgement = judge.judge(publish(settings, "u0", "one two three four", audio))
    assert (judgement.first, judgement.escalated, judgement.disagreement) == (1.0, True, 0.0)
    assert second.loaded == 1


def test_disagreement_that_survives_both_models_counts_with_what_the_nearer_one_says(
    settings: Settings, audio: Path
) -> None:
    judge, _ = _judge(settings, "a b c d", "one two c d e")
    assert judge.judge(publish(settings, "u0", "a b x y", audio)).disagreement == 0.5
    nearer, _ = _judge(settings, "p q r s", "a b c y")
    judgement = nearer.judge(publish(settings, "u1", "a b x y", audio))
    assert (judgement.first, judgement.disagreement) == (1.0, 0.25)


def test_without_a_second_model_what_the_first_says_counts(settings: Settings, audio: Path) -> None:
    judge, _ = _judge(settings, "p q r s")
    judgement = judge.judge(publish(settings, "u0", "a b c d", audio))
    assert (judgement.disagreement, judgement.escalated) == (1.0, False)


def test_the_second_model_is_loaded_once(settings: Settings, audio: Path) -> None:
    judge, second = _judge(settings, "p q r s", "a b c d")
    for n in range(3):
        judge.judge(publish(settings, f"u{n}", "a b c d", audio))
    assert second.loaded == 1
    assert len(second.listener.given) == 3


def test_a_second_model_that_cannot_be_loaded_is_said_and_is_no_units_fault(settings: Settings, audio: Path) -> None:
    def load() -> Says:
        raise ConfigurationError("large-v3 is not the one that is pinned")

    refused = _refused(Judge(settings, Says("p q r s"), load, CPU), publish(settings, "u0", "a b c d", audio))
    assert (refused.reason, refused.message) == (
        RefereeReason.NOT_STARTED,
        "large-v3 is not the one that is pinned",
    )


@pytest.mark.parametrize(
    ("asked", "published", "heard", "given", "told"),
    [
        ("de_AT", "en", "fr", "de", "de"),
        (None, "en", "fr", "en", "en"),
        (None, None, "fr", None, "fr"),
        (None, None, None, None, None),
    ],
)
def test_the_submitters_language_goes_before_the_results_and_that_before_what_is_heard(
    settings: Settings,
    audio: Path,
    asked: str | None,
    published: str | None,
    heard: str | None,
    given: str | None,
    told: str | None,
) -> None:
    listener = Says("a", heard)
    judgement = Judge(settings, listener, None, CPU).judge(
        publish(settings, "u0", "a", audio, asked=asked, language=published)
    )
    assert listener.given == [(SAMPLE_RATE, given)]
    assert judgement.language == told


def test_of_a_clip_only_the_clip_is_heard(settings: Settings, audio: Path) -> None:
    listener = Says("a")
    Judge(settings, listener, None, CPU).judge(publish(settings, "u0", "a", audio, clip=Clip(0.25, 0.75)))
    assert [samples for samples, _ in listener.given] == [SAMPLE_RATE // 2]


def test_silence_that_both_found_agrees(settings: Settings, audio: Path) -> None:
    judge, _ = _judge(settings, "")
    assert judge.judge(publish(settings, "u0", "", audio)).disagreement == 0


def _refused(judge: Judge, case: Case) -> RefereeError:
    with pytest.raises(RefereeError) as refused:
        judge.judge(case)
    return refused.value


def test_audio_that_is_gone_is_not_judged(settings: Settings, audio: Path) -> None:
    case = publish(settings, "u0", "a", audio)
    audio.unlink()
    refused = _refused(_judge(settings, "a")[0], case)
    assert refused.reason is RefereeReason.AUDIO
    assert "u0: audio_missing" in refused.message


def test_audio_that_is_another_than_was_transcribed_is_not_judged(settings: Settings, audio: Path) -> None:
    case = publish(settings, "u0", "a", audio)
    write_wav(audio, 1.0, seed=1)
    refused = _refused(_judge(settings, "a")[0], case)
    assert (refused.reason, refused.message) == (
        RefereeReason.AUDIO,
        "u0: its audio changed since it was transcribed",
    )


def test_the_limits_of_audio_hold_for_the_referee_too(tmp_path: Path, audio: Path) -> None:
    settings = settings_in(tmp_path, audio={"audio_max_seconds": 0.5})
    refused = _refused(_judge(settings, "a")[0], publish(settings, "u0", "a", audio))
    assert (refused.reason, "audio_too_long" in refused.message) == (RefereeReason.AUDIO, True)


def test_a_result_that_is_gone_is_not_judged(settings: Settings, audio: Path) -> None:
    case = Case(Unit("u0", audio.as_uri()), "results/ab/abcd.json")
    refused = _refused(_judge(settings, "a")[0], case)
    assert refused.reason is RefereeReason.RESULT


def test_an_error_about_a_result_quotes_nothing_of_it(settings: Settings, audio: Path, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text('{"words": ["confidential"], "language": null, "audio": {"sha256": "0"}}')
    refused = _refused(_judge(settings, "a")[0], Case(Unit("u0", audio.as_uri()), path.as_uri()))
    assert refused.reason is RefereeReason.RESULT
    assert "confidential" not in str(refused)
    assert refused.__cause__ is None
    assert "u0" in refused.message
