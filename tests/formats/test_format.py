"""The tables that each format accepts, and arrays of request bodies."""

import io
import tracemalloc
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from safetensors.numpy import save

from service.errors import Fault, InvalidBody
from service.formats import FORMATS
from service.formats.format import (
    INTEGER_STORAGES,
    MAX_RANK,
    ReadableFormat,
    check_shape,
    integers,
)
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.png import MAX_CURVE_ELEMENTS, MAX_ELEMENTS
from service.formats.safetensors_file import SAFETENSORS
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT32, FLOAT64, INT64, DType, Elements
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Curves,
    Document,
    StoredTable,
    Table,
    gather_rows,
    size,
)


class Unread:
    """A table of any shape and type that fails when it is read."""

    element_seconds = ELEMENT_SECONDS
    overflows = False

    def __init__(self, *shape: int, dtype: DType = FLOAT64, overflows: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.overflows = overflows

    def read(self, start: int, stop: int) -> Elements:
        raise AssertionError((start, stop))


NAN = gather_rows(
    StoredTable(np.full((1, 1), np.nan), FLOAT64), StoredTable(np.zeros(1, np.int64), INT64)
)
NUMBER, VECTOR, MATRIX, CUBE = Unread(), Unread(4), Unread(2, 3), Unread(1, 4, 4)
COMPLEX, BITS = Unread(2, 2, dtype=COMPLEX64), Unread(2, 2, dtype=BFLOAT16)
OVERFLOWING = Unread(2, 2, dtype=FLOAT32, overflows=True)


def document(table: Table, axes: tuple[str, ...] = (), curves: Curves | None = None) -> Document:
    return Document("encoding", {}, {"encoding": table}, axes=axes, curves=curves)


@pytest.mark.parametrize(
    ("extension", "table", "reason"),
    [
        ("json", COMPLEX, "JSON has no complex numbers"),
        ("json", NAN, "JSON has no NaN and no infinity"),
        ("json", OVERFLOWING, "numbers may be too large for float32, and JSON has no infinity"),
        ("npy", BITS, "NumPy has no bfloat16"),
        ("safetensors", COMPLEX, "safetensors has no complex numbers"),
        ("csv", COMPLEX, "CSV has no complex numbers"),
        ("csv", NAN, "CSV has no NaN and no infinity"),
        ("csv", CUBE, "it holds arrays of at most 2 axes, and this one has 3"),
        ("png", COMPLEX, "PNG has no complex numbers"),
        ("png", NUMBER, "it holds arrays of 1 or 2 axes, and this one has 0"),
        ("png", CUBE, "it holds arrays of 1 or 2 axes, and this one has 3"),
        ("png", Unread(MAX_CURVE_ELEMENTS + 1), f"it shows up to {MAX_CURVE_ELEMENTS} elements"),
        ("png", Unread(2**40, 2**20), f"it shows up to {MAX_ELEMENTS} elements"),
        ("png", Unread(1, MAX_ELEMENTS + 1), f"these are {MAX_ELEMENTS + 1}: request fewer"),
    ],
)
def test_a_table_that_a_format_cannot_hold_is_refused_with_the_reason(
    extension: str, table: Table, reason: str
) -> None:
    assert reason in (FORMATS[extension].refusal(document(table)) or "")


@pytest.mark.parametrize(
    ("table", "extensions"),
    [
        (MATRIX, "json npy safetensors bin csv png"),
        (VECTOR, "json npy safetensors bin csv png"),
        (NUMBER, "json npy safetensors bin csv"),
        (CUBE, "json npy safetensors bin"),
        (BITS, "json safetensors bin csv png"),
        (COMPLEX, "npy bin"),
        (OVERFLOWING, "npy safetensors bin csv png"),
        (NAN, "npy safetensors bin png"),
        (Unread(2**11, 2**11), "json npy safetensors bin csv png"),
    ],
)
def test_every_other_table_is_accepted(table: Table, extensions: str) -> None:
    accepted = [name for name, form in FORMATS.items() if form.refusal(document(table)) is None]

    assert accepted == extensions.split()


def test_curves_have_a_lower_limit_of_elements() -> None:
    png = FORMATS["png"]
    most, too_many = Unread(1, MAX_CURVE_ELEMENTS), Unread(2, MAX_CURVE_ELEMENTS)

    assert png.refusal(document(most, curves="rows")) is None
    assert f"up to {MAX_CURVE_ELEMENTS}" in (png.refusal(document(too_many, curves="rows")) or "")


def test_one_axis_with_components_has_the_limit_of_a_heat_map() -> None:
    described = document(Unread(MAX_CURVE_ELEMENTS, 2), ("position", "component"))

    assert FORMATS["png"].refusal(described) is None


@pytest.mark.parametrize(
    ("table", "curves", "count"),
    [
        (MATRIX, None, 0),
        (MATRIX, "rows", 2),
        (MATRIX, "columns", 3),
        (VECTOR, None, 1),
        (NUMBER, None, 0),
    ],
)
def test_drawing_takes_time_for_each_curve(table: Table, curves: Curves | None, count: int) -> None:
    png = FORMATS["png"]
    others = png.drawing_seconds + png.number_seconds * size(table)

    seconds = png.seconds(document(table, curves=curves))
    assert seconds == pytest.approx(others + count * png.curve_seconds)


@pytest.mark.parametrize("extension", ["npy", "bin", "csv", "png"])
def test_several_arrays_are_refused_with_the_parameter_that_selects_one(extension: str) -> None:
    several = Document("rope", {}, {"cos": MATRIX, "sin": MATRIX}, has_parts=True)
    form = FORMATS[extension]

    assert (form.refusal(several) or "").endswith("these are 2: add part=cos|sin")
    assert (form.refusal(replace(several, has_parts=False)) or "").endswith("these are 2")
    assert FORMATS["safetensors"].refusal(several) is None


HEADS, BATCHES = ("head", "query", "key"), ("batch", "head", "query", "key")
ONE_HEAD = {"head": "add head=0", "other": "add other=0"}


@pytest.mark.parametrize(
    ("axes", "removable", "end"),
    [
        (HEADS, {}, "one has 3: head, query, key"),
        (HEADS, ONE_HEAD, "key; add head=0"),
        (BATCHES, ONE_HEAD, "one has 4: batch, head, query, key"),
        (BATCHES, {**ONE_HEAD, "batch": "leave out batch"}, "key; leave out batch and add head=0"),
        ((*HEADS, "component"), {}, "one has 3: head, query, key"),
    ],
)
def test_a_refusal_says_how_to_request_two_axes(
    axes: tuple[str, ...], removable: dict[str, str], end: str
) -> None:
    described = document(Unread(*range(2, 2 + len(axes))), axes)

    refusal = FORMATS["png"].refusal(replace(described, removable=removable))

    assert (refusal or "").endswith(end)


@pytest.mark.parametrize("shape", [(1,), (1,) * MAX_RANK, (2**60, 2**60)])
def test_shapes_with_axes_and_elements_are_valid(shape: tuple[int, ...]) -> None:
    check_shape("x", shape)


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        ((), "x has 0 axes: 1 to 8 are possible"),
        ((1,) * (MAX_RANK + 1), "x has 9 axes: 1 to 8 are possible"),
        ((0,), r"x has the shape \(0\): every axis needs a length"),
        ((3, -1), r"has the shape \(3, -1\)"),
        ((True, 2), r"has the shape \(True, 2\)"),
        ((2.0, 2), r"has the shape \(2.0, 2\)"),
        ((2**63, 0), r"x has an axis longer than 2\^63 - 1"),
        ((16**5000,), "an axis longer"),
    ],
)
def test_invalid_shapes_are_refused(shape: tuple[object, ...], rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule):
        check_shape("x", shape)


def test_errors_cut_long_names_and_shapes() -> None:
    with pytest.raises(InvalidBody) as caught:
        check_shape("n" * 10_000, (2**62, 0) * 4)

    assert len(caught.value.detail) < 250


@pytest.mark.parametrize("storage", INTEGER_STORAGES)
def test_the_least_and_the_largest_integer_of_a_type_are_kept(storage: str) -> None:
    dtype = np.dtype(storage)
    ends = [0, 1] if dtype.kind == "b" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    ends = [min(int(end), 2**63 - 1) for end in ends]

    table = integers("x", np.array([ends], dtype=dtype))

    assert table.dtype is INT64
    assert table.read(0, 2).dtype == np.dtype(INT64.storage)
    assert table.read(0, 2).tolist() == ends


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_boolean_is_0_or_1_and_the_first_other_byte_is_named(order: Literal["C", "F"]) -> None:
    stored = np.array([[0, 1, 0], [1, 255, 2]], dtype=np.uint8, order=order).view(np.bool_)

    assert integers("mask", stored[:1]).elements.tolist() == [[0, 1, 0]]
    with pytest.raises(InvalidBody) as caught:
        integers("mask", stored)

    rule = "mask holds the byte 255 at index [1, 1]: a bool is 0 or 1"
    assert caught.value.faults == (Fault("/mask", "255", rule, in_body=True),)


@pytest.mark.parametrize("extension", ["json", "csv", "png"])
def test_a_body_of_unknown_length_is_only_computed_whole(extension: str) -> None:
    body = FORMATS[extension].body(document(MATRIX))

    assert body.length_bytes is None
    for span in ((1, None), (0, 5)):
        with pytest.raises(ValueError, match="only computed whole"):
            list(body.blocks(*span))


@pytest.mark.parametrize("extension", ["json", "csv"])
def test_text_between_two_blocks_keeps_nothing_of_the_one_before(extension: str) -> None:
    table = StoredTable(np.random.default_rng(1).standard_normal((500, 512)), FLOAT64)
    body = FORMATS[extension].body(Document("noise", {}, {"noise": table}))
    list(body.blocks())

    tracemalloc.start()
    blocks = filter(None, body.blocks())
    block = next(block for block in blocks if len(block) > 100_000)
    block_bytes = len(block)
    del block
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held_bytes < block_bytes / 4
    assert next(blocks)


def test_integers_beyond_int64_are_refused_and_not_wrapped() -> None:
    with pytest.raises(InvalidBody, match=r"beyond 2\^63 - 1"):
        integers("x", np.array([1, 2**63], dtype="<u8"))


def npy_file(elements: Elements) -> bytes:
    stream = io.BytesIO()
    np.save(stream, elements)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (NPY, npy_file(np.ones((8, 8), "<f4"))),
        (NPY, npy_file(np.asfortranarray(np.ones((8, 8), "<f4")))),
        (NPY, npy_file(np.ones((8, 8), "|u1"))),
        (SAFETENSORS, save({"x": np.ones((8, 8), "<f2")})),
        (SAFETENSORS, save({"x": np.ones((8, 8), "<i8")})),
    ],
)
def test_elements_of_a_body_are_not_copied_and_cannot_be_written(
    form: ReadableFormat, body: bytes
) -> None:
    (table,) = form.read(memoryview(body), ()).arrays.values()

    assert np.shares_memory(table.elements, np.frombuffer(body, np.uint8))
    assert not table.elements.flags.writeable


def test_json_is_read_from_a_view() -> None:
    assert JSON.read(memoryview(b'{"x": [1, 2]}'), ("x",)).arrays["x"].shape == (2,)
