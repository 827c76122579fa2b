"""All vector files: the cases of the TOML files beside this module, configs, and drawn cases."""

import tomllib
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from math import prod
from typing import Any

import numpy as np

from service.conformance.files import published_configs
from service.conformance.files.drawn_cases import DRAWN
from service.conformance.files.vector_file import Asked, VectorFile, ask

_TABLES = ("rotary", "sinusoidal", "relative", "ids_and_sizes")


def _vectors(*shape: int) -> Any:
    """Return multiples of 1/8 from −1 to 1, which every type holds, of no simple pattern."""
    numbers = np.arange(prod(shape))
    # 17 values; a step that has no factor in common with a width, and a slow drift.
    eighths = (numbers * 7 + numbers // 17 * 5 + numbers // 5) % 17 - 8
    return (np.where(eighths == 0, 3, eighths) / 8).reshape(shape).tolist()


def _asked(case: Sequence[Any]) -> Asked:
    """Return a case of a TOML file."""
    comment, resource, parameters, *rest = case
    more = dict(*rest)
    positions = tuple(more["positions"]) if "positions" in more else None
    x = _vectors(*more["x_shape"]) if "x_shape" in more else more.get("x")
    return comment, ask(resource, parameters, positions, x)


def _listed() -> dict[str, Any]:
    """Return the cases of the TOML files, by the name of the vector file."""
    found = dict[str, Any]()
    for name in _TABLES:
        path = files("service.conformance.files") / f"{name}.toml"
        found |= tomllib.loads(path.read_text("utf-8"))
    return found


FILES: tuple[VectorFile, ...] = (
    *(
        VectorFile(name, partial(map, _asked, cases), DRAWN.get(name))
        for name, cases in _listed().items()
    ),
    published_configs.FILE,
)
