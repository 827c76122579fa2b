"""Files of rotary tables along several axes: M-RoPE, and the grids of images and videos."""

from collections.abc import Iterator
from random import Random
from typing import Any

from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

# A text, an image of 2 × 3 patches, and a text again.
MEDIA = {
    "positions_t": [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
    "positions_h": [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
    "positions_w": [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
}
# A video of 2 frames of 2 × 2 patches, 2 seconds apart, at the end of a long context.
_VIDEO = {
    "positions_t": [4095, 4095, 4095, 4095, 4145, 4145, 4145, 4145],
    "positions_h": [4095, 4095, 4096, 4096, 4095, 4095, 4096, 4096],
    "positions_w": [4095, 4096, 4095, 4096, 4095, 4096, 4095, 4096],
}
_CONVENTIONS = ("qwen2_vl", "timm", "lumina", "sam2", "kimi_k25", "efficientloftr", "dinov3")


def _mrope() -> Iterator[Asked]:
    def mrope(positions: dict[str, Any], **parameters: Any) -> Question:
        return Question("table", "/rope", {"head_dim": 16, **parameters, **positions})

    yield (
        "Qwen2-VL: sections of frequencies for time, height and width",
        mrope(MEDIA, rope_theta=1000000.0, mrope_section=[2, 3, 3]),
    )
    yield (
        "Qwen2.5-VL: a video far in the context",
        mrope(_VIDEO, rope_theta=1000000.0, mrope_section=[2, 3, 3]),
    )
    yield (
        "Qwen3-VL: the axes alternate; a rule scales the frequencies",
        mrope(
            _VIDEO,
            rope_theta=5000000.0,
            mrope_section=[4, 2, 2],
            mrope_interleaved=True,
            rope_type="linear",
            factor=4.0,
        ),
    )


def _drawn_mrope(random: Random) -> Asked:
    section = [random.randrange(1, 12) for _ in range(3)]
    positions = {f"positions_{axis}": [random.randrange(40000) for _ in range(8)] for axis in "thw"}
    parameters = {
        "head_dim": 2 * sum(section),
        "rope_theta": random.choice((10000.0, 500000.0, 1000000.0, 5000000.0)),
        "mrope_section": section,
    }
    return "drawn", Question("table", "/rope", parameters | positions)


def _axial() -> Iterator[Asked]:
    def axial(convention: str, grid: list[int], head_dim: int = 16, **more: Any) -> Question:
        parameters = {"convention": convention, "head_dim": head_dim, "grid": grid, **more}
        return Question("table", "/rope/axial", parameters)

    yield "Qwen2-VL: rows first, then columns", axial("qwen2_vl", [2, 5])
    yield "Pixtral: one series of frequencies for both axes", axial("pixtral", [2, 4])
    yield "Llama 4: columns first, counted from 1", axial("llama4", [2, 4])
    yield (
        "DINOv3: centres of patches; the longer side has the coordinates −1 to 1",
        axial("dinov3", [2, 4], normalize_coords="max"),
    )
    yield "EVA-02: scaled to the grid of training", axial("timm", [2, 4], reference_grid=[16, 16])
    yield "timm: bands of pixels in equal ratios", axial("timm_pixels", [2, 4])
    yield "Lumina: the axes alternate", axial("lumina", [2, 4])
    yield "CogVideoX: a video", axial("cogvideox", [2, 2, 2])
    yield "EfficientLoFTR: alternating, counted from 1", axial("efficientloftr", [2, 4])
    yield (
        "Flux: positions along three axes of unequal widths",
        Question(
            "table",
            "/rope/axial",
            {
                "convention": "flux",
                "axes_dim": [4, 6, 6],
                "positions_t": [0, 0, 0, 0, 1, 1],
                "positions_h": [0, 0, 1, 63, 0, 2],
                "positions_w": [0, 1, 0, 127, 1, 5],
            },
        ),
    )
    yield "Wan: time has the channels that are left", axial("wan", [2, 2, 2], head_dim=20)


def _drawn_axial(random: Random) -> Asked:
    parameters = {
        "convention": random.choice(_CONVENTIONS),
        "head_dim": 8 * random.randrange(1, 9),
        "grid": [random.randrange(1, 9), random.randrange(2, 9)],
    }
    return "drawn", Question("table", "/rope/axial", parameters)


FILES = (
    VectorFile("rope/mrope", _mrope, _drawn_mrope),
    VectorFile("rope/axial", _axial, _drawn_axial),
)
