import random

import pytest

from windows import MODELS, ContinuousWindow, FixedWindow, SlidingWindow, make_limiter


def test_fixed_counts_per_aligned_window() -> None:
    window = FixedWindow(2, 1.0)
    for now in (10.9, 10.95):
        assert window.holds(now, 1)
        window.take(now, 1)
    assert not window.holds(10.99, 1)
    assert window.wait(10.99, 1) == pytest.approx(0.01)
    assert window.holds(11.0, 2)
    assert window.reset(11.0) == 0


def test_fixed_phase_moves_the_boundary() -> None:
    window = FixedWindow(1, 1.0, phase=0.25)
    window.take(10.3, 1)
    assert not window.holds(11.2, 1)
    assert window.wait(11.2, 1) == pytest.approx(0.05)
    assert window.holds(11.25, 1)


def test_fixed_clock_that_steps_back_opens_nothing() -> None:
    window = FixedWindow(1, 1.0)
    window.take(10.5, 1)
    assert not window.holds(9.5, 1)


def test_sliding_frees_exactly_one_length_later() -> None:
    window = SlidingWindow(2, 1.0)
    window.take(10.5, 1)
    window.take(10.75, 1)
    assert not window.holds(11.49, 1)
    assert window.wait(11.25, 1) == pytest.approx(0.25)
    assert window.wait(11.25, 2) == pytest.approx(0.5)
    assert window.holds(11.5, 1)
    assert not window.holds(11.5, 2)
    assert window.reset(11.5) == pytest.approx(0.25)


def test_continuous_refills_steadily_and_keeps_no_debt() -> None:
    window = ContinuousWindow(10, 1.0)
    window.take(5.0, 10)
    assert not window.holds(5.05, 1)
    assert window.wait(5.05, 1) == pytest.approx(0.05)
    assert window.remaining(5.5) == pytest.approx(5)
    window.take(5.5, 100)
    assert window.remaining(5.6) == pytest.approx(1)
    assert window.remaining(99.0) == 10


@pytest.mark.parametrize("model", MODELS)
def test_wait_is_long_enough_and_not_longer(model: str) -> None:
    rng = random.Random(7)
    window = MODELS[model](60, 1.0)
    now = 100.0
    for _ in range(3000):
        now += rng.expovariate(80)
        cost = rng.uniform(0.1, 20)
        if window.holds(now, cost):
            assert window.wait(now, cost) == 0
            window.take(now, cost)
        else:
            wait = window.wait(now, cost)
            assert 0 < wait <= 1.0
            assert not window.holds(now + wait * 0.999, cost)
            now += wait
            assert window.holds(now + 1e-9, cost)


@pytest.mark.parametrize("model,per_span", [("fixed", 2), ("sliding", 1), ("continuous", 2)])
def test_no_span_of_one_window_admits_more_than_the_model_allows(model: str, per_span: int) -> None:
    rng = random.Random(3)
    limiter = make_limiter(model, {"requests": 20})
    now, admitted = 50.0, []
    for _ in range(5000):
        now += rng.expovariate(100)
        if limiter.admit(now, {"requests": 1}).admitted:
            admitted.append(now)
    assert len(admitted) >= 0.9 * 20 * (now - 50.0)
    for i, start in enumerate(admitted):
        assert sum(start <= t < start + 1.0 for t in admitted[i : i + 60]) <= 20 * per_span


def test_both_limits_must_admit_and_a_refusal_charges_nothing() -> None:
    limiter = make_limiter("fixed", {"requests": 10, "tokens": 100})
    verdict = limiter.admit(1.25, {"requests": 1, "tokens": 101})
    assert (verdict.admitted, verdict.limited_by) == (False, "tokens")
    assert verdict.retry_after == pytest.approx(0.75)
    assert limiter.windows["requests"].remaining(1.25) == 10
    assert limiter.admit(1.25, {"requests": 1, "tokens": 100}).admitted


def test_rejected_calls_count_only_when_asked_to() -> None:
    for count, left in ((False, 10), (True, 9)):
        limiter = make_limiter("fixed", {"requests": 10, "tokens": 100}, count_rejected=count)
        limiter.admit(1.0, {"requests": 1, "tokens": 500})
        assert limiter.windows["requests"].remaining(1.0) == left
        assert limiter.windows["tokens"].remaining(1.0) == 100
