"""What every rotary rule is, and frequencies that are given outright."""

from dataclasses import dataclass
from decimal import Decimal

from service.tables.rotary_rule import Given, NamedRule
from service.tables.scaling import Decimals


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
