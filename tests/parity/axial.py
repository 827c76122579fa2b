"""Axial rotary tables of diffusers, timm, DINOv3 and rotary-embedding-torch."""

import numpy as np

from tests.parity.absolute import FamilyMapping
from tests.parity.backend import Backend, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params


def _axial(backend: Backend, query: Query) -> Arrays:
    fields = {name: value for name, value in query.items() if value is not None}
    return backend.tables("/rope/axial", fields)


def diffusers_2d(case: Case, backend: Backend) -> Arrays:
    """Map ``get_2d_rotary_pos_embed``, and Lumina's."""
    params = Params(case.params)
    if "lumina" in case.call:
        return _lumina(params, backend)
    query = params.query(
        head_dim="embed_dim", grid="grid_size", crops="crops_coords", is_real=("use_real", True)
    )
    query["grid_start"], query["grid_stop"] = query.pop("crops")
    query["convention"] = "diffusers_2d"
    if query.pop("is_real"):
        return _axial(backend, query | {"pack": "diffusers"})
    return {"out": _axial(backend, query | {"pack": "complex"})["rope"]}


def _lumina(params: Params, backend: Backend) -> Arrays:
    query = params.query(
        head_dim="embed_dim",
        height="len_h",
        width="len_w",
        ntk_factor=("ntk_factor", 1.0),
        linear_factor=("linear_factor", 1.0),
    )
    grid = [query.pop("height"), query.pop("width")]
    query |= {
        "convention": "lumina",
        "grid": grid,
        "rope_theta": 10000.0 * query.pop("ntk_factor"),
        "interpolation_scale": [query.pop("linear_factor")],
        "pack": "complex",
    }
    table = _axial(backend, query)["rope"]
    return {"out": table.reshape(*grid, table.shape[-1])}


def diffusers_3d(case: Case, backend: Backend) -> Arrays:
    """Map ``get_3d_rotary_pos_embed``, and Allegro's."""
    params = Params(case.params)
    params.only("use_real", True)
    grid = [params.require("temporal_size"), *params.require("grid_size")]
    crops = _crops(params, grid)
    query = params.query(
        "max_size",
        head_dim="embed_dim",
        rope_theta=("theta", 10000.0),
        scales=("interpolation_scale", [1.0, 1.0, 1.0]),
    )
    scales = query.pop("scales")
    query |= crops | {"grid": grid}
    if "allegro" in case.call:
        return _allegro(query, scales, backend)
    return _axial(backend, query | {"convention": "cogvideox", "pack": "diffusers"})


def _crops(params: Params, grid: list[int]) -> Query:
    """Request where the grid lies; a slice of a larger one counts its tokens from 0."""
    crops, kind = params.take("crops_coords"), params.take("grid_type", "linspace")
    if kind == "slice":
        return {}
    if kind != "linspace" or crops is None:
        raise NotUnderstoodError(f"params: grid_type = {kind!r}, crops_coords = {crops}")
    start, stop = crops
    return {"grid_start": [0, *start], "grid_stop": [grid[0], *stop]}


def _allegro(query: Query, scales: list[float], backend: Backend) -> Arrays:
    """Request a table of each axis, and its coordinates before the division by the scale."""
    found: dict[str, Array] = {}
    for axis, name in enumerate("thw"):
        along: Query = {"convention": "allegro", "grid": [query["grid"][axis]]}
        along |= {key: [query[key][axis]] for key in ("grid_start", "grid_stop") if key in query}
        scaled = along | {
            "head_dim": query["head_dim"] // 3,
            "rope_theta": query["rope_theta"],
            "interpolation_scale": [scales[axis]],
        }
        table = _axial(backend, scaled | {"pack": "allegro"})
        found |= {f"{name}_cos": table["cos"], f"{name}_sin": table["sin"]}
        # The first frequency is 1: its angles are the coordinates.
        angles = _axial(backend, along | {"head_dim": 2, "pack": "angle"})["rope"]
        found[f"grid_{name}"] = np.ravel(angles)
    return found


def timm(half_pack: str, interleaved_pack: str) -> FamilyMapping:
    """Map ``build_rotary_pos_embed`` and the classes of timm, by the packs that they return."""

    def mapping(case: Case, backend: Backend) -> Arrays:
        params = Params(case.params)
        query, is_half = _timm_grid(params), params.take("rotate_half", False)
        params.finish()
        found = _axial(backend, query | {"pack": half_pack if is_half else interleaved_pack})
        return {"out": found["rope"]} if "rope" in found else found

    return mapping


def _timm_grid(params: Params) -> Query:
    """Request the grid and its frequencies: dim/4 for each axis, for any number of axes."""
    grid, dim = params.require("feat_shape"), params.take("dim", 64)
    query: Query = {"head_dim": 2 * (dim // 4) * len(grid), "grid": grid}
    query["grid_indexing"] = params.take("grid_indexing", "ij")
    if query["grid_indexing"] == "xy" and len(grid) > 2:
        raise NotUnderstoodError(f"params: grid_indexing = 'xy' of {len(grid)} axes")
    reference, offset = params.take("ref_feat_shape"), params.take("grid_offset", 0.0)
    theta, max_freq = params.take("temperature", 10000.0), params.take("max_res", 224)
    is_linear = params.take("linear_bands", False)
    is_pixels = params.take("in_pixels", True)
    params.only("grid_type", "pixel" if is_pixels else "index")
    params.ignore("normalize_coords")
    if not is_pixels:
        query |= {"convention": "timm", "rope_theta": theta, "grid_offset": [offset]}
        return query | {"reference_grid": reference}
    query |= {"convention": "timm_pixels", "max_freq": max_freq, "linear_bands": is_linear}
    if reference is None:
        return query
    return query | {"interpolation_scale": [n / r for n, r in zip(grid, reference, strict=True)]}


def dinov3(case: Case, backend: Backend) -> Arrays:
    """Map DINOv3's table, as its authors, timm or transformers return it."""
    params = Params(case.params)
    grid = [params.require("H"), params.require("W")]
    is_half = params.take("rotate_half", True)
    theta = params.take("base") or params.take("temperature", 100.0)
    query = params.query(
        head_dim="dim|head_dim",
        min_period=("min_period", None),
        max_period=("max_period", None),
        normalize_coords=("normalize_coords", "separate"),
        grid_offset=("grid_offset", 0.0),
        grid_indexing=("grid_indexing", "ij"),
    )
    query |= {"convention": "dinov3", "grid": grid, "grid_offset": [query["grid_offset"]]}
    if "min_period" not in query:
        query["rope_theta"] = theta
    if case.library == "timm":
        pack = "timm_dinov3" if is_half else "timm_cat"
        return {"out": _axial(backend, query | {"pack": pack})["rope"]}
    found = dict(_axial(backend, query | {"pack": "dinov3"}))
    if "periods" in case.outputs:
        found["periods"] = _periods(query, backend)
    return found


def _periods(query: Query, backend: Backend) -> Array:
    """Request the wavelengths of the frequencies, which are the angles at coordinate 1."""
    names = ("convention", "head_dim", "min_period", "max_period", "rope_theta")
    series = {name: query.get(name) for name in names}
    at_one: Query = {"grid": [1, 1], "grid_offset": [0.5], "pack": "angle"}
    count = query["head_dim"] // 4
    frequencies = _axial(backend, series | at_one)["rope"][0, :count].astype(np.float64)
    return backend.tables("/rope/frequencies", {"inv_freq": frequencies})["wavelength"]


def rotary_embedding_torch(case: Case, backend: Backend) -> Arrays:
    """Map ``get_axial_freqs``: angles, each twice, and the frequencies."""
    params = Params(case.params)
    dims, offsets = params.require("dims"), params.take("offsets")
    params.ignore("cache_if_possible")
    series, dim = _series(params)
    params.finish()
    query = series | {"head_dim": dim * len(dims), "grid": dims, "grid_offset": offsets}
    angles = np.repeat(_axial(backend, query | {"pack": "angle"})["rope"], 2, axis=1)
    # The second of two tokens is at 1, whether tokens are counted or spread from end to end.
    alone = series | {"head_dim": dim, "grid": [2], "pack": "angle"}
    return {
        "out": angles.reshape(*dims, angles.shape[-1]),
        "freqs": _axial(backend, alone)["rope"][1],
    }


def _series(params: Params) -> tuple[Query, int]:
    dim, kind = params.require("dim"), params.take("freqs_for", "lang")
    theta, max_freq = params.take("theta", 10000), params.take("max_freq", 10)
    rescale, count = params.take("theta_rescale_factor", 1.0), params.take("num_freqs", 1)
    if kind == "lang":
        theta *= rescale ** (dim / (dim - 2)) if rescale != 1 else 1
        return {"convention": "rotary_embedding_torch", "rope_theta": theta}, dim
    if kind == "pixel":
        return {"convention": "rotary_embedding_torch_pixel", "max_freq": max_freq}, dim
    if kind == "constant":
        return {"convention": "rotary_embedding_torch_constant"}, 2 * count
    raise NotUnderstoodError(f"params: freqs_for = {kind!r}")
