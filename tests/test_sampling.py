"""Which units belong to a sample."""

from __future__ import annotations

from volery.sampling import sampled

KEYS = [f"unit-{n}" for n in range(10_000)]


def sample(share: float, purpose: str = "words") -> set[str]:
    return {key for key in KEYS if sampled(key, share, purpose)}


def test_no_share_samples_nothing_and_a_whole_one_everything() -> None:
    assert sample(0.0) == set()
    assert sample(1.0) == set(KEYS)


def test_a_sample_is_about_as_large_as_its_share() -> None:
    assert 900 < len(sample(0.1)) < 1100


def test_a_larger_sample_holds_every_smaller_one() -> None:
    assert sample(0.01) < sample(0.1) < sample(0.5)


def test_samples_of_two_purposes_are_independent() -> None:
    both = sample(0.1, "words") & sample(0.1, "silence")
    assert 60 < len(both) < 150


def test_a_sample_is_the_same_in_every_release() -> None:
    assert sample(0.0005) == {"unit-31", "unit-184", "unit-405", "unit-6480", "unit-9616"}
