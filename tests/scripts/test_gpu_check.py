"""The GPU check, on a CPU: what it finds there, what it says it could not check, and what makes it fail.

CUDA graphs cannot be captured here. Where the side that needs them is tried, a CPU passes for an
accelerator and the graph mode is one that only claims to run: the check must not believe it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import tiny_parakeet
import torch
from typer.testing import CliRunner

import gpu_check
from gpu_checks import bench, engines, machine, random_model, sounds, words
from gpu_checks.receipt import CUDA_GRAPHS, Check, Code, Name, Receipt, Status, verdict
from volery.speech.asr import Hypothesis, HypothesisWord
from volery.speech.decoding_mode import DecodingMode, ModeGuard, computer_of
from volery.speech.models import digest_of
from volery.speech.parakeet import ParakeetEngine, ParakeetOptions, load_parakeet
from volery.speech.precision import Precision

pytestmark = pytest.mark.models

HERE = {Name.EAGER_MODE, Name.WORDS_ALONE_EAGER, Name.EAGER_GUARD}
"""What can be checked without an accelerator."""


@dataclass
class Ran:
    """One run of the command."""

    exit_code: int
    output: str
    path: Path

    @property
    def receipt(self) -> Receipt:
        return Receipt.model_validate_json(self.path.read_text())

    def found(self, name: Name) -> Check:
        return next(check for check in self.receipt.checks if check.name is name)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_parakeet.build(tmp_path_factory.mktemp("parakeet"))


@pytest.fixture(scope="module")
def check(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ran]:
    """Runs the command on the tiny model."""

    def run(*options: str) -> Ran:
        path = tmp_path_factory.mktemp("receipt") / "new" / "receipt.json"
        small = ["--windows", "2", "--seconds", "4", "--repeats", "2", "--model", str(tiny), "--out", str(path)]
        done = CliRunner().invoke(gpu_check.app, [*small, *options], env={"COLUMNS": "200"})
        return Ran(done.exit_code, done.output, path)

    return run


@pytest.fixture(scope="module")
def plain(check: Callable[..., Ran]) -> Ran:
    """A run in which nothing was planted."""
    return check()


@pytest.fixture
def as_if_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.Plan, "accelerated", True)
    monkeypatch.setattr(ParakeetEngine, "graphs", property(lambda engine: engine.guard.state))


def test_without_an_accelerator_eager_is_checked_and_the_rest_is_not(plain: Ran) -> None:
    assert plain.exit_code == 0
    passed = {check.name for check in plain.receipt.checks if check.status is Status.PASSED}
    assert passed == HERE
    others = [check for check in plain.receipt.checks if check.name not in HERE]
    assert all(check.status is Status.NOT_CHECKED and "no accelerator" in check.detail for check in others)


def test_the_summary_says_plainly_that_graphs_were_not_checked(plain: Ran) -> None:
    assert "CUDA graphs: not checked (no accelerator)" in plain.output
    for check in plain.receipt.checks:
        line = next(line for line in plain.output.splitlines() if check.name.replace("_", " ") in line)
        assert check.status.replace("_", " ") in line


def test_every_check_is_in_the_receipt_once_and_in_order(plain: Ran) -> None:
    assert [check.name for check in plain.receipt.checks] == list(Name)


def test_the_receipt_says_what_ran_on_what(plain: Ran, tiny: Path, conversation: Path) -> None:
    receipt = plain.receipt
    assert receipt.model is not None
    assert (receipt.model.name, receipt.model.digest) == ("tiny.nemo", digest_of(tiny))
    assert (receipt.sound.source, receipt.sound.sha256) == ("sample.wav", (digest_of(conversation),))
    assert (receipt.machine.device, receipt.machine.compute_capability, receipt.machine.driver) == ("cpu", None, None)
    assert receipt.versions.torch == torch.__version__.split("+")[0]
    assert receipt.versions.nemo == "3.0.0"
    assert receipt.precision == "float32"


def test_the_configuration_is_read_from_the_live_objects(plain: Ran) -> None:
    (eager,) = plain.receipt.configurations
    assert (eager.asked, eager.switch, eager.device) == ("eager", "inapplicable", "cpu")
    assert (eager.encoder_layers, eager.encoder_width, eager.durations) == (2, 32, (0, 1, 2, 3, 4))
    assert eager.weights["encoder"] == ("torch.float32",)
    assert [(live.moment, live.mode, live.allowed) for live in eager.live] == [
        ("loaded", None, False),
        ("warmed up", None, False),
        ("decoded", None, False),
    ]


def test_bfloat16_that_a_cpu_does_not_compute_in_is_not_recorded_as_run(check: Callable[..., Ran]) -> None:
    assert check("--precision", "bfloat16").receipt.precision == "float32"


def test_words_are_compared_alone_and_in_batches_full_partial_and_halved(plain: Ran) -> None:
    assert {comparison.case: comparison.windows for comparison in plain.receipt.comparisons} == {
        "one window alone": 1,
        "a full batch": 2,
        "full batches and a partial one": 5,
        "a partial batch": 2,
        "batches of half the rows": 2,
    }
    assert all(comparison.words and not comparison.differences for comparison in plain.receipt.comparisons)


def test_every_eager_run_is_kept_with_its_median(plain: Ran) -> None:
    timing = plain.receipt.timing
    assert timing is not None
    assert len(timing.eager_seconds) == 2
    assert min(timing.eager_seconds) <= timing.eager_median <= max(timing.eager_seconds)
    assert (timing.graphs_seconds, timing.ratio) == ((), None)


def test_no_word_that_was_heard_is_in_the_receipt(plain: Ran, tiny: Path) -> None:
    engine = load_parakeet(str(tiny), torch.device("cpu"), _eager())
    heard = engine.transcribe(sounds.listen([], 5, 4.0).windows)
    spoken = {word.text for each in heard for word in each.words if len(word.text) > 6}
    assert spoken
    assert not [word for word in spoken if word in plain.path.read_text()]


def test_audio_that_is_given_is_what_is_heard(check: Callable[..., Ran], conversation: Path, tmp_path: Path) -> None:
    copy = tmp_path / "meeting.wav"
    copy.write_bytes(conversation.read_bytes())
    assert check("--audio", str(copy), "--audio", str(conversation)).receipt.sound.source == "meeting.wav, sample.wav"


def test_a_wrong_mode_fails(check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "load_parakeet", _loaded_in_the_wrong_mode)
    ran = check()
    assert ran.exit_code == 1
    assert ran.found(Name.EAGER_MODE).status is Status.FAILED
    assert "no_while_loops" in ran.found(Name.EAGER_MODE).detail


def test_a_wrong_mode_fails_although_the_guard_lets_it_pass(
    check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "load_parakeet", _loaded_in_the_wrong_mode)
    monkeypatch.setattr(ModeGuard, "check", lambda guard: None)
    ran = check()
    assert ran.exit_code == 1
    assert ran.found(Name.EAGER_MODE).status is Status.FAILED


def test_a_guard_that_does_not_bite_fails(check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModeGuard, "check", lambda guard: None)
    ran = check()
    assert ran.exit_code == 1
    assert ran.found(Name.EAGER_MODE).status is Status.PASSED
    assert ran.found(Name.EAGER_GUARD).detail == "the mode was changed, and the engine went on decoding"


def test_a_guard_that_misses_a_replaced_decoder_fails(
    check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks_away(guard: ModeGuard) -> None:
        guard._pinned = computer_of(guard._model)
        bites(guard)

    bites = ModeGuard.check
    monkeypatch.setattr(ModeGuard, "check", looks_away)
    assert check().found(Name.EAGER_GUARD).detail == "the decoder was changed, and the engine went on decoding"


def test_a_word_that_is_heard_differently_in_a_batch_fails(
    check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def mishears(engine: ParakeetEngine, windows: list[object]) -> list[Hypothesis]:
        heard = hears(engine, windows)
        if engine.options.shape is None:
            return heard
        return [*heard[:-1], Hypothesis((*heard[-1].words[:-1], replace(heard[-1].words[-1], text="hm")))]

    hears = ParakeetEngine.transcribe
    monkeypatch.setattr(ParakeetEngine, "transcribe", mishears)
    ran = check()
    assert ran.exit_code == 1
    assert "another text" in ran.found(Name.WORDS_ALONE_EAGER).detail
    assert "hm" not in ran.output.split()


def test_hearing_nothing_proves_nothing(check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.Opened, "hear", lambda opened, windows: [Hypothesis(())] * len(windows))
    monkeypatch.setattr(engines.Opened, "hear_halved", lambda opened, windows: [Hypothesis(())] * len(windows))
    found = check().found(Name.WORDS_ALONE_EAGER)
    assert (found.status, found.detail[:19]) == (Status.NOT_CHECKED, "no words were heard")


@pytest.mark.usefixtures("as_if_accelerated")
def test_graphs_that_only_claim_to_run_fail(check: Callable[..., Ran]) -> None:
    ran = check("--allow-partial")
    assert ran.exit_code == 1
    assert ran.found(Name.EAGER_MODE).status is Status.PASSED
    assert "none was captured" in ran.found(Name.GRAPHS_MODE).detail
    assert ran.found(Name.CAPTURES).detail == "the warm-up captured nothing"
    assert ran.receipt.cuda_graphs is Status.FAILED
    assert "CUDA graphs: failed (graphs_mode" in ran.output


@pytest.mark.usefixtures("as_if_accelerated")
def test_full_graphs_that_cannot_be_had_fail_and_the_rest_goes_on(check: Callable[..., Ran]) -> None:
    ran = check()
    assert "conditional nodes" in ran.found(Name.GRAPHS_MODE).detail
    assert ran.found(Name.WORDS_EAGER_GRAPHS).detail == "the graphs engine did not load"
    assert ran.found(Name.WORDS_ALONE_EAGER).status is Status.PASSED


@pytest.mark.usefixtures("as_if_accelerated")
def test_both_modes_are_compared_timed_in_turns_and_guarded(check: Callable[..., Ran]) -> None:
    ran = check("--allow-partial")
    for name in (Name.WORDS_ALONE_GRAPHS, Name.WORDS_EAGER_GRAPHS, Name.TIMING, Name.EAGER_GUARD, Name.GRAPHS_GUARD):
        assert ran.found(name).status is Status.PASSED, name
    timing = ran.receipt.timing
    assert timing is not None
    assert timing.graphs_median is not None
    assert (len(timing.eager_seconds), len(timing.graphs_seconds)) == (2, 2)
    assert timing.ratio == timing.graphs_median / timing.eager_median
    assert [each.asked for each in ran.receipt.configurations] == ["eager", "graphs"]


@pytest.mark.usefixtures("as_if_accelerated")
@pytest.mark.parametrize(
    ("anew", "status", "detail"),
    [
        (0, Status.PASSED, "1 at the warm-up, none after it"),
        (1, Status.FAILED, "batches of half the rows: 2 captures, 1 after the warm-up"),
    ],
)
def test_a_capture_after_the_warm_up_fails(
    check: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, anew: int, status: Status, detail: str
) -> None:
    """Captures are counted by hand: there are none here."""

    def warms_up(engine: ParakeetEngine) -> None:
        engine.guard.captures += engine.guard.state == "on"

    def captures_anew(opened: engines.Opened, windows: list[object]) -> list[Hypothesis]:
        opened.engine.guard.captures += anew
        return halved(opened, windows)

    halved = engines.Opened.hear_halved
    monkeypatch.setattr(ParakeetEngine, "warm_up", warms_up)
    monkeypatch.setattr(engines.Opened, "hear_halved", captures_anew)
    monkeypatch.setattr(bench.Bench, "_both_modes", lambda made: "")
    monkeypatch.setattr(bench.Bench, "_alone", lambda made, name, alone, together: "")
    found = check("--allow-partial").found(Name.CAPTURES)
    assert (found.status, found.detail) == (status, detail)


def test_a_model_that_is_not_there_is_said_to_be_missing(check: Callable[..., Ran]) -> None:
    ran = check("--model", "nowhere.nemo")
    assert ran.exit_code == 2
    assert "nothing was checked" in ran.output
    assert "nowhere.nemo, which does not exist" in ran.output
    assert not ran.path.exists()


def test_audio_that_is_none_is_said_to_be_none(check: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "notes.wav").write_text("not audio")
    ran = check("--audio", str(tmp_path / "notes.wav"))
    assert (ran.exit_code, "audio_undecodable" in ran.output) == (2, True)


WORD = HypothesisWord("one", 1.0, 1.4, 0.9)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (WORD, []),
        (replace(WORD, start_s=1.0009, confidence=0.8991), []),
        (replace(WORD, text="won"), ["window 1: word 0: another text"]),
        (replace(WORD, start_s=1.08), ["window 1: word 0: start_s 1.0800, not 1.0000"]),
        (replace(WORD, end_s=1.48), ["window 1: word 0: end_s 1.4800, not 1.4000"]),
        (replace(WORD, confidence=0.898), ["window 1: word 0: confidence 0.8980, not 0.9000"]),
    ],
)
def test_words_differ_by_text_times_or_confidence(other: HypothesisWord, difference: list[str]) -> None:
    silent = Hypothesis(())
    assert words.differences([silent, Hypothesis((WORD,))], [silent, Hypothesis((other,))]) == difference


def test_missing_words_and_windows_are_differences() -> None:
    one = Hypothesis((WORD,))
    assert words.differences([one], [Hypothesis(())]) == ["window 0: 0 words, not 1"]
    assert words.differences([one, one], [one]) == ["1 hypotheses, not 2"]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({}, Status.PASSED),
        ({Name.TIMING: Status.FAILED, Name.MEMORY: Status.NOT_CHECKED}, Status.PASSED),
        ({Name.CAPTURES: Status.NOT_CHECKED}, Status.NOT_CHECKED),
        ({Name.CAPTURES: Status.NOT_CHECKED, Name.GRAPHS_MODE: Status.FAILED}, Status.FAILED),
    ],
)
def test_graphs_are_proved_only_where_every_check_of_them_passed(
    statuses: dict[Name, Status], expected: Status
) -> None:
    checks = [Check(name=name, status=statuses.get(name, Status.PASSED), detail="") for name in Name]
    assert set(CUDA_GRAPHS) < set(Name)
    assert verdict(tuple(checks), accelerated=True)[0] is expected


def test_a_model_of_random_weights_finds_words(conversation: Path, tmp_path: Path) -> None:
    heard = sounds.listen([conversation], 5, 10.0)
    small = random_model.Shape(80, 2, 64, 4, 32, 9, 64, 2, 300)
    path = random_model.build(tmp_path, heard.samples, small)
    engine = load_parakeet(str(path), torch.device("cpu"), _eager())
    heard_words = [word.text for each in engine.transcribe(heard.windows) for word in each.words]
    assert len(heard_words) > 10
    assert len(set(heard_words)) > 5


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert machine.code() == Code(commit=None, dirty=None)


def test_the_receipt_refuses_what_it_does_not_know(plain: Ran) -> None:
    stored = json.loads(plain.path.read_text())
    with pytest.raises(ValueError, match="Extra inputs"):
        Receipt.model_validate({**stored, "speed": "fast"})


def _eager() -> ParakeetOptions:
    return ParakeetOptions(DecodingMode(graphs=False), Precision(torch.float32, tf32=False))


def _loaded_in_the_wrong_mode(name: str, device: torch.device, options: ParakeetOptions) -> ParakeetEngine:
    engine = load_parakeet(name, device, options)
    computer_of(engine.model).force_cuda_graphs_mode("no_while_loops")
    return engine
