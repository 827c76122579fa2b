"""Sin-cos tables of grids that are hashed, with and without padding."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from service.encodings.grid.grid_conventions import AXES, CONVENTIONS
from service.encodings.grid.grid_encoding import GridEncoding
from service.encodings.grid.mask import MaskedGridEncoding, MaskedGridTable
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.tables import Table
from tests.data.hashed_samples import WEYL_STEP, named, of_document

_LENGTHS = (3, 7, 5)
_CHANNELS = 48

_CHOSEN: Mapping[str, tuple[str, int, int, Mapping[str, Any]]] = {
    "mae with a class token": ("mae", 2, 16, {"cls_token": True, "base": 37.5}),
    "timm reversed": ("timm", 2, 16, {"reverse_coord": True}),
    "timm interleaved": ("timm", 2, 16, {"interleave_sin_cos": True}),
    "timm-fourier bare": ("timm-fourier", 2, 0, {"num_bands": 9, "concat_pos": False}),
    "detr normalized": ("detr", 2, 16, {"normalize": True}),
    "detr scaled": ("detr", 2, 16, {"normalize": True, "scale": 1.5, "base": 20.0}),
    "diffusers scaled": ("diffusers", 2, 16, {"base_size": 9, "interpolation_scale": 1.7}),
    "diffusers stretched": ("diffusers", 2, 16, {"base_size": 12.3}),
    "diffusers tokens": ("diffusers", 2, 16, {"cls_token": True, "extra_tokens": 3}),
    "diffusers video": (
        "diffusers",
        3,
        32,
        {"spatial_interpolation_scale": 1.875, "temporal_interpolation_scale": 0.3},
    ),
    "positional-encodings cut": ("positional-encodings", 3, 7, {}),
    "tensor2tensor timescales": (
        "tensor2tensor",
        2,
        19,
        {"min_timescale": 0.3, "max_timescale": 777.0},
    ),
    "perceiver sines": (
        "perceiver",
        2,
        0,
        {"num_bands": 5, "max_resolution": (9, 33), "sine_only": True, "concat_pos": False},
    ),
}


def tables() -> Iterator[tuple[str, Table]]:
    """Give every convention of grids, every form of padding."""
    for name, known in CONVENTIONS.items():
        for convention in known:
            for axes in convention.axes:
                bands = {"num_bands": 6, "max_resolution": (56,) * axes}
                given = bands if convention.gives_channels else {}
                yield from _grid(name, name, axes, _CHANNELS, given, "float64")
    for label, chosen in _CHOSEN.items():
        for dtype in REAL_DTYPES:
            yield from _grid(label, *chosen, dtype)
    yield from _masked()


def _grid(
    label: str, name: str, axes: int, d_model: int, given: Mapping[str, Any], dtype: str
) -> Iterator[tuple[str, Table]]:
    lengths = dict(zip(AXES[-axes:], _LENGTHS[-axes:], strict=True))
    channels = {} if "num_bands" in given else {"d_model": d_model}
    for is_first, order in ((False, "channels last"), (True, "channels first")):
        encoding = GridEncoding.model_validate(
            {"convention": name, **lengths, **channels, **given}
            | {"channels_first": is_first, "dtype": dtype}
        )
        yield from of_document(f"{label}, {axes} axes, {order}", encoding.document())


def _masked() -> Iterator[tuple[str, Table]]:
    rectangles = np.zeros((2, 9, 11), dtype=np.int64)
    rectangles[0, :7, :5] = 1
    rectangles[1, :3] = 1
    noise = (np.arange(9 * 11, dtype=np.uint64) * np.uint64(WEYL_STEP)) >> np.uint64(63)
    masks = {"rectangles": rectangles, "noise": noise.astype(np.int64).reshape(1, 9, 11)}
    rules = {
        "counted": MaskedGridEncoding(d_model=12),
        "normalized": MaskedGridEncoding(d_model=12, base=20.0, normalize=True),
        "scaled": MaskedGridEncoding(d_model=12, base=20.0, normalize=True, scale=1.5),
    }
    for place, valid in masks.items():
        for name, rule in rules.items():
            for dtype in REAL_DTYPES.values():
                table = MaskedGridTable(rule, valid, dtype)
                yield from named("encoding-mask", f"{place}, {name}", {"encoding": table})
