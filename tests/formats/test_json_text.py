"""json: numbers that parse back, independent of blocks; strict parsing of bodies."""

import json

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
    nested_lists,
    parameter_text,
    read_object,
    text_limit_bytes,
)
from service.numerics.dtypes import (
    FLOAT32,
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


def test_one_array_is_a_flat_object_with_metadata_first() -> None:
    document = Document("encoding", {"base": 10000.0}, {"encoding": stored([[0.0, 1.0]])})

    assert written(document) == (
        b'{"kind":"encoding","parameters":{"base":10000.0},"shape":[1,2],"dtype":"float64",'
        b'"data":[[0.0,1.0]]}'
    )


def test_several_arrays_are_an_object_by_name() -> None:
    document = Document("rope", {}, {"cos": stored([1.0]), "sin": stored([0.0])})

    assert written(document) == (
        b'{"kind":"rope","parameters":{},"shape":[1],"dtype":"float64",'
        b'"data":{"cos":[1.0],"sin":[0.0]}}'
    )


def test_a_scalar_has_no_axes() -> None:
    several = Document("rope-frequencies", {}, {"a": stored(0.5), "b": stored([1.0])})

    assert written(Document("rope-frequencies", {}, {"a": stored(0.5)})) == (
        b'{"kind":"rope-frequencies","parameters":{},"shape":[],"dtype":"float64","data":0.5}'
    )
    assert json.loads(written(several))["data"] == {"a": 0.5, "b": [1.0]}
    assert json.loads(written(several))["shape"] == {"a": [], "b": [1]}


def test_an_infinite_wavelength_is_null() -> None:
    table = stored([6.25, np.inf])

    assert written(Document("rope-frequencies", {}, {"a": table})).endswith(b'"data":[6.25,null]}')


def test_an_error_bound_is_beside_the_type() -> None:
    document = Document("rope", {}, {"rope": stored([1.0])}, error_bound=1e-7)

    assert json.loads(written(document))["error_bound"] == 1e-7
    assert b"error_bound" not in written(Document("rope", {}, {"rope": stored([1.0])}))


def test_axes_are_named_where_their_order_is_a_convention() -> None:
    arrays = {"encoding": stored([[1.0, 2.0]])}
    named = Document("encoding-grid", {}, arrays, axes=("position", "channel"))
    stated = Document(
        "encoding-grid", {}, arrays, error_bound=0.5, axes=("row", "channel"), states_axes=True
    )

    assert b"axes" not in written(named)
    assert written(stated) == (
        b'{"kind":"encoding-grid","parameters":{},"shape":[1,2],"dtype":"float64",'
        b'"error_bound":0.5,"axes":["row","channel"],"data":[[1.0,2.0]]}'
    )
    assert len(written(stated)) <= JSON.body(stated).limit_bytes


def test_arrays_that_differ_say_so_by_name() -> None:
    document = Document("rope-apply", {}, {"q": stored([1.0]), "k": stored([0.0, 2.0], "float32")})

    content = json.loads(written(document))

    assert content["shape"] == {"q": [1], "k": [2]}
    assert content["dtype"] == {"q": "float64", "k": "float32"}


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=8))
def test_numbers_parse_back_to_the_element(dtype: str, values: list[float]) -> None:
    table = stored([values], dtype)

    (parsed,) = json.loads(written(Document("encoding", {}, {"encoding": table})))["data"]

    exact = decimal_view(table.elements, table.dtype)[0]
    assert exact.tolist() == np.array(parsed).astype(exact.dtype).tolist()


def test_bfloat16_is_written_as_the_float32_of_its_value() -> None:
    document = Document("encoding", {}, {"encoding": stored([0.1], "bfloat16")})

    assert written(document).endswith(b'"data":[0.100097656]}')


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (1, 5, 2), (4, 1, 1)])
@pytest.mark.parametrize("block", [1, 3, 4, 1000])
def test_text_does_not_depend_on_blocks(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], block: int
) -> None:
    elements = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    monkeypatch.setattr(numbers, "_BLOCK_ELEMENTS", block)

    data = json.loads(
        written(Document("encoding", {}, {"encoding": StoredTable(elements, FLOAT64)}))
    )["data"]

    assert elements.tolist() == data


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


def test_a_json_body_is_only_computed_whole() -> None:
    body = JSON.body(Document("encoding", {}, {"encoding": stored([1.0])}))

    with pytest.raises(ValueError, match="only computed whole"):
        list(body.blocks(1))


def test_arrays_and_parameters_are_read() -> None:
    content = JSON.read(b'{"x": [[1, 2.5]], "positions": [3], "layout": "half"}', ("x",))

    assert content.arrays["x"].elements.tolist() == [[1.0, 2.5]]
    assert content.parameters == {"positions": [3], "layout": "half"}


def test_names_of_arrays_separate_them_from_parameters() -> None:
    body = b'{"mask": [[1, 0]], "temperature": 20, "bias": [0.5], "more": [1]}'

    content = JSON.read(body, ("bias", "mask", "other"))

    assert {name: table.elements.tolist() for name, table in content.arrays.items()} == {
        "bias": [0.5],
        "mask": [[1.0, 0.0]],
    }
    assert content.parameters == {"temperature": 20, "more": [1]}


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
        (b'{"x": [[1, [2]]]}', "/x", "numbers only"),
        (b'{"x": []}', "", r"no elements: its shape is \(0\)"),
        (b'{"x": 1.5}', "", "x has 0 axes"),
        (b'{"x": null}', "", "x has 0 axes"),
        (b'{"x": [[]]}', "", "no elements"),
        (b'{"x": [[1]], "\\ud800": 1}', "", "half of a surrogate pair"),
    ],
    ids=range(20),
)
def test_invalid_json_bodies_are_refused_with_a_pointer(body: bytes, where: str, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule) as caught:
        JSON.read(body, ("x",))

    assert where == caught.value.faults[0].where


def test_booleans_are_read_as_the_integers_of_a_mask() -> None:
    table = JSON.read(b'{"mask": [[true, false]]}', ("mask",)).arrays["mask"]

    assert (table.dtype, table.elements.tolist()) == (INT64, [[1, 0]])


def test_an_object_may_hold_no_array() -> None:
    assert JSON.read(b'{"start": 1}', ("x",)).arrays == {}


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


TABLE = StoredTable(np.arange(6, dtype="<f4").reshape(2, 3) / 3, FLOAT32)


def test_elements_are_written_as_nested_lists() -> None:
    assert nested_lists(TABLE, 1, (2, 2)) == b"[[0.33333334,0.6666667],[1.0,1.3333334]]"
    assert nested_lists(TABLE, 5, (1,)) == b"[1.6666666]"


def test_no_element_is_longer_than_the_limit_says() -> None:
    longest = StoredTable(np.full(4, -np.finfo(np.float64).tiny * 1.1), FLOAT64)

    assert len(nested_lists(longest, 0, (4,))) - 2 <= text_limit_bytes(longest)


def test_a_block_of_text_has_bounded_work() -> None:
    heavy = Similarity.model_construct(
        d_model=2**20, offsets=Positions.contiguous(0, 9), dtype="bfloat16"
    ).table()

    assert block_elements(heavy) == 1
    assert block_elements(TABLE) > 1000


@pytest.mark.parametrize("value", [0.1, 1e-45, 3.4e38])
def test_csv_numbers_parse_back_to_the_element(value: float) -> None:
    table = StoredTable(np.array([value], "<f4"), FLOAT32)

    assert np.float32(nested_lists(table, 0, (1,))[1:-1].decode()) == table.elements[0]


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 10_000])
def test_parameter_text_equals_json_dumps(length: int) -> None:
    value = tuple(k / 3 for k in range(length))

    assert parameter_text(value) == json.dumps(value)
    assert [parameter_text("½"), parameter_text(True), parameter_text(1.0)] == [
        '"\\u00bd"',
        "true",
        "1.0",
    ]
