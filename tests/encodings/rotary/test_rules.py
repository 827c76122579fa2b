"""Rotary rules by ``rope_type``: what their keys make of frequencies, and how they are spelled.

What every rotary rule is, and frequencies that are given outright.

From keys to rotary rules: which are required, which are refused, which regime holds.

The keys of published configs in URLs: their bounds, and numbers whatever they are.

How many channels of a head turn.
"""

import json
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, get_args
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.rotary.rules import (
    DEFAULT_ROPE_THETA,
    SHARED,
    TAKEN,
    Default,
    Dynamic,
    DynamicAlpha,
    Given,
    Linear,
    Llama3,
    LongRope,
    NamedRule,
    Ntk,
    Proportional,
    RopeType,
    RotaryRule,
    RuleParameters,
    WidthParameters,
    Yarn,
    make_rule,
    paired,
    taken_by,
)
from service.errors import InvalidParameters
from service.numerics import frequencies as scaling
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, all_finite
from service.numerics.frequencies import Decimals
from service.numerics.limits import MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_POSITION, Float64s
from service.numerics.tables import DecimalTable, size
from tests.client import Client

FACTORS = (1.0, 1.5, 2.0, 4.0)
LONG = (8.0, 8.5, 9.0, 10.0)
ROPE_TYPES = {
    "default": Default(8, 10000.0),
    "default, freq_factors": Default(8, 10000.0, FACTORS),
    "linear": Linear(8, 10000.0, 2.5),
    "linear, freq_factors": Linear(8, 10000.0, 2.5, FACTORS),
    "dynamic": Dynamic(8, 10000.0, 2.0, 2048, 5000),
    "dynamic, alpha": DynamicAlpha(8, 10000.0, 1000.0),
    "ntk": Ntk(8, 10000.0, 8.0),
    "ntk, mixed": Ntk(8, 10000.0, 8.0, 0.625),
    "yarn": Yarn(8, 10000.0, 32.0, 4096, 1.25),
    "yarn, not truncated": Yarn(8, 10000.0, 32.0, 4096, 1.25, truncate=False),
    "longrope": LongRope(8, 10000.0, 4096, 4096, 1.19, FACTORS, LONG),
    "longrope, long": LongRope(8, 10000.0, 4096, 4097, 1.19, FACTORS, LONG),
    "llama3": Llama3(8, 500000.0, 8.0, 1.0, 4.0, 8192),
    "proportional": Proportional(8, 1e6, 0.5),
}
EVERY_RULE = pytest.mark.parametrize("rule", ROPE_TYPES.values(), ids=ROPE_TYPES)
UNSCALED = scaling.default(Decimal(10000), 8, 4)
EIGHT, THIRTY_TWO = Decimal(8), Decimal(32)


def values(table: DecimalTable) -> Float64s:
    return table.read(0, size(table)).astype(float).reshape(table.shape)


@EVERY_RULE
def test_a_rule_has_as_many_frequencies_as_it_says(rule: RotaryRule) -> None:
    frequencies = rule.exact()

    assert len(frequencies) == rule.count == 4
    assert all(frequency >= 0 for frequency in frequencies)


@EVERY_RULE
def test_equal_keys_make_equal_rules_with_equal_hashes(rule: NamedRule) -> None:
    again = type(rule)(**{field.name: getattr(rule, field.name) for field in fields(rule)})

    assert rule == again
    assert hash(rule) == hash(again)
    assert rule.parameters() == again.parameters()


def test_rules_that_differ_are_spelled_differently() -> None:
    spellings = {str(rule.parameters()) for rule in ROPE_TYPES.values()}

    assert len(spellings) == len(ROPE_TYPES) == len(set(ROPE_TYPES.values()))


@pytest.mark.parametrize("name", ROPE_TYPES)
def test_a_rule_is_spelled_under_its_own_type_with_every_key_that_it_has(name: str) -> None:
    rule = ROPE_TYPES[name]
    spelled = rule.parameters()

    assert list(spelled)[:3] == ["rotary_dim", "rope_type", "rope_theta"]
    assert spelled["rope_type"] == name.partition(",")[0]
    held = {field.name: getattr(rule, field.name) for field in fields(rule)}
    assert {key: held[key] for key in spelled if key != "rope_type"} == {
        key: value for key, value in held.items() if value is not None and value != ()
    }


def test_what_is_left_to_a_default_is_spelled_too() -> None:
    assert Yarn(8, 10000.0, 32.0, 4096, 1.25) == Yarn(
        8, 10000.0, 32.0, 4096, 1.25, beta_fast=32.0, beta_slow=1.0, truncate=True
    )
    assert Yarn(8, 10000.0, 32.0, 4096, 1.25).parameters()["truncate"] is True
    assert Proportional(8, 1e6).parameters()["factor"] == 1.0


@EVERY_RULE
def test_what_is_beside_the_frequencies_is_as_long_as_its_shape(rule: RotaryRule) -> None:
    for table in rule.beside().values():
        assert table.dtype is FLOAT64
        assert len(table.exact()) == size(table)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("default", {}),
        ("linear", {}),
        ("dynamic", {"effective_base": ()}),
        ("dynamic, alpha", {"effective_base": ()}),
        ("ntk", {"effective_base": ()}),
        ("ntk, mixed", {}),
        ("yarn", {"ramp": (4,), "range_raw": (2,), "range_used": (2,)}),
        ("longrope", {"rescale_factor": (4,)}),
        ("llama3", {"smooth_factor": (4,)}),
        ("proportional", {}),
    ],
)
def test_the_numbers_met_on_the_way_are_named(name: str, shapes: dict[str, tuple[int]]) -> None:
    beside = ROPE_TYPES[name].beside()

    assert {key: table.shape for key, table in beside.items()} == shapes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default", UNSCALED),
        ("default, freq_factors", scaling.divided(UNSCALED, list(map(Decimal, FACTORS)))),
        ("linear", scaling.linear(UNSCALED, Decimal("2.5"))),
        ("ntk", scaling.ntk(Decimal(10000), 8, EIGHT)),
        ("ntk, mixed", scaling.ntk_mixed(Decimal(10000), 8, EIGHT, Decimal("0.625"))),
        ("longrope", scaling.divided(UNSCALED, list(map(Decimal, FACTORS)))),
        ("longrope, long", scaling.divided(UNSCALED, list(map(Decimal, LONG)))),
        ("proportional", scaling.proportional(Decimal(1000000), 8, 2, Decimal(1))),
    ],
)
def test_a_rule_is_the_formula_of_its_keys(name: str, expected: Decimals) -> None:
    assert ROPE_TYPES[name].exact() == expected


def test_freq_factors_and_a_factor_divide_together() -> None:
    for ours, plain, factor in zip(
        ROPE_TYPES["linear, freq_factors"].exact(), UNSCALED, FACTORS, strict=True
    ):
        assert abs(ours * Decimal("2.5") * Decimal(factor) - plain) < Decimal("1e-25")


def test_the_effective_base_is_the_base_that_the_frequencies_have() -> None:
    for name in ("dynamic", "dynamic, alpha"):
        rule = ROPE_TYPES[name]
        (base,) = rule.beside()["effective_base"].exact()

        assert scaling.default(base, 8, 4) == rule.exact()
        assert base > 10000


def test_dynamic_up_to_its_original_length_is_default() -> None:
    """The base of internlm2_5-7b-chat at twice its length is that of its 60-digit evaluation."""
    for length in (1, 2047, 2048):
        assert Dynamic(8, 10000.0, 2.0, 2048, length).exact() == UNSCALED
    assert Dynamic(8, 10000.0, 2.0, 2048, 2049).exact() != UNSCALED

    far = Dynamic(128, 1e6, 2.0, 32768, 65536).beside()["effective_base"]
    assert float(values(far)) == 3052773.67488067


def test_yarn_blends_by_the_ramp_that_is_beside_it() -> None:
    for name in ("yarn", "yarn, not truncated"):
        rule = ROPE_TYPES[name]
        ramp = list(rule.beside()["ramp"].exact())

        assert rule.exact() == scaling.yarn(UNSCALED, ramp, THIRTY_TWO)
        low, high = rule.beside()["range_used"].exact()
        assert scaling.yarn_ramp((low, high), 4) == ramp


def test_a_range_is_used_as_it_is_where_truncate_is_false() -> None:
    rounded, plain = (ROPE_TYPES[name].beside() for name in ("yarn", "yarn, not truncated"))

    assert values(plain["range_raw"]).tolist() == values(rounded["range_raw"]).tolist()
    assert values(plain["range_used"]).tolist() == values(plain["range_raw"]).tolist()
    assert values(rounded["range_used"]).tolist() == [1.0, 3.0]


def test_llama3_smooths_by_what_is_beside_it() -> None:
    rule = ROPE_TYPES["llama3"]
    smooth = list(rule.beside()["smooth_factor"].exact())

    unscaled = scaling.default(Decimal(500000), 8, 4)
    assert rule.exact() == scaling.llama3(unscaled, smooth, EIGHT)


def test_longrope_divides_by_the_factors_that_hold_at_its_length() -> None:
    short, long = (ROPE_TYPES[name].beside() for name in ("longrope", "longrope, long"))

    assert values(short["rescale_factor"]).tolist() == list(FACTORS)
    assert values(long["rescale_factor"]).tolist() == list(LONG)


@pytest.mark.parametrize(
    ("name", "scale"), [("yarn", 1.25), ("longrope", 1.19), ("llama3", 1.0), ("default", 1.0)]
)
def test_the_scale_is_the_attention_factor(name: str, scale: float) -> None:
    assert ROPE_TYPES[name].scale == scale


@pytest.mark.parametrize(
    ("share", "turning"), [(1.0, 4), (0.5, 2), (0.4, 1), (0.25, 1), (0.2, 0), (1e-9, 0)]
)
def test_a_proportional_share_is_of_pairs_and_cut(share: float, turning: int) -> None:
    frequencies = Proportional(8, 1e6, share).exact()

    assert [frequency > 0 for frequency in frequencies] == [True] * turning + [False] * (
        4 - turning
    )


@dataclass(frozen=True)
class Halved(NamedRule):
    rope_type = "halved"

    truncate: bool = False
    zero: float = 0.0
    left_out: float | None = None
    empty: tuple[float, ...] = ()
    listed: tuple[float, ...] = (1.0, 2.0)

    def exact(self) -> Decimals:
        return [frequency / 2 for frequency in self._unscaled()]


def test_a_rule_spells_all_that_fixes_it_and_nothing_that_is_not_there() -> None:
    """False and 0 are something."""
    assert list(Halved(8, 10000.0).parameters().items()) == [
        ("rotary_dim", 8),
        ("rope_type", "halved"),
        ("rope_theta", 10000.0),
        ("truncate", False),
        ("zero", 0.0),
        ("listed", (1.0, 2.0)),
    ]


def test_a_rule_that_says_no_more_scales_nothing_and_has_nothing_beside() -> None:
    rule = Halved(8, 10000.0)

    assert (rule.count, rule.scale, dict(rule.beside())) == (4, 1.0, {})
    assert rule.exact()[0] == Decimal("0.5")


def test_given_frequencies_are_the_binary_numbers_that_they_are() -> None:
    tenth = 0.1
    rule = Given((tenth, 0.0, 3.0))

    assert rule.exact() == [Decimal(tenth), Decimal(0), Decimal(3)]
    assert str(rule.exact()[0]).startswith("0.1000000000000000055511151231257827")
    assert (rule.count, rule.scale, dict(rule.beside())) == (3, 1.0, {})


def test_given_frequencies_are_spelled_with_their_factor_if_they_have_one() -> None:
    plain = {"rotary_dim": 4, "inv_freq": (1.0, 0.5)}

    assert Given((1.0, 0.5)).parameters() == plain
    assert Given((1.0, 0.5), 1.0).parameters() == plain
    scaled = Given((1.0, 0.5), 1.25)
    assert scaled.parameters() == {**plain, "attention_factor": 1.25}
    assert scaled.scale == 1.25


ORIGINAL, LONGEST = "original_max_position_embeddings", "max_position_embeddings"
FOUR, ROPE_RULES_LONG = (1.0, 1.5, 2.0, 4.0), (8.0, 9.0, 10.0, 11.0)
LISTS = {"short_factor": FOUR, "long_factor": ROPE_RULES_LONG}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}
LONGROPE = {ORIGINAL: 4096, **LISTS}

RULES: dict[str, tuple[str, dict[str, Any], RotaryRule]] = {
    "default": ("default", {}, Default(8, 1e4)),
    "freq_factors": ("default", {"freq_factors": FOUR}, Default(8, 1e4, FOUR)),
    "linear": ("linear", {"factor": 2.0}, Linear(8, 1e4, 2.0)),
    "linear, freq_factors": (
        "linear",
        {"factor": 2.0, "freq_factors": FOUR},
        Linear(8, 1e4, 2.0, FOUR),
    ),
    "dynamic": ("dynamic", {"factor": 2.0, LONGEST: 2048}, Dynamic(8, 1e4, 2.0, 2048, 2048)),
    "dynamic, original": (
        "dynamic",
        {"factor": 2.0, LONGEST: 9000, ORIGINAL: 2048, "context_length": 5000},
        Dynamic(8, 1e4, 2.0, 2048, 5000),
    ),
    "dynamic, alpha": ("dynamic", {"alpha": 1000.0}, DynamicAlpha(8, 1e4, 1000.0)),
    "ntk": ("ntk", {"factor": 8.0}, Ntk(8, 1e4, 8.0)),
    "ntk, mixed": ("ntk", {"factor": 8.0, "mixed_b": 0.625}, Ntk(8, 1e4, 8.0, 0.625)),
    "yarn": (
        "yarn",
        {"factor": 32.0, ORIGINAL: 4096},
        Yarn(8, 1e4, 32.0, 4096, 1.3465735902799727),
    ),
    "yarn, by lengths": (
        "yarn",
        {LONGEST: 131072, ORIGINAL: 4096, "truncate": False},
        Yarn(8, 1e4, 32.0, 4096, 1.3465735902799727, truncate=False),
    ),
    "yarn, mscale": (
        "yarn",
        {"factor": 40.0, ORIGINAL: 4096, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_slow": 2.0},
        Yarn(8, 1e4, 40.0, 4096, 1.0, beta_slow=2.0),
    ),
    "yarn, attention_factor": (
        "yarn",
        {
            "factor": 40.0,
            ORIGINAL: 4096,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "attention_factor": 1.5,
        },
        Yarn(8, 1e4, 40.0, 4096, 1.5),
    ),
    "longrope": (
        "longrope",
        {**LONGROPE, LONGEST: 131072},
        LongRope(8, 1e4, 4096, 4096, 1.1902380714238083, FOUR, ROPE_RULES_LONG),
    ),
    "longrope, factor": (
        "longrope",
        {**LONGROPE, "factor": 32.0, LONGEST: 4096, "context_length": 4097},
        LongRope(8, 1e4, 4096, 4097, 1.1902380714238083, FOUR, ROPE_RULES_LONG),
    ),
    "longrope, attention_factor": (
        "longrope",
        {**LONGROPE, "attention_factor": 1.25},
        LongRope(8, 1e4, 4096, 4096, 1.25, FOUR, ROPE_RULES_LONG),
    ),
    "llama3": ("llama3", LLAMA3, Llama3(8, 1e4, 8.0, 1.0, 4.0, 8192)),
    "proportional": (
        "proportional",
        {"partial_rotary_factor": 0.25},
        Proportional(8, 1e4, 0.25),
    ),
    "proportional, factor": ("proportional", {"factor": 2.0}, Proportional(8, 1e4, 1.0, 2.0)),
}
REQUIRED = {
    "linear": {"factor"},
    "dynamic": {"factor", LONGEST},
    "dynamic, alpha": {"alpha"},
    "ntk": {"factor"},
    "yarn": {"factor", ORIGINAL},
    "longrope, attention_factor": {ORIGINAL, *LISTS},
    "llama3": set(LLAMA3),
}
ROPE_RULES_EVERY_RULE = pytest.mark.parametrize("name", RULES)


def spelled(rope_type: str, keys: dict[str, Any]) -> str:
    lists = {
        key: ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
        for key, value in keys.items()
    }
    return urlencode({"head_dim": 8, "rope_type": rope_type, **lists}, safe=",")


@ROPE_RULES_EVERY_RULE
def test_keys_make_the_rule_that_they_name(name: str) -> None:
    rope_type, keys, expected = RULES[name]

    assert make_rule(rope_type, 8, 1e4, keys) == expected


@ROPE_RULES_EVERY_RULE
def test_every_rule_is_asked_for_by_url_and_by_json(client: Client, name: str) -> None:
    """The answer is spelled in full, and asks for itself again."""
    rope_type, keys, expected = RULES[name]

    answer = client.get(f"/rope/frequencies?{spelled(rope_type, keys)}")
    posted = client.post("/rope/frequencies", json={"head_dim": 8, "rope_type": rope_type, **keys})

    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert posted.content == answer.content
    assert content["parameters"] == json.loads(json.dumps(expected.parameters()))
    assert content["data"]["inv_freq"] == [float(exact) for exact in expected.exact()]
    assert content["data"]["attention_factor"] == expected.scale
    assert list(content["data"])[3:] == list(expected.beside())
    again = client.post("/rope/frequencies", json=content["parameters"])
    assert again.content == answer.content


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, keys in REQUIRED.items() for key in sorted(keys)]
)
def test_a_key_that_is_missing_is_named(client: Client, name: str, key: str) -> None:
    rope_type, keys, _ = RULES[name]
    others = {other: value for other, value in keys.items() if other != key}
    # Without alpha it is the other kind of dynamic.
    named = "factor" if key == "alpha" else key

    answer = client.get(f"/rope/frequencies?{spelled(rope_type, others)}")

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert (fault["parameter"], fault["value"]) == (named, None)
    assert f"{named} is required with rope_type={rope_type}" in fault["detail"]


SOME_VALUE = {
    **dict.fromkeys(TAKEN, 2.0),
    "context_length": 5000,
    ORIGINAL: 4096,
    LONGEST: 8192,
    "partial_rotary_factor": 1.0,
    "truncate": True,
    "short_factor": FOUR,
    "long_factor": FOUR,
    "freq_factors": FOUR,
}


@ROPE_RULES_EVERY_RULE
def test_keys_that_do_not_go_with_a_rule_are_refused_by_name(client: Client, name: str) -> None:
    rope_type, keys, _ = RULES[name]
    # With alpha, dynamic is of another kind.
    strange = TAKEN - taken_by(rope_type, keys) - {"alpha"} | (
        {"alpha"} if rope_type != "dynamic" else set()
    )
    assert strange

    for key in strange:
        answer = client.get(f"/rope?{spelled(rope_type, {**keys, key: SOME_VALUE[key]})}&seq_len=1")

        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["parameter"] == key
        chooser = "alpha" if "alpha" in keys else f"rope_type={rope_type}"
        assert fault["detail"] == f"{key} does not go with {chooser}"


@ROPE_RULES_EVERY_RULE
def test_every_rule_takes_its_keys_and_those_that_all_take(name: str) -> None:
    rope_type, keys, _ = RULES[name]

    taken = taken_by(rope_type, keys)

    assert SHARED | set(keys) <= taken <= TAKEN


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_the_length_that_holds_is_the_one_asked_for_or_the_original(
    client: Client, rope_type: str
) -> None:
    """It is never taken from seq_len, and the answer says which it is."""
    keys = {"factor": 2.0, ORIGINAL: 4096, **(LISTS if rope_type == "longrope" else {})}
    url = f"/rope?{spelled(rope_type, keys)}"

    plain = client.get(f"{url}&seq_len=3").json()
    longer_table = client.get(f"{url}&positions=0,1,5000").json()
    at_original = client.get(f"{url}&seq_len=3&context_length=4096").json()
    past = client.get(f"{url}&seq_len=3&context_length=4097").json()

    lengths = [
        answer["parameters"]["context_length"]
        for answer in (plain, longer_table, at_original, past)
    ]
    assert lengths == [4096, 4096, 4096, 4097]
    assert plain["data"] == at_original["data"]
    assert longer_table["data"][:2] == plain["data"][:2]
    assert past["data"] != plain["data"]


def test_longrope_takes_its_short_factors_up_to_the_original_length(client: Client) -> None:
    keys = {**LONGROPE, LONGEST: 131072}
    url = f"/rope/frequencies?{spelled('longrope', keys)}&part=rescale_factor"

    lists = [
        client.get(f"{url}&context_length={length}").json()["data"]
        for length in (1, 4096, 4097, 131072)
    ]

    assert lists == [[*FOUR], [*FOUR], [*ROPE_RULES_LONG], [*ROPE_RULES_LONG]]


@pytest.mark.parametrize(
    ("rope_type", "change", "named"),
    [
        ("yarn", {"rope_theta": 1.0}, "rope_theta"),
        ("yarn", {"beta_fast": 1.0, "beta_slow": 2.0}, "beta_fast"),
        ("yarn", {"beta_slow": 33.0}, "beta_fast"),
        ("yarn", {"factor": None, LONGEST: 1, ORIGINAL: 2**62}, LONGEST),
        ("yarn", {"factor": None, LONGEST: 2**62, ORIGINAL: 1}, LONGEST),
        ("longrope", {ORIGINAL: 1}, ORIGINAL),
        ("longrope", {"short_factor": (1.0, 2.0)}, "short_factor"),
        ("longrope", {"long_factor": (*FOUR, 1.0)}, "long_factor"),
        ("longrope", {"long_factor": (1.0, 0.0, 1.0, 1.0)}, "long_factor"),
        ("longrope", {"short_factor": (1.0, -1.0, 1.0, 1.0)}, "short_factor"),
        ("longrope", {"short_factor": (1.0, 1e10, 1.0, 1.0)}, "short_factor"),
        ("default", {"freq_factors": (1.0,)}, "freq_factors"),
        ("default", {"freq_factors": (1.0, 1.0, 1e-10, 1.0)}, "freq_factors"),
        ("llama3", {"low_freq_factor": 5.0}, "high_freq_factor"),
        ("dynamic", {"head_dim": 2}, "rope_type"),
        ("linear", {"rope_theta": 1e251}, "rope_theta"),
        ("default", {"rope_theta": 1e251, "freq_factors": FOUR}, "rope_theta"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    client: Client, rope_type: str, change: dict[str, Any], named: str
) -> None:
    plain: dict[str, dict[str, Any]] = {
        "longrope": {**LONGROPE, "factor": 2.0},
        "llama3": LLAMA3,
        "yarn": {"factor": 8.0, ORIGINAL: 4096},
        "dynamic": {"factor": 8.0, LONGEST: 4096},
        "linear": {"factor": 8.0},
        "default": {},
    }
    changed = {**plain[rope_type], **change}
    keys = {key: value for key, value in changed.items() if value is not None}

    answer = client.get(f"/rope/frequencies?{spelled(rope_type, keys)}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [named]


def test_a_base_past_the_scaled_ones_is_right_for_default_alone() -> None:
    assert make_rule("default", 8, 1e300, {}) == Default(8, 1e300)
    with pytest.raises(InvalidParameters):
        make_rule("proportional", 8, 1e300, {})


def test_equal_ends_are_possible(client: Client) -> None:
    """Of llama3 and of the range of yarn; warnings of them are another matter."""
    llama3 = spelled("llama3", {**LLAMA3, "high_freq_factor": 1.0})
    yarn = spelled("yarn", {"factor": 8.0, ORIGINAL: 4096, "beta_fast": 1.0, "truncate": False})

    smooth = client.get(f"/rope/frequencies?{llama3}&part=smooth_factor").json()["data"]
    ramp = client.get(f"/rope/frequencies?{yarn}&part=ramp").json()["data"]

    assert smooth == [1.0, 1.0, 1.0, 1.0]
    assert ramp == [0.0, 0.0, 0.0, 1.0]


def test_bounds_of_factors_are_those_of_the_lists() -> None:
    for bound in (MIN_FACTOR, MAX_FACTOR):
        keys = {"freq_factors": (bound,) * 4}
        assert make_rule("default", 8, 1e4, keys) == Default(8, 1e4, (bound,) * 4)


@pytest.mark.parametrize("name", RULES)
def test_every_number_on_the_way_may_be_asked_for_alone(client: Client, name: str) -> None:
    rope_type, keys, _ = RULES[name]
    url = f"/rope/frequencies?{spelled(rope_type, keys)}"

    every = client.get(url).json()["data"]

    assert set(every) >= {"inv_freq", "wavelength", "attention_factor"}
    for part, values in every.items():
        alone = client.get(f"{url}&part={part}").json()
        assert alone["data"] == values, part


BOUNDS = {
    "head_dim": (1, 65536),
    "rotary_dim": (2, 65536),
    "rope_theta": (1, 1e300),
    "factor": (1e-9, 1e9),
    "max_position_embeddings": (1, 2**62),
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
    "partial_rotary_factor": (None, 1),
}


def errors(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["parameter"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_past_their_bounds_are_refused(client: Client, name: str) -> None:
    least, most = BOUNDS[name]
    outside = {-1, 0, most * 2, *([] if least is None else [least / 2 if least < 1 else least - 1])}
    for value in outside - {least}:
        others = {"head_dim": 8} if name != "head_dim" else {}
        answer = client.get(f"/rope/frequencies?{urlencode({**others, name: value})}")
        assert errors(answer) == [name], value


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "0x10", "1_0", "", " 1"])
def test_only_numbers_are_numbers(client: Client, value: str) -> None:
    for name in ("factor", "rope_theta", "mscale", "short_factor"):
        answer = client.get("/rope/frequencies?" + urlencode({"head_dim": 8, name: value}))
        assert errors(answer) == [name]


def test_every_bound_that_is_named_is_that_of_a_key() -> None:
    lists = {"short_factor", "long_factor", "freq_factors", "truncate"}

    assert TAKEN - lists == set(BOUNDS) - {"head_dim", "rotary_dim", "rope_theta"}
    assert set(RuleParameters.model_fields) == set(BOUNDS) | lists | {"rope_type", "inv_freq"}


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
    ],
)
def test_as_many_channels_turn_as_the_parameters_say(
    client: Client, query: str, rotary_dim: int
) -> None:
    content = client.get(f"/rope/frequencies?{query}").json()

    assert content["parameters"]["rotary_dim"] == rotary_dim
    assert content["shape"]["inv_freq"] == [rotary_dim // 2]


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"factor": 2}, "factor"),
        ({"freq_factors": "1,2"}, "freq_factors"),
        ({"rope_theta": 10000}, "rope_theta"),
        ({"rope_type": "yarn"}, "rope_type"),
        ({"rotary_dim": 8}, "inv_freq"),
        ({"head_dim": 2}, "inv_freq"),
    ],
)
def test_frequencies_given_outright_leave_nothing_to_say(
    client: Client, beside: dict[str, Any], named: str
) -> None:
    query = urlencode({"inv_freq": "1,0.5", **beside})

    assert errors(client.get(f"/rope/frequencies?{query}")) == [named]


def test_frequencies_given_outright_may_have_an_attention_factor(client: Client) -> None:
    content = client.get("/rope.json?inv_freq=1,0&positions=0&attention_factor=1.25").json()

    assert content["parameters"]["attention_factor"] == 1.25
    assert content["data"] == [[[1.25, 0.0], [1.25, 0.0]]]


def test_max_position_embeddings_is_the_length_where_nothing_else_says_it(client: Client) -> None:
    url = "/rope?head_dim=4&max_position_embeddings=5"

    lengths = [client.get(url + more).json()["shape"][0] for more in ("", "&seq_len=2", "&start=7")]
    listed = client.get(f"{url}&positions=1,2,3").json()

    assert lengths == [5, 2, 5]
    assert listed["parameters"]["positions" if "positions" in listed["parameters"] else "seq_len"]
    assert listed["shape"][0] == 3
    assert errors(client.get("/rope?head_dim=4")) == ["seq_len"]
    assert "max_position_embeddings" not in client.get(url).json()["parameters"]


def test_freq_factors_divide_frequencies_one_by_one(client: Client) -> None:
    url = "/rope/frequencies?head_dim=4&rope_theta=10000"

    plain = client.get(url).json()["data"]["inv_freq"]
    divided = client.get(f"{url}&freq_factors=2,0.5").json()

    assert plain == [1.0, 0.01]
    assert divided["data"]["inv_freq"] == [0.5, 0.02]
    assert divided["parameters"]["freq_factors"] == [2.0, 0.5]


def test_defaults_are_those_of_the_paper(client: Client) -> None:
    spelled_out = f"/rope?head_dim=8&seq_len=2&rope_type=default&rope_theta={DEFAULT_ROPE_THETA:g}"

    plain, named = client.get("/rope?head_dim=8&seq_len=2"), client.get(spelled_out)

    assert plain.headers["ETag"] == named.headers["ETag"]


def test_two_spellings_of_a_number_are_one_table(client: Client) -> None:
    urls = [
        f"/rope?head_dim=8&seq_len=2&rope_type=linear&factor={factor}&rope_theta={theta}"
        for factor, theta in [("8", "1e4"), ("8.0", "10000"), ("0.8e1", "10000.000")]
    ]

    assert len({client.get(url).headers["ETag"] for url in urls}) == 1


# What follows holds at the bounds of every key, and anywhere between.
def within(least: float, most: float) -> st.SearchStrategy[float]:
    low, high = np.log10(least), np.log10(most)
    anywhere = st.floats(low, high).map(lambda exponent: min(max(10.0**exponent, least), most))
    return st.one_of(st.sampled_from([least, most]), anywhere)


LENGTHS = st.one_of(st.sampled_from([1, 2, 2**62]), st.integers(1, 2**62), st.integers(1, 10**6))
ROPE_PARAMETERS_FACTORS = within(1e-9, 1e9)
BASES = within(1.0, 1e250)
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "factor": ROPE_PARAMETERS_FACTORS,
    "alpha": ROPE_PARAMETERS_FACTORS,
    "mixed_b": within(1e-9, 16.0),
    "beta_fast": ROPE_PARAMETERS_FACTORS,
    "beta_slow": ROPE_PARAMETERS_FACTORS,
    "truncate": st.booleans(),
    "mscale": st.one_of(st.just(0.0), within(1e-9, 1000.0)),
    "mscale_all_dim": st.one_of(st.just(0.0), within(1e-9, 1000.0)),
    "attention_factor": within(1e-9, 10000.0),
    "low_freq_factor": ROPE_PARAMETERS_FACTORS,
    "high_freq_factor": ROPE_PARAMETERS_FACTORS,
    "partial_rotary_factor": within(1e-9, 1.0),
    "original_max_position_embeddings": LENGTHS,
    "max_position_embeddings": LENGTHS,
    "context_length": LENGTHS,
}
OF_TYPE: dict[str, list[str]] = {
    "default": ["freq_factors"],
    "linear": ["factor", "freq_factors"],
    "dynamic": ["factor", "original_max_position_embeddings", "context_length"],
    "dynamic ": ["alpha"],
    "ntk": ["factor"],
    "ntk ": ["factor", "mixed_b"],
    "yarn": ["factor", "original_max_position_embeddings"],
    "yarn ": ["original_max_position_embeddings", "max_position_embeddings", "truncate"],
    "yarn  ": [
        "factor",
        "original_max_position_embeddings",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "beta_fast",
        "beta_slow",
    ],
    "longrope": [
        "original_max_position_embeddings",
        "max_position_embeddings",
        "context_length",
        "short_factor",
        "long_factor",
    ],
    "longrope ": [
        "original_max_position_embeddings",
        "attention_factor",
        "short_factor",
        "long_factor",
    ],
    "llama3": ["factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"],
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
    keys: dict[str, Any] = {
        "head_dim": 2 * pairs,
        "rope_type": kind.strip(),
        "rope_theta": draw(BASES),
    }
    for name in OF_TYPE[kind]:
        lists = st.lists(ROPE_PARAMETERS_FACTORS, min_size=pairs, max_size=pairs)
        keys[name] = draw(KEYS.get(name, lists))
    if {"beta_fast", "beta_slow"} <= set(keys):
        keys["beta_slow"], keys["beta_fast"] = sorted((keys["beta_slow"], keys["beta_fast"]))
    if "high_freq_factor" in keys:
        ends = sorted((keys["low_freq_factor"], keys["high_freq_factor"]))
        keys["low_freq_factor"], keys["high_freq_factor"] = ends
    return keys


def check_refusal(answer: httpx.Response, keys: dict[str, Any]) -> None:
    """Only what is known to be impossible at the bounds is refused."""
    named = errors(answer)
    possible = {
        "rope_theta": keys["rope_theta"] == 1 and keys["rope_type"] == "yarn",
        "rope_type": keys["head_dim"] == 2 and keys["rope_type"] == "dynamic",
        "original_max_position_embeddings": keys.get("original_max_position_embeddings") == 1,
        "max_position_embeddings": "factor" not in keys,
    }
    assert len(named) == 1
    assert possible[named[0]], answer.text


@settings(max_examples=300)
@given(
    keys=requests(),
    positions=POSITIONS,
    dtype=st.sampled_from(sorted(REAL_DTYPES)),
    angle=st.sampled_from(["exact", "float32"]),
    pack=st.sampled_from(["concat", "pair", "angle"]),
)
def test_no_table_has_a_number_that_is_none(
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


@settings(max_examples=200)
@given(keys=requests())
def test_no_frequency_is_a_number_that_is_none(client: Client, keys: dict[str, Any]) -> None:
    answer = client.post("/rope/frequencies.json", json=keys)

    if answer.status_code != 200:
        check_refusal(answer, keys)
        return

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(answer.content, parse_constant=refuse)
    data = content["data"]
    for frequency, wavelength in zip(data["inv_freq"], data["wavelength"], strict=True):
        assert frequency >= 0
        assert (wavelength is None) == (frequency == 0)
    assert all(
        value is not None
        for name, values in data.items()
        if name != "wavelength"
        for value in (values if isinstance(values, list) else [values])
    )
    again = client.post("/rope/frequencies.json", json=content["parameters"])
    assert again.content == answer.content


def test_every_rope_type_is_tried() -> None:
    assert {kind.strip() for kind in OF_TYPE} == set(get_args(RopeType))


def test_proportional_heads_are_all_rotary(client: Client) -> None:
    url = "/rope/frequencies?rope_type=proportional&partial_rotary_factor=0.5&head_dim=8"

    faults = client.get(f"{url}&rotary_dim=4").json()["errors"]

    assert [(fault["parameter"], fault["value"]) for fault in faults] == [("rotary_dim", "4")]
    assert client.get(f"{url}&rotary_dim=8").json() == client.get(url).json()


@pytest.mark.parametrize(
    ("named", "head_dim", "expected"),
    [
        ({}, None, None),
        ({}, 128, 128),
        ({"rotary_dim": 64}, None, 64),
        ({"rotary_dim": 64}, 128, 64),
        ({"partial_rotary_factor": 0.4}, 80, 32),
        ({"partial_rotary_factor": 0.41}, 80, 32),
    ],
)
def test_the_channels_that_turn_are_those_named(
    named: dict[str, float], head_dim: int | None, expected: int | None
) -> None:
    assert WidthParameters.model_validate(named).turning_channels(head_dim) == expected


@pytest.mark.parametrize(
    ("named", "head_dim", "parameter"),
    [
        ({}, 7, "head_dim"),
        ({"rotary_dim": 64}, 32, "rotary_dim"),
        ({"rotary_dim": 4, "partial_rotary_factor": 0.5}, 8, "partial_rotary_factor"),
        ({"partial_rotary_factor": 0.5}, None, "head_dim"),
        ({"partial_rotary_factor": 0.5}, 10, "partial_rotary_factor"),
        ({"partial_rotary_factor": 0.01}, 10, "partial_rotary_factor"),
    ],
)
def test_channels_that_cannot_turn_name_what_they_came_from(
    named: dict[str, float], head_dim: int | None, parameter: str
) -> None:
    with pytest.raises(InvalidParameters) as caught:
        WidthParameters.model_validate(named).turning_channels(head_dim)

    assert [fault.where for fault in caught.value.faults] == [parameter]


def test_nothing_is_said_of_channels_that_nobody_knows() -> None:
    assert paired("head_dim", None, None) is None
