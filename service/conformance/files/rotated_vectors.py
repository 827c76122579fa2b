"""The file of rotations: only they show pairs, channels that pass, and the direction."""

from collections.abc import Iterator
from math import prod
from random import Random
from typing import Any

import numpy as np

from service.conformance.files.several_axes import MEDIA
from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

_ROWS = (0, 1, 2, 257, 2049, 4097)
_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
}


def vectors(*shape: int) -> list[Any]:
    """Return multiples of 1/8 from −1 to 1, which every type holds, of no simple pattern."""
    numbers = np.arange(prod(shape))
    # 17 values; a step that has no factor in common with a width, and a slow drift.
    eighths = (numbers * 7 + numbers // 17 * 5 + numbers // 5) % 17 - 8
    nested: list[Any] = (np.where(eighths == 0, 3, eighths) / 8).reshape(shape).tolist()
    return nested


def _rotate() -> Iterator[Asked]:
    def rotate(
        shape: tuple[int, ...], positions: tuple[int, ...] | None = None, **parameters: Any
    ) -> Question:
        given = {"head_dim": shape[-1], "rope_theta": 10000.0, **parameters}
        return Question("rotate", "/rope/apply", given, positions, vectors(*shape))

    yield "pairs (k, k + r/2)", rotate((6, 16), _ROWS, layout="half")
    yield "pairs (2k, 2k + 1)", rotate((6, 16), _ROWS, layout="interleaved")
    yield (
        "GPT-NeoX: the first channels turn, the others pass",
        rotate((6, 24), _ROWS, rotary_dim=8, layout="half"),
    )
    yield (
        "GPT-J: the first channels turn in pairs (2k, 2k + 1)",
        rotate((6, 24), _ROWS, rotary_dim=8, layout="interleaved"),
    )
    yield (
        "DeepSeek: the last channels of a head turn",
        rotate((5, 24), _ROWS[:5], rotary_dim=8, rotary_offset=16, layout="interleaved"),
    )
    yield (
        "DeepSeek-V3 in transformers: pairs are read as (2k, 2k + 1), written as (k, k + r/2)",
        rotate((5, 16), _ROWS[:5], layout="interleaved", output_layout="half"),
    )
    yield (
        "three heads, with positions out of order and one of them twice",
        rotate((3, 5, 8), (7, 3, 257, 3, 0), layout="half", rope_theta=500000.0),
    )
    yield (
        "YaRN: the factor multiplies what is rotated",
        rotate((4, 16), (0, 1, 257, 32769), layout="half", **_YARN),
    )
    yield (
        "a step of a decoder: rows of the cache come first",
        rotate((4, 16), None, layout="half", start=4095),
    )
    yield "the rotation back", rotate((4, 8), (0, 1, 5, 257), layout="half", inverse=True)
    yield (
        "two sequences of a batch, each after rows of its own in the cache",
        rotate(
            (2, 4, 8),
            None,
            layout="half",
            seqlen_offsets=[5, 300],
            axes=["batch", "seq", "channel"],
        ),
    )
    yield (
        "xPos: keys",
        rotate((4, 8), (0, 1, 64, 513), layout="interleaved", xpos="key", xpos_centre=256),
    )
    yield (
        "M-RoPE: an image within a text",
        rotate((10, 16), None, layout="half", mrope_section=[2, 3, 3], **MEDIA),
    )

    def axial(convention: str, layout: str, grid: list[int], head_dim: int) -> Question:
        parameters = {"convention": convention, "grid": grid, "layout": layout}
        x = vectors(prod(grid), head_dim)
        return Question("rotate", "/rope/axial/apply", parameters, None, x)

    yield "Qwen2-VL's vision: pairs (k, k + r/2)", axial("qwen2_vl", "half", [2, 3], 16)
    yield "SAM 2: pairs (2k, 2k + 1), columns first", axial("sam2", "interleaved", [2, 3], 8)
    yield "the halves of each axis", axial("allegro", "half_by_axis", [2, 1, 2], 12)
    yield (
        "half of the head turns and has YaRN's factor, which the other half has not",
        rotate((4, 16), (0, 1, 257, 32769), rotary_dim=8, layout="half", **_YARN),
    )


def _drawn(random: Random) -> Asked:
    head_dim = 2 * random.randrange(2, 33)
    rows = tuple(random.randrange(40000) for _ in range(6))
    parameters = {
        "head_dim": head_dim,
        "rotary_dim": 2 * random.randrange(1, head_dim // 2 + 1),
        "layout": random.choice(("half", "interleaved")),
        "rope_theta": random.choice((10000.0, 500000.0, 1000000.0)),
    }
    x = [[random.randrange(-8, 9) / 8 for _ in range(head_dim)] for _ in rows]
    return "drawn", Question("rotate", "/rope/apply", parameters, rows, x)


FILES = (VectorFile("rope/rotate", _rotate, _drawn),)
