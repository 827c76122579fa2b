"""Frequency rules, in arithmetic of many digits.

Frequency rules against an independent evaluation of the published formulas.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.encodings.rotary.rules import Given
from service.numerics import frequencies as scaling
from service.numerics.frequencies import Decimals, Geometric, ScaledGeometric, wavelengths
from service.numerics.phase import PRECISION_DIGITS
from tests.exact import frequency


@given(st.floats(1.0, 1e300), st.integers(1, 4096))
def test_a_geometric_series_is_right_to_sixty_digits(base: float, dim: int) -> None:
    count = -(-dim // 2)

    exact = Geometric(base, dim, count).exact()

    assert count == len(exact)
    for pair in {0, count // 2, count - 1}:
        expected = frequency(base, dim, pair)
        assert abs(mpmath.mpf(str(exact[pair])) - expected) <= expected * mpmath.mpf("1e-60")


ENDS = st.tuples(st.floats(1e-250, 1e9), st.floats(1e-250, 1e250)).map(sorted)


@given(st.floats(1e-9, 1e9), ENDS, st.integers(1, 64), st.integers(1, 64), st.booleans())
def test_a_spaced_series_runs_from_its_first_by_the_ratio_of_its_ends(
    first: float, ends: list[float], dim: int, count: int, full_turns: bool
) -> None:
    least, greatest = ends
    exact = ScaledGeometric(first, least, greatest, dim, count, full_turns).exact()

    assert len(exact) == count
    ratio = mpmath.mpf(least) / mpmath.mpf(greatest)
    for pair in {0, count // 2, count - 1}:
        expected = first * ratio ** (mpmath.mpf(2 * pair) / dim)
        expected *= 2 * mpmath.pi if full_turns else 1
        assert abs(mpmath.mpf(str(exact[pair])) - expected) <= expected * mpmath.mpf("1e-60")


def test_a_spaced_series_ends_at_the_other_end_of_its_range() -> None:
    exact = ScaledGeometric(2.0, 0.5, 2.0, 2 * (9 - 1), 9).exact()

    assert [float(exact[0]), float(exact[-1])] == [2.0, 0.5]


@pytest.mark.parametrize(
    ("shortest", "longest"), [(1.0, 1e4), (2.0, 500.0), (0.5, 0.5), (3.0, 2.0)]
)
def test_timescales_go_from_the_shortest_to_its_square_over_the_longest(
    shortest: float, longest: float
) -> None:
    exact = ScaledGeometric(shortest, shortest, longest, 2 * (5 - 1), 5).exact()

    assert float(exact[0]) == shortest
    assert float(exact[-1]) == pytest.approx(shortest**2 / longest, rel=1e-15)


def test_a_geometric_series_is_one_of_timescales_from_one() -> None:
    spaced, geometric = ScaledGeometric(1.0, 1.0, 10000.0, 14, 8), Geometric(10000.0, 14, 8)

    assert spaced.exact() == geometric.exact()
    assert hash(spaced) != hash(geometric)


def test_a_worker_thread_evaluates_to_the_same_digits() -> None:
    rule = Geometric(10000.0, 128, 64)

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(rule.exact).result()

    assert rule.exact() == in_thread
    assert len(str(in_thread[1])) > 70


def test_given_frequencies_are_the_numbers_they_are() -> None:
    (exact,) = Given((0.1,)).exact()

    assert str(exact).startswith("0.1000000000000000055511151231257827021181583404541015625")


@pytest.mark.parametrize(("value", "expected"), [(1, "6.28318530717958647692528676655"), (0, "")])
def test_a_wavelength_is_a_turn_by_the_frequency(value: int, expected: str) -> None:
    (wavelength,) = wavelengths([Decimal(value)])

    if value == 0:
        assert wavelength.is_infinite()
    else:
        assert str(wavelength).startswith(expected)


BASES = st.floats(0.0, 250.0).map(lambda exponent: 10.0**exponent)
FACTORS = st.floats(-9.0, 9.0).map(lambda exponent: 10.0**exponent)
DIMS = st.integers(1, 40).map(lambda pairs: 2 * pairs)
LENGTHS = st.integers(1, 62).flatmap(lambda bits: st.integers(1, 2**bits))
TIGHT, CANCELLING = "1e-70", "1e-50"


def exact(value: Decimal | float) -> Any:
    return mpmath.mpf(str(value)) if isinstance(value, Decimal) else mpmath.mpf(value)


def check(got: Sequence[Decimal], expected: Sequence[Any], relative: str = TIGHT) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert abs(exact(ours) - theirs) <= mpmath.mpf(relative) * abs(theirs)


def powers(base: Any, dim: int, count: int) -> list[Any]:
    return [frequency(base, dim, k) for k in range(count)]


def clamped(value: Any) -> Any:
    return min(max(value, mpmath.mpf(0)), mpmath.mpf(1))


@given(BASES, DIMS)
def test_default_is_the_geometric_series(base: float, dim: int) -> None:
    frequencies = scaling.default(Decimal(base), dim, dim // 2)

    check(frequencies, powers(mpmath.mpf(base), dim, dim // 2))


def test_default_keeps_its_digits_over_the_widest_head() -> None:
    frequencies = scaling.default(Decimal(500000), 65536, 32768)

    check(frequencies[-1:], [frequency(500000, 65536, 32767)])


@given(BASES, st.lists(FACTORS, min_size=1, max_size=8))
def test_divided_divides_each_by_its_own(base: float, factors: list[float]) -> None:
    dim = 2 * len(factors)
    unscaled = scaling.default(Decimal(base), dim, len(factors))

    got = scaling.divided(unscaled, list(map(Decimal, factors)))

    plain = powers(mpmath.mpf(base), dim, len(factors))
    check(got, [w / mpmath.mpf(f) for w, f in zip(plain, factors, strict=True)])


@given(BASES, DIMS, FACTORS)
def test_linear_divides_all_by_one(base: float, dim: int, factor: float) -> None:
    got = scaling.linear(scaling.default(Decimal(base), dim, dim // 2), Decimal(factor))

    check(got, [w / mpmath.mpf(factor) for w in powers(mpmath.mpf(base), dim, dim // 2)])


@given(BASES, st.integers(2, 40).map(lambda pairs: 2 * pairs), FACTORS)
def test_a_rescaled_base_divides_the_last_frequency_by_alpha(
    base: float, dim: int, alpha: float
) -> None:
    rescaled = scaling.rescaled_base(Decimal(base), Decimal(alpha), dim)

    exponent = mpmath.mpf(dim) / (dim - 2)
    check([rescaled], [mpmath.mpf(base) * mpmath.mpf(alpha) ** exponent])
    last = scaling.default(rescaled, dim, dim // 2)[-1]
    plain = scaling.default(Decimal(base), dim, dim // 2)[-1]
    check([last], [exact(plain) / mpmath.mpf(alpha)])


@given(FACTORS, LENGTHS, LENGTHS)
def test_dynamic_alpha_is_one_up_to_the_original_length(
    factor: float, length: int, original: int
) -> None:
    alpha = scaling.dynamic_alpha(Decimal(factor), length, original)

    past = Fraction(max(length, original), original) - 1
    expected = 1 + Fraction(factor) * past
    assert abs(Fraction(alpha) - expected) <= Fraction(1, 10**65) * expected
    if length <= original:
        assert alpha == 1


@given(BASES, DIMS, FACTORS)
def test_ntk_is_the_scaled_base_and_what_is_left(base: float, dim: int, factor: float) -> None:
    got = scaling.ntk(Decimal(base), dim, Decimal(factor))

    f = mpmath.mpf(factor)
    plain = powers(mpmath.mpf(base) * f, dim, dim // 2)
    check(got, [w / f ** (mpmath.mpf(2) / dim) for w in plain])
    check(got[-1:], [powers(mpmath.mpf(base), dim, dim // 2)[-1] / f])


@given(BASES, DIMS, FACTORS, st.floats(0.01, 16.0))
def test_mixed_ntk_divides_the_last_frequency_by_the_factor(
    base: float, dim: int, factor: float, mixed_b: float
) -> None:
    got = scaling.ntk_mixed(Decimal(base), dim, Decimal(factor), Decimal(mixed_b))

    pairs, b, f = dim // 2, mpmath.mpf(mixed_b), mpmath.mpf(factor)
    a = mpmath.log(f) / mpmath.mpf(pairs) ** b
    plain = powers(mpmath.mpf(base), dim, pairs)
    check(got, [w / mpmath.exp(a * mpmath.mpf(k + 1) ** b) for k, w in enumerate(plain)])
    check(got[-1:], [plain[-1] / f])


def raw_range(base: float, dim: int, length: int, betas: tuple[float, float]) -> list[Any]:
    turns = [mpmath.mpf(length) / (2 * mpmath.pi * mpmath.mpf(beta)) for beta in betas]
    return [dim * mpmath.log(t) / (2 * mpmath.log(mpmath.mpf(base))) for t in turns]


def yarn_of(
    base: float, dim: int, length: int, betas: tuple[float, float], truncate: bool
) -> tuple[scaling.YarnRange, Decimals]:
    used = scaling.yarn_range(
        Decimal(base),
        dim,
        length,
        (Decimal(betas[0]), Decimal(betas[1])),
        truncate=truncate,
    )
    return used, scaling.yarn_ramp(used.used, dim // 2)


@given(
    st.floats(1.001, 1e9), DIMS, LENGTHS, st.floats(1e-3, 1e3), st.floats(1.0, 1e3), st.booleans()
)
def test_yarn_blends_over_the_pairs_that_turn_so_often(
    base: float, dim: int, length: int, slow: float, ratio: float, truncate: bool
) -> None:
    betas = (slow * ratio, slow)
    raw = raw_range(base, dim, length, betas)
    assume(all(abs(pair - mpmath.nint(pair)) > mpmath.mpf("1e-40") for pair in raw))

    used, ramp = yarn_of(base, dim, length, betas, truncate)

    check(used.raw, raw, CANCELLING)
    low, high = (mpmath.floor(raw[0]), mpmath.ceil(raw[1])) if truncate else raw
    low, high = max(low, mpmath.mpf(0)), min(high, mpmath.mpf(dim - 1))
    check(used.used, [low, high], CANCELLING)
    width = high - low or mpmath.mpf("0.001")
    gammas = [clamped((k - low) / width) for k in range(dim // 2)]
    assert all(abs(exact(r) - g) <= mpmath.mpf("1e-45") for r, g in zip(ramp, gammas, strict=True))


@given(BASES, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), FACTORS)
def test_yarn_mixes_frequencies_with_those_divided(
    base: float, ramp: list[float], factor: float
) -> None:
    dim = 2 * len(ramp)
    unscaled = scaling.default(Decimal(base), dim, len(ramp))

    got = scaling.yarn(unscaled, list(map(Decimal, ramp)), Decimal(factor))

    plain, f = powers(mpmath.mpf(base), dim, len(ramp)), mpmath.mpf(factor)
    check(
        got,
        [(1 - mpmath.mpf(g)) * w + mpmath.mpf(g) * w / f for w, g in zip(plain, ramp, strict=True)],
        "1e-60",
    )


def test_a_ramp_whose_ends_are_equal_is_a_step() -> None:
    """As wide as a thousandth of a pair."""
    ramp = scaling.yarn_ramp((Decimal(2), Decimal(2)), 5)

    assert ramp == [0, 0, 0, 1, 1]


def test_a_ramp_that_begins_past_the_last_pair_divides_all() -> None:
    assert scaling.yarn_ramp((Decimal(200), Decimal(127)), 4) == [1, 1, 1, 1]


def test_a_ramp_that_ends_before_the_first_pair_but_begins_there_keeps_all() -> None:
    assert scaling.yarn_ramp((Decimal(0), Decimal(-3)), 4) == [0, 0, 0, 0]


@pytest.mark.parametrize("truncate", [True, False])
def test_a_base_close_to_one_gives_a_range_of_any_size(truncate: bool) -> None:
    used, ramp = yarn_of(1.0 + 2.0**-52, 65536, 2**62, (32.0, 1.0), truncate)

    check(used.raw, raw_range(1.0 + 2.0**-52, 65536, 2**62, (32.0, 1.0)), "1e-55")
    assert used.raw[0] > 10**20
    assert used.used[1] == 65535
    assert {*ramp} == {1}


def test_published_ranges_of_yarn() -> None:
    """gpt-oss-120b is the one whose range is not rounded."""
    cases = {
        (1e6, 128, 16384, True): ((20.3849609879223, 36.439894090001296), (20.0, 37.0)),
        (1e8, 128, 8192, True): ((12.880480775629875, 24.921680602189124), (12.0, 25.0)),
        (1e4, 64, 4096, True): ((10.472240810318027, 22.513440636877274), (10.0, 23.0)),
        (150000.0, 64, 4096, False): ((8.092779115512402, 17.398024501588555),) * 2,
    }
    for (base, dim, length, truncate), (raw, used) in cases.items():
        got, _ = yarn_of(base, dim, length, (32.0, 1.0), truncate)

        assert tuple(map(float, got.raw)) == raw
        assert tuple(map(float, got.used)) == used


def mscale_of(factor: float, mscale: float) -> Any:
    one = mpmath.mpf(1)
    return one if factor <= 1 else mpmath.mpf(mscale) * mpmath.log(factor) / 10 + 1


@given(FACTORS, st.floats(0.0, 1000.0))
def test_mscale_grows_with_the_logarithm_of_the_factor(factor: float, mscale: float) -> None:
    check(
        [scaling.yarn_mscale(Decimal(factor), Decimal(mscale))],
        [mscale_of(factor, mscale)],
    )


@given(FACTORS, st.floats(0.0, 1000.0), st.floats(0.0, 1000.0))
def test_the_attention_factor_of_yarn_needs_both_mscales(
    factor: float, mscale: float, all_dim: float
) -> None:
    got = scaling.yarn_attention_factor(Decimal(factor), Decimal(mscale), Decimal(all_dim))

    both = mscale_of(factor, mscale) / mscale_of(factor, all_dim)
    check([got], [both if mscale and all_dim else mscale_of(factor, 1.0)])


def test_published_attention_factors() -> None:
    zero, one = Decimal(0), Decimal(1)
    gpt_oss = scaling.yarn_attention_factor(Decimal(32), zero, zero)
    deepseek = scaling.yarn_attention_factor(Decimal(40), one, one)
    phi = scaling.longrope_attention_factor(Decimal(32), 4096)

    assert (float(gpt_oss), float(deepseek), float(phi)) == (
        1.3465735902799727,
        1.0,
        1.1902380714238083,
    )


@given(FACTORS, st.integers(2, 2**62))
def test_the_attention_factor_of_longrope_is_a_root_of_logarithms(
    factor: float, length: int
) -> None:
    got = scaling.longrope_attention_factor(Decimal(factor), length)

    share = mpmath.log(factor) / mpmath.log(length) if factor > 1 else mpmath.mpf(0)
    check([got], [mpmath.sqrt(1 + share)])


@given(BASES, DIMS, LENGTHS, FACTORS, st.floats(1e-3, 1e3), st.floats(1.001, 100.0))
def test_llama3_smooths_between_its_two_wavelengths(
    base: float, dim: int, length: int, factor: float, low: float, ratio: float
) -> None:
    high = low * ratio
    unscaled = scaling.default(Decimal(base), dim, dim // 2)

    smooth = scaling.llama3_smooth(unscaled, length, Decimal(low), Decimal(high))
    got = scaling.llama3(unscaled, smooth, Decimal(factor))

    plain, f = powers(mpmath.mpf(base), dim, dim // 2), mpmath.mpf(factor)
    expected = []
    for w in plain:
        turns = length * w / (2 * mpmath.pi)
        t = clamped((turns - mpmath.mpf(low)) / (mpmath.mpf(high) - mpmath.mpf(low)))
        expected.append((1 - t) * w / f + t * w)
    check(got, expected, CANCELLING)


def test_llama3_keeps_short_wavelengths_and_divides_long_ones_outright() -> None:
    """The formula of the release, branch by branch, for Llama-3.1-8B."""
    unscaled = scaling.default(Decimal(500000), 128, 64)

    smooth = scaling.llama3_smooth(unscaled, 8192, Decimal(1), Decimal(4))
    got = scaling.llama3(unscaled, smooth, Decimal(8))

    for ours, plain in zip(got, unscaled, strict=True):
        wavelength = 2 * mpmath.pi / exact(plain)
        if wavelength < mpmath.mpf(8192) / 4:
            assert ours == plain
        elif wavelength > 8192:
            check([ours], [exact(plain) / 8])
        else:
            assert plain / 8 < ours < plain
    assert [float(got[k]) for k in (1, 32, 63)] == [
        0.8146172338565447,
        0.0005248461609929547,
        3.068925988914511e-07,
    ]


def test_equal_ends_of_llama3_leave_nothing_between() -> None:
    unscaled = scaling.default(Decimal(500000), 128, 64)

    smooth = scaling.llama3_smooth(unscaled, 8192, Decimal(2), Decimal(2))

    assert set(smooth) == {0, 1}
    for plain, share in zip(unscaled, smooth, strict=True):
        assert share == (2 * mpmath.pi / exact(plain) < 4096)


@given(BASES, DIMS, st.floats(0.0, 1.0), FACTORS)
def test_proportional_frequencies_are_of_the_whole_head_and_then_zero(
    base: float, dim: int, share: float, factor: float
) -> None:
    turning = int(share * dim // 2)

    got = scaling.proportional(Decimal(base), dim, turning, Decimal(factor))

    plain = powers(mpmath.mpf(base), dim, turning)
    check(got[:turning], [w / mpmath.mpf(factor) for w in plain])
    assert got[turning:] == [0] * (dim // 2 - turning)


@pytest.mark.parametrize(
    ("frequencies", "expected"),
    [
        (
            lambda: scaling.linear(scaling.default(Decimal(10000), 128, 64), Decimal(8)),
            {0: 0.125, 1: 0.10824554042000817, 32: 0.00125, 63: 1.4434774808618228e-05},
        ),
        (
            lambda: scaling.default(
                scaling.rescaled_base(Decimal(1000000), Decimal(3), 128), 128, 64
            ),
            {1: 0.7919114945129184, 32: 0.0005723381508381237, 63: 4.136459202505732e-07},
        ),
        (
            lambda: scaling.proportional(Decimal(1000000), 512, 64, Decimal(1)),
            {0: 1.0, 1: 0.9474635256553754, 128: 0.0, 255: 0.0},
        ),
    ],
    ids=["LLaMA-2-7B-32K", "internlm2_5-7b-chat at 65536", "gemma-4"],
)
def test_published_frequencies(
    frequencies: Callable[[], Decimals], expected: dict[int, float]
) -> None:
    got = frequencies()

    assert {k: float(got[k]) for k in expected} == expected


def every_rule() -> list[Decimals]:
    base, plain = Decimal("1e6"), scaling.default(Decimal(500000), 64, 32)
    used, ramp = yarn_of(150000.0, 64, 4096, (32.0, 1.0), truncate=False)
    smooth = scaling.llama3_smooth(plain, 8192, Decimal(1), Decimal(4))
    return [
        plain,
        scaling.linear(plain, Decimal(3)),
        [scaling.rescaled_base(base, Decimal(3), 64), scaling.dynamic_alpha(Decimal(3), 9, 7)],
        scaling.ntk(base, 64, Decimal(3)),
        scaling.ntk_mixed(base, 64, Decimal(3), Decimal("0.625")),
        [*used.raw, *used.used, *ramp],
        scaling.yarn(plain, ramp, Decimal(3)),
        [scaling.yarn_attention_factor(Decimal(32), Decimal("0.7"), Decimal(1))],
        [scaling.longrope_attention_factor(Decimal(3), 7)],
        smooth,
        scaling.llama3(plain, smooth, Decimal(3)),
        scaling.proportional(base, 64, 8, Decimal(3)),
    ]


def test_every_rule_has_all_its_digits_in_a_bare_thread() -> None:
    """A worker thread starts with a decimal context of 28 digits."""
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(every_rule).result()

    assert in_thread == every_rule()
    for numbers in in_thread:
        assert max(len(number.as_tuple().digits) for number in numbers) >= PRECISION_DIGITS - 2
