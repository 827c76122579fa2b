"""The exactness tests of biases and buckets can fail: plausible mistakes, each caught."""

from collections.abc import Callable
from math import ceil, log
from typing import Any, TypeAlias

import numpy as np
import pytest

from service.encodings.relative import alibi, fire, kerple, sandwich, windows
from service.encodings.relative.alibi import SlopeRule
from service.encodings.relative.buckets import T5, Deberta
from service.encodings.relative.fire import Fire
from service.encodings.relative.sandwich import HalfFrequencies, Sandwich
from service.numerics import double_double
from service.numerics.double_double import DoubleDouble, from_floats
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import component
from tests.encodings.relative import (
    test_alibi,
    test_buckets,
    test_fire,
    test_kerple,
    test_sandwich,
    test_windows,
)
from tests.numerics import test_double_double
from tests.numerics.mutants import check_examples

pytestmark = pytest.mark.full

Promise: TypeAlias = Callable[[], None]

DISTANCES = [*range(1, 80), 10**6 + 7, 2**40 + 3, 2**61 + 1]


def kerple_is_exact() -> None:
    promise = test_kerple.test_a_bias_is_its_formula_rounded_once
    for convention in ("log", "nemo"):
        check_examples(
            promise, *((convention, 0.3, 0.7, 0.6, -distance, True) for distance in DISTANCES)
        )


def powers_are_exact() -> None:
    promise = test_kerple.test_a_bias_is_its_formula_rounded_once
    check_examples(promise, *(("power", 0.3, 0.7, 0.6, -distance, True) for distance in DISTANCES))
    check_examples(
        test_double_double.test_a_power_is_within_its_bound, *((each, 0.6) for each in DISTANCES)
    )


def fire_is_exact() -> None:
    promise = test_fire.test_a_coordinate_is_within_its_bound
    check_examples(promise, *((1e-9, 100.0, 1e-6, 0, distance) for distance in DISTANCES))


def coordinates_are_exact() -> None:
    promise = test_windows.test_a_coordinate_in_a_window_is_rounded_once
    check_examples(promise, *((distance, 12) for distance in DISTANCES if distance < 2**30))


def slopes_are_exact() -> None:
    promise = test_alibi.test_a_bias_is_the_product_rounded_once
    check_examples(promise, *((head, distance) for head in range(12) for distance in DISTANCES))


def sandwich_is_exact() -> None:
    promise = test_sandwich.test_small_angles_have_small_errors
    check_examples(promise, *((half, base, 1) for half in (1, 7, 24) for base in (1e4, 1e40)))
    promise = test_sandwich.test_a_bias_is_within_its_bound
    check_examples(promise, *((8, 10000.0, 2, distance) for distance in DISTANCES))


def buckets_are_exact() -> None:
    test_buckets.test_powers_of_two_are_the_first_of_their_bucket()
    for case in test_buckets.T5_GROWTHS:
        test_buckets.test_edges_that_are_integers_are_the_first_of_their_bucket(*case)


def deberta_is_exact() -> None:
    for case in test_buckets.DEBERTA_GROWTHS:
        test_buckets.test_powers_that_are_integers_are_the_last_of_their_deberta_bucket(*case)


@pytest.mark.parametrize(
    "promise",
    [
        kerple_is_exact,
        powers_are_exact,
        fire_is_exact,
        coordinates_are_exact,
        slopes_are_exact,
        sandwich_is_exact,
        buckets_are_exact,
        deberta_is_exact,
    ],
)
def test_promises_hold_without_a_mutant(promise: Promise) -> None:
    promise()


def log_of_one_plus(t: DoubleDouble) -> DoubleDouble:
    return from_floats(np.log(1.0 + t.high))


def plain_log1p(t: DoubleDouble) -> DoubleDouble:
    return from_floats(np.log1p(t.high))


def exp_of_one_float64(y: DoubleDouble) -> DoubleDouble:
    return from_floats(np.exp(y.high))


def plain_power(numbers: Int64s, exponent: Float64s) -> DoubleDouble:
    return from_floats(np.power(numbers.astype(np.float64), exponent))


def one_float64(one: DoubleDouble, other: DoubleDouble) -> DoubleDouble:
    return from_floats(one.high * other.high)


def plain_sines(rule: HalfFrequencies, _name: str, positions: Int64s) -> Float64s:
    frequencies = np.array([float(frequency) for frequency in rule.exact()])
    return np.asarray(np.sin(positions[:, np.newaxis] * frequencies), dtype=np.float64)


def slopes_of_one_float64(rule: SlopeRule, heads: range) -> DoubleDouble:
    every = np.array([float(slope) for slope in rule.exact()])
    return from_floats(every[heads.start : heads.stop])


def cosines_minus_one(self: Sandwich, distances: Int64s, heads: range) -> Float64s:
    lengths = np.abs(distances)
    cosines = component(self.half_frequencies, "cos", 2 * lengths)
    sums = (cosines - 1.0).sum(axis=1)
    share = 8.0 * np.arange(heads.start + 1, heads.stop + 1)[:, np.newaxis]
    return np.asarray(sums * self.num_heads / share)


def t5_by_logarithms(number: type[Any]) -> Callable[[T5, Int64s, range], Int64s]:
    """As transformers has it, number by number."""

    def bucket(rule: T5, far: int) -> int:
        near, shared = rule.single, rule.of_direction - rule.single
        if far < near:
            return far
        share = number(log(number(far) / number(near))) / number(log(rule.max_distance / near))
        return min(near + int(share * number(shared)), rule.of_direction - 1)

    def values(rule: T5, distances: Int64s, _heads: range) -> Int64s:
        after = rule.of_direction * (distances > 0) * rule.bidirectional
        sizes = np.abs(distances).tolist()
        return after + np.array([bucket(rule, far) for far in sizes], dtype=np.int64)

    return values


def deberta_by_logarithms(number: type[Any]) -> Callable[[Deberta, Int64s, range], Int64s]:
    def bucket(rule: Deberta, far: int) -> int:
        mid = rule.mid
        if far <= mid:
            return far
        share = number(log(number(far) / number(mid)))
        whole = number(log((rule.max_position - 1) / mid))
        return mid + ceil(float(share / whole * number(mid - 1)))

    def values(rule: Deberta, distances: Int64s, _heads: range) -> Int64s:
        sizes = [bucket(rule, far) for far in np.abs(distances).tolist()]
        return -np.sign(distances) * np.array(sizes, dtype=np.int64)

    return values


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "promise"),
    [
        (kerple, "ln_1p", log_of_one_plus, kerple_is_exact),
        (kerple, "ln_1p", plain_log1p, kerple_is_exact),
        (kerple, "multiply", one_float64, kerple_is_exact),
        (kerple, "power", plain_power, powers_are_exact),
        (double_double, "exp", exp_of_one_float64, powers_are_exact),
        (double_double, "multiply", one_float64, powers_are_exact),
        (fire, "ln_1p", log_of_one_plus, fire_is_exact),
        (windows, "ln_1p", log_of_one_plus, coordinates_are_exact),
        (windows, "ln_1p", plain_log1p, coordinates_are_exact),
        (windows, "multiply", one_float64, coordinates_are_exact),
        (SlopeRule, "of_heads", slopes_of_one_float64, slopes_are_exact),
        (alibi, "multiply", one_float64, slopes_are_exact),
        (Sandwich, "values", cosines_minus_one, sandwich_is_exact),
        (sandwich, "component", plain_sines, sandwich_is_exact),
        (T5, "values", t5_by_logarithms(np.float32), buckets_are_exact),
        (T5, "values", t5_by_logarithms(float), buckets_are_exact),
        (Deberta, "values", deberta_by_logarithms(np.float32), deberta_is_exact),
        (Deberta, "values", deberta_by_logarithms(float), deberta_is_exact),
    ],
)
def test_replacing_an_exact_kernel_fails_the_exactness_check(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, mutant: Any, promise: Promise
) -> None:
    monkeypatch.setattr(owner, name, mutant)

    with pytest.raises(AssertionError):
        promise()


def fire_bytes() -> bytes:
    table = Fire(query_len=40, key_len=50, dtype="float64").table()
    return table.read(0, 2000).tobytes()


def test_numpy_logarithms_of_fire_are_caught_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its coordinates are quotients: their bound leaves room for another last bit."""
    ours = fire_bytes()
    monkeypatch.setattr(fire, "ln_1p", plain_log1p)

    assert fire_bytes() != ours


def test_numpy_sums_of_sandwich_are_caught_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    # With a single pair, no sums are kept.
    values = Sandwich(num_heads=4, head_dim=128, causal=False, query_len=1, key_start=-1, key_len=1)
    ours = values.values(np.arange(300), range(1)).tobytes()
    monkeypatch.setattr(sandwich, "pairwise_sum", lambda terms: terms.sum(axis=1))

    assert values.values(np.arange(300), range(1)).tobytes() != ours
