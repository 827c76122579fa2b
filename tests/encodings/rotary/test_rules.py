"""Rotary rules: their formulas against an independent evaluation, and their keys in requests."""

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

import httpx
import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.encodings.rotary.rope import RuleParameters
from service.encodings.rotary.rules import (
    DEFAULT_ROPE_THETA,
    INTERMEDIATES,
    ROPE_TYPES,
    RULE_KEYS,
    RULES,
    SHARED,
    Default,
    Dynamic,
    DynamicAlpha,
    GivenFrequencies,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    RotaryRule,
    Yarn,
    longrope_attention_factor,
    yarn_attention_factor,
    yarn_mscale,
)
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, all_finite
from service.numerics.limits import MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_POSITION, Decimals
from service.numerics.tables import size
from tests.client import Client
from tests.exact import frequency

ORIGINAL, LONGEST = "original_max_position_embeddings", "max_position_embeddings"
FOUR, LONG = (1.0, 1.5, 2.0, 4.0), (8.0, 9.0, 10.0, 11.0)
LISTS = {"short_factor": FOUR, "long_factor": LONG}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}
LONGROPE = {ORIGINAL: 4096, **LISTS}
DEEPSEEK = {"factor": 40.0, ORIGINAL: 4096, "mscale": 1.0, "mscale_all_dim": 1.0}

# Keys of a request by rope_type, and the rule that they make of 8 channels.
CASES: dict[str, tuple[dict[str, Any], RotaryRule]] = {
    "default": ({}, Default(8, 1e4)),
    "default, freq_factors": ({"freq_factors": FOUR}, Default(8, 1e4, FOUR)),
    "linear": ({"factor": 2.5}, Linear(8, 1e4, 2.5)),
    "linear, freq_factors": ({"factor": 2.5, "freq_factors": FOUR}, Linear(8, 1e4, 2.5, FOUR)),
    "dynamic": ({"factor": 2.0, LONGEST: 2048}, Dynamic(8, 1e4, 2.0, 2048, 2048)),
    "dynamic, original": (
        {"factor": 2.0, LONGEST: 9000, ORIGINAL: 2048, "context_length": 5000},
        Dynamic(8, 1e4, 2.0, 2048, 5000),
    ),
    "dynamic, alpha": ({"alpha": 1000.0}, DynamicAlpha(8, 1e4, 1000.0)),
    "ntk": ({"factor": 8.0}, Ntk(8, 1e4, 8.0)),
    "ntk, mixed": ({"factor": 8.0, "mixed_b": 0.625}, Ntk(8, 1e4, 8.0, 0.625)),
    "yarn": ({"factor": 32.0, ORIGINAL: 4096}, Yarn(8, 1e4, 32.0, 4096, 1.3465735902799727)),
    "yarn, by lengths": (
        {LONGEST: 131072, ORIGINAL: 4096, "truncate": False},
        Yarn(8, 1e4, 32.0, 4096, 1.3465735902799727, truncate=False),
    ),
    "yarn, mscale": ({**DEEPSEEK, "beta_slow": 2.0}, Yarn(8, 1e4, 40.0, 4096, 1.0, beta_slow=2.0)),
    "yarn, attention_factor": (
        {**DEEPSEEK, "attention_factor": 1.5},
        Yarn(8, 1e4, 40.0, 4096, 1.5, beta_fast=32.0, beta_slow=1.0, truncate=True),
    ),
    "longrope": (
        {**LONGROPE, LONGEST: 131072},
        LongRope(8, 1e4, 4096, 4096, 1.1902380714238083, FOUR, LONG),
    ),
    "longrope, long": (
        {**LONGROPE, "factor": 32.0, LONGEST: 4096, "context_length": 4097},
        LongRope(8, 1e4, 4096, 4097, 1.1902380714238083, FOUR, LONG),
    ),
    "longrope, attention_factor": (
        {**LONGROPE, "attention_factor": 1.25},
        LongRope(8, 1e4, 4096, 4096, 1.25, FOUR, LONG),
    ),
    "llama3": (LLAMA3, Llama3(8, 1e4, 8.0, 1.0, 4.0, 8192)),
    "proportional": ({"partial_rotary_factor": 0.25}, Proportional(8, 1e4, 0.25)),
    "proportional, factor": ({"factor": 2.0}, Proportional(8, 1e4, 1.0, 2.0)),
}
EVERY_CASE = pytest.mark.parametrize("name", CASES)


def query_of(name: str, **changes: Any) -> str:
    """Return the query of a case with some keys changed; None leaves a key out."""
    keys = {"head_dim": 8, "rope_type": name.partition(",")[0], **CASES[name][0], **changes}
    return urlencode(
        {
            key: ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
            for key, value in keys.items()
            if value is not None
        },
        safe=",",
    )


def errors(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["parameter"] for error in answer.json()["errors"]]


# Formulas.

BASES = st.floats(0.0, 250.0).map(lambda exponent: 10.0**exponent)
FACTORS = st.floats(-9.0, 9.0).map(lambda exponent: 10.0**exponent)
DIMS = st.integers(1, 40).map(lambda pairs: 2 * pairs)
WIDE = st.integers(2, 40).map(lambda pairs: 2 * pairs)
LENGTHS = st.integers(1, 62).flatmap(lambda bits: st.integers(1, 2**bits))
CANCELLING = "1e-50"


def exact(value: Decimal) -> Any:
    return mpmath.mpf(str(value))


def check(got: Sequence[Decimal], expected: Sequence[Any], relative: str = "1e-70") -> None:
    assert len(got) == len(expected)
    for value, reference in zip(got, expected, strict=True):
        assert abs(exact(value) - reference) <= mpmath.mpf(relative) * abs(reference)


def powers(base: Any, dim: int, count: int | None = None) -> list[Any]:
    return [frequency(base, dim, k) for k in range(dim // 2 if count is None else count)]


def clipped(value: Any) -> Any:
    return min(max(value, mpmath.mpf(0)), mpmath.mpf(1))


def intermediate(rule: RotaryRule, name: str) -> Decimals:
    return list(getattr(rule, name)())


@given(BASES, DIMS, FACTORS)
def test_linear_divides_every_frequency_by_the_factor(base: float, dim: int, factor: float) -> None:
    check(list(Default(dim, base).exact()), powers(base, dim))
    check(
        list(Linear(dim, base, factor).exact()), [w / mpmath.mpf(factor) for w in powers(base, dim)]
    )


@given(BASES, st.lists(FACTORS, min_size=1, max_size=8), FACTORS)
def test_lists_of_factors_divide_frequencies_one_by_one(
    base: float, factors: list[float], factor: float
) -> None:
    dim, each = 2 * len(factors), tuple(factors)
    divided = [w / mpmath.mpf(f) for w, f in zip(powers(base, dim), each, strict=True)]

    check(list(Default(dim, base, each).exact()), divided)
    check(list(Linear(dim, base, factor, each).exact()), [w / mpmath.mpf(factor) for w in divided])
    for length, lists in ((4096, (each, (1.0,))), (4097, ((1.0,), each))):
        rule = LongRope(dim, base, 4096, length, 1.0, *lists)
        check(list(rule.exact()), divided)
        assert intermediate(rule, "rescale_factor") == list(map(Decimal, each))


@given(BASES, WIDE, FACTORS)
def test_a_rescaled_base_divides_the_last_frequency_by_alpha(
    base: float, dim: int, alpha: float
) -> None:
    rule = DynamicAlpha(dim, base, alpha)

    (rescaled,) = intermediate(rule, "effective_base")
    exponent = mpmath.mpf(dim) / (dim - 2)
    check([rescaled], [mpmath.mpf(base) * mpmath.mpf(alpha) ** exponent])
    check(list(rule.exact()), powers(exact(rescaled), dim))
    check(list(rule.exact())[-1:], [powers(base, dim)[-1] / mpmath.mpf(alpha)])


@given(FACTORS, LENGTHS, LENGTHS)
def test_dynamic_up_to_the_original_length_is_default(
    factor: float, length: int, original: int
) -> None:
    rule = Dynamic(8, 1e4, factor, original, length)

    expected = 1 + Fraction(factor) * (Fraction(max(length, original), original) - 1)
    assert abs(Fraction(rule.base_scale()) - expected) <= Fraction(1, 10**65) * expected
    if length <= original:
        assert list(rule.exact()) == list(Default(8, 1e4).exact())


@given(BASES, DIMS, FACTORS)
def test_ntk_scales_the_base_and_then_every_frequency(base: float, dim: int, factor: float) -> None:
    got = list(Ntk(dim, base, factor).exact())

    f = mpmath.mpf(factor)
    check(got, [w / f ** (mpmath.mpf(2) / dim) for w in powers(mpmath.mpf(base) * f, dim)])
    check(got[-1:], [powers(base, dim)[-1] / f])


@given(BASES, DIMS, FACTORS, st.floats(0.01, 16.0))
def test_mixed_ntk_divides_the_last_frequency_by_the_factor(
    base: float, dim: int, factor: float, mixed_b: float
) -> None:
    got = list(Ntk(dim, base, factor, mixed_b).exact())

    pairs, b, f = dim // 2, mpmath.mpf(mixed_b), mpmath.mpf(factor)
    a, plain = mpmath.log(f) / mpmath.mpf(pairs) ** b, powers(base, dim)
    check(got, [w / mpmath.exp(a * mpmath.mpf(k + 1) ** b) for k, w in enumerate(plain)])
    check(got[-1:], [plain[-1] / f])


def raw_range(rule: Yarn) -> list[Any]:
    betas = map(mpmath.mpf, (rule.beta_fast, rule.beta_slow))
    rotations = [rule.original_max_position_embeddings / (2 * mpmath.pi * beta) for beta in betas]
    below = 2 * mpmath.log(mpmath.mpf(rule.rope_theta))
    return [rule.rotary_dim * mpmath.log(t) / below for t in rotations]


@given(
    base=st.floats(1.001, 1e9),
    dim=DIMS,
    length=LENGTHS,
    factor=FACTORS,
    slow=st.floats(1e-3, 1e3),
    ratio=st.floats(1.0, 1e3),
    truncate=st.booleans(),
)
def test_yarn_interpolates_between_beta_fast_and_beta_slow_rotations(
    base: float, dim: int, length: int, factor: float, slow: float, ratio: float, truncate: bool
) -> None:
    rule = Yarn(dim, base, factor, length, 1.0, slow * ratio, slow, truncate)
    raw = raw_range(rule)
    assume(all(abs(pair - mpmath.nint(pair)) > mpmath.mpf("1e-40") for pair in raw))

    check(rule.range_raw(), raw, CANCELLING)
    low, high = (mpmath.floor(raw[0]), mpmath.ceil(raw[1])) if truncate else raw
    low, high = max(low, mpmath.mpf(0)), min(high, mpmath.mpf(dim - 1))
    check(rule.range_used(), [low, high], CANCELLING)
    width = high - low or mpmath.mpf("0.001")
    ramp = [clipped((k - low) / width) for k in range(dim // 2)]
    for value, gamma in zip(rule.ramp(), ramp, strict=True):
        assert abs(exact(value) - gamma) <= mpmath.mpf("1e-45")
    used, f = map(exact, rule.ramp()), mpmath.mpf(factor)
    blended = [(1 - g) * w + g * w / f for g, w in zip(used, powers(base, dim), strict=True)]
    check(list(rule.exact()), blended, "1e-60")


@pytest.mark.parametrize(
    ("used", "pairs", "expected"),
    [((2, 2), 5, [0, 0, 0, 1, 1]), ((200, 127), 4, [1] * 4), ((0, -3), 4, [0] * 4)],
    ids=["ends are equal: a step", "begins past the last pair", "ends before the first pair"],
)
def test_a_ramp_is_clipped_to_0_and_1(
    monkeypatch: pytest.MonkeyPatch, used: tuple[int, int], pairs: int, expected: list[int]
) -> None:
    monkeypatch.setattr(Yarn, "range_used", lambda _: list(map(Decimal, used)))

    assert list(Yarn(2 * pairs, 1e4, 8.0, 4096, 1.0).ramp()) == expected


@pytest.mark.parametrize("truncate", [True, False])
def test_a_base_close_to_one_gives_a_range_of_any_size(truncate: bool) -> None:
    rule = Yarn(65536, 1.0 + 2.0**-52, 8.0, 2**62, 1.0, truncate=truncate)

    check(rule.range_raw(), raw_range(rule), "1e-55")
    assert rule.range_raw()[0] > 10**20
    assert rule.range_used()[1] == 65535
    assert {*rule.ramp()} == {1}


def test_published_ranges_of_yarn() -> None:
    """Only the range of gpt-oss-120b is not rounded."""
    cases = {
        (1e6, 128, 16384, True): ((20.3849609879223, 36.439894090001296), (20.0, 37.0)),
        (150000.0, 64, 4096, False): ((8.092779115512402, 17.398024501588555),) * 2,
    }
    for (base, dim, length, truncate), (raw, used) in cases.items():
        rule = Yarn(dim, base, 8.0, length, 1.0, truncate=truncate)

        assert tuple(map(float, rule.range_raw())) == raw
        assert tuple(map(float, rule.range_used())) == used


def mscale_of(factor: float, mscale: float) -> Any:
    one = mpmath.mpf(1)
    return one if factor <= 1 else mpmath.mpf(mscale) * mpmath.log(factor) / 10 + 1


@given(FACTORS, st.floats(0.0, 1000.0), st.floats(0.0, 1000.0))
def test_the_attention_factor_of_yarn_needs_both_mscales(
    factor: float, mscale: float, all_dim: float
) -> None:
    f, own, other = map(Decimal, (factor, mscale, all_dim))

    check([yarn_mscale(f, own)], [mscale_of(factor, mscale)])
    both = mscale_of(factor, mscale) / mscale_of(factor, all_dim)
    expected = both if mscale and all_dim else mscale_of(factor, 1.0)
    check([yarn_attention_factor(f, own, other)], [expected])


@given(FACTORS, st.integers(2, 2**62))
def test_the_attention_factor_of_longrope_is_a_root_of_logarithms(
    factor: float, length: int
) -> None:
    share = mpmath.log(factor) / mpmath.log(length) if factor > 1 else mpmath.mpf(0)

    check([longrope_attention_factor(Decimal(factor), length)], [mpmath.sqrt(1 + share)])


@given(BASES, DIMS, LENGTHS, FACTORS, st.floats(1e-3, 1e3), st.floats(1.001, 100.0))
def test_llama3_smooths_between_its_two_wavelengths(
    base: float, dim: int, length: int, factor: float, low: float, ratio: float
) -> None:
    high = low * ratio
    rule, f = Llama3(dim, base, factor, low, high, length), mpmath.mpf(factor)

    expected = []
    for w in powers(base, dim):
        rotations = length * w / (2 * mpmath.pi)
        t = clipped((rotations - mpmath.mpf(low)) / (mpmath.mpf(high) - mpmath.mpf(low)))
        expected.append((1 - t) * w / f + t * w)
    check(list(rule.exact()), expected, CANCELLING)


def test_llama3_with_equal_ends_smooths_nothing() -> None:
    smooth = intermediate(Llama3(128, 5e5, 8.0, 2.0, 2.0, 8192), "smooth_factor")

    assert set(smooth) == {0, 1}
    for plain, share in zip(Default(128, 5e5).exact(), smooth, strict=True):
        assert share == (2 * mpmath.pi / exact(plain) < 4096)


@given(BASES, DIMS, st.floats(0.0, 1.0), FACTORS)
def test_proportional_rotates_the_first_pairs_of_a_whole_head(
    base: float, dim: int, share: float, factor: float
) -> None:
    got = list(Proportional(dim, base, share, factor).exact())
    rotated = int(share * dim // 2)

    check(got[:rotated], [w / mpmath.mpf(factor) for w in powers(base, dim, rotated)])
    assert got[rotated:] == [0] * (dim // 2 - rotated)


@pytest.mark.parametrize(
    ("share", "rotated"), [(1.0, 4), (0.5, 2), (0.4, 1), (0.25, 1), (0.2, 0), (1e-9, 0)]
)
def test_a_proportional_share_of_pairs_is_rounded_down(share: float, rotated: int) -> None:
    assert sum(frequency > 0 for frequency in Proportional(8, 1e6, share).exact()) == rotated


# Rules as values.


def test_different_rules_have_different_canonical_parameters() -> None:
    rules = {rule for _, rule in CASES.values()}

    assert len({str(rule.parameters()) for rule in rules}) == len(rules) == len(CASES)


@EVERY_CASE
def test_a_rule_returns_the_intermediates_that_its_class_lists(name: str) -> None:
    _, rule = CASES[name]
    tables = rule.intermediates()

    assert set(tables) == (set() if name == "ntk, mixed" else {*rule.intermediate_names})
    for intermediate_name, table in tables.items():
        assert table.dtype is FLOAT64
        assert len(intermediate(rule, intermediate_name)) == size(table)


def test_given_frequencies_are_exact_binary_numbers() -> None:
    rule = GivenFrequencies((0.1, 0.0, 3.0))

    first, *others = rule.exact()
    assert others == [Decimal(0), Decimal(3)]
    assert str(first).startswith("0.1000000000000000055511151231257827")
    assert (rule.count, rule.scale, dict(rule.intermediates())) == (3, 1.0, {})


# Keys in requests.


@EVERY_CASE
def test_every_rule_is_served_by_url_and_by_json(client: Client, name: str) -> None:
    """The canonical parameters of the answer give the same answer."""
    keys, rule = CASES[name]
    url = f"/rope/frequencies?{query_of(name)}"

    answer = client.get(url)
    posted = client.post(
        "/rope/frequencies", json={"head_dim": 8, "rope_type": rule.rope_type, **keys}
    )

    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert posted.content == answer.content
    assert content["parameters"] == json.loads(json.dumps(rule.parameters()))
    assert content["data"]["inv_freq"] == [float(exact) for exact in rule.exact()]
    assert content["data"]["attention_factor"] == [rule.scale]
    assert list(content["data"])[3:] == list(rule.intermediates())
    assert client.post("/rope/frequencies", json=content["parameters"]).content == answer.content
    for part, values in content["data"].items():
        assert client.get(f"{url}&part={part}").json()["data"] == values, part


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("linear", "factor"),
        ("dynamic", "factor"),
        ("dynamic", LONGEST),
        ("ntk", "factor"),
        ("yarn", "factor"),
        ("yarn", ORIGINAL),
        *(("longrope, attention_factor", key) for key in LONGROPE),
        *(("llama3", key) for key in LLAMA3),
    ],
)
def test_the_refusal_of_a_missing_key_names_it(client: Client, name: str, key: str) -> None:
    answer = client.get(f"/rope/frequencies?{query_of(name, **{key: None})}")

    assert errors(answer) == [key]
    (fault,) = answer.json()["errors"]
    assert fault["value"] is None
    assert f"{key} is required with rope_type={name.partition(',')[0]}" in fault["detail"]


SOME_VALUE: dict[str, Any] = {
    **dict.fromkeys(RULE_KEYS, 2.0),
    "context_length": 5000,
    ORIGINAL: 4096,
    "truncate": True,
    **dict.fromkeys(("short_factor", "long_factor", "freq_factors"), FOUR),
}


@EVERY_CASE
def test_keys_of_other_rules_are_refused_with_their_rules(client: Client, name: str) -> None:
    keys, rule = CASES[name]
    chooser = "alpha" if "alpha" in keys else f"rope_type={rule.rope_type}"
    # alpha chooses the other rule of its rope_type.
    others = [
        key
        for key in RULE_KEYS
        if key not in {*rule.key_types(), *SHARED}
        and (key != "alpha" or rule.rope_type != "dynamic")
    ]
    assert others
    assert {*keys} <= {*rule.key_types(), *SHARED}

    for key in others:
        answer = client.get(f"/rope?{query_of(name, **{key: SOME_VALUE[key]})}&seq_len=1")
        assert errors(answer) == [key]
        detail = answer.json()["errors"][0]["detail"]
        owners_of_key = {each.rope_type for each in RULES if key in each.key_types()}
        if rule.rope_type in owners_of_key:
            assert detail == f"{key} does not go with alpha: leave alpha out"
            continue
        start, _, owners = detail.partition(", but with rope_type=")
        assert start == f"{key} does not go with {chooser}"
        assert set(owners.split("|")) == owners_of_key


def test_key_of_the_other_variant_is_refused_with_what_to_leave_out(client: Client) -> None:
    keys = "rope_type=dynamic&alpha=2&factor=2&max_position_embeddings=8"

    (fault,) = client.get(f"/rope?head_dim=4&seq_len=1&{keys}").json()["errors"]

    assert fault["detail"] == "factor does not go with alpha: leave alpha out"


def test_keys_at_their_limits_are_served(client: Client) -> None:
    yarn = {"factor": 8.0, "beta_fast": 1.0, "truncate": False}
    urls = {
        query_of("default", rope_theta=1e300): ("inv_freq", None),
        query_of("proportional", rotary_dim=8): ("inv_freq", None),
        query_of("llama3", high_freq_factor=1.0): ("smooth_factor", [1.0] * 4),
        query_of("yarn", **yarn): ("ramp", [0.0, 0.0, 0.0, 1.0]),
        query_of("default", freq_factors=(MIN_FACTOR,) * 4): ("inv_freq", None),
        query_of("default", freq_factors=(MAX_FACTOR,) * 4): ("inv_freq", None),
    }
    for query, (part, expected) in urls.items():
        answer = client.get(f"/rope/frequencies?{query}&part={part}")
        assert answer.status_code == 200, answer.text
        assert expected is None or answer.json()["data"] == expected


@pytest.mark.parametrize("name", ["dynamic, original", "longrope"])
def test_the_context_length_is_the_original_length_unless_given(client: Client, name: str) -> None:
    """It is never taken from the length of the table."""
    url = f"/rope?{query_of(name, **{ORIGINAL: 4096, 'context_length': None})}"

    plain, longer, at_original, past = (
        client.get(f"{url}&{rows}").json()
        for rows in (
            "seq_len=3",
            "positions=0,1,5000",
            "seq_len=3&context_length=4096",
            "seq_len=3&context_length=4097",
        )
    )

    every = (plain, longer, at_original, past)
    lengths = [answer["parameters"]["context_length"] for answer in every]
    assert lengths == [4096, 4096, 4096, 4097]
    assert plain["data"] == at_original["data"]
    assert longer["data"][:2] == plain["data"][:2]
    assert past["data"] != plain["data"]


BOUNDS = {
    "head_dim": (1, 65536),
    "rotary_dim": (2, 65536),
    "rope_theta": (1, 1e300),
    "max_position_embeddings": (1, 2**62),
    "partial_rotary_factor": (None, 1),
    "factor": (1e-9, 1e9),
    "original_max_position_embeddings": (1, 2**62),
    "context_length": (1, 2**62),
    "alpha": (1e-9, 1e9),
    "mixed_b": (1e-9, 16),
    "beta_fast": (1e-9, 1e9),
    "beta_slow": (1e-9, 1e9),
    "mscale": (0, 1000),
    "mscale_all_dim": (0, 1000),
    "attention_factor": (1e-9, 10000),
    "low_freq_factor": (1e-9, 1e9),
    "high_freq_factor": (1e-9, 1e9),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_outside_their_bounds_are_refused(client: Client, name: str) -> None:
    least, most = BOUNDS[name]
    outside = {-1, 0, most * 2, *([] if least is None else [least / 2 if least < 1 else least - 1])}
    for value in outside - {least}:
        others = {"head_dim": 8} if name != "head_dim" else {}
        answer = client.get(f"/rope/frequencies?{urlencode({**others, name: value})}")
        assert errors(answer) == [name], value


def test_the_parameters_are_the_keys_of_all_rules() -> None:
    lists = {"short_factor", "long_factor", "freq_factors", "truncate"}

    assert set(RuleParameters.model_fields) == {*BOUNDS, *lists, "rope_type", "inv_freq"}
    assert {*RULE_KEYS, *SHARED} == {key for rule in RULES for key in rule.key_types()}
    assert {rule.rope_type for _, rule in CASES.values()} == {*ROPE_TYPES}
    assert {type(rule) for _, rule in CASES.values()} == {*RULES}
    assert {name for rule in RULES for name in rule.intermediate_names} == {*INTERMEDIATES}
    for name, field in RuleParameters.model_fields.items():
        assert field.description, name
        assert field.examples, name


@pytest.mark.parametrize(
    ("query", "rotary_dim"),
    [
        ("head_dim=128", 128),
        ("rotary_dim=16", 16),
        ("head_dim=80&partial_rotary_factor=0.4", 32),
        ("head_dim=80&rope_type=linear&factor=2&partial_rotary_factor=0.25", 20),
        ("head_dim=80&rope_type=proportional&partial_rotary_factor=0.25", 80),
        ("rotary_dim=80&rope_type=proportional&partial_rotary_factor=0.25", 80),
        ("head_dim=80&rope_type=proportional&rotary_dim=80", 80),
        ("inv_freq=1,0.5,0.25", 6),
        ("inv_freq=1,0.5&head_dim=8&partial_rotary_factor=0.5", 4),
        ("head_dim=128&rotary_dim=64", 64),
        ("head_dim=64&inv_freq=1,0.5", 4),
    ],
)
def test_rotary_dim_follows_from_the_parameters(
    client: Client, query: str, rotary_dim: int
) -> None:
    content = client.get(f"/rope/frequencies?{query}").json()

    assert content["parameters"]["rotary_dim"] == rotary_dim
    assert content["shapes"]["inv_freq"] == [rotary_dim // 2]


def test_an_attention_factor_multiplies_cosines_of_given_frequencies(client: Client) -> None:
    content = client.get("/rope.json?inv_freq=1,0&positions=0&attention_factor=1.25").json()
    assert content["parameters"]["attention_factor"] == 1.25
    assert content["data"] == [[[1.25, 0.0], [1.25, 0.0]]]


def test_max_position_embeddings_is_the_length_of_a_table_unless_given(client: Client) -> None:
    url = "/rope?head_dim=4&max_position_embeddings=5"

    lengths = [
        client.get(url + more).json()["shape"][0]
        for more in ("", "&seq_len=2", "&start=7", "&positions=1,2,3")
    ]

    assert lengths == [5, 2, 5, 3]
    assert "max_position_embeddings" not in client.get(url).json()["parameters"]


def test_equal_parameters_have_one_etag_however_they_are_written(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=2"
    linear = f"{url}&rope_type=linear&factor="
    groups = [
        (url, f"{url}&rope_type=default&rope_theta={DEFAULT_ROPE_THETA:g}"),
        [f"{linear}8&rope_theta=1e4", f"{linear}8.0&rope_theta=10000", f"{linear}0.8e1"],
    ]
    for urls in groups:
        assert len({client.get(each).headers["ETag"] for each in urls}) == 1


# Every number is finite at the bounds of every key, and anywhere between.


def within(least: float, most: float) -> st.SearchStrategy[float]:
    low, high = np.log10(least), np.log10(most)
    anywhere = st.floats(low, high).map(lambda exponent: min(max(10.0**exponent, least), most))
    return st.one_of(st.sampled_from([least, most]), anywhere)


TO_THE_BOUNDS = within(1e-9, 1e9)
EVERY_LENGTH = st.one_of(
    st.sampled_from([1, 2, 2**62]), st.integers(1, 2**62), st.integers(1, 10**6)
)
MSCALES = st.one_of(st.just(0.0), within(1e-9, 1000.0))
KEYS: dict[str, st.SearchStrategy[Any]] = {
    **{name: TO_THE_BOUNDS for name, bounds in BOUNDS.items() if bounds == (1e-9, 1e9)},
    **{name: EVERY_LENGTH for name, bounds in BOUNDS.items() if bounds == (1, 2**62)},
    "mixed_b": within(1e-9, 16.0),
    "truncate": st.booleans(),
    "mscale": MSCALES,
    "mscale_all_dim": MSCALES,
    "attention_factor": within(1e-9, 10000.0),
    "partial_rotary_factor": within(1e-9, 1.0),
}
BETAS = ["mscale", "mscale_all_dim", "truncate", "beta_fast", "beta_slow"]
OF_TYPE: dict[str, list[str]] = {
    "default": ["freq_factors"],
    "linear": ["factor", "freq_factors"],
    "dynamic": ["factor", ORIGINAL, "context_length"],
    "dynamic ": ["alpha"],
    "ntk": ["factor"],
    "ntk ": ["factor", "mixed_b"],
    "yarn": ["factor", ORIGINAL],
    "yarn ": [ORIGINAL, LONGEST, "truncate"],
    "yarn  ": ["factor", ORIGINAL, *BETAS],
    "longrope": [ORIGINAL, LONGEST, "context_length", *LISTS],
    "longrope ": [ORIGINAL, "attention_factor", *LISTS],
    "llama3": ["factor", ORIGINAL, "low_freq_factor", "high_freq_factor"],
    "proportional": ["factor", "partial_rotary_factor"],
}
POSITIONS = st.lists(
    st.one_of(
        st.sampled_from([0, MAX_POSITION, -MAX_POSITION]),
        st.integers(-MAX_POSITION, MAX_POSITION),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(OF_TYPE)))
    pairs = draw(st.integers(1, 5))
    lists = st.lists(TO_THE_BOUNDS, min_size=pairs, max_size=pairs)
    keys: dict[str, Any] = {
        "head_dim": 2 * pairs,
        "rope_type": kind.strip(),
        "rope_theta": draw(within(1.0, 1e250)),
    }
    keys |= {name: draw(KEYS.get(name, lists)) for name in OF_TYPE[kind]}
    for low, high in (("beta_slow", "beta_fast"), ("low_freq_factor", "high_freq_factor")):
        if low in keys:
            keys[low], keys[high] = sorted((keys[low], keys[high]))
    return keys


def check_refusal(answer: httpx.Response, keys: dict[str, Any]) -> None:
    """Check that a refusal names a combination that is impossible at the bounds."""
    (parameter,) = errors(answer)
    possible = {
        "rope_theta": keys["rope_theta"] == 1 and keys["rope_type"] == "yarn",
        "rope_type": keys["head_dim"] == 2 and keys["rope_type"] == "dynamic",
        ORIGINAL: keys.get(ORIGINAL) == 1,
        LONGEST: "factor" not in keys,
    }
    assert possible[parameter], answer.text


def test_the_strategy_covers_every_rope_type() -> None:
    assert {kind.strip() for kind in OF_TYPE} == {*ROPE_TYPES}


@pytest.mark.full
@settings(max_examples=300)
@given(
    keys=requests(),
    positions=POSITIONS,
    dtype=st.sampled_from(sorted(REAL_DTYPES)),
    angle=st.sampled_from(["exact", "float32"]),
    pack=st.sampled_from(["concat", "pair", "angle"]),
)
def test_every_element_of_a_table_is_finite(
    client: Client, keys: dict[str, Any], positions: list[int], dtype: str, angle: str, pack: str
) -> None:
    if pack == "angle" and dtype == "float16":
        pack = "concat"
    form = {"positions": positions, "dtype": dtype, "angle": angle, "pack": pack}

    answer = client.post("/rope.bin", json={**keys, **form})

    if answer.status_code != 200:
        check_refusal(answer, keys)
        return
    chosen = REAL_DTYPES[dtype]
    elements = np.frombuffer(answer.content, chosen.storage)
    assert len(elements) == len(positions) * keys["head_dim"] // (2 if pack == "angle" else 1)
    assert all_finite(elements, chosen)


@pytest.mark.full
@settings(max_examples=200)
@given(keys=requests())
def test_every_frequency_and_intermediate_is_finite(client: Client, keys: dict[str, Any]) -> None:
    answer = client.post("/rope/frequencies.json", json=keys)

    if answer.status_code != 200:
        check_refusal(answer, keys)
        return

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(answer.content, parse_constant=refuse)
    data = content["data"]
    for frequency_, wavelength in zip(data["inv_freq"], data["wavelength"], strict=True):
        assert frequency_ >= 0
        assert (wavelength is None) == (frequency_ == 0)
    assert all(
        value is not None
        for name, values in data.items()
        if name != "wavelength"
        for value in (values if isinstance(values, list) else [values])
    )
    again = client.post("/rope/frequencies.json", json=content["parameters"])
    assert again.content == answer.content
