"""The grammar of values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import grammar
from service.errors import shortened
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions, RealPositions


@pytest.mark.parametrize(("text", "value"), [("007", 7), ("-0", 0), (5, 5)])
def test_integer_is_digits_with_an_optional_minus(text: object, value: int) -> None:
    assert value == grammar.integer(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "1_000", " 5", "5 ", "5.0", "+5", "0x5", "1e3", "--5", "\u0665", "nan", "1" * 41),
        *(5.0, True, None, []),
    ],
)
def test_other_text_is_no_integer(text: object) -> None:
    with pytest.raises(ValueError, match="must be an integer"):
        grammar.integer(text)


def test_only_where_an_integer_may_be_negative_the_example_is() -> None:
    with pytest.raises(ValueError, match=r"such as 4 or -4$"):
        grammar.integer("2x4")
    with pytest.raises(ValueError, match=r"such as 4$"):
        grammar.integers("2x4")


@pytest.mark.parametrize(("text", "value"), [("1E+4", 1e4), (3, 3.0), (0.1, 0.1)])
def test_real_has_the_grammar_of_json_numbers(text: object, value: float) -> None:
    assert value == grammar.real(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "1_0", ".5", "5.", "01", "+1", "1e", "nan", "inf", "Infinity", "0x1p3", " 1", "1,0"),
        *(True, None, "1e400", "-1e400", float("inf"), float("nan"), 10**400, "0." + "1" * 800),
    ],
)
def test_other_text_is_no_real(text: object) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        grammar.real(text)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), (True, True)])
def test_boolean_is_true_or_false(text: object, value: bool) -> None:
    assert value is grammar.boolean(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("True", "; did you mean true?"),
        ("1", "; did you mean true?"),
        (1, "; did you mean true?"),
        ("yes", "; did you mean true?"),
        ("FALSE", "; did you mean false?"),
        (0, "; did you mean false?"),
        ("t", ""),
        ("", ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_other_text_is_no_boolean(text: object, hint: str) -> None:
    with pytest.raises(ValueError, match="must be true or false") as refused:
        grammar.boolean(text)

    assert str(refused.value) == f"must be true or false{hint}"


def test_list_of_reals_is_comma_separated_or_a_json_array() -> None:
    assert (1.0, 0.5) == grammar.reals("1,0.5") == grammar.reals([1, 0.5])


@pytest.mark.parametrize("text", ["", "1,", "1;2", [], [True], 3, {"a": 1}])
def test_other_text_is_no_list_of_reals(text: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        grammar.reals(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0,1,2,3", "0:4"),
        ([0, 1, "2:4"], "0:4"),
        (7, "7"),
        (f"{-MAX_POSITION},{MAX_POSITION}", f"{-MAX_POSITION},{MAX_POSITION}"),
    ],
)
def test_positions_are_integers_and_half_open_ranges(text: object, canonical: str) -> None:
    assert canonical == str(grammar.positions(text))


@pytest.mark.parametrize(
    ("text", "hint"),
    [("100000-100010", ": write 100000:100011"), ("0,5-5", ": write 5:6"), ("9-3", "an integer")],
)
def test_a_range_with_a_hyphen_is_refused_with_its_colon(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        grammar.positions(text)


def outcome(parse: Callable[[Any], object], value: object) -> str:
    """Return what a parser returns, or the rule of its error."""
    try:
        return str(parse(value))
    except ValueError as error:
        return str(error)


ITEMS = [
    "0",
    "7",
    "-3",
    "0:2",
    "5:-1:-2",
    "3:3",
    "1:2:0",
    "1:2:3:4",
    "--",
    "8-",
    ":1",
    "9.",
    "０",
    "5_0",
]
LIMITS = [f"{-MAX_POSITION}:{MAX_POSITION + 1}", f"{MAX_POSITION}", f"0:1:{2**63}", "1" * 19, ""]


@given(st.lists(st.sampled_from([*ITEMS[:5], *ITEMS, *LIMITS])))
def test_a_long_list_of_positions_is_parsed_as_its_items_are(items: list[str]) -> None:
    listed = [*["1000:1002"] * 40, *items]

    assert outcome(grammar.positions, ",".join(listed)) == outcome(grammar.positions, listed)


NUMBERS = [
    "0",
    "-0",
    "1.5",
    "-2e-3",
    "1E+5",
    "0.0",
    "01",
    "-05",
    "1.",
    ".5",
    "+1",
    "1e",
    "1_0",
    "nan",
    "1e400",
    "0x1",
    "０",
    "1.e5",
]


@given(st.lists(st.sampled_from([*NUMBERS[:5], *NUMBERS, " 1", "", "1" * 900]), min_size=1))
def test_a_list_of_reals_is_parsed_as_its_items_are(items: list[str]) -> None:
    rule = "must be a list of numbers with commas between them"
    outcomes = [outcome(grammar.real, item) for item in items]
    wrong = (i for i, each in enumerate(outcomes) if each.startswith("must"))
    first = next(wrong, None)
    if first is None:
        expected = str(tuple(map(grammar.real, items)))
    elif items == [""]:
        expected = f"{rule}, not empty"
    else:
        broken = (
            f"{shortened(items[first])} {outcomes[first]}" if items[first] else "an item is empty"
        )
        expected = f"{rule}, and {broken}"

    assert outcome(grammar.reals, ",".join(items)) == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not empty"),
        ([], "not empty"),
        ({}, "not empty"),
        ("1,,2", "integers and ranges .*, and an item is empty"),
        ("5:5", "and 5:5 is empty"),
        ("5:1", "and 5:1 is empty"),
        ("1:5:-1", "1:5:-1 is empty"),
        ("1:5:0", "1:5:0 has a step of 0"),
        ("1:2:3:4", "1:2:3:4 has too many parts"),
        (":5", "must be an integer"),
        ("1.5", "must be an integer"),
        (True, "must be a list"),
        ([1.5], "must be an integer"),
        (str(2**62 + 1), "must lie within"),
        (f"0:{2**62 + 2}", "must lie within"),
        (f"{-(2**62)}:{2**62},{-(2**62)}:{2**62}", "fewer than"),
    ],
)
def test_invalid_positions_are_refused_with_the_rule(text: object, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        grammar.positions(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 20, 3), "1,20,3"),
        ((0.5, -1e-7, 2.0), "0.5,-1e-07,2"),
        ((), ""),
        (True, "true"),
        (1e300, "1e+300"),
        ("yarn", "yarn"),
        (Positions.contiguous(0, 3), "0:3"),
    ],
)
def test_values_are_formatted_for_a_query(value: object, expected: str) -> None:
    assert grammar.to_query(value) == expected


@pytest.mark.parametrize("value", [5, 5.0, 0.5, True, "0:4"])
def test_numbers_and_text_are_the_same_in_json(value: object) -> None:
    assert grammar.to_json(value) is value


def test_other_values_are_text_in_json_as_in_a_query() -> None:
    assert grammar.to_json((1.0, 2.5)) == "1,2.5"
    assert grammar.to_json(grammar.positions("0,5,9:20:2")) == "0,5,9:20:2"


@pytest.mark.parametrize("value", ["", [], 5, "1,", "1.5", ["x"], None])
def test_list_of_integers_is_comma_separated(value: object) -> None:
    assert grammar.integers("1,-2") == grammar.integers([1, -2]) == (1, -2)
    with pytest.raises(ValueError, match="integer"):
        grammar.integers(value)


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("0,0.5,-17.25", (0.0, 0.5, -17.25)),
        ([0, 0.5, 3], (0.0, 0.5, 3.0)),
        ((0.1, "0.2"), (0.1, 0.2)),
        ("-0.0,0.5", (0.0, 0.5)),
    ],
)
def test_one_fraction_makes_positions_real(value: object, numbers: tuple[float, ...]) -> None:
    assert grammar.real_positions(value) == RealPositions(np.array(numbers))


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("0,5,9:20:2", "0,5,9:20:2"),
        ("0.0,1.0,2", "0:3"),
        ("1e3", "1000"),
        ([1.0, 2.0, 3.0], "1:4"),
        ([-0.0], "0"),
        (7, "7"),
        ("4611686018427387904.0", str(2**62)),
        (["3:6", 9], "3:6,9"),
    ],
)
def test_whole_positions_are_integers_in_any_notation(value: object, canonical: str) -> None:
    read = grammar.real_positions(value)

    assert isinstance(read, Positions)
    assert str(read) == canonical


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0.5,3:5", "without ranges where some are fractions, and 3:5 must be a number"),
        ("0.5,,1", "and an item is empty"),
        ("0.5,x", "and x must be a number"),
        ("0.5,01", "and 01 must be a number spelled as in JSON"),
        (".5", "must be a number spelled as in JSON"),
        ([0.5, True], "must be a number"),
        ([0.5, None], "must be a number"),
        ([0.5, [1]], "must be a number"),
        ([float("nan")], "must be a number within the range of binary64"),
        ("1e400", "must be a number within the range of binary64"),
        ("0.5,1e19", "must lie within ±2\\^62, from 1e-30 on, and 1e\\+19 does not"),
        ("0.5,1e-31", "must lie within ±2\\^62, from 1e-30 on, and 1e-31 does not"),
        ([5e18], "must lie within"),
        ("1.0,1e300", "must lie within"),
        ("5:5", "is empty"),
        ("", "not empty"),
        ([], "not empty"),
        (True, "must be a list"),
        (None, "must be a list"),
    ],
)
def test_invalid_real_positions_are_refused_with_the_rule(value: object, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        grammar.real_positions(value)


def test_first_invalid_item_of_a_list_is_named() -> None:
    rule = "must be a list of numbers with commas between them, and x must be a number"
    with pytest.raises(ValueError, match=rule):
        grammar.reals("1,2,x,y")


@pytest.mark.parametrize("text", ["1" * 20, "-" + "1" * 20, "0" * 39 + "1", "1" * 40])
def test_long_integers_are_refused_as_positions_out_of_range(text: str) -> None:
    if abs(int(text)) > 2**62:
        with pytest.raises(ValueError, match="must lie within"):
            grammar.positions(f"0,{text}")
    else:
        assert grammar.positions(text).first == int(text)
