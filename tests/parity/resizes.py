"""The requests that give the resized tables of libraries, and the form in which to compare them."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from tests.parity.backend import Query, Service
from tests.parity.golden import Array, Arrays, Case

ResizeMapping: TypeAlias = Callable[[Case, Service], Sequence[Arrays]]

_GRID = "/resize/apply"
# The values at which torch takes its default.
_OPTIONAL = ("align_corners", "antialias")


def _resized(service: Service, x: Array, query: Query) -> Array:
    return service.composed(_GRID, query, {"x": x})["x"]


def _interpolated(case: Case, service: Service) -> Sequence[Arrays]:
    table = case.inputs["table"].astype(np.float64 if case.has_defect else np.float32)
    query = {name: case.params[name] for name in ("mode", "size", "scale_factor", *_OPTIONAL)}
    out = _resized(service, table, {**query, "old_size": table.shape[:2]})
    return [{"out": out}]


def _absolute(case: Case, service: Service) -> Sequence[Arrays]:
    params = case.params
    query: Query = {
        "mode": params["interpolation"],
        "size": params["new_size"],
        "old_size": params["old_size"],
        "num_prefix_tokens": params["num_prefix_tokens"],
        **{name: params[name] for name in _OPTIONAL},
    }
    outs = [_resized(service, case.inputs["posemb"], query)]
    if (query["mode"], query["antialias"], bool(query["align_corners"])) == (
        "bicubic",
        True,
        False,
    ):
        own = {name: own for name, own in query.items() if name not in {"mode", *_OPTIONAL}}
        outs.append(_resized(service, case.inputs["posemb"], {**own, "convention": "timm"}))
    return [{"out": out} for out in outs]


def _relative(case: Case, service: Service) -> Sequence[Arrays]:
    kinds = {"simple": "timm_rel_pos_simple", "levit": "timm_rel_pos_levit", "beit": "timm_rel_pos"}
    params = case.params
    query = {
        "convention": kinds[params["kind"]],
        "size": params["new_window"],
        "old_size": params["old_window"],
        "num_extra_tokens": params["extra_tokens"],
    }
    return [{"out": _resized(service, case.inputs["table"], query)}]


def _pairs(case: Case, service: Service) -> Sequence[Arrays]:
    query = {"convention": "sam_rel_pos", "size": [case.params["q_size"], case.params["k_size"]]}
    return [{"out": _resized(service, case.inputs["rel_pos"], query)}]


def _filled(case: Case, service: Service) -> Sequence[Arrays]:
    table, shapes = case.inputs["table"], case.params["spatial_shapes"]
    query: Query = {"convention": "siglip2", "max_length": case.params["max_length"]}
    query["old_size"] = table.shape[:2]
    return [{"out": np.stack([_resized(service, table, {**query, "size": own}) for own in shapes])}]


def _gathered(case: Case, service: Service) -> Sequence[Arrays]:
    params, side = case.params, case.params["num_grid_per_side"]
    names = ("mode", "align_corners", "padding", "spatial_merge_size")
    query: Query = {name: params[name] for name in names}
    operators = []
    for frames, *size in params["grids"]:
        own = {**query, "old_size": side, "size": size, "part": "gather"}
        taps = service.tables("/resize", own)
        operators += [_dense(taps["index"], taps["weight"], side)] * frames
    return [{"operator": np.concatenate(operators)}]


def _dense(index: Array, weight: Array, side: int) -> Array:
    operator = np.zeros((len(index), side * side))
    np.add.at(operator, (np.arange(len(index))[:, np.newaxis], index), weight)
    return operator


def _sampled(convention: str) -> ResizeMapping:
    """Map the rows of one grid, of a square table."""

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        side, (_, *size) = case.params["side"], case.params["grid"]
        query = {"convention": convention, "size": size, "old_size": side}
        query["spatial_merge_size"] = case.params.get("spatial_merge_size", 1)
        return [{"out": _resized(service, case.inputs["table"], query)}]

    return mapping


def _with_prefix(convention: str) -> ResizeMapping:
    """Map the rows of a square table behind those of class tokens."""

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        query = {"convention": convention, **case.params}
        return [{"out": _resized(service, case.inputs["posemb"], query)}]

    return mapping


def _biases(case: Case, service: Service) -> Sequence[Arrays]:
    new, old = case.params["new_window"], case.params["old_window"]
    query = {"convention": "beit_rel_pos", "size": new, "old_size": old}
    table = _resized(service, case.inputs["table"], query)
    swin = {"window_size": new, "class_token": True}
    biases = service.composed("/relative/swin/bias", swin, {"weight": table})
    return [{"out": biases["bias"][np.newaxis]}]


def operator_of(case: Case) -> Arrays:
    """Return the outputs of a case of taps as a matrix: libraries list taps at a border twice."""
    outputs = case.outputs
    side = case.params["num_grid_per_side"]
    return {"operator": _dense(outputs["indices"], outputs["weights"].astype(np.float64), side)}


RESIZES: Mapping[str, ResizeMapping] = MappingProxyType(
    {
        "resize.beit_bias": _biases,
        "resize.gather_operator": _gathered,
        "resize.dino": _with_prefix("dino"),
        "resize.glm4v": _sampled("glm4v"),
        "resize.muse": _sampled("muse"),
        "resize.qwen3_vl": _sampled("qwen3_vl"),
        "resize.sam_rel_pos": _pairs,
        "resize.siglip2": _filled,
        "resize.timm_abs_pos_embed": _absolute,
        "resize.timm_rel_pos_bias": _relative,
        "resize.torch_interpolate": _interpolated,
        "resize.torch_interpolate_width_one": _interpolated,
        "resize.vit": _with_prefix("vit"),
    }
)
"""The mapping of each family."""
