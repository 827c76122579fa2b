"""Logarithms."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from service.tables import logarithm
from service.tables.angle import MAX_POSITION, Float64s
from service.tables.logarithm import ln, ln_1p
from service.tables.twofold import Twofold, of_floats, of_integers

mpf = mpmath.mpf

INTEGERS = st.one_of(
    st.integers(1, MAX_POSITION),
    st.integers(1, 1000),
    st.builds(
        lambda k, s: max(1, min(2**k + s, MAX_POSITION)), st.integers(1, 62), st.integers(-3, 3)
    ),
)
SIZES = st.one_of(
    st.just(0.0),
    st.floats(1e-200, 1e200),
    st.floats(1e-6, 1.0),
    st.floats(1.0, 1e6),
    st.builds(
        lambda k, s: max(0.0, 2.0**k * (1 + s * 2.0**-52) - 1),
        st.integers(0, 80),
        st.integers(-9, 9),
    ),
    st.builds(lambda j, s: j / 128 + s * 2.0**-53, st.integers(1, 256), st.integers(-3, 3)),
)
PARTS = st.floats(-0.5, 0.5)


def check_ln_1p(size: float, part: float) -> None:
    low = size * part * 2.0**-52
    high = size + low
    low -= high - size
    got = ln_1p(Twofold(np.array([high]), np.array([low])))

    exact = mpmath.log1p(mpf(high) + mpf(low))
    found = mpf(float(got.high[0])) + mpf(float(got.low[0]))
    assert abs(found - exact) <= exact * mpf(2) ** -58
    assert abs(mpf(float(got.high[0])) - exact) <= exact * mpf(2) ** -53 * 1.04


@settings(max_examples=2000)
@given(SIZES, PARTS)
@example(2.0**-8, 0.0)
@example(np.nextafter(2.0**-8, 0.0), 0.4)
@example(2.0**-7, 0.3)
@example(1e300, 0.0)
def test_ln_of_one_and_more_is_small_relative_to_itself(size: float, part: float) -> None:
    check_ln_1p(size, part)


@settings(max_examples=1000)
@given(INTEGERS)
def test_ln_of_an_integer_is_within_its_bound(number: int) -> None:
    got = ln(np.array([number], dtype=np.int64))

    exact = mpmath.log(number)
    found = mpf(float(got.high[0])) + mpf(float(got.low[0]))
    assert abs(found - exact) <= mpf(2) ** -65


def test_ln_of_one_is_nothing() -> None:
    assert [part.tolist() for part in ln(np.array([1]))] == [[0.0], [0.0]]
    assert [part.tolist() for part in ln_1p(of_floats(np.array([0.0])))] == [[0.0], [0.0]]


def test_logarithms_grow_with_their_numbers() -> None:
    around = np.concatenate([np.arange(2**k - 200, 2**k + 200) for k in range(9, 62, 4)])

    assert (np.diff(ln(around).high) >= 0).all()


def test_logarithms_are_the_same_in_a_bare_thread() -> None:
    logarithm._logs.cache_clear()
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(lambda: ln(np.arange(1, 5000))).result()
    logarithm._logs.cache_clear()

    here = ln(np.arange(1, 5000))
    assert [part.tobytes() for part in in_thread] == [part.tobytes() for part in here]


# What fails here is meant to: no smaller example of it is looked for.
@settings(max_examples=400, phases=[Phase.explicit, Phase.generate])
@given(SIZES, PARTS)
def exactness(size: float, part: float) -> None:
    check_ln_1p(size, part)


def _plain(t: Twofold) -> Twofold:
    return of_floats(np.log1p(t.high))


def _without_tail(t: Twofold) -> Twofold:
    return logarithm.ln_1p(of_floats(t.high))


def _by_one_plus(t: Twofold) -> Twofold:
    return of_floats(np.log(1.0 + t.high))


@pytest.mark.parametrize("mutant", [_plain, _without_tail, _by_one_plus])
def test_another_way_to_a_logarithm_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Twofold], Twofold]
) -> None:
    monkeypatch.setitem(globals(), "ln_1p", mutant)

    with pytest.raises(AssertionError):
        exactness()


def test_a_series_two_terms_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logarithm, "_SERIES", logarithm._SERIES[2:])

    with pytest.raises(AssertionError):
        exactness()


def test_a_threshold_that_lets_digits_go_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the way round 1 + t the last digits of a small t are lost."""
    monkeypatch.setattr(logarithm, "_SMALL", 0.0)

    with pytest.raises(AssertionError):
        exactness()


def test_a_coarse_table_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logarithm._logs()
    values: Float64s = np.zeros_like(logs.low)
    coarse = logarithm._Logs(logs.factor, logs.high, values, logs.two_high, logs.two_low)
    monkeypatch.setattr(logarithm, "_logs", lambda: coarse)

    with pytest.raises(AssertionError):
        exactness()


def test_integers_and_floats_have_the_same_logarithm() -> None:
    numbers = np.arange(2, 300)

    assert ln(numbers).high.tolist() == ln_1p(of_integers(numbers - 1)).high.tolist()
