"""An array that lies over a table."""

from math import prod

import numpy as np
import pytest

from service.analysis.comparing.alignment import alignments
from service.analysis.comparing.overlay import Overlay
from service.routes.asked import document_of
from service.tables.dtypes import COMPLEX64, FLOAT64, DType, Elements
from service.tables.table import STEP_ELEMENTS, StoredTable, Table


def overlay(array: Elements, table: Table, dtype: DType = FLOAT64) -> Overlay:
    return Overlay(StoredTable(array, dtype), table, alignments(array.shape, table.shape)[0])


def together(over: Overlay) -> tuple[Elements, Elements]:
    """Put the blocks of both together again."""
    region = over.alignment.region
    both = np.full(region, np.nan), np.full(region, np.nan)
    for block in over.blocks():
        places = tuple(
            slice(first, first + length)
            for first, length in zip(block.origin, block.yours.shape, strict=True)
        )
        for whole, part in zip(both, (block.yours, block.theirs), strict=True):
            assert np.isnan(whole[places]).all()
            whole[places] = part
    return both


@pytest.mark.parametrize(
    ("shape", "order", "cut"),
    [
        ((3, 4), (0, 1), (3, 4)),
        ((600, 512), (0, 1), (600, 512)),
        ((600, 512), (1, 0), (512, 600)),
        ((3, 300, 301), (2, 0, 1), (301, 3, 300)),
        ((3, 300, 301), (0, 1, 2), (3, 300, 7)),
        ((2, STEP_ELEMENTS + 5), (0, 1), (2, STEP_ELEMENTS + 3)),
        ((3, 300, 301), (0, 1, 2), (3, 8, 301)),
        ((1, 300, 1, 512), (0, 1, 2, 3), (1, 40, 1, 512)),
    ],
)
def test_blocks_are_all_of_both_once(
    shape: tuple[int, ...], order: tuple[int, ...], cut: tuple[int, ...]
) -> None:
    numbers = np.arange(float(prod(shape))).reshape(shape)
    array = np.ascontiguousarray(numbers.transpose(order)[tuple(map(slice, cut))])

    yours, theirs = together(overlay(array, StoredTable(numbers, FLOAT64)))

    assert np.array_equal(yours, theirs)
    assert yours.size == array.size


def test_blocks_are_of_bounded_size() -> None:
    table = document_of("/encoding?seq_len=1000000000&d_model=512").arrays["encoding"]
    over = overlay(np.zeros((1000, 512)), table)

    assert {block.yours.size for block in over.blocks()} <= {
        STEP_ELEMENTS,
        1000 * 512 % STEP_ELEMENTS,
    }
    assert over.work < 2 * 1000 * 512 + 2**20


def test_a_row_of_a_vast_table_is_little_work_and_columns_of_many_rows_are_much() -> None:
    table = document_of("/encoding?seq_len=10000000&d_model=4096").arrays["encoding"]

    assert overlay(np.zeros((1, 4096)), table).work < 2**21
    assert overlay(np.zeros((10_000_000, 1)), table).work > 2**35


def test_a_part_of_an_endless_row_is_as_much_work_as_it_is_long() -> None:
    table = document_of("/relative/alibi?num_heads=1&head=0&query_len=1&key_len=9000000000").arrays[
        "bias"
    ]

    assert overlay(np.zeros((1, 1_000_000)), table).work < 2_000_000


def test_complex_numbers_are_read_as_their_parts() -> None:
    table = document_of("/rope?head_dim=8&seq_len=4&pack=complex").arrays["rope"]
    elements = table.read(0, 16).reshape(4, 4)

    (block,) = overlay(elements, table, COMPLEX64).blocks()

    assert block.yours.shape == (4, 4, 2)
    assert block.yours[1, 0].tolist() == [elements[1, 0].real, elements[1, 0].imag]
    assert np.array_equal(block.yours, block.theirs)


@pytest.mark.parametrize("shape", [(5,), (64, 64), (4096, 512), (3, 1000, 2)])
def test_a_sample_is_the_same_places_of_both_spread_over_all(shape: tuple[int, ...]) -> None:
    numbers = np.arange(float(prod(shape))).reshape(shape)

    looks = list(overlay(numbers, StoredTable(numbers, FLOAT64)).sample())

    seen = np.concatenate([theirs for _, theirs in looks])
    assert all(np.array_equal(yours, theirs) for yours, theirs in looks)
    assert seen.max() >= 0.9 * (numbers.size - 1)
    assert len(np.unique(seen)) >= min(numbers.size, 120) * 0.9
