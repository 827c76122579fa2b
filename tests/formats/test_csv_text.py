"""csv: numbers that parse back, independent of blocks."""

import io

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


def test_csv_has_a_line_for_each_row_and_no_heading() -> None:
    assert written(document([[0.0, 1.0], [-0.5, 1e-9]])) == b"0.0,1.0\n-0.5,1e-9\n"


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (5, 3), (3, 5)])
@pytest.mark.parametrize("block", [1, 2, 3, 4, 6, 1000])
def test_text_does_not_depend_on_blocks(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], block: int
) -> None:
    elements = np.random.default_rng(0).standard_normal(shape)
    monkeypatch.setattr(numbers, "_BLOCK_ELEMENTS", block)
    body = CSV.body(document(elements))

    text = b"".join(body.blocks())

    assert np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2).tobytes() == elements.tobytes()
    assert text.count(b"\n") == shape[0]
    assert len(text) <= body.limit_bytes
    assert body.length_bytes is None


def test_bfloat16_is_written_as_the_float32_of_its_value() -> None:
    table = StoredTable(np.array([[0x3DCD]], "<u2"), BFLOAT16)

    assert written(Document("encoding", {}, {"encoding": table})) == b"0.100097656\n"


def test_a_vector_is_a_column() -> None:
    table = StoredTable(np.arange(3.0), FLOAT64)

    assert written(Document("encoding", {}, {"encoding": table})) == b"0.0\n1.0\n2.0\n"


def test_a_scalar_is_one_line() -> None:
    table = StoredTable(np.array(0.5), FLOAT64)

    assert written(Document("encoding", {}, {"encoding": table})) == b"0.5\n"


def test_an_infinite_wavelength_is_inf() -> None:
    text = written(document([6.25, np.inf]))

    assert text == b"6.25\ninf\n"
    assert np.loadtxt(io.BytesIO(text)).tolist() == [6.25, np.inf]


def test_a_csv_body_is_only_computed_whole() -> None:
    with pytest.raises(ValueError, match="only computed whole"):
        next(CSV.body(document([[1.0]])).blocks(1))


def test_infinities_keep_their_sign_in_csv() -> None:
    infinite = document([[1.0, -np.inf], [np.inf, 0.5]])

    assert written(infinite) == b"1.0,-inf\ninf,0.5\n"
