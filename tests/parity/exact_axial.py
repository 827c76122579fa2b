"""Independent evaluation of axial angles."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import mpmath
import numpy as np

from tests.exact import frequency
from tests.parity.backend import Query

Exacts: TypeAlias = list[Any]

mpf = mpmath.mpf

_REVERSED = {"diffusers_2d", "sam2", "kimi_k25", "llama4"}
_ALTERNATING = {"lumina", "kimi_k25", "efficientloftr"}
_OFFSETS = {"efficientloftr": 1, "llama4": 1}


def axial_angles(query: Query) -> list[Exacts]:
    """Evaluate the angles of every token of a grid, in its order, or of a list."""
    if "axes_dim" in query:
        return _listed(query)
    grid, name = list(query["grid"]), query["convention"]
    along = [_along(query, axis) for axis in range(len(grid))]
    order = list(range(len(grid)))
    if (name in _REVERSED) != (query.get("grid_indexing") == "xy"):
        order.reverse()
    rates = [_rates(query, width) for width in _widths(query)]
    if name == "pixtral":
        series = _rates(query, query["head_dim"])
        rates = [series[axis :: len(grid)] for axis in range(len(grid))]
    rows = []
    for token in _tokens(grid, query.get("spatial_merge_size", 1)):
        blocks = [
            [along[axis][token[axis]] * rate for rate in own]
            for axis, own in zip(order, rates, strict=True)
        ]
        angles = zip(*blocks, strict=True) if name in _ALTERNATING else blocks
        rows.append([angle for block in angles for angle in block])
    return rows


def _tokens(grid: list[int], merged: int) -> list[tuple[int, ...]]:
    """Return the places of tokens: the last axis fastest, or blocks of an image, each so."""
    return sorted(
        np.ndindex(*grid),
        key=lambda token: (*(place // merged for place in token), *token),
    )


def _listed(query: Query) -> list[Exacts]:
    tokens = zip(*(query[f"positions_{axis}"] for axis in "thw"), strict=True)
    rates = [_rates(query, width) for width in query["axes_dim"]]
    return [
        [place * rate for place, own in zip(token, rates, strict=True) for rate in own]
        for token in tokens
    ]


def _widths(query: Query) -> list[int]:
    head_dim, axes = query["head_dim"], len(query["grid"])
    if query["convention"] == "wan":
        return [head_dim - 4 * (head_dim // 6), 2 * (head_dim // 6), 2 * (head_dim // 6)]
    if query["convention"] == "cogvideox":
        return [head_dim // 4, 3 * head_dim // 8, 3 * head_dim // 8]
    return [head_dim // axes] * axes


def _of(query: Query, name: str, axis: int, default: Any) -> Any:
    """Return the value of a query for an axis: one number for each axis, or one for all."""
    value = query.get(name)
    if value is None:
        return mpf(default)
    return mpf(value[axis] if len(value) > 1 else value[0])


def _along(query: Query, axis: int) -> Exacts:
    """Evaluate the coordinates of the tokens along an axis."""
    length = query["grid"][axis]
    coordinates = _COORDINATES.get(query["convention"], _counted)
    scale = _of(query, "interpolation_scale", axis, 1)
    return [coordinate / scale for coordinate in coordinates(query, axis, length)]


def _counted(query: Query, axis: int, length: int) -> Exacts:
    offset = _of(query, "grid_offset", axis, _OFFSETS.get(query["convention"], 0))
    reference = _of(query, "reference_grid", axis, length)
    return [(i + offset) / length * reference for i in range(length)]


def _spread(query: Query, axis: int, length: int) -> Exacts:
    start, stop = _of(query, "grid_start", axis, 0), _of(query, "grid_stop", axis, length)
    return _linspace(start, stop * (length - 1) / length, length)


def _pixels(query: Query, axis: int, length: int) -> Exacts:
    offset = _of(query, "grid_offset", axis, 0)
    return [coordinate + offset for coordinate in _linspace(mpf(-1), mpf(1), length)]


def _centred(query: Query, axis: int, length: int) -> Exacts:
    offset, grid = _of(query, "grid_offset", axis, 0), query["grid"]
    sides = {"separate": length, "max": max(grid), "min": min(grid)}
    side = sides[query.get("normalize_coords", "separate")]
    return [2 * (i + mpf("0.5") + offset) / side - 1 for i in range(length)]


def _linspace(first: Any, last: Any, count: int) -> Exacts:
    return [first + (last - first) * k / max(count - 1, 1) for k in range(count)]


_COORDINATES: Mapping[str, Callable[[Query, int, int], Exacts]] = {
    "diffusers_2d": _spread,
    "cogvideox": _spread,
    "allegro": _spread,
    "timm_pixels": _pixels,
    "rotary_embedding_torch_pixel": _pixels,
    "dinov3": _centred,
}


def _rates(query: Query, width: int) -> Exacts:
    """Evaluate the frequencies of an axis with so many channels."""
    name, count = query["convention"], width // 2
    if name == "dinov3":
        return _of_periods(query, count)
    if name in {"timm_pixels", "rotary_embedding_torch_pixel"}:
        return _of_pixels(query, count)
    if name == "rotary_embedding_torch_constant":
        return [mpf(1)] * count
    return [frequency(query.get("rope_theta", 10000.0), width, k) for k in range(count)]


def _of_periods(query: Query, count: int) -> Exacts:
    shortest, longest = query.get("min_period"), query.get("max_period")
    if shortest is None or longest is None:
        theta = query.get("rope_theta", 100.0)
        return [2 * mpmath.pi * frequency(theta, 4 * count, 2 * k) for k in range(count)]
    ratio = mpf(longest) / mpf(shortest)
    exponents = _linspace(mpf(0), mpf(1), count)
    return [2 * mpmath.pi / (mpf(shortest) * ratio**exponent) for exponent in exponents]


def _of_pixels(query: Query, count: int) -> Exacts:
    is_linear = query.get("linear_bands", query["convention"] != "timm_pixels")
    highest = mpf(query.get("max_freq", 10.0 if is_linear else 224.0)) / 2
    if is_linear:
        return [mpmath.pi * band for band in _linspace(mpf(1), highest, count)]
    exponents = _linspace(mpf(0), mpmath.log(highest, 2), count)
    return [mpmath.pi * mpf(2) ** exponent for exponent in exponents]
