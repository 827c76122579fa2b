"""safetensors: files that the library reads and writes, the same bytes on every run."""

import json
import math

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from service.errors import InvalidBody
from service.formats.format import INTEGER_STORAGES
from service.formats.safetensors_file import MAX_HEADER_BYTES, MAX_TENSORS, SAFETENSORS
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from service.numerics.tables import Document, StoredTable

COS = StoredTable(np.array([[1.0, 0.5]], dtype="<f4"), FLOAT32)
SIN = StoredTable(np.array([[0.0, -0.5]], dtype="<f4"), FLOAT32)
TWO = Document(
    "rope", {"rope_theta": 10000.0, "pack": "compact", "inverse": False}, {"sin": SIN, "cos": COS}
)


def body(document: Document) -> bytes:
    return b"".join(SAFETENSORS.body(document).blocks())


def header(raw: bytes) -> dict[str, dict[str, object]]:
    length = int.from_bytes(raw[:8], "little")
    content: dict[str, dict[str, object]] = json.loads(raw[8 : 8 + length])
    return content


def test_the_metadata_has_every_parameter() -> None:
    assert header(body(TWO))["__metadata__"] == {
        "kind": "rope",
        "revision": "1",
        "rope_theta": "10000.0",
        "pack": "compact",
        "inverse": "false",
    }


def test_keys_are_sorted_and_elements_aligned() -> None:
    raw = body(TWO)

    assert sorted(header(raw)) == list(header(raw))
    assert int.from_bytes(raw[:8], "little") % 8 == 0


def test_arrays_of_different_types_are_read_back_by_the_library() -> None:
    wide = StoredTable(np.array([[2.0]], dtype="<f8"), FLOAT64)
    narrow = StoredTable(np.array([[0x3FC0]], dtype="<u2"), BFLOAT16)
    half = StoredTable(np.array([[3.0]], dtype="<f2"), FLOAT16)

    raw = body(Document("rope-apply", {}, {"a": narrow, "b": wide, "c": half}))

    deserialized = safetensors.deserialize(raw)  # type: ignore[no-untyped-call]
    loaded = {name: bytes(view["data"]) for name, view in deserialized}
    tables = {"a": narrow, "b": wide, "c": half}
    assert loaded == {name: table.elements.tobytes() for name, table in tables.items()}


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        *((np.dtype(storage), INT64) for storage in INTEGER_STORAGES),
        (np.dtype(np.complex64), COMPLEX64),
        (np.dtype(np.float16), FLOAT16),
        (np.dtype(ml_dtypes.bfloat16), BFLOAT16),
    ],
)
def test_tensors_of_the_library_are_read_by_their_names(
    dtype: np.dtype[np.generic], expected: DType
) -> None:
    sent = np.array([[1, 0]]).astype(dtype)

    arrays = SAFETENSORS.read(safetensors.numpy.save({"a": sent, "zzz": sent}), ("a", "b")).arrays

    assert arrays.keys() == {"a", "zzz"}
    for table in arrays.values():
        elements = table.read(0, 2)
        assert table.dtype is expected
        assert elements.dtype == np.dtype(expected.storage)
        assert (elements.view(dtype) if expected is BFLOAT16 else elements).tolist() == [1, 0]


def test_axes_are_stated_where_their_order_is_a_convention() -> None:
    axes = ("query", "key")

    named = Document("relative-t5", {}, {"t5": COS}, axes=axes)
    stated = Document("relative-t5", {}, {"t5": COS}, axes=axes, states_axes=True)

    assert "axes" not in header(body(named))["__metadata__"]
    assert header(body(stated))["__metadata__"]["axes"] == "query, key"


def crafted(shape: list[int], code: str = "F32", itemsize_bytes: int = 4, name: str = "x") -> bytes:
    """Return a file with one tensor, of a shape that the library may refuse to write."""
    size = itemsize_bytes * math.prod(shape)
    text = json.dumps({name: {"dtype": code, "shape": shape, "data_offsets": [0, size]}}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


def described(offsets: list[float], **changes: object) -> bytes:
    """Return a file of 4 bytes whose one tensor of a float32 has these offsets."""
    tensor = {"dtype": "F32", "shape": [1], "data_offsets": offsets, **changes}
    text = json.dumps({"x": tensor}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(4)


MANY = safetensors.numpy.save(
    {str(n): np.ones((1, 1), dtype=np.float32) for n in range(MAX_TENSORS + 1)}
)
GOOD = safetensors.numpy.save({"x": np.ones((2, 2), dtype=np.float32)})


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "not a safetensors file"),
        (GOOD[:-1], "not a safetensors file"),
        (GOOD + b"\0", "not a safetensors file"),
        (b"\xff" * 8 + GOOD[8:], "not a safetensors file"),
        (described([0, 2]), "offsets of x do not fit"),
        (described([4, 8]), "offsets of x do not fit"),
        (described([0, 4.0]), "offsets integers"),
        (described([0, 4, 8]), "offsets integers"),
        (described([0]), "offsets integers"),
        (described([-4, 0]), "offsets integers"),
        (described([0, 4], dtype=None), "dtypes must be text"),
        (described([0, 4], shape=4), "not that of tensors"),
        (crafted([1], "X" * MAX_HEADER_BYTES), "more than 1048576"),
        (crafted([2], "F8_E8M0", 1), "x is F8_E8M0: send one of F64"),
        (
            safetensors.numpy.save({"x": np.full(2, 2**63, dtype=np.uint64)}),
            r"x holds integers beyond 2\^63 - 1",
        ),
        (safetensors.numpy.save({}), "holds 0 tensors"),
        (crafted([1] * 65), "x has 65 axes"),
        (crafted([0, 2**62]), "a length of 1 or more"),
        (crafted([0, 2**63]), "an axis longer"),
        (crafted([]), "x has 0 axes"),
        (MANY, f"holds {MAX_TENSORS + 1} tensors: 1 to {MAX_TENSORS}"),
        (crafted([1], name="\ud800"), "not that of tensors"),
    ],
    ids=range(22),
)
def test_invalid_files_are_refused_with_the_reason(raw: bytes, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule):
        SAFETENSORS.read(raw, ("x",))


def test_tensors_are_counted_before_any_is_described() -> None:
    text = json.dumps(dict.fromkeys(map(str, range(MAX_TENSORS + 1)))).encode()

    with pytest.raises(InvalidBody, match=f"holds {MAX_TENSORS + 1} tensors"):
        SAFETENSORS.read(len(text).to_bytes(8, "little") + text, ())
