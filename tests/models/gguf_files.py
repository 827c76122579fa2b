"""A small writer of GGUF heads, whose bytes are those of gguf 0.19.0 for the same keys."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = "BbHhIif?__Qqd"

Key = tuple[int, Any]
Tensor = tuple[str, Sequence[float]]


def gguf_file(
    keys: Mapping[str, Any],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    order: str = "<",
    alignment: int = 32,
) -> bytes:
    """Return a file with these keys, and tensors of float32."""
    parts = [b"GGUF", struct.pack(f"{order}IQQ", version, len(tensors), len(keys))]
    for name, value in keys.items():
        kind, own = value if isinstance(value, tuple) else typed(value)
        parts += [text(name, order), struct.pack(f"{order}I", kind), packed(kind, own, order)]
    offset, data = 0, b""
    for name, values in tensors:
        parts.append(text(name, order) + struct.pack(f"{order}IQIQ", 1, len(values), 0, offset))
        data += struct.pack(f"{order}{len(values)}f", *values)
        data += bytes(-len(data) % alignment)
        offset = len(data)
    head = b"".join(parts)
    return head + bytes(-len(head) % alignment) + data


def text(value: str, order: str = "<") -> bytes:
    raw = value.encode()
    return struct.pack(f"{order}Q", len(raw)) + raw


def typed(value: Any) -> Key:
    kinds = {bool: BOOL, int: U32, float: F32, str: STRING, list: ARRAY}
    return kinds[type(value)], value


def packed(kind: int, value: Any, order: str) -> bytes:
    if kind == STRING:
        return text(value, order)
    if kind != ARRAY:
        return struct.pack(f"{order}{_CODES[kind]}", value)
    # As gguf writes lists: int32, whatever their size.
    inner = {int: I32, str: STRING, float: F32, bool: BOOL}[type(value[0]) if value else int]
    items = b"".join(packed(inner, item, order) for item in value)
    return struct.pack(f"{order}IQ", inner, len(value)) + items


def model(arch: str, **own: Any) -> dict[str, Any]:
    """Return the keys of a model, with those of its architecture by their last names."""
    sizes = {"context_length": 8192, "embedding_length": 4096, "block_count": 8}
    keys = {**sizes, "attention.head_count": 32, **own}
    return {
        "general.architecture": arch,
        **{f"{arch}.{name}": value for name, value in keys.items()},
    }
