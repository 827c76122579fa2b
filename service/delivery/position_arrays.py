"""Arrays of positions in a body: they are the values of the parameters of the same names.

Their names are reserved: no endpoint with a parameter ``positions`` has another use for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from service.encodings.family import Parameters
from service.errors import InvalidBody
from service.formats.format import MAX_INTEGERS, UNNAMED, Input
from service.formats.json_text import read_array
from service.grammar import to_query
from service.numerics.dtypes import COMPLEX_DTYPES, INT64, to_float64
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Numbers, PositionArray, are_out_of_range
from service.numerics.repeated_rows import MAX_KEPT_BYTES
from service.numerics.tables import StoredTable, size

POSITIONS = "positions"
ALIAS = "position_ids"
DECODED = "decode_position_ids"
"""The positions of decoded tokens: those of rows where no others are sent."""

LENGTHS = ("cu_seqlens", "seqlen_offsets")


@cache
def ignored() -> tuple[str, ...]:
    """Return the arrays that an answer of /positions has beside positions.

    No table depends on them.
    """
    from service.encodings.positions.position_ids import ARRAYS

    return tuple(name for name in ARRAYS if name not in {ALIAS, *LENGTHS})


POSITION_SECONDS = 1.9e-7
"""The processor seconds of finding and hashing the distinct ones among positions, for each."""

# Positions, the distinct ones, the place of each, and what sorting them needs.
_POSITION_BYTES = 6 * 8

# The widest rows that are kept.
_ROW_BYTES = 64 * 1024

# Up to here every integer is a float64.
_EXACT_LIMIT = 2.0**53


def takes_positions(model: type[Parameters]) -> bool:
    """Return whether bodies with these parameters may have arrays of positions."""
    return POSITIONS in model.model_fields


def held_bytes_of_positions(elements: int) -> int:
    """Return the memory of a table at so many sent positions, its distinct rows included."""
    return elements * _POSITION_BYTES + min(MAX_KEPT_BYTES, elements * _ROW_BYTES)


def with_positions(content: Input, *, is_only: bool) -> Input:
    """Return the content of a body with its arrays of positions as parameters.

    A flat list or text in JSON remains a parameter as it is. Raises InvalidBody.

    Args:
        content: the arrays and the parameters.
        is_only: whether an array without a name is one of positions.
    """
    arrays, parameters = dict(content.arrays), dict(content.parameters)
    if {"kind", "type", "data"} <= parameters.keys():
        rule = "the body is an answer: send its data as positions, or an answer in safetensors"
        raise InvalidBody(rule, "/data")
    if is_only and not content.is_named:
        arrays = {POSITIONS: arrays[UNNAMED]}
    for name in (POSITIONS, ALIAS, *LENGTHS, *ignored()):
        if _is_nested(parameters.get(name)):
            arrays[name] = read_array(name, parameters.pop(name))
    for source in (arrays, parameters):
        if ALIAS in source:
            if POSITIONS in arrays or POSITIONS in parameters:
                rule = f"{ALIAS} is another name of {POSITIONS}: send one of them"
                raise InvalidBody(rule, f"/{ALIAS}")
            source[POSITIONS] = source.pop(ALIAS)
    _take_others(arrays, parameters)
    if POSITIONS in arrays:
        sent = _positions(arrays.pop(POSITIONS), is_text=content.is_text)
        parameters[POSITIONS] = replace(sent, names=tuple(content.coordinates.split(",")))
    parameters |= {name: _lengths(name, arrays.pop(name)) for name in LENGTHS if name in arrays}
    return replace(content, arrays=arrays, parameters=parameters)


def _take_others(arrays: dict[str, StoredTable], parameters: dict[str, Any]) -> None:
    """Take out what is ignored beside positions; positions of decoded tokens may be those."""
    has_positions = POSITIONS in arrays or POSITIONS in parameters
    sources: tuple[dict[str, Any], ...] = (arrays, parameters)
    for source in sources:
        if DECODED in source and not has_positions:
            source[POSITIONS], has_positions = source.pop(DECODED), True
    for source in sources:
        for name in ignored():
            if source.pop(name, None) is not None and not has_positions:
                rule = f"{name} is sent beside {POSITIONS}, which is missing"
                raise InvalidBody(rule, f"/{name}")


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, list) for item in value)


def _positions(table: StoredTable, *, is_text: bool) -> PositionArray:
    if table.dtype in COMPLEX_DTYPES or table.elements.dtype == np.bool_:
        raise _invalid(POSITIONS, "must hold integers or real numbers")
    if size(table) > MAX_INTEGERS:
        raise _invalid(POSITIONS, f"has {size(table)} numbers: at most {MAX_INTEGERS} are possible")
    numbers: Numbers = table.elements
    if table.dtype is INT64:
        is_wrong = (numbers > MAX_POSITION) | (numbers < -MAX_POSITION)
    else:
        numbers = to_float64(numbers, table.dtype)
        is_wrong = are_out_of_range(numbers)
    rule = "must hold finite numbers within ±2^62, fractions from 1e-30 on"
    if is_text and not is_wrong.any():
        is_wrong, rule = np.abs(numbers) >= _EXACT_LIMIT, "must be of int64, not JSON, from 2^53 on"
    if is_wrong.any():
        index = np.unravel_index(is_wrong.argmax(), is_wrong.shape)
        place = "".join(f"/{number}" for number in index)
        value = to_query(numbers[index].item())
        raise InvalidBody(f"{POSITIONS} {rule}", f"/{POSITIONS}{place}", value)
    return PositionArray.of(numbers)


def _lengths(name: str, table: StoredTable) -> tuple[int, ...]:
    if len(table.shape) != 1 or table.dtype is not INT64:
        raise _invalid(name, "must be an array of integers with one axis")
    return tuple(table.elements.tolist())


def _invalid(name: str, rule: str) -> InvalidBody:
    return InvalidBody(f"{name} {rule}", f"/{name}")


def refuse_others(arrays: Mapping[str, StoredTable]) -> None:
    """Raise InvalidBody for an array that is none of positions."""
    for name in arrays:
        raise InvalidBody(f"{name} is no array here: rename it to {POSITIONS}", f"/{name}")
