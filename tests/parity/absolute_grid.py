"""Sin-cos tables of grids, of diffusers, timm, DETR, MAE, Perceiver and others."""

from collections.abc import Sequence

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params

_AXES = ("depth", "height", "width")


def _grid(answers: Answers, query: Query) -> Arrays:
    said = {name: value for name, value in query.items() if value is not None}
    return {"out": answers.tables("/encoding/grid", said)["encoding"]}


def _lengths(lengths: Sequence[int]) -> Query:
    """Name the lengths of axes, the last of which is the width."""
    if len(lengths) > len(_AXES):
        raise NotUnderstoodError(f"params: {len(lengths)} axes")
    return dict(zip(_AXES[-len(lengths) :], lengths, strict=True))


def _pair(size: int | Sequence[int]) -> Sequence[int]:
    return [size, size] if isinstance(size, int) else size


def positional_encodings(case: Case, answers: Answers) -> Arrays:
    """Ask for ``PositionalEncoding1D`` to ``3D``, and for those that have the channels first."""
    params = Params(case.params)
    query = _lengths(params.require("axes")) | {
        "convention": "positional-encodings",
        "d_model": params.require("channels"),
        "channels_first": params.take("permute", False),
    }
    params.finish()
    return _grid(answers, query)


def diffusers_2d(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_2d_sincos_pos_embed``, which adds rows for a class token with extra tokens."""
    params = Params(case.params)
    query = _lengths(_pair(params.require("grid_size"))) | {
        "convention": "diffusers",
        "d_model": params.require("embed_dim"),
        "interpolation_scale": params.take("interpolation_scale", 1.0),
        "base_size": params.take("base_size", 16),
    }
    has_class, extra = params.take("cls_token", False), params.take("extra_tokens", 0)
    params.ignore("output_type", "device")
    params.finish()
    if has_class and extra:
        query |= {"cls_token": True, "extra_tokens": extra}
    return _grid(answers, query)


def diffusers_3d(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_3d_sincos_pos_embed``, whose spatial_size is width and height."""
    params = Params(case.params)
    width, height = _pair(params.require("spatial_size"))
    query = _lengths([params.require("temporal_size"), height, width]) | {
        "convention": "diffusers",
        "d_model": params.require("embed_dim"),
        "spatial_interpolation_scale": params.take("spatial_interpolation_scale", 1.0),
        "temporal_interpolation_scale": params.take("temporal_interpolation_scale", 1.0),
    }
    params.ignore("output_type", "device")
    params.finish()
    return _grid(answers, query)


def timm(case: Case, answers: Answers) -> Arrays:
    """Ask for ``build_sincos2d_pos_embed``."""
    params = Params(case.params)
    query = _lengths(params.require("feat_shape")) | {
        "convention": "timm",
        "d_model": params.take("dim", 64),
        "base": params.take("temperature", 10000.0),
        "reverse_coord": params.take("reverse_coord", False),
        "interleave_sin_cos": params.take("interleave_sin_cos", False),
    }
    params.ignore("dtype", "device")
    params.finish()
    return _grid(answers, query)


def detr(case: Case, answers: Answers) -> Arrays:
    """Ask for DETR's encoding: of the mask, or of a grid for every image."""
    params = Params(case.params)
    normalize = params.take("normalize", False)
    query: Query = {
        "d_model": 2 * params.take("num_pos_feats", 64),
        "base": params.take("temperature", 10000),
        "normalize": normalize,
    }
    scale, batch = params.take("scale"), params.take("batch", 1)
    query |= {"scale": scale} if normalize and scale is not None else {}
    lengths = _lengths([params.require("H"), params.require("W")])
    params.ignore("dtype", "device")
    params.finish()
    if case.inputs:
        return _of_mask(case.inputs, answers, query)
    one = _grid(answers, query | lengths | {"convention": "detr"})["out"]
    return {"out": np.repeat(one[np.newaxis], batch, axis=0)}


def _of_mask(masks: Arrays, answers: Answers, query: Query) -> Arrays:
    sent: dict[str, Array] = {name: mask.astype(np.uint8) for name, mask in masks.items()}
    found = answers.composed("/encoding/mask", query | {"dtype": "float64"}, sent)
    return {"out": found["encoding"]}


def mae(case: Case, answers: Answers) -> Arrays:
    """Ask for MAE's ``get_2d_sincos_pos_embed``."""
    params = Params(case.params)
    query = _lengths(_pair(params.require("grid_size"))) | {
        "convention": "mae",
        "d_model": params.require("embed_dim"),
        "cls_token": params.take("cls_token", False),
    }
    params.finish()
    return _grid(answers, query)


def tensor2tensor(case: Case, answers: Answers) -> Arrays:
    """Ask for what ``add_timing_signal_nd`` adds."""
    params = Params(case.params)
    query = _lengths(params.require("axes")) | {
        "convention": "tensor2tensor",
        "d_model": params.require("channels"),
        "min_timescale": params.take("min_timescale", 1.0),
        "max_timescale": params.take("max_timescale", 1.0e4),
    }
    params.finish()
    return _grid(answers, query)


def perceiver(case: Case, answers: Answers) -> Arrays:
    """Ask for ``PerceiverFourierPositionEncoding``."""
    params = Params(case.params)
    query = _lengths(params.require("index_dims")) | {
        "convention": "perceiver",
        "num_bands": params.require("num_bands"),
        "max_resolution": params.require("max_resolution"),
        "concat_pos": params.take("concat_pos", True),
        "sine_only": params.take("sine_only", False),
    }
    params.finish()
    return _grid(answers, query)
