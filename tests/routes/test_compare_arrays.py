"""One array of a comparison."""

from collections.abc import Callable

import numpy as np
import pytest

from service.errors import InvalidBody
from service.routes.asked import document_of
from service.routes.compare_arrays import compared
from service.tables.dtypes import FLOAT32, FLOAT64, INT64, Elements
from service.tables.table import StoredTable, size

NONE = (None, None)


def test_text_is_rounded_to_the_type_of_the_table() -> None:
    document = document_of("/encoding?seq_len=9&d_model=8")
    exact = document_of("/encoding?seq_len=9&d_model=8&dtype=float64").arrays["encoding"]
    array = StoredTable(exact.read(0, 72).reshape(9, 8), FLOAT64)

    of_text = compared(document, "encoding", array, NONE, None)
    of_numbers = compared(document, "encoding", array, NONE, "float64")

    assert of_text.is_equal_bytes
    assert not of_numbers.report.comparison.is_equal


@pytest.mark.parametrize(
    ("url", "name", "floor"),
    [
        ("/encoding?seq_len=99&d_model=8", "encoding", 1.0),
        ("/rope/frequencies?head_dim=64&part=inv_freq", "inv_freq", 0.0),
        ("/relative/alibi/slopes?num_heads=8", "slopes", 0.0),
    ],
)
def test_numbers_of_many_sizes_are_compared_each_in_its_own_ulp(
    url: str, name: str, floor: float
) -> None:
    document = document_of(url)
    table = document.arrays[name]
    elements: Elements = table.read(0, size(table)).reshape(table.shape)

    found = compared(document, name, StoredTable(elements, table.dtype), NONE, table.dtype.name)

    assert found.report.comparison.tolerance.floor == pytest.approx(floor, abs=1e-3)
    assert found.is_equal_bytes


def test_a_frequency_is_not_hidden_by_larger_ones() -> None:
    document = document_of("/rope/frequencies?head_dim=64&part=inv_freq")
    table = document.arrays["inv_freq"]
    values = table.read(0, 32).copy()
    values[31] *= 1 + 1e-9

    found = compared(document, "inv_freq", StoredTable(values, FLOAT64), NONE, "float64")

    assert not found.report.comparison.is_within


def test_queries_are_the_positions_of_a_bias_with_heads() -> None:
    document = document_of("/relative/alibi?num_heads=2&query_len=3&key_len=5&query_start=2")
    table = document.arrays["bias"]
    values = table.read(0, 30).reshape(table.shape).copy()
    values[1, 2, 4] += 1

    found = compared(document, "bias", StoredTable(values, FLOAT32), NONE, "float32").report

    said = found.content()
    assert (said["axes"]["position"], said["axes"]["channel"]) == ("query", "key")
    assert said["first_beyond"]["position"] == 4
    assert said["good_to"] == 3


def test_integers_of_a_real_table_are_compared_as_numbers() -> None:
    document = document_of("/relative/dynamic?seq_len=4")
    table = document.arrays["distance"]
    values = table.read(0, size(table)).reshape(table.shape).astype(np.int64)

    assert compared(document, "distance", StoredTable(values, INT64), NONE, "int64").report


def test_complex_and_real_numbers_are_not_compared() -> None:
    document = document_of("/rope?head_dim=8&seq_len=5&pack=complex")

    with pytest.raises(InvalidBody, match="pack=complex"):
        compared(document, "rope", StoredTable(np.zeros((5, 4)), FLOAT64), NONE, "float64")


@pytest.mark.parametrize(
    ("spoil", "order"),
    [
        (lambda table: table.T.copy(), [1, 0]),
        (lambda table: (table.T + 1e-3).copy(), [1, 0]),
        (lambda table: table + 1e-3, None),
        (lambda table: np.roll(table, 1, axis=0), None),
        (lambda table: np.random.default_rng(3).uniform(-1, 1, table.shape), None),
        (lambda table: np.random.default_rng(4).uniform(-1, 1, table.shape), None),
        (lambda table: np.full_like(table, np.nan), None),
    ],
)
def test_axes_of_one_length_change_places_only_where_that_fits_clearly_better(
    spoil: Callable[[Elements], Elements], order: list[int] | None
) -> None:
    document = document_of("/encoding?seq_len=32&d_model=32&dtype=float64")
    table = document.arrays["encoding"].read(0, 32 * 32).reshape(32, 32)

    found = compared(document, "encoding", StoredTable(spoil(table), FLOAT64), NONE, "float64")

    assert found.report.content()["axes"].get("order") == order
