"""Parameters that several resources share."""

import re

import numpy as np
import pytest

from service.encodings.family import IndexDType, Parameters
from service.encodings.position_parameters import PositionParameters, StartParameters, contiguous
from service.errors import InvalidParameters
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import AnyPositions, Positions, RealPositions


def table_positions(**values: object) -> AnyPositions:
    return PositionParameters.model_validate(values).resolved_positions()


def array_positions(rows: int, **values: object) -> AnyPositions:
    return StartParameters.model_validate(values).positions_of(rows)


def test_start_is_zero_unless_given() -> None:
    assert table_positions(seq_len="5") == Positions.contiguous(0, 5)
    assert table_positions(seq_len="5", start="-2") == Positions.contiguous(-2, 5)


def test_lists_and_ranges_of_the_same_positions_are_equal() -> None:
    assert table_positions(positions="3,4,5") == table_positions(start="3", seq_len="3")


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, "seq_len"),
        ({"start": "1"}, "seq_len"),
        ({"positions": "1", "seq_len": "1"}, "seq_len"),
        ({"positions": "1", "start": "0"}, "start"),
        ({"start": str(2**62), "seq_len": "2"}, "start"),
    ],
)
def test_positions_are_given_in_one_way_only(values: dict[str, str], where: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        table_positions(**values)

    assert caught.value.faults[0].where == where


def test_an_array_has_positions_of_its_own_length() -> None:
    assert array_positions(3, start=7) == Positions.contiguous(7, 3)
    assert array_positions(2, positions=[4, 9]).count == 2


def test_positions_are_given_once() -> None:
    with pytest.raises(InvalidParameters):
        array_positions(1, positions="1", start=1)


class IndexParameters(Parameters):
    """The parameter of an integer element type."""

    dtype: IndexDType = "int32"


def test_following_positions_end_at_two_to_the_62() -> None:
    assert contiguous(MAX_POSITION - 4, 5).farthest == MAX_POSITION
    with pytest.raises(InvalidParameters, match=r"lies beyond 2\^62") as caught:
        contiguous(MAX_POSITION - 4, 6, name="key_start")

    assert caught.value.faults[0].where == "key_start"


def test_the_default_type_of_indices_is_int32() -> None:
    assert IndexParameters().dtype == "int32"
    assert IndexParameters.model_validate({"dtype": "int64"}).dtype == "int64"
    with pytest.raises(ValueError, match="int32"):
        IndexParameters.model_validate({"dtype": "float32"})


def test_real_positions_may_be_fractions() -> None:
    assert table_positions(positions="0,0.5") == RealPositions(np.array((0.0, 0.5)))
    assert table_positions(positions=[0, 0.5]) == RealPositions(np.array((0.0, 0.5)))
    assert table_positions(positions="2.0,3") == Positions.contiguous(2, 2)
    assert table_positions(seq_len="3", start="-1") == Positions.contiguous(-1, 3)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, ["seq_len"]),
        ({"positions": "0.5", "seq_len": "1"}, ["seq_len"]),
        ({"positions": "0.5", "start": "0", "seq_len": "1"}, ["seq_len", "start"]),
        ({"start": str(2**62), "seq_len": "2"}, ["start"]),
    ],
)
def test_real_positions_are_given_in_one_way_only(values: dict[str, str], where: list[str]) -> None:
    with pytest.raises(InvalidParameters) as caught:
        table_positions(**values)

    assert [fault.where for fault in caught.value.faults] == where


@pytest.mark.parametrize("text", ["0,5,9:20:2", "-3", "1:-4:-2", "-3.5,1e-3", "0.5"])
def test_the_documented_pattern_is_that_of_table_positions(text: str) -> None:
    schema = PositionParameters.model_json_schema()["properties"]["positions"]["anyOf"][0]

    assert re.fullmatch(schema["pattern"], text)
