"""``bin``, compared with NumPy: a line that describes the array, and its bytes."""

from contextlib import suppress
from math import prod

import numpy as np

from service.errors import InvalidBody
from service.formats.format import ArrayHeader
from service.formats.raw import RAW, STORAGES
from tests.fuzz.harness import Harness, Source, held_to
from tests.fuzz.written import check_written

_READER_BYTES = 2**20


def check(data: bytes) -> bool:
    line, _, body = data.partition(b"\n")
    header = _header(line)
    if header is None:
        return False
    assert RAW.with_header is not None
    form = RAW.with_header(header)
    try:
        with held_to(_READER_BYTES):
            sent = form.read(body, ())
    except InvalidBody:
        assert not _must_be_read(header, body)
        assert form.count_elements(body) == 0
        return False
    ((name, table),) = sent.arrays.items()
    expected = np.frombuffer(body, STORAGES[header.dtype])
    assert table.shape == header.shape
    assert form.count_elements(body) == expected.size
    assert sent.integer_types.get(name, table.dtype.name) == header.dtype
    read = table.read(0, expected.size)
    if sent.integer_types:
        assert read.tolist() == expected.astype(object).tolist()
    else:
        assert read.tobytes() == body
    check_written({"x": table})
    return True


def _header(line: bytes) -> ArrayHeader | None:
    lengths, _, name = line.decode("latin-1").partition(" ")
    with suppress(ValueError):
        shape = tuple(int(length) for length in lengths.split(","))
        return ArrayHeader(shape, name) if name in STORAGES else None
    return None


def _must_be_read(header: ArrayHeader, body: bytes) -> bool:
    shape, storage = header.shape, np.dtype(STORAGES[header.dtype])
    if not 1 <= len(shape) <= 8 or min(shape) < 1 or max(shape) > 2**63 - 1:
        return False
    if prod(shape) * storage.itemsize != len(body):
        return False
    if storage.str == "|b1":
        return max(body) <= 1
    return storage.str != "<u8" or not (np.frombuffer(body, storage) >= 2**63).any()


def build(source: Source) -> bytes:
    """Build a header, and nearly as many bytes as it needs."""
    shape = [source.integer(1, 4) for _ in range(source.integer(1, 3))]
    name = source.pick(tuple(STORAGES))
    count = prod(shape) * np.dtype(STORAGES[name]).itemsize
    count += source.integer(-1, 1) if source.happens(4) else 0
    if source.happens(8):
        shape[0] = source.pick((0, -1, 2**62, 2**63))
    body = source.bytes(max(count, 0)).ljust(count, b"\1")
    return f"{','.join(map(str, shape))} {name}\n".encode() + body


_SEEDS = (
    *(
        f"2,3 {name}\n".encode() + np.ones(6, storage).tobytes()
        for name, storage in STORAGES.items()
    ),
    b"2 uint64\n" + b"\xff" * 16,
    b"1 float32\n\1\0\x80\x7f",
    b"2,3 float32\n",
    b"2,-3,-1 bool\n" + b"\1" * 6,
    b"9223372036854775808 bool\n\1",
    b"1,1,1,1,1,1,1,1,1 bool\n\1",
)

HARNESS = Harness(check, build, _SEEDS, (b",", b" float32\n", b" bfloat16\n", b" uint64\n"))
