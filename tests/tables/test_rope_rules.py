"""Rotary rules by ``rope_type``: what their keys make of frequencies, and how they are spelled."""

from dataclasses import fields
from decimal import Decimal

import pytest

from service.tables import scaling
from service.tables.angle import Float64s
from service.tables.decimals import DecimalTable
from service.tables.dtypes import FLOAT64
from service.tables.rope_rules import (
    Default,
    Dynamic,
    DynamicAlpha,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Yarn,
)
from service.tables.rotary_rule import NamedRule, RotaryRule
from service.tables.scaling import Decimals
from service.tables.table import size

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
