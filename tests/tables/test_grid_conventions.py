"""Whose sin-cos table of a grid there is to ask for."""

from typing import Any

import pytest

from service.tables.document import Document
from service.tables.dtypes import FLOAT32
from service.tables.grid_conventions import CONVENTIONS, channels_of, convention_for, sincos_grid
from service.tables.grid_layouts import Grid

FEATURES: dict[str, Any] = {"num_bands": 2, "max_resolution": (8, 8)}


def described(
    name: str, d_model: int, *lengths: int, channels_first: bool = False, **values: Any
) -> Document:
    grid = dict(zip(("depth", "height", "width")[-len(lengths) :], lengths, strict=True))
    convention = convention_for(name, len(lengths))
    assert convention is not None
    values = {**convention.defaults, **values}
    if convention.gives_channels:
        d_model = channels_of(Grid(grid, 0, values), convention)
    return sincos_grid(
        Grid(grid, d_model, values),
        convention,
        name=name,
        channels_first=channels_first,
        dtype=FLOAT32,
    )


@pytest.mark.parametrize(
    ("document", "shape", "axes"),
    [
        (
            described("mae", 8, 2, 3, cls_token=True),
            (7, 8),
            (
                "token(0 + height*width)",
                "channel(sin width + cos width + sin height + cos height)",
            ),
        ),
        (
            described("moco-v3", 8, 2, 3),
            (6, 8),
            ("token(width*height)", "channel(sin width + cos width + sin height + cos height)"),
        ),
        (
            described("detr", 8, 2, 3, channels_first=True),
            (8, 2, 3),
            ("channel(sin|cos height + sin|cos width)", "height", "width"),
        ),
        (
            described("positional-encodings", 4, 5, 2, 3),
            (5, 2, 3, 4),
            ("depth", "height", "width", "channel(sin|cos depth + sin|cos height)"),
        ),
        (
            described("tensor2tensor", 5, 3),
            (3, 5),
            ("width", "channel(sin width + cos width + 0)"),
        ),
        (
            described("diffusers", 16, 5, 2, 3),
            (5, 6, 16),
            (
                "depth",
                "token(height*width)",
                "channel(sin depth + cos depth + sin width + cos width + sin height + cos height)",
            ),
        ),
        (
            described("timm-fourier", 0, 2, 3, **FEATURES),
            (6, 10),
            (
                "token(height*width)",
                "channel(height + width + sin height|width + cos height|width)",
            ),
        ),
    ],
    ids=lambda value: value.parameters["convention"] if isinstance(value, Document) else "",
)
def test_the_answer_says_what_its_axes_hold(
    document: Document, shape: tuple[int, ...], axes: tuple[str, ...]
) -> None:
    assert document.shape == shape
    assert document.axes == axes
    assert document.states_axes


def test_parameters_name_all_that_matters() -> None:
    assert described("detr", 8, 2, 3, channels_first=True).parameters == {
        "convention": "detr",
        "height": 2,
        "width": 3,
        "d_model": 8,
        "base": 10000.0,
        "normalize": False,
        "channels_first": True,
    }
    assert "d_model" not in described("timm-fourier", 0, 2, 3).parameters


def test_a_convention_is_found_by_its_number_of_axes() -> None:
    for name, known in CONVENTIONS.items():
        counts = [axes for convention in known for axes in convention.axes]
        assert len(counts) == len(set(counts))
        for axes in range(1, 5):
            assert (convention_for(name, axes) is not None) == (axes in counts)
