"""Rotary tables of diffusers for images and videos."""

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params


def _axial(answers: Answers, query: Query) -> Arrays:
    return answers.tables("/rope/axial", query)


def table_2d(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_2d_rotary_pos_embed``, or for Lumina's."""
    params = Params(case.params)
    found = _lumina(params, answers) if "lumina" in case.call else _plain_2d(params, answers)
    params.finish()
    return found


def _plain_2d(params: Params, answers: Answers) -> Arrays:
    start, stop = params.require("crops_coords")
    query: Query = {
        "convention": "diffusers_2d",
        "head_dim": params.require("embed_dim"),
        "grid": params.require("grid_size"),
        "grid_start": start,
        "grid_stop": stop,
    }
    if params.take("use_real", True):
        return _axial(answers, query | {"pack": "diffusers"})
    return {"out": _axial(answers, query | {"pack": "complex"})["rope"]}


def _lumina(params: Params, answers: Answers) -> Arrays:
    grid = [params.require("len_h"), params.require("len_w")]
    query: Query = {
        "convention": "lumina",
        "head_dim": params.require("embed_dim"),
        "grid": grid,
        "rope_theta": 10000.0 * params.take("ntk_factor", 1.0),
        "interpolation_scale": [params.take("linear_factor", 1.0)],
        "pack": "complex",
    }
    table = _axial(answers, query)["rope"]
    return {"out": table.reshape(*grid, table.shape[-1])}


def table_3d(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_3d_rotary_pos_embed``, or for Allegro's."""
    params = Params(case.params)
    params.only("use_real", True)
    grid = [params.require("temporal_size"), *params.require("grid_size")]
    head_dim, theta = params.require("embed_dim"), params.take("theta", 10000.0)
    query: Query = {"head_dim": head_dim, "rope_theta": theta, "grid": grid}
    query |= _crops(params, grid)
    scales = params.take("interpolation_scale", [1.0, 1.0, 1.0])
    params.finish()
    if "allegro" in case.call:
        return _allegro(query, scales, answers)
    return _axial(answers, query | {"convention": "cogvideox", "pack": "diffusers"})


def _crops(params: Params, grid: list[int]) -> Query:
    """Say where the grid lies; a slice of a larger one counts its tokens from 0."""
    crops, kind = params.take("crops_coords"), params.take("grid_type", "linspace")
    params.ignore("max_size")
    if kind == "slice":
        return {}
    if kind != "linspace" or crops is None:
        raise NotUnderstoodError(f"params: grid_type = {kind!r}, crops_coords = {crops}")
    start, stop = crops
    return {"grid_start": [0, *start], "grid_stop": [grid[0], *stop]}


def _allegro(query: Query, scales: list[float], answers: Answers) -> Arrays:
    """Ask for a table of each axis, and for its coordinates before they are divided."""
    found: dict[str, Array] = {}
    for axis, name in enumerate("thw"):
        along: Query = {"convention": "allegro", "grid": [query["grid"][axis]]}
        along |= {key: [query[key][axis]] for key in ("grid_start", "grid_stop") if key in query}
        turning = {"head_dim": query["head_dim"] // 3, "rope_theta": query["rope_theta"]}
        scaled = along | turning | {"interpolation_scale": [scales[axis]]}
        table = _axial(answers, scaled | {"pack": "allegro"})
        found |= {f"{name}_cos": table["cos"], f"{name}_sin": table["sin"]}
        # The first frequency is 1: its angles are the coordinates.
        angles = _axial(answers, along | {"head_dim": 2, "pack": "angle"})["rope"]
        found[f"grid_{name}"] = np.ravel(angles)
    return found
