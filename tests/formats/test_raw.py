"""bin: the elements without a header; any range of a binary body."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.delivery.endpoints import ElementTypeName
from service.encodings.rotary.angles import SequenceAngles, packed
from service.encodings.rotary.rules import Default
from service.errors import InvalidBody
from service.formats import FORMATS
from service.formats import format as format_module
from service.formats.format import ArrayHeader, BinaryBody, Input
from service.formats.raw import RAW, STORAGES
from service.numerics.dtypes import FLOAT32, REAL_DTYPES
from service.numerics.positions import Positions
from service.numerics.tables import Document, StoredTable

TABLE = StoredTable(np.arange(6, dtype="<f4").reshape(2, 3), FLOAT32)


def test_the_body_is_the_elements_little_endian_in_c_order() -> None:
    body = RAW.body(Document("encoding", {}, {"encoding": TABLE}))

    assert TABLE.elements.tobytes() == b"".join(body.blocks())


def body_of(extension: str, dtype: str, rows: int, pack: str = "flat") -> BinaryBody:
    document = packed(
        angles=SequenceAngles(Default(6, 10000.0), Positions.contiguous(-5, rows)),
        pack=pack,
        dtype=REAL_DTYPES[dtype],
    )
    body = FORMATS[extension].body(document)
    assert isinstance(body, BinaryBody)
    return body


@pytest.mark.parametrize(
    ("extension", "dtype", "pack"),
    [
        ("npy", "float32", "flat"),
        ("npy", "float64", "complex"),
        ("bin", "bfloat16", "concat"),
        ("safetensors", "float16", "half"),
    ],
)
@given(data=st.data())
def test_any_range_of_bytes_equals_that_of_the_whole_body(
    extension: str, dtype: str, pack: str, data: st.DataObject
) -> None:
    body = body_of(extension, dtype, 40, pack)
    whole = b"".join(body.blocks())
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))

    assert len(whole) == body.length_bytes
    assert whole[start:stop] == b"".join(body.blocks(start, stop))


def test_blocks_have_bounded_size_and_join_to_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of("npy", "float64", 100)
    whole = b"".join(body.blocks())
    monkeypatch.setattr(format_module, "BLOCK_BYTES", 100)

    blocks = list(body.blocks())

    assert whole == b"".join(blocks)
    assert max(len(block) for block in blocks[1:]) <= 100


def test_the_last_bytes_of_a_huge_table_are_computed_alone() -> None:
    body = body_of("bin", "float32", 2**55)

    assert body.length_bytes == 2**55 * 6 * 4
    assert len(b"".join(body.blocks(body.length_bytes - 24))) == 24


def test_blocks_of_tables_are_read_only_views() -> None:
    (block,) = body_of("bin", "bfloat16", 8).blocks()

    assert isinstance(block, memoryview)
    assert block.readonly
    assert len(block) == block.nbytes == 8 * 6 * 2


def read(body: bytes, dtype: str, *shape: int) -> Input:
    assert RAW.with_header is not None
    return RAW.with_header(ArrayHeader(shape, dtype)).read(body, ())


@pytest.mark.parametrize("dtype", STORAGES)
def test_elements_of_every_type_are_read_as_the_header_says(dtype: str) -> None:
    sent = np.arange(6).reshape(2, 3).astype(STORAGES[dtype])

    content = read(sent.tobytes(), dtype, 2, 3)

    (table,) = content.arrays.values()
    assert not content.is_named
    assert table.shape == (2, 3)
    assert dict.fromkeys(content.arrays, dtype) == (
        content.integer_types or dict.fromkeys(content.arrays, table.dtype.name)
    )
    assert table.read(0, 6).tolist() == sent.reshape(-1).tolist()


def test_a_query_has_a_name_for_every_type_that_is_read() -> None:
    def names(kind: object) -> set[object]:
        return {kind} if isinstance(kind, str) else set().union(*map(names, get_args(kind)))

    assert names(ElementTypeName) == set(STORAGES)


@pytest.mark.parametrize(
    ("length", "dtype", "detail"),
    [
        (
            48,
            "float32",
            "24 bytes, and the body has 48: are its elements float64 or complex64?",
        ),
        (
            12,
            "float32",
            "24 bytes, and the body has 12: are its elements float16 or bfloat16?",
        ),
        (48, "int32", "24 bytes, and the body has 48: are its elements int64 or uint64?"),
        (6, "float64", "48 bytes, and the body has 6"),
        (0, "bool", "6 bytes, and the body has 0"),
    ],
)
def test_wrong_length_is_refused_with_the_types_that_would_fit(
    length: int, dtype: str, detail: str
) -> None:
    with pytest.raises(InvalidBody) as caught:
        read(bytes(length), dtype, 2, 3)

    assert caught.value.detail == f"shape=2,3 of {dtype} takes {detail}"


def test_an_npy_file_is_no_raw_body() -> None:
    with pytest.raises(InvalidBody, match="Send that as application/x-npy"):
        read(b"\x93NUMPY\x01\x00".ljust(152), "float32", 2, 3)


def test_an_impossible_shape_is_refused() -> None:
    for shape in ((), (0,), (-1, -24), (1,) * 9, (2**63,)):
        with pytest.raises(InvalidBody):
            read(bytes(24), "float32", *shape)


def test_a_body_of_unknown_shape_is_refused() -> None:
    with pytest.raises(InvalidBody, match="shape and type are unknown"):
        RAW.read(bytes(24), ())


def test_elements_are_counted_as_those_of_an_npy_file() -> None:
    assert RAW.with_header is not None
    form = RAW.with_header(ArrayHeader((2, 3), "float32"))

    assert form.count_elements(TABLE.elements.tobytes()) == TABLE.elements.size
    assert form.count_elements(bytes(23)) == RAW.count_elements(bytes(24)) == 0
