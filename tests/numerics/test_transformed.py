"""Transformed arrays: any order of axes and memory, read in any range."""

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.numerics.dtypes import FLOAT64, Elements
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable
from service.numerics.transformed import TransformedTable


def add_factors(
    source: Callable[[range], Elements], factors: Float64s, columns: range, block: Elements
) -> None:
    block[...] = source(columns) + 1000 * factors[0, ..., columns.start : columns.stop]


@given(st.data())
def test_a_transformed_array_has_the_same_elements_in_any_range(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=5)))
    channel = data.draw(st.integers(0, len(shape) - 1))
    others = [axis for axis in range(len(shape)) if axis != channel]
    chosen = data.draw(st.sets(st.sampled_from(others), min_size=1))
    along = tuple(data.draw(st.permutations(sorted(chosen))))
    memory = data.draw(st.permutations(range(len(shape))))
    x = np.arange(prod(shape), dtype=np.float64).reshape(shape)
    stored = np.ascontiguousarray(x.transpose(memory)).transpose(np.argsort(memory))
    lengths = tuple(shape[axis] for axis in along)
    factors = np.arange(prod(lengths) * shape[channel], dtype=np.float64)
    table = TransformedTable(
        StoredTable(stored, FLOAT64),
        StoredTable(factors.reshape(-1, shape[channel]), FLOAT64),
        add_factors,
        channel=channel,
        along=along,
    )
    start = data.draw(st.integers(0, x.size))
    stop = data.draw(st.integers(start, x.size))
    step = data.draw(st.integers(1, 400))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.numerics.transformed.STEP_ELEMENTS", step)
        patch.setattr("service.numerics.tables.STEP_ELEMENTS", step)
        patch.setattr("service.numerics.transformed._BLOCK_ELEMENTS", step)
        found = table.read(start, stop)

    ordered = factors.reshape(*lengths, shape[channel]).transpose(*np.argsort(along), len(along))
    lined_up = tuple(shape[axis] if axis in along else 1 for axis in others)
    every = np.moveaxis(ordered.reshape(*lined_up, shape[channel]), -1, channel)
    assert found.tolist() == (x + 1000 * every).reshape(-1)[start:stop].tolist()


def test_factors_are_computed_once_for_all_heads() -> None:
    reads = []

    class Counted(StoredTable):
        def read(self, start: int, stop: int) -> Elements:
            reads.append((start, stop))
            return super().read(start, stop)

    x = StoredTable(np.zeros((8, 4, 2)), FLOAT64)
    table = TransformedTable(x, Counted(np.zeros((4, 2)), FLOAT64), add_factors)

    for start in range(0, 64, 16):
        table.read(start, start + 16)

    assert reads == [(0, 8)]


def test_factors_of_several_sequences_are_computed_once_for_the_heads_between() -> None:
    reads = []

    class Counted(StoredTable):
        def read(self, start: int, stop: int) -> Elements:
            reads.append((start, stop))
            return super().read(start, stop)

    x = StoredTable(np.zeros((2, 3, 400, 2)), FLOAT64)
    factors = Counted(np.arange(1600.0).reshape(800, 2), FLOAT64)
    table = TransformedTable(x, factors, add_factors, along=(0, 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.numerics.transformed._BLOCK_ELEMENTS", 512)
        found = np.concatenate([table.read(start, start + 480) for start in range(0, 4800, 480)])

    every = 1000 * factors.elements.reshape(2, 1, 400, 2).repeat(3, axis=1)
    assert (found == every.reshape(-1)).all()
    assert sorted(reads) == [(0, 512), (512, 1024), (1024, 1536), (1536, 1600)]
