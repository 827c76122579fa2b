"""npy: the files that NumPy writes and reads, and refusal of any other."""

import io
import warnings

import numpy as np
import pytest

from service.errors import InvalidBody
from service.formats.format import INTEGER_STORAGES
from service.formats.npy import NPY
from service.numerics.dtypes import FLOAT32, FLOAT64, INT64
from service.numerics.tables import Document, StoredTable


def document(elements: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Document:
    return Document("encoding", {}, {"encoding": StoredTable(elements, FLOAT64)})


def saved(array: object, **options: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(), (5,), (4, 4), (2, 3, 4), (1, 100, 512)])
def test_the_bytes_are_those_that_numpy_saves(shape: tuple[int, ...]) -> None:
    elements = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)

    body = b"".join(NPY.body(document(elements)).blocks())

    assert saved(elements) == body
    assert len(body) - elements.nbytes == 128


def single_array(body: bytes) -> StoredTable:
    (table,) = NPY.read(body, ()).arrays.values()
    return table


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", "<c8", "<c16", *INTEGER_STORAGES])
def test_files_of_numpy_are_read(dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 0]]).astype(dtype)

    table = single_array(saved(array))

    is_integer = dtype in INTEGER_STORAGES
    read = table.read(0, 6)
    assert table.dtype.storage == read.dtype == ("<i8" if is_integer else dtype)
    assert (table.dtype is INT64) == is_integer
    assert read.tolist() == array.astype(table.dtype.storage).reshape(-1).tolist()


def test_the_array_has_no_name_and_may_have_one_axis() -> None:
    content = NPY.read(saved(np.arange(3.0)), ("slopes", "mask"))

    assert not content.is_named
    assert [table.shape for table in content.arrays.values()] == [(3,)]


def test_fortran_order_is_read() -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    body = saved(array)

    assert b"'fortran_order': True" in body
    assert array.tolist() == single_array(body).elements.tolist()


def test_version_2_is_read() -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ones((2, 2), dtype="<f4"), version=(2, 0))

    assert single_array(stream.getvalue()).dtype == FLOAT32


GOOD = saved(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr':'<f8','fortran_order':False,'shape':(2,3)}",
        b'{"shape": (2, 3,), "fortran_order": False, "descr": "=f8"}',
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L), }",
        b" {'fortran_order': False,\n 'descr': 'float64', 'shape': ( 2 , 3 ) , } \r\n",
    ],
)
def test_headers_of_other_programs_are_read_without_a_warning(header: bytes) -> None:
    body = with_header(header)

    assert single_array(body).elements.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def with_header(header: bytes) -> bytes:
    """Return a file with this header and six elements."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + GOOD[128:]


def with_shape(shape: str) -> bytes:
    return with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode())


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "not a readable npy header"),
        (GOOD[:-1], "48 bytes of elements .* and 47 follow"),
        (GOOD + b"\0", "48 bytes of elements .* and 49 follow"),
        (b"\x93NUMPZ" + GOOD[6:], "not a readable npy header"),
        (GOOD[:6] + b"\x03\x00" + GOOD[8:], "npy format 3.0: send version 1.0 or 2.0"),
        (saved(np.array([[{}]], dtype=object), allow_pickle=True), "a pickle"),
        (saved(np.ones((2, 2), dtype=">f4")), "big-endian"),
        (saved(np.full((2, 2), 2**63, dtype="<u8")), r"x holds integers beyond 2\^63 - 1"),
        (saved(np.ones((2, 2), dtype="<M8[s]")), r"elements are <M8\[s\]: send one of"),
        (saved(np.ones((2, 2), dtype="<f4").astype("S4")), "send one of float32"),
        (saved(np.ones(2, dtype=[("a", "<f4")])), "send one of float32"),
        (GOOD.replace(b"(2, 3)", b"(2,-3)"), "a length of 1 or more"),
        (GOOD.replace(b"(2, 3), }", b"(2, 9**9)"), "not a readable npy header"),
        (GOOD.replace(b"'<f8'", b"'x!8'"), "elements are x!8: send one of float32"),
        (with_shape("(True, 2)"), "a length of 1 or more|not a readable npy header"),
        (with_shape(f"(0, {2**60})"), "a length of 1 or more"),
        (with_shape(f"({2**60}, {2**60})"), "bytes of elements"),
        (with_shape(f"({2**63}, 1)"), r"x has an axis longer than 2\^63 - 1"),
        (with_shape(f"({'9' * 5000}, 0)"), "an axis longer"),
        (with_shape("(2)"), "not a readable npy header"),
        (with_shape("[2, 3]"), "not a readable npy header"),
        (with_shape("(2, 3), 'descr': '<f8'"), "not a readable npy header"),
        (
            with_shape("(2, 3)").replace(b"'fortran_order': False,", b""),
            "not a readable npy header",
        ),
        (with_shape("(2, 3)").replace(b"False", b"'no'"), "not a readable npy header"),
        (with_shape("(2, 3)").replace(b"'descr'", b"'d\\escr'"), "not a readable npy header"),
        (GOOD[:6], "the body is no npy file"),
        (with_shape(str((1,) * 65)), "x has 65 axes"),
        (with_shape("()"), "x has 0 axes"),
        (with_shape("(2, 3), 'more': '" + "x" * 11000 + "'"), "not a readable npy header"),
        (GOOD[:8] + b"\xff\xff" + GOOD[10:], "not a readable npy header"),
    ],
    ids=range(30),
)
def test_invalid_files_are_refused_with_the_reason(body: bytes, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule):
        NPY.read(body, ("x",))


@pytest.mark.parametrize(
    ("descr", "shape"), [("'\\d'", "(2, 3)"), ("'<f8'", "(1in [], 3)"), ("'a8'", "(2L, 3L)")]
)
def test_no_header_causes_a_warning(descr: str, shape: str) -> None:
    body = with_shape(shape).replace(b"'<f8'", descr.encode())

    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        pytest.raises(InvalidBody),
    ):
        NPY.read(body, ())

    assert not caught
