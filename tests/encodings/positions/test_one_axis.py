"""Positions of one axis: masks, padding ids, packed sequences and cells."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.positions.position_ids import PositionIds
from service.errors import InvalidRequest
from service.numerics.dtypes import INT64
from service.numerics.tables import StoredTable, size
from tests.client import Client

MASKS = st.integers(1, 12).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, 1), min_size=length, max_size=length), min_size=1, max_size=4
    )
)


def arrays_of(body: dict[str, Any], **sent: Any) -> dict[str, list[Any]]:
    stored = {name: StoredTable(np.array(array), INT64) for name, array in sent.items()}
    document = PositionIds.model_validate(body).resolve(stored)
    return {
        name: table.read(0, size(table)).reshape(table.shape).tolist()
        for name, table in document.arrays.items()
    }


@given(MASKS, st.integers(0, 5))
def test_masked_tokens_have_one_position_and_others_the_number_of_tokens_before(
    mask: list[list[int]], masked: int
) -> None:
    found = arrays_of({"convention": "mask", "masked": masked, "steps": 2}, attention_mask=mask)

    expected = [
        [sum(row[:place]) if kept else masked for place, kept in enumerate(row)] for row in mask
    ]
    assert found["position_ids"] == expected
    assert found["attention_mask"] == mask
    assert found["decode_position_ids"] == [[sum(row), sum(row) + 1] for row in mask]


@pytest.mark.parametrize("convention", ["mask", "opt", "arange"])
@given(MASKS)
def test_rows_of_segments_give_what_their_mask_gives(
    convention: str, mask: list[list[int]]
) -> None:
    rows = [[{"text": 1} if kept else {"pad": 1} for kept in row] for row in mask]
    body = {"convention": convention, "steps": 2, "past_length": len(mask[0]) // 2}

    assert arrays_of({**body, "rows": rows}) == arrays_of(body, attention_mask=mask)


@given(MASKS, st.integers(1, 3), st.data())
def test_rows_of_opt_begin_at_the_offset(
    mask: list[list[int]], offset: int, data: st.DataObject
) -> None:
    past = data.draw(st.integers(0, len(mask[0]) - 1))

    body = {"convention": "opt", "offset": offset, "past_length": past}
    found = arrays_of(body, attention_mask=mask)["position_ids"]

    sums = np.cumsum(mask, axis=1) * np.array(mask) - 1 + offset
    assert found == sums[:, past:].tolist()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(0, 3), st.integers(0, 4))
def test_tokens_that_are_no_padding_count_from_after_padding_idx(
    row: list[int], padding_idx: int, past: int
) -> None:
    body = {"convention": "padding_idx", "padding_idx": padding_idx, "past": past}
    found = arrays_of(body, input_ids=[row])["position_ids"][0]

    counts = [sum(each != padding_idx for each in row[: place + 1]) for place in range(len(row))]
    assert found == [
        padding_idx if token == padding_idx else padding_idx + past + count
        for token, count in zip(row, counts, strict=True)
    ]


def test_arange_counts_columns_whatever_the_mask() -> None:
    found = arrays_of(
        {"convention": "arange", "past": 3, "offset": 2, "steps": 1}, attention_mask=[[0, 1, 1]]
    )

    assert found["position_ids"] == [[5, 6, 7]]
    assert found["decode_position_ids"] == [[8]]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any), st.integers(0, 2))
def test_packed_sequences_begin_again(lengths: list[int], start: int) -> None:
    body = {"convention": "packed", "start": start}
    found = arrays_of({**body, "lengths": lengths})

    ends = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    assert found == arrays_of(body, cu_seqlens=ends)
    assert found["cu_seqlens"] == ends
    numbers = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert found["seq_idx"] == [numbers]
    expected = [[start + place for length in lengths for place in range(length)]]
    assert found["position_ids"] == expected


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=4, max_size=4),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=4, max_size=4),
    st.integers(1, 4),
)
def test_positions_begin_again_in_each_cell(
    one: list[tuple[int, int]], other: list[tuple[int, int]], most: int
) -> None:
    types = [[[9, *cell, 0, 0, 0, 0] for cell in row] for row in (one, other)]

    body = {"convention": "cell", "max_position_embeddings": most}
    found = arrays_of(body, token_type_ids=types)["position_ids"]

    assert found == [
        [min(most - 1, place - row.index(cell)) for place, cell in enumerate(row)]
        for row in (one, other)
    ]


@pytest.mark.parametrize(
    ("body", "sent", "where"),
    [
        ({"convention": "packed"}, {}, "/lengths"),
        ({"convention": "packed", "lengths": [3, -1]}, {}, "lengths"),
        ({"convention": "packed", "lengths": [0]}, {}, "/lengths"),
        ({"convention": "packed", "lengths": [2**31]}, {}, "/lengths"),
        ({"convention": "packed", "lengths": [3]}, {"cu_seqlens": [0, 3]}, "lengths"),
        ({"convention": "packed"}, {"cu_seqlens": [0, 3, 2]}, "/cu_seqlens"),
        ({"convention": "packed"}, {"cu_seqlens": [1, 3]}, "/cu_seqlens"),
        ({"convention": "opt", "offset": 0}, {"attention_mask": [[1]]}, "offset"),
        ({"convention": "padding_idx"}, {"input_ids": [[1]]}, "padding_idx"),
        (
            {"convention": "padding_idx", "padding_idx": 1},
            {"attention_mask": [[1]]},
            "/attention_mask",
        ),
        ({"convention": "mask"}, {"attention_mask": [[2, 0]]}, "/attention_mask/0/0"),
        ({"convention": "mask", "rows": [[{"text": 1}, {"image": [1, 4, 4]}]]}, {}, "/rows/0/1"),
        ({"convention": "arange", "past": 5, "rows": [[{"text": 2**62}]]}, {}, "/rows"),
        ({"convention": "cell", "max_position_embeddings": 3}, {}, "/token_type_ids"),
        (
            {"convention": "cell", "max_position_embeddings": 3},
            {"token_type_ids": [[[0, 1, 2]]]},
            "/token_type_ids",
        ),
        (
            {"convention": "cell", "max_position_embeddings": 3},
            {"token_type_ids": [[[0, -1, 0, 0, 0, 0, 0]]]},
            "/token_type_ids/0/0/1",
        ),
    ],
)
def test_a_refusal_names_the_place(body: dict[str, Any], sent: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        arrays_of(body, **sent)

    assert caught.value.faults[0].where == where


def test_negative_lengths_are_no_answer(client: Client) -> None:
    answer = client.post("/positions", json={"convention": "packed", "lengths": [3, -1]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "lengths"
