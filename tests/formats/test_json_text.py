"""json: numbers that parse back, independent of blocks; strict parsing of bodies."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.relative.similarity import Similarity
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
        (Document("k", {"base": 1.0}, {"k": ROW}), '{"base":1.0},"shape":[1]', "[1.0]"),
        (Document("k", {}, {"k": stored(0.5)}), '{},"shape":[]', "[0.5]"),
        (Document("k", {}, {"k": stored([[0.0], [np.inf]])}), '{},"shape":[2,1]', "[[0.0],[null]]"),
    ],
    ids=["vector", "scalar", "infinity"],
)
def test_one_array_is_a_table_with_metadata_first(
    document: Document, metadata: str, data: str
) -> None:
    text = written(document)

    head = f'{{"kind":"k","type":"table","parameters":{metadata},"dtype":"float64"'
    assert text.decode() == f'{head},"data":{data}}}'
    assert len(text) <= JSON.body(document).limit_bytes


def test_several_arrays_are_tables_with_shapes_and_types_by_name() -> None:
    document = Document("k", {}, {"b": ROW, "a": ROW})

    text = written(document)

    assert text == (
        b'{"kind":"k","type":"tables","parameters":{},"shape":[1],"dtype":"float64",'
        b'"shapes":{"b":[1],"a":[1]},"dtypes":{"b":"float64","a":"float64"},'
        b'"data":{"b":[1.0],"a":[1.0]}}'
    )
    assert len(text) <= JSON.body(document).limit_bytes


@pytest.mark.parametrize("options", [{}, {"error_bound": 0.5}, {"axes": ("row",)}])
def test_error_bound_and_axes_follow_the_element_type(options: dict[str, Any]) -> None:
    text = written(Document("k", {}, {"k": ROW}, **options, states_axes="axes" in options))

    added = {name: list(value) if name == "axes" else value for name, value in options.items()}
    head: dict[str, Any] = {"kind": "k", "type": "table", "parameters": {}}
    expected = {**head, "shape": [1], "dtype": "float64", **added, "data": [1.0]}
    assert list(json.loads(text).items()) == list(expected.items())


def test_layout_and_pack_stand_beside_the_parameters() -> None:
    content = json.loads(written(Document("k", {}, {"k": ROW}, layout="half", pack="concat")))

    assert list(content)[2:5] == ["parameters", "layout", "pack"]
    assert (content["layout"], content["pack"]) == ("half", "concat")


def test_bfloat16_is_written_as_the_float32_of_its_value() -> None:
    assert b'"data":[0.100097656]' in written(Document("k", {}, {"k": stored([0.1], "bfloat16")}))


def test_a_shape_or_a_type_that_differs_is_given_by_name_only() -> None:
    arrays = {"q": stored(1.0), "k": stored([0.0, 2.0], "float32")}

    content = json.loads(written(Document("rope-apply", {}, arrays)))

    assert not {"shape", "dtype"} & {*content}
    assert content["shapes"] == {"q": [], "k": [2]}
    assert content["dtypes"] == {"q": "float64", "k": "float32"}
    assert content["data"] == {"q": [1.0], "k": [0.0, 2.0]}


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
        (b"", "", "not JSON: it ends early$"),
        (b"[1]", "", r'must be a JSON object: send an array as {"x": \[…\]}$'),
        (b'{"x": [[1]]', "", "not JSON: it ends early$"),
        (b'{"x":\n [1,]}', "", r"not JSON: line 2, column 5 cannot be read: \]}$"),
        (b"\xef\xbb\xbf{}", "", "begins with a byte order mark: send the JSON without it$"),
        (b'{"x": [' + b"9" * 5000 + b"]}", "", "^an integer has more than 4300 digits$"),
        (b"\xff", "", "not UTF-8"),
        (b'{"x": [[1, 2], [3]]}', "/x", "numbers of one length"),
        (b'{"x": [["1"]]}', "/x", "numbers only"),
        (
            b'{"x": "AACAPw=="}',
            "/x",
            r"send lists of numbers, not a string \(nor base64\), or its bytes as",
        ),
        (
            b'{"x": [[null]]}',
            "/x",
            "JavaScript writes null for them; send the array as npy, safetensors or",
        ),
        (
            b'{"x": {"0": 1, "1": 0.5}}',
            "/x",
            r"send Array.from\(x\) for a typed array x, or its bytes as",
        ),
        (b'{"x": [{"0": 1}, {"0": 2}]}', "/x", "in JavaScript, send Array.from"),
        (b'{"x": 1}', "/x", "x has 0 axes"),
        (b"{'x': [[1.0, 2.0]]}", "", "line 1, column 2 .* double quotes, as json.dumps writes"),
        (
            b'{"x": [1, 2, 3], "shape": [2, 2]}',
            "/shape",
            r"\[3\], and cannot have \[2, 2",
        ),
        (
            b'{"x": [[1, 2]], "shape": [2, 1]}',
            "/shape",
            r"\[1, 2\], and cannot have",
        ),
        (b'{"x": [1], "shape": [1, 0]}', "/shape", "a length of 1 or more"),
        (b'{"x": [1], "shape": []}', "/shape", "shape must be a list of integers"),
        (b'{"x": [1], "shape": [1.0]}', "/shape", "shape must be a list of integers"),
        (b'{"x": [[1e400]]}', "/x", "within the range"),
        (b'{"x": [[NaN]]}', "", "NaN is not JSON"),
        (b'{"x": [[1]], "x": [[2]]}', "/x", "given twice"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "", "nested too deeply|all of a"),
        (b'{"x": ' + b"[" * 70 + b"1" + b"]" * 70 + b"}", "/x", "x has 70 axes"),
        (b'{"x": [[true, 2.0]]}', "/x", "numbers only"),
        (b'{"x": []}', "/x", r"has the shape \(0\)"),
        (b'{"x": [[1]], "\\ud800": 1}', "", "half of a surrogate pair"),
        (b'{"x": 1, "a": [{"b": 1}, {"b~": 1, "b~": 2}]}', "/a/1/b~0", "a/1/b~0 is given twice"),
        (b'{"note": "it\'s", }', "", "cannot be read: [^;]*$"),
        (b"{\"note\": 'a'}", "", "column 10 .* need double quotes"),
    ],
    ids=range(31),
)
def test_invalid_json_bodies_are_refused_with_a_pointer(body: bytes, where: str, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule) as caught:
        JSON.read(body, ("x",))

    assert where == caught.value.faults[0].where


def test_only_a_body_of_arrays_is_told_which_formats_have_nan() -> None:
    with pytest.raises(InvalidBody, match="NaN is not JSON: only npy, safetensors and app"):
        JSON.read(b'{"x": [NaN]}', ("x",))
    with pytest.raises(InvalidBody, match=r"NaN is not JSON: its numbers are finite$"):
        read_object(b'{"rope_theta": NaN}')


def test_a_flat_list_has_the_shape_beside_it() -> None:
    flat = JSON.read(b'{"x": [1, 2, 3, 4, 5, 6], "shape": [2, 3], "start": 1}', ("x",))
    nested = JSON.read(b'{"x": [[true], [false]], "shape": "2,1"}', ("x",))

    assert flat.arrays["x"].elements.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert flat.parameters == {"start": 1}
    assert nested.arrays["x"].shape == (2, 1)
    with pytest.raises(InvalidBody, match="shape goes with one array: send x and y as nested"):
        JSON.read(b'{"x": [1], "y": [1], "shape": [1, 1]}', ("x", "y"))


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
