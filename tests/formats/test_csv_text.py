"""csv: numbers that parse back, independent of blocks."""

import io
from typing import Any

import numpy as np
import pytest

from service.formats import json_text as numbers
from service.formats.csv_text import CSV
from service.numerics.dtypes import BFLOAT16, FLOAT64
from service.numerics.tables import Document, StoredTable


def document(elements: object, dtype: str = "<f8") -> Document:
    return Document("encoding", {}, {"encoding": StoredTable(np.array(elements, dtype), FLOAT64)})


def written(described: Document) -> bytes:
    return b"".join(CSV.body(described).blocks())


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([[0.0, 1.0], [-0.5, 1e-9]], b"0.0,1.0\n-0.5,1e-9\n"),
        ([0.0, 1.0, 2.0], b"0.0\n1.0\n2.0\n"),
        (0.5, b"0.5\n"),
        ([[1.0, -np.inf], [np.inf, 0.5]], b"1.0,-inf\ninf,0.5\n"),
    ],
    ids=["matrix", "vector is a column", "scalar", "infinities keep their sign"],
)
def test_each_row_is_a_line_without_a_heading(elements: Any, expected: bytes) -> None:
    text = written(document(elements))

    assert text == expected
    assert np.loadtxt(io.BytesIO(text), delimiter=",").tolist() == np.squeeze(elements).tolist()


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (5, 3)])
@pytest.mark.parametrize("block", [1, 2, 4, 1000])
def test_text_does_not_depend_on_blocks(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], block: int
) -> None:
    elements = np.random.default_rng(0).standard_normal(shape)
    monkeypatch.setattr(numbers, "_BLOCK_BYTES", 25 * block)
    body = CSV.body(document(elements))

    text = b"".join(body.blocks())

    assert np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2).tobytes() == elements.tobytes()
    assert text.count(b"\n") == shape[0]
    assert len(text) <= body.limit_bytes


def test_bfloat16_is_written_as_the_float32_of_its_value() -> None:
    table = StoredTable(np.array([[0x3DCD]], "<u2"), BFLOAT16)

    assert written(Document("encoding", {}, {"encoding": table})) == b"0.100097656\n"
