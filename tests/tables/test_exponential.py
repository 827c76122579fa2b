"""Exponentials and powers."""

from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from service.tables import exponential
from service.tables.angle import MAX_POSITION
from service.tables.exponential import MAX_EXPONENT, exp, power
from service.tables.twofold import Twofold, of_floats
from tests.tables.test_logarithm import INTEGERS

mpf = mpmath.mpf

EXPONENTS = st.one_of(
    st.floats(1e-9, MAX_EXPONENT), st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, MAX_EXPONENT, 1e-100])
)


def whole(pair: Twofold) -> mpmath.mpf:
    return mpf(float(pair.high[0])) + mpf(float(pair.low[0]))


def check_power(number: int, exponent: float) -> None:
    got = power(np.array([number], dtype=np.int64), exponent)

    exact = mpf(number) ** mpf(exponent)
    assert abs(whole(got) - exact) <= exact * mpf(2) ** -58


@settings(max_examples=1500)
@given(INTEGERS, EXPONENTS)
def test_a_power_is_within_its_bound(number: int, exponent: float) -> None:
    check_power(number, exponent)


@settings(max_examples=1000)
@given(st.floats(0.0, 350.0), st.floats(-0.5, 0.5))
def test_an_exponential_is_within_its_bound(size: float, part: float) -> None:
    low = size * part * 2.0**-54
    got = exp(Twofold(np.array([size]), np.array([low])))

    exact = mpmath.exp(mpf(size) + mpf(low))
    assert abs(whole(got) - exact) <= exact * mpf(2) ** -59


def test_the_power_one_is_the_number_and_two_its_square() -> None:
    numbers = np.concatenate([np.arange(1, 3000), 2 ** np.arange(1, 62), [3**20, 2**52 + 1]])
    roots = numbers[numbers < 2**26]

    assert power(numbers, 1.0).high.tolist() == numbers.astype(np.float64).tolist()
    assert power(roots, 2.0).high.tolist() == (roots**2).astype(np.float64).tolist()


def test_nothing_to_any_power_is_nothing_and_one_is_one() -> None:
    got = power(np.array([0, 1]), 0.3)

    assert [part.tolist() for part in got] == [[0.0, 1.0], [0.0, 0.0]]
    assert exp(of_floats(np.array([0.0]))).high.tolist() == [1.0]


def test_the_largest_power_there_is_is_finite() -> None:
    assert np.isfinite(1e9 * power(np.array([MAX_POSITION]), MAX_EXPONENT).high).all()


def test_powers_are_the_same_in_a_bare_thread() -> None:
    exponential._powers.cache_clear()
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(lambda: power(np.arange(5000), 0.7)).result()
    exponential._powers.cache_clear()

    here = power(np.arange(5000), 0.7)
    assert [part.tobytes() for part in in_thread] == [part.tobytes() for part in here]


# What fails here is meant to: no smaller example of it is looked for.
@settings(max_examples=300, phases=[Phase.explicit, Phase.generate])
@given(INTEGERS, EXPONENTS)
def exactness(number: int, exponent: float) -> None:
    check_power(number, exponent)


def test_a_series_two_terms_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponential, "_SERIES", exponential._SERIES[2:])

    with pytest.raises(AssertionError):
        exactness()


def test_a_logarithm_of_one_float64_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponential, "ln", lambda numbers: of_floats(np.log(numbers)))

    with pytest.raises(AssertionError):
        exactness()


def test_a_step_without_its_last_part_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    powers = exponential._powers()
    coarse = exponential._Powers(powers.high, powers.low, (*powers.step[:1], 0.0, 0.0))
    monkeypatch.setattr(exponential, "_powers", lambda: coarse)

    with pytest.raises(AssertionError):
        exactness()
