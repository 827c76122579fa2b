"""Rows of tokens: what libraries count, and the rows that it leads to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from service.tables.dtypes import FLOAT32, FLOAT64, INT64, REAL_DTYPES
from service.tables.positions import Positions, Run
from service.tables.recipes import recipe
from service.tables.table import size
from service.tables.tokens import ListedPositions, rows_of_tokens, tokens

IDS = arrays_of.arrays(
    np.int64,
    arrays_of.array_shapes(min_dims=1, max_dims=2, max_side=9),
    elements=st.one_of(st.integers(-2, 3), st.sampled_from([-(2**63), 2**63 - 1])),
)


def counted(line: list[int], padding_idx: int, past: int) -> list[int]:
    """Count token by token."""
    rows, count = [], past
    for token in line:
        count += token != padding_idx
        rows.append(padding_idx + count if token != padding_idx else padding_idx)
    return rows


@given(IDS, st.integers(-2, 3), st.sampled_from([0, 1, 4, 2**61]))
def test_tokens_count_on_from_padding_and_padding_stays(
    ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]], padding_idx: int, past: int
) -> None:
    rows = rows_of_tokens(ids, padding_idx, past)

    lines = [counted(line, padding_idx, past) for line in np.atleast_2d(ids).tolist()]
    assert np.atleast_2d(rows).tolist() == lines
    assert rows.shape == ids.shape


def test_the_first_token_has_the_row_after_that_of_padding() -> None:
    """Rows 0 and 1 of fairseq are never a first token's: the off-by-one it is known for."""
    assert rows_of_tokens(np.array([[9, 9, 1], [1, 9, 9]]), 1, 0).tolist() == [[2, 3, 1], [1, 2, 3]]


def test_padding_between_tokens_does_not_count() -> None:
    assert rows_of_tokens(np.array([5, 1, 1, 5]), 1, 10).tolist() == [12, 1, 1, 13]


def test_listed_positions_are_as_far_as_any_integer() -> None:
    values = np.array([-(2**63), 2**63 - 1, 0])

    assert ListedPositions(values).farthest == 2**63
    assert ListedPositions(values[1:]).farthest == 2**63 - 1
    assert ListedPositions(values).at(1, 3).tolist() == [2**63 - 1, 0]


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@pytest.mark.parametrize("d_model", [1, 4, 7, 64])
def test_the_rows_of_tokens_are_those_of_the_table(d_model: int, dtype: str) -> None:
    made = recipe("fairseq", d_model, {"padding_idx": 2})
    rows = np.array([[2, 3, 4, 2**62, 2], [-(2**62), 0, 0, 2, 900]])

    document = tokens(recipe=made, spelled={}, rows=rows, dtype=REAL_DTYPES[dtype])

    listed = Positions.of_runs(Run(row, 1, 1) for row in rows.reshape(-1).tolist())
    expected = made.table(listed, REAL_DTYPES[dtype], (10, d_model)).read(0, 10 * d_model)
    encoding = document.arrays["encoding"]
    assert encoding.shape == (2, 5, d_model)
    assert encoding.read(0, size(encoding)).tobytes() == expected.tobytes()


def test_parts_of_the_rows_of_tokens_are_the_whole() -> None:
    rows = np.arange(-20, 20).reshape(4, 10)
    document = tokens(recipe=recipe("m2m100", 5, {}), spelled={}, rows=rows, dtype=FLOAT64)
    encoding = document.arrays["encoding"]
    whole = encoding.read(0, 200)

    for start, stop in [(0, 200), (7, 8), (104, 106), (19, 121)]:
        assert encoding.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_the_numbers_of_rows_come_beside_them() -> None:
    rows = np.array([3, 1, 4])

    document = tokens(
        recipe=recipe("fairseq", 4, {}), spelled={"past": 1}, rows=rows, dtype=FLOAT32
    )

    assert list(document.arrays) == ["encoding", "position_ids"]
    assert document.has_parts
    assert document.parameters == {"past": 1}
    assert document.arrays["position_ids"].dtype is INT64
    assert document.arrays["position_ids"].read(0, 3).tolist() == [3, 1, 4]


def test_without_padding_every_row_is_one_of_sines() -> None:
    document = tokens(
        recipe=recipe("ddpm", 4, {}), spelled={}, rows=np.array([0, 1]), dtype=FLOAT64
    )

    assert document.arrays["encoding"].read(0, 8).reshape(2, 4).any(axis=1).all()
