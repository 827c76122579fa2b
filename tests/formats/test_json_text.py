"""json: numbers that parse back, independent of blocks; strict parsing of bodies."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.relative.operator import Similarity
from service.errors import InvalidBody
from service.formats import json_text as numbers
from service.formats.json_text import (
    JSON,
    block_elements,
    parameter_text,
    read_object,
)
from service.numerics.dtypes import (
    FLOAT64,
    INT64,
    REAL_DTYPES,
    decimal_view,
    round_into,
)
from service.numerics.positions import Positions
from service.numerics.tables import Document, StoredTable


def stored(values: object, dtype: str = "float64") -> StoredTable:
    wide = np.array(values, dtype=np.float64)
    elements = np.empty(wide.shape, dtype=REAL_DTYPES[dtype].storage)
    round_into(wide, elements, REAL_DTYPES[dtype])
    return StoredTable(elements, REAL_DTYPES[dtype])


def written(document: Document) -> bytes:
    return b"".join(JSON.body(document).blocks())


ROW = stored([1.0])


@pytest.mark.parametrize(
    ("document", "metadata", "data"),
    [
        (Document("k", {"base": 1.0}, {"k": ROW}), b'{"base":1.0},"shape":[1]', b"[1.0]"),
        (Document("k", {}, {"b": ROW, "a": ROW}), b'{},"shape":[1]', b'{"b":[1.0],"a":[1.0]}'),
        (Document("k", {}, {"k": stored(0.5)}), b'{},"shape":[]', b"0.5"),
        (
            Document("k", {}, {"k": stored([[0.0], [np.inf]])}),
            b'{},"shape":[2,1]',
            b"[[0.0],[null]]",
        ),
    ],
    ids=["vector", "two arrays", "scalar", "infinity"],
)
def test_a_document_is_one_object_with_metadata_first(
    document: Document, metadata: bytes, data: bytes
) -> None:
    text = written(document)

    assert text == b'{"kind":"k","parameters":%s,"dtype":"float64","data":%s}' % (metadata, data)
    assert len(text) <= JSON.body(document).limit_bytes


@pytest.mark.parametrize("options", [{}, {"error_bound": 0.5}, {"axes": ("row",)}])
def test_error_bound_and_axes_follow_the_element_type(options: dict[str, Any]) -> None:
    text = written(Document("k", {}, {"k": ROW}, **options, states_axes="axes" in options))

    added = {name: list(value) if name == "axes" else value for name, value in options.items()}
    head: dict[str, Any] = {"kind": "k", "parameters": {}, "shape": [1], "dtype": "float64"}
    expected = {**head, **added, "data": [1.0]}
    assert list(json.loads(text).items()) == list(expected.items())


def test_bfloat16_is_written_as_the_float32_of_its_value() -> None:
    assert b'"data":[0.100097656]' in written(Document("k", {}, {"k": stored([0.1], "bfloat16")}))


def test_shapes_and_types_that_differ_are_objects_by_name() -> None:
    arrays = {"q": stored(1.0), "k": stored([0.0, 2.0], "float32")}

    content = json.loads(written(Document("rope-apply", {}, arrays)))

    assert content["shape"] == {"q": [], "k": [2]}
    assert content["dtype"] == {"q": "float64", "k": "float32"}
    assert content["data"] == {"q": 1.0, "k": [0.0, 2.0]}


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=8))
def test_numbers_parse_back_to_the_element(dtype: str, values: list[float]) -> None:
    table = stored([values], dtype)

    (parsed,) = json.loads(written(Document("encoding", {}, {"encoding": table})))["data"]

    exact = decimal_view(table.elements, table.dtype)[0]
    assert exact.tolist() == np.array(parsed).astype(exact.dtype).tolist()


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4), (1, 5, 2)])
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_text_does_not_depend_on_blocks(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], block: int
) -> None:
    elements = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    monkeypatch.setattr(numbers, "_BLOCK_BYTES", 25 * block)

    text = written(Document("encoding", {}, {"encoding": StoredTable(elements, FLOAT64)}))

    assert json.loads(text)["data"] == elements.tolist()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from(sorted(REAL_DTYPES)),
    st.sampled_from([0.0, -1.1754943508222875e-38, -2.2250738585072014e-308, 0.1, -1 / 3, 1e300]),
)
def test_the_limit_is_never_exceeded(shape: list[int], dtype: str, value: float) -> None:
    with np.errstate(over="ignore"):
        table = stored(np.full(shape, value), dtype)
    document = Document("encoding", {"base": 1.5}, {"b": table, "a": table})

    assert len(written(document)) <= JSON.body(document).limit_bytes


def test_names_of_arrays_separate_them_from_parameters() -> None:
    body = b'{"mask": [[true, false]], "layout": "half", "bias": [0.5, 1], "more": [1]}'

    content = JSON.read(body, ("bias", "mask", "other"))

    arrays = content.arrays.items()
    assert {name: (table.dtype, table.elements.tolist()) for name, table in arrays} == {
        "bias": (FLOAT64, [0.5, 1.0]),
        "mask": (INT64, [[1, 0]]),
    }
    assert content.parameters == {"layout": "half", "more": [1]}


@pytest.mark.parametrize(
    ("body", "where", "rule"),
    [
        (b"", "", "not JSON"),
        (b"[1]", "", "must be a JSON object"),
        (b'{"x": [[1]]', "", "not JSON"),
        (b"\xff", "", "not UTF-8"),
        (b'{"x": [[1, 2], [3]]}', "/x", "numbers of one length"),
        (b'{"x": [["1"]]}', "/x", "numbers only"),
        (b'{"x": [[null]]}', "/x", "numbers only"),
        (b'{"x": {}}', "", "x has 0 axes"),
        (b'{"x": [[1e400]]}', "/x", "within the range"),
        (b'{"x": [[NaN]]}', "", "NaN is not JSON"),
        (b'{"x": [[1]], "x": [[2]]}', "/x", "given twice"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "", "nested too deeply|all of a"),
        (b'{"x": ' + b"[" * 70 + b"1" + b"]" * 70 + b"}", "", "x has 70 axes"),
        (b'{"x": [[true, 2.0]]}', "/x", "numbers only"),
        (b'{"x": []}', "", r"no elements: its shape is \(0\)"),
        (b'{"x": [[1]], "\\ud800": 1}', "", "half of a surrogate pair"),
    ],
    ids=range(16),
)
def test_invalid_json_bodies_are_refused_with_a_pointer(body: bytes, where: str, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule) as caught:
        JSON.read(body, ("x",))

    assert where == caught.value.faults[0].where


def test_integers_of_any_size_are_the_nearest_numbers() -> None:
    content = JSON.read(b'{"x": [[18446744073709551616, 1]], "note": "\\ud83d\\ude00"}', ("x",))

    assert content.arrays["x"].elements.tolist() == [[18446744073709551616.0, 1.0]]
    assert content.parameters == {"note": "\U0001f600"}


def test_long_and_short_json_bodies_parse_alike() -> None:
    numbers = b"1,-0.0,1e-3,18446744073709551616,0.1"
    short = read_object(b'{"x": [%s]}' % numbers)["x"]
    long = read_object(b'{"x": [%s]}' % b",".join([numbers] * 5000))["x"]

    assert long == short * 5000
    assert list(map(type, long[:5])) == list(map(type, short))
    with pytest.raises(InvalidBody, match="NaN is not JSON"):
        read_object(b'{"x": [%s,NaN]}' % b",".join([numbers] * 5000))


def test_json_with_too_many_lists_is_refused() -> None:
    with pytest.raises(InvalidBody, match=r"more than 131072 lists and objects.* npy"):
        read_object(b'{"x": [' + b"[]," * 2**17 + b"[]]}")


@pytest.mark.full
def test_rows_up_to_their_limit_are_read() -> None:
    rows = read_object(b'{"x": [' + b"[1]," * (2**17 - 3) + b"[1]]}")["x"]

    assert len(rows) == 2**17 - 2


def test_a_block_of_text_has_bounded_work() -> None:
    heavy = Similarity.model_construct(
        d_model=2**20, offsets=Positions.contiguous(0, 9), dtype="bfloat16"
    ).table()

    assert block_elements(heavy) == 1
    assert block_elements(stored([1.0])) > 1000


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 10_000])
def test_parameter_text_equals_json_dumps(length: int) -> None:
    value = tuple(k / 3 for k in range(length))

    assert parameter_text(value) == json.dumps(value)
    for other in ("½", True, 1.0):
        assert parameter_text(other) == json.dumps(other)
