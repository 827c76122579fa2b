"""bin: the elements without a header; any range of a binary body."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.rotary.angles import SequenceAngles, packed
from service.encodings.rotary.rules import Default
from service.formats import FORMATS
from service.formats import format as format_module
from service.formats.format import BinaryBody
from service.formats.raw import RAW
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
