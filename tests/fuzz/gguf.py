"""Heads of GGUF files, compared with a plain reading of their keys."""

import struct
from contextlib import suppress
from typing import Any

from service.errors import InvalidBody
from service.models.documents import read_document
from service.models.gguf import Head
from tests.fuzz.harness import Harness, Source, held_to
from tests.models.gguf_files import ARRAY, STRING, gguf_file, model, text

_READER_BYTES, _TIMES = 2**20, 64
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LONG = 4096


def check(body: bytes) -> bool:
    if body[:4] != b"GGUF":
        return False
    is_read = False
    with suppress(InvalidBody), held_to(_READER_BYTES + _TIMES * len(body)):
        read_document(body)
        is_read = True
    try:
        head = Head(body)
    except InvalidBody:
        assert not is_read
        return False
    keys = _plain_keys(body, head.order)
    assert head.keys.keys() == keys.keys()
    for name, value in head.keys.items():
        assert value == keys[name] or (value != value and keys[name] != keys[name])  # noqa: PLR0124
    is_whole = len(body) >= 24 and [head.seen, len(keys)] == head.counts
    assert (head.cut_at is None) == is_whole
    return is_read


def _plain_keys(body: bytes, order: str) -> dict[str, Any]:
    """Read keys until the body ends; arrays of texts, and long ones, are None."""
    keys: dict[str, Any] = {}
    at = 24
    with suppress(struct.error, EOFError):
        (count,) = struct.unpack_from(f"{order}Q", body, 16)
        for _ in range(count):
            name, at = _plain_text(body, at, order)
            (kind,) = struct.unpack_from(f"{order}I", body, at)
            keys[name], at = _plain_value(body, at + 4, order, kind)
    return keys


def _plain_text(body: bytes, at: int, order: str) -> tuple[str, int]:
    (length,) = struct.unpack_from(f"{order}Q", body, at)
    end = at + 8 + length
    if end > len(body):
        raise EOFError
    return body[at + 8 : min(end, at + 8 + _LONG)].decode("utf-8", "replace"), end


def _plain_value(body: bytes, at: int, order: str, kind: int) -> tuple[Any, int]:
    if kind == STRING:
        return _plain_text(body, at, order)
    if kind != ARRAY:
        form = struct.Struct(order + _CODES[kind])
        return form.unpack_from(body, at)[0], at + form.size
    inner, count = struct.unpack_from(f"{order}IQ", body, at)
    at += 12
    if inner != STRING and at + count * struct.calcsize(_CODES[inner]) > len(body):
        raise EOFError
    items = []
    for _ in range(count):
        item, at = _plain_value(body, at, order, inner)
        items.append(item)
    return (None if inner == STRING or count > _LONG else items), at


_ARCHITECTURES = ("llama", "gemma3", "qwen2vl", "phi3", "bloom", "clip", "of-nobody", "")
_NAMES = (
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.dimension_sections",
    "attention.key_length",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.new",
)
_VALUES: tuple[Any, ...] = (
    1,
    0,
    64,
    2.0,
    0.0,
    float("nan"),
    "yarn",
    "linear",
    True,
    [16, 24, 24, 0],
    [1.5],
    ["a"],
    [],
)


def build(source: Source) -> bytes:
    """Build a head of nearly valid keys and tensors."""
    arch = source.pick(_ARCHITECTURES if source.happens(4) else _ARCHITECTURES[:4])
    keys = model(arch)
    for _ in range(source.integer(0, 4)):
        keys[f"{arch}.{source.pick(_NAMES)}"] = source.pick(_VALUES)
    if source.happens(2):
        keys["tokenizer.ggml.tokens"] = ["a", "", "b" * source.integer(0, 9)]
    tensors = [("rope_freqs.weight", [1.0] * 64)] if source.happens(4) else []
    order = source.pick("<<<>")
    file = bytearray(gguf_file(keys, tensors, order=order, version=source.pick((3, 3, 2, 1))))
    for _ in range(source.integer(0, 3) if source.happens(2) else 0):
        place = source.integer(0, len(file) - 1)
        file[place : place + 1] = source.bytes(1) or b"\xff"
    return bytes(file[: source.integer(0, len(file))]) if source.happens(4) else bytes(file)


_SEEDS = (
    gguf_file({**model("llama"), "tokenizer.ggml.tokens": ["a", "b"]}, [("x", [1.0])]),
    gguf_file(model("qwen2", **{"rope.freq_base": 1e6}), order=">"),
    gguf_file(model("gemma3", **{"attention.sliding_window": 512})),
    gguf_file(model("llama"), [("rope_freqs.weight", [2.0] * 64)]),
    b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", ARRAY, 0, 2**63),
    b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + text("a") + struct.pack("<IIQ", ARRAY, STRING, 2**40),
)

HARNESS = Harness(check, build, _SEEDS, (b"GGUF", b"llama.rope.", text("general.architecture")))
