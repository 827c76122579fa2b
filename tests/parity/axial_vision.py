"""Axial rotary tables of timm, DINOv3 and rotary-embedding-torch."""

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params


def _axial(answers: Answers, query: Query) -> Arrays:
    said = {name: value for name, value in query.items() if value is not None}
    return answers.tables("/rope/axial", said)


def timm(case: Case, answers: Answers) -> Arrays:
    """Ask for ``build_rotary_pos_embed`` and its class: sines and cosines."""
    params = Params(case.params)
    query, is_half = _timm_grid(params), params.take("rotate_half", False)
    params.finish()
    return _axial(answers, query | {"pack": "half" if is_half else "interleaved"})


def timm_cat(case: Case, answers: Answers) -> Arrays:
    """Ask for ``RotaryEmbeddingCat``: sines, then cosines."""
    params = Params(case.params)
    query, is_half = _timm_grid(params), params.take("rotate_half", False)
    params.finish()
    pack = "timm_dinov3" if is_half else "timm_cat"
    return {"out": _axial(answers, query | {"pack": pack})["rope"]}


def _timm_grid(params: Params) -> Query:
    """Say the grid and its frequencies: dim/4 for each axis, however many there are."""
    grid, dim = params.require("feat_shape"), params.take("dim", 64)
    query: Query = {"head_dim": 2 * (dim // 4) * len(grid), "grid": grid}
    query["grid_indexing"] = params.take("grid_indexing", "ij")
    if query["grid_indexing"] == "xy" and len(grid) > 2:
        raise NotUnderstoodError(f"params: grid_indexing = 'xy' of {len(grid)} axes")
    reference, offset = params.take("ref_feat_shape"), params.take("grid_offset", 0.0)
    theta, longest = params.take("temperature", 10000.0), params.take("max_res", 224)
    is_linear = params.take("linear_bands", False)
    is_pixels = params.take("in_pixels", True)
    params.only("grid_type", "pixel" if is_pixels else "index")
    params.ignore("normalize_coords")
    if not is_pixels:
        query |= {"convention": "timm", "rope_theta": theta, "grid_offset": [offset]}
        return query | {"reference_grid": reference}
    query |= {"convention": "timm_pixels", "max_freq": longest, "linear_bands": is_linear}
    if reference is None:
        return query
    return query | {"interpolation_scale": [n / r for n, r in zip(grid, reference, strict=True)]}


def dinov3(case: Case, answers: Answers) -> Arrays:
    """Ask for DINOv3's table, in the form of its authors, of timm or of transformers."""
    params = Params(case.params)
    grid = [params.require("H"), params.require("W")]
    head_dim = params.take("dim") or params.require("head_dim")
    theta = params.take("base") or params.take("temperature", 100.0)
    series: Query = {"convention": "dinov3", "head_dim": head_dim}
    series |= {"min_period": params.take("min_period"), "max_period": params.take("max_period")}
    if series["min_period"] is None:
        series["rope_theta"] = theta
    query = series | {
        "grid": grid,
        "normalize_coords": params.take("normalize_coords", "separate"),
        "grid_offset": [params.take("grid_offset", 0.0)],
        "grid_indexing": params.take("grid_indexing", "ij"),
    }
    is_half = params.take("rotate_half", True)
    params.finish()
    if case.library == "timm":
        pack = "timm_dinov3" if is_half else "timm_cat"
        return {"out": _axial(answers, query | {"pack": pack})["rope"]}
    found = dict(_axial(answers, query | {"pack": "dinov3"}))
    if "periods" in case.outputs:
        found["periods"] = _periods(series, answers)
    return found


def _periods(series: Query, answers: Answers) -> Array:
    """Ask for the wavelengths of the frequencies that turn at the coordinate 1."""
    at_one: Query = {"grid": [1, 1], "grid_offset": [0.5], "pack": "angle"}
    count = series["head_dim"] // 4
    rates = _axial(answers, series | at_one)["rope"][0, :count].astype(np.float64)
    return answers.tables("/rope/frequencies", {"inv_freq": rates})["wavelength"]


def rotary_embedding_torch(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_axial_freqs``: angles, each twice, and for the frequencies."""
    params = Params(case.params)
    dims, offsets = params.require("dims"), params.take("offsets")
    params.ignore("cache_if_possible")
    series, dim = _series(params)
    params.finish()
    query = series | {"head_dim": dim * len(dims), "grid": dims, "grid_offset": offsets}
    angles = np.repeat(_axial(answers, query | {"pack": "angle"})["rope"], 2, axis=1)
    # The second of two tokens lies at 1, whether they are counted or at both ends.
    alone = series | {"head_dim": dim, "grid": [2], "pack": "angle"}
    return {
        "out": angles.reshape(*dims, angles.shape[-1]),
        "freqs": _axial(answers, alone)["rope"][1],
    }


def _series(params: Params) -> tuple[Query, int]:
    dim, kind = params.require("dim"), params.take("freqs_for", "lang")
    theta, highest = params.take("theta", 10000), params.take("max_freq", 10)
    rescale, count = params.take("theta_rescale_factor", 1.0), params.take("num_freqs", 1)
    if kind == "lang":
        theta *= rescale ** (dim / (dim - 2)) if rescale != 1 else 1
        return {"convention": "rotary_embedding_torch", "rope_theta": theta}, dim
    if kind == "pixel":
        return {"convention": "rotary_embedding_torch_pixel", "max_freq": highest}, dim
    if kind == "constant":
        return {"convention": "rotary_embedding_torch_constant"}, 2 * count
    raise NotUnderstoodError(f"params: freqs_for = {kind!r}")
