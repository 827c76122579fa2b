"""The grammar of values: numbers, lists and ranges, in queries, command lines and JSON bodies.

Values of JSON, which have a type already, follow the same rules as text. Every parser raises
ValueError with the rule that a value breaks.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BeforeValidator

from service.errors import shortened
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.positions import (
    MIN_REAL_POSITION,
    AnyPositions,
    Positions,
    RealPositions,
    Run,
    first_out_of_range,
)

Item = TypeVar("Item")

_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_REAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
# What ``float`` reads and JSON does not have, in numbers with commas around each.
_NOT_JSON = re.compile(r"[^0-9.eE+,-]|[^0-9]\.|\.[^0-9]|[^eE]\+|,-?0[0-9]")
_CLOSED_RANGE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_POINT = re.compile(r"[.eE]")
_BOOLEANS = {"true": True, "false": False}
_OTHER_BOOLEANS = {"1": "true", "yes": "true", "on": "true", "0": "false", "no": "false"}
_POSITIONS_RULE = "a list of integers and ranges start:stop[:step]"
_MAX_INTEGER_DIGITS = 40
_MAX_REAL_LENGTH = 800

# A shorter list is parsed item by item in less time.
_SHORT_LIST_LENGTH = 256

# An integer with its sign and what ends it, short enough for int64 and the range of positions.
_LONGEST_PLAIN = 19


def integer(value: Any, *, example: str = "4 or -4") -> int:
    """Parse an integer: ``-?[0-9]+``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        raise ValueError(f"must be an integer: digits, such as {example}")
    if len(value) > _MAX_INTEGER_DIGITS:
        raise ValueError(f"must be an integer of at most {_MAX_INTEGER_DIGITS} digits")
    return int(value)


class Misspelled(ValueError):
    """A value that breaks a rule, with the one that is likely meant, if there is one."""

    def __init__(self, rule: str, near: str | None, suggestion: str | None = None) -> None:
        super().__init__(f"{rule}; did you mean {near}?" if near else rule)
        self.suggestion = near and (suggestion or near)


def real(value: Any) -> float:
    """Parse a number of JSON: the nearest binary64, which must be finite."""
    if type(value) is float and isfinite(value):
        return value + 0.0
    number = _number(value)
    if not isfinite(number):
        raise ValueError("must be a number within the range of binary64")
    # -0 becomes 0: two equal parameters must not make tables of different bytes.
    return number + 0.0


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError("must be a number within the range of binary64") from error
    if not isinstance(value, str) or not _REAL.fullmatch(value):
        raise ValueError("must be a number spelled as in JSON: 10000, 1e4, 0.5")
    if len(value) > _MAX_REAL_LENGTH:
        raise ValueError(f"must be a number of at most {_MAX_REAL_LENGTH} characters")
    return float(value)


def boolean(value: Any) -> bool:
    """Parse ``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value not in _BOOLEANS:
        lower = str(value).lower()
        suggestion = lower if lower in _BOOLEANS else _OTHER_BOOLEANS.get(lower)
        raise Misspelled("must be true or false", suggestion)
    return _BOOLEANS[value]


def reals(value: Any) -> tuple[float, ...]:
    """Parse a list of numbers, with commas between them."""
    rule = "a list of numbers with commas between them"
    return _parse_reals(_split(value, rule), rule)


def _parse_reals(items: list[Any] | tuple[Any, ...], rule: str) -> tuple[float, ...]:
    """Parse the numbers of a list, all at once if they are valid text."""
    are_short = {*map(type, items)} == {str} and max(map(len, items)) <= _MAX_REAL_LENGTH
    if are_short and not _NOT_JSON.search(f",{','.join(items)},"):
        with suppress(ValueError):
            # -0 becomes 0, as in ``real``.
            numbers = np.array(list(map(float, items))) + 0.0
            if np.isfinite(numbers).all():
                return tuple(numbers.tolist())
    return _parse_items(real, items, rule)


def integers(value: Any) -> tuple[int, ...]:
    """Parse a list of integers, with commas between them."""
    rule = "a list of integers with commas between them"
    return _parse_items(partial(integer, example="4"), _split(value, rule), rule)


def _split(value: Any, rule: str) -> list[Any] | tuple[Any, ...]:
    items = value.split(",") if value and isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not items:
        raise ValueError(f"must be {rule}{', not empty' if items in ('', [], (), {}) else ''}")
    return items


def positions(value: Any) -> Positions:
    """Parse a list of integers and half-open ranges: ``0,5,9:20:2``; a list of them in JSON."""
    is_long = isinstance(value, str) and len(value) > _SHORT_LIST_LENGTH
    columns = _plain_runs(value) if is_long else None
    if columns is not None:
        return Positions.of_columns(*columns)
    items = _split([value] if type(value) is int else value, _POSITIONS_RULE)
    if {*map(type, items)} == {int} and -MAX_POSITION <= min(items) <= max(items) <= MAX_POSITION:
        return Positions.of_integers(np.array(items, dtype=np.int64))
    runs = list(_runs(items))
    if sum(1 if isinstance(run, int) else run.count for run in runs) > 2**63 - 1:
        raise ValueError("must be fewer than 2^63 positions")
    return Positions.of_runs(runs)


def _plain_runs(value: str) -> tuple[Int64s, Int64s, Int64s] | None:
    """Return the columns of Positions for the items of a list, all parsed at once.

    It is None for other text, among it all that is invalid or has very large numbers.
    """
    text = np.frombuffer(f"{value},".encode(), dtype=np.uint8)
    is_digit = (text >= ord("0")) & (text <= ord("9"))
    ends_number = (text == ord(",")) | (text == ord(":"))
    begins_number = np.append(True, ends_number[:-1])
    is_sign = (text == ord("-")) & begins_number
    (ends,) = np.nonzero(ends_number)
    if (
        not (is_digit | is_sign | ends_number).all()
        or not is_digit[ends - 1].all()
        or np.diff(ends, prepend=-1).max() > _LONGEST_PLAIN
    ):
        return None
    numbers = np.fromstring(value.replace(":", ","), dtype=np.int64, sep=",")
    begins_item = text[ends[:-1]] == ord(",")
    begins = np.flatnonzero(np.append(True, begins_item))
    first, stop, step = numbers[begins], numbers[begins] + 1, np.ones_like(begins)
    parts = np.diff(begins, append=len(numbers))
    stop[parts > 1] = numbers[begins[parts > 1] + 1]
    step[parts > 2] = numbers[begins[parts > 2] + 2]
    if not step.all():
        return None
    more = -((first - stop) // step) - 1
    is_valid = parts.max() <= 3 and more.min() >= 0 and more.sum(dtype=np.float64) < MAX_POSITION
    return (first, step, more) if is_valid else None


def real_positions(value: Any) -> AnyPositions:
    """Parse positions that may be fractions: a list of numbers, if one is not an integer."""
    if isinstance(value, str):
        items: Any = value.split(",") if _POINT.search(value) else ()
    else:
        items = [value] if isinstance(value, float) else value
    if not isinstance(items, list | tuple) or not any(map(_is_fractional, items)):
        return positions(value)
    rule = "a list of numbers, without ranges where some are fractions"
    parsed = RealPositions(np.array(_parse_reals(items, rule)))
    invalid = first_out_of_range(parsed.numbers)
    if invalid is not None:
        raise ValueError(
            f"must lie within ±2^62, from {MIN_REAL_POSITION:g} on, and {invalid} does not"
        )
    return parsed.whole() if parsed.is_whole else parsed


def _is_fractional(item: Any) -> bool:
    """Return whether an item has the notation of a fraction, as 1.0 has."""
    return isinstance(item, float) or (isinstance(item, str) and bool(_POINT.search(item)))


def _runs(items: list[Any] | tuple[Any, ...]) -> Iterator[Run | int]:
    for item in items:
        run = _parse_item(_run, item, _POSITIONS_RULE)
        farthest = abs(run) if isinstance(run, int) else max(abs(run.first), abs(run.last))
        if farthest > MAX_POSITION:
            raise ValueError(f"must lie within ±2^62, and {shortened(str(item))} does not")
        yield run


def _parse_items(
    parse: Callable[[Any], Item], items: list[Any] | tuple[Any, ...], rule: str
) -> tuple[Item, ...]:
    """Parse the items of a list; look for the invalid one only after a failure."""
    try:
        return tuple([parse(item) for item in items])
    except ValueError:
        return tuple(_parse_item(parse, item, rule) for item in items)


def _parse_item(parse: Callable[[Any], Item], item: Any, rule: str) -> Item:
    """Parse an item of a list; the error names it."""
    try:
        return parse(item)
    except ValueError as error:
        broken = "an item is empty" if item == "" else f"{shortened(item)} {error}"
        raise ValueError(f"must be {rule}, and {broken}") from error


def _run(item: Any) -> Run | int:
    if not isinstance(item, str) or ":" not in item:
        closed = _CLOSED_RANGE.fullmatch(item) if isinstance(item, str) else None
        if closed is not None and int(closed[1]) <= int(closed[2]):
            raise ValueError(f"is no range: write {closed[1]}:{int(closed[2]) + 1}")
        return integer(item)
    bounds = item.split(":")
    if len(bounds) > 3:
        raise ValueError("has too many parts")
    start, stop, step = (integer(bound) for bound in [*bounds, "1"][:3])
    if step == 0:
        raise ValueError("has a step of 0")
    count = -((start - stop) // step)
    if count <= 0:
        raise ValueError("is empty")
    return Run(start, step, count)


def to_query(value: Any) -> str:
    """Format a value for a query: a list with commas, a whole number without a point."""
    if isinstance(value, tuple | list):
        return ",".join(map(to_query, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value)


def to_json(value: Any) -> str | float:
    """Format a value for JSON: a number or text as it is, others as for a query."""
    return value if isinstance(value, str | int | float) else to_query(value)


# The grammar as types of pydantic models.
Integer = Annotated[int, BeforeValidator(integer)]
Real = Annotated[float, BeforeValidator(real)]
Boolean = Annotated[bool, BeforeValidator(boolean)]
