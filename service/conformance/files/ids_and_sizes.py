"""Files of position ids, of the weights that resize a learned table, and of resized tables."""

from collections.abc import Iterator
from random import Random
from typing import Any

from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question


def _ids(convention: str, **parameters: Any) -> Question:
    return Question("positions", "/positions", {"convention": convention, **parameters})


def _positions() -> Iterator[Asked]:
    yield (
        "padding on the left is not counted, and has position 0",
        _ids("mask", masked=0, attention_mask=[[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]]),
    )
    yield (
        "RoBERTa counts from padding_idx + 1",
        _ids("padding_idx", padding_idx=1, input_ids=[[0, 5, 6, 2, 1, 1], [0, 7, 2, 1, 1, 1]]),
    )
    yield "OPT adds 2", _ids("opt", attention_mask=[[0, 0, 1, 1], [1, 1, 1, 1]])
    yield "packed sequences each begin at 0", _ids("packed", lengths=[3, 1, 4])
    yield (
        "Qwen2-VL: an image between texts, beside a prompt of text",
        _ids("qwen2_vl", rows=[[{"text": 2}, {"image": [1, 4, 6]}, {"text": 2}], [{"text": 10}]]),
    )
    yield (
        "Qwen2.5-VL: a video of one second a frame, which moves on by two",
        _ids(
            "qwen2_5_vl",
            rows=[[{"text": 1}, {"video": [2, 6, 6], "seconds_per_grid": 1.0}, {"text": 2}]],
        ),
    )
    yield "one token after three cached ones", _ids("arange", rows=[[{"text": 4}]], past=3)


def _positions_drawn(random: Random) -> Asked:
    lengths = [random.randint(1, 12) for _ in range(random.randint(2, 6))]
    return "drawn: packed sequences", _ids("packed", lengths=lengths)


def _weights() -> Iterator[Asked]:
    """The matrix of an axis: the weight of each old place in every new one."""
    keys = {"old_size": [4], "size": [6], "part": "height"}
    fewer = {"old_size": [6], "size": [4], "part": "height"}
    for comment, parameters in (
        ("bilinear", {**keys, "mode": "bilinear"}),
        ("bicubic: four taps, and the border for those outside", {**keys, "mode": "bicubic"}),
        ("fewer places, with antialias", {**fewer, "mode": "bicubic", "antialias": True}),
    ):
        yield comment, Question("array", "/resize", parameters)


def _table(height: int, width: int) -> list[list[list[float]]]:
    return [
        [[((5 * y + 7 * x + 3 * c) % 16 - 8) / 8 for c in range(2)] for x in range(width)]
        for y in range(height)
    ]


def _resized(x: Any, **parameters: Any) -> Question:
    return Question("resize", "/resize/apply", parameters, x=x)


def _resizes() -> Iterator[Asked]:
    yield "bilinear, not square", _resized(_table(2, 3), size=[3, 4], mode="bilinear")
    yield "bicubic", _resized(_table(3, 3), size=[4, 5], mode="bicubic")
    yield (
        "bicubic with corners that stay",
        _resized(_table(3, 3), size=[4, 5], mode="bicubic", align_corners=True),
    )
    yield (
        "fewer places, with antialias",
        _resized(_table(4, 4), size=[3, 2], mode="bicubic", antialias=True),
    )
    rows = [[0.5, -0.25], *(cell for row in _table(3, 3) for cell in row)]
    yield (
        "the table of a ViT, whose class row is kept",
        _resized(rows, size=[2, 4], convention="vit", num_prefix_tokens=1),
    )


def _resizes_drawn(random: Random) -> Asked:
    height, width = random.randint(2, 7), random.randint(2, 7)
    mode = random.choice(("bilinear", "bicubic"))
    size = [random.randint(2, 9), random.randint(2, 9)]
    return f"drawn: {mode}", _resized(_table(height, width), size=size, mode=mode)


FILES = (
    VectorFile("positions/ids", _positions, _positions_drawn),
    VectorFile("resize/weights", _weights),
    VectorFile("resize", _resizes, _resizes_drawn),
)
