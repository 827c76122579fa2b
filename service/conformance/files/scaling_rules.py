"""Files of rotary tables: one for each scaling rule, with the keys of published configs."""

from collections.abc import Iterator

from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

# Where implementations break: bfloat16 counts to 256, float16 to 2048, float32 to 2^24.
FAR = (0, 1, 2, 257, 2049, 4095, 4097, 131071, 2**24 - 1, 2**24 + 1)


def _table(positions: tuple[int, ...], **parameters: object) -> Question:
    return Question("table", "/rope", parameters, positions)


def _default() -> Iterator[Asked]:
    yield "Llama 2: the base of the paper", _table(FAR, head_dim=32, rope_theta=10000.0)
    yield (
        "negative positions, as of tokens before the current one",
        _table((-4096, -257, -1, 0, 1), head_dim=16, rope_theta=1e6),
    )


FILES = (VectorFile("rope/default", _default),)
