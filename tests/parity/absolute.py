"""Absolute encodings of libraries: of one axis, of grids, of timesteps and of noise levels."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tests.parity.backend import Backend, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params

FamilyMapping: TypeAlias = Callable[[Case, Backend], Arrays]

_AXES = ("depth", "height", "width")
# Matches no row: tables begin at row 0.
_NO_PADDING = -1


def grid(
    convention: str, lengths: str, ignored: str = "", /, **sources: str | tuple[str, Any]
) -> FamilyMapping:
    """Map calls whose parameters are those of ``/encoding/grid`` under other names.

    Args:
        convention: of the grid.
        lengths: the parameter that has the lengths of the axes, or one length for two.
        ignored, sources: as in Params.query.
    """

    def mapping(case: Case, backend: Backend) -> Arrays:
        query = Params(case.params).query(ignored, lengths=lengths, **sources)
        axes = _lengths(_pair(query.pop("lengths")))
        return _grid(backend, query | axes | {"convention": convention})

    return mapping


def _grid(backend: Backend, query: Query) -> Arrays:
    return {"out": backend.tables("/encoding/grid", query)["encoding"]}


def _lengths(lengths: Sequence[int]) -> Query:
    """Name the lengths of axes, the last of which is the width."""
    if len(lengths) > len(_AXES):
        raise NotUnderstoodError(f"params: {len(lengths)} axes")
    return dict(zip(_AXES[-len(lengths) :], lengths, strict=True))


def _pair(size: int | Sequence[int]) -> Sequence[int]:
    return [size, size] if isinstance(size, int) else size


def diffusers_2d(case: Case, backend: Backend) -> Arrays:
    """Map ``get_2d_sincos_pos_embed``, which adds a class token's rows only with extra tokens."""
    query = Params(case.params).query(
        "output_type device",
        lengths="grid_size",
        d_model="embed_dim",
        interpolation_scale=("interpolation_scale", 1.0),
        base_size=("base_size", 16),
        cls_token=("cls_token", False),
        extra_tokens=("extra_tokens", 0),
    )
    query |= _lengths(_pair(query.pop("lengths"))) | {"convention": "diffusers"}
    if not (query["cls_token"] and query["extra_tokens"]):
        del query["cls_token"], query["extra_tokens"]
    return _grid(backend, query)


def diffusers_3d(case: Case, backend: Backend) -> Arrays:
    """Map ``get_3d_sincos_pos_embed``, whose spatial_size is width and height."""
    query = Params(case.params).query(
        "output_type device",
        depth="temporal_size",
        size="spatial_size",
        d_model="embed_dim",
        spatial_interpolation_scale=("spatial_interpolation_scale", 1.0),
        temporal_interpolation_scale=("temporal_interpolation_scale", 1.0),
    )
    width, height = _pair(query.pop("size"))
    return _grid(backend, query | {"height": height, "width": width, "convention": "diffusers"})


def detr(case: Case, backend: Backend) -> Arrays:
    """Map DETR's encoding: of a mask, or of the same grid for every image."""
    query = Params(case.params).query(
        "dtype device",
        d_model=("num_pos_feats", 64),
        base=("temperature", 10000),
        normalize=("normalize", False),
        scale=("scale", None),
        batch=("batch", 1),
        height="H",
        width="W",
    )
    query["d_model"] *= 2
    batch = query.pop("batch")
    if not query["normalize"]:
        query.pop("scale", None)
    if case.inputs:
        del query["height"], query["width"]
        masks = {name: mask.astype(np.uint8) for name, mask in case.inputs.items()}
        found = backend.composed("/encoding/mask", query | {"dtype": "float64"}, masks)
        return {"out": found["encoding"]}
    table = _grid(backend, query | {"convention": "detr"})["out"]
    return {"out": np.repeat(table[np.newaxis], batch, axis=0)}


def rows(convention: str, ignored: str = "", /, **sources: str | tuple[str, Any]) -> FamilyMapping:
    """Map calls whose parameters are those of ``/encoding`` under other names.

    Where the case keeps only some rows, only those are requested.
    """

    def mapping(case: Case, backend: Backend) -> Arrays:
        query = Params(case.params).query(ignored, **sources)
        if "rows" in case.inputs:
            start = query.pop("start", 0)
            del query["seq_len"]
            query["positions"] = [start + row for row in case.inputs["rows"].tolist()]
        return _rows(backend, query | {"convention": convention})

    return mapping


def _rows(backend: Backend, query: Query) -> Arrays:
    return {"out": backend.tables("/encoding", query)["encoding"]}


def _positions(case: Case, name: str, values: Any) -> list[Any]:
    """Return the positions of the call's array, which are more exact than the printed ones."""
    positions: list[Any] = np.asarray(case.inputs.get(name, values)).reshape(-1).tolist()
    return positions


def keras(case: Case, backend: Backend) -> Arrays:
    """Map ``SinePositionEncoding``."""
    query = Params(case.params).query(
        "dtype",
        d_model="hidden_size",
        base=("max_wavelength", 10000),
        start=("start_index", 0),
        seq_len="sequence_length",
        positions=("positions", None),
    )
    if "positions" in query:
        del query["start"], query["seq_len"]
        query["positions"] = _positions(case, "positions", query["positions"])
    return _rows(backend, query | {"convention": "keras"})


def positional_encodings(case: Case, backend: Backend) -> Arrays:
    """Map ``PositionalEncoding1D``, and its variant with the channels first."""
    query = Params(case.params).query(axes="axes", d_model="channels", permute=("permute", False))
    (query["seq_len"],) = query.pop("axes")
    is_transposed = query.pop("permute")
    out = _rows(backend, query | {"convention": "positional-encodings"})["out"]
    return {"out": out.T if is_transposed else out}


def diffusers(case: Case, backend: Backend) -> Arrays:
    """Map ``get_1d_sincos_pos_embed_from_grid``."""
    query = Params(case.params).query(
        "output_type dtype",
        d_model="embed_dim",
        positions=("pos", []),
        flip_sin_to_cos=("flip_sin_to_cos", False),
    )
    query["positions"] = _positions(case, "pos", query["positions"])
    return _rows(backend, query | {"convention": "diffusers"})


def fairseq(case: Case, backend: Backend) -> Arrays:
    """Map the weights, and the rows of them for token ids, position ids or embeddings."""
    query = Params(case.params).query(
        d_model="embedding_dim",
        padding_idx=("padding_idx", _NO_PADDING),
        count="num_positions",
        past=("past_key_values_length", 0),
    )
    count, past = query.pop("count"), query.pop("past")
    table = query | {"convention": "fairseq"}
    found = {"weights": _rows(backend, table | {"seq_len": count + 2})["out"]}
    if "inputs_embeds" in case.inputs:
        batch, length = case.inputs["inputs_embeds"].shape[:2]
        along: Query = {"start": query["padding_idx"] + 1 + past, "seq_len": length}
        embedded = _rows(backend, table | along)["out"]
        found["out"] = np.repeat(embedded[np.newaxis], batch, axis=0)
    elif "out" in case.outputs:
        name, counted = "position_ids", {"convention": "xglm", "dtype": "float64"}
        if "input_ids" in case.inputs:
            name, counted = "input_ids", counted | {"convention": "m2m100", "past": past}
        ids = {name: np.asarray(case.inputs[name])}
        found["out"] = backend.composed("/encoding/tokens", query | counted, ids)["encoding"]
    return {name: found[name] for name in case.outputs}


def timesteps(case: Case, backend: Backend) -> Arrays:
    """Map ``get_timestep_embedding`` of diffusers."""
    query = Params(case.params).query(
        "timesteps",
        d_model="embedding_dim",
        flip_sin_to_cos=("flip_sin_to_cos", False),
        downscale_freq_shift=("downscale_freq_shift", 1),
        scale=("scale", 1),
        max_period=("max_period", 10000),
    )
    query["timesteps"] = case.inputs["timesteps"].astype(np.float64).tolist()
    return {"out": backend.tables("/encoding/timesteps", query)["timesteps"]}


def gaussian_fourier(case: Case, backend: Backend) -> Arrays:
    """Map ``GaussianFourierProjection`` of diffusers with its drawn and scaled weights."""
    query = Params(case.params).query(
        "embedding_size scale set_W_to_weight x",
        log=("log", True),
        flip_sin_to_cos=("flip_sin_to_cos", False),
    )
    arrays = {name: _real(case.inputs[name]) for name in ("x", "weight")}
    found = backend.composed("/encoding/fourier", query | {"dtype": "float64"}, arrays)
    return {"out": found["fourier"]}


def _real(numbers: Array) -> Array:
    return numbers.astype(np.float64) if np.issubdtype(numbers.dtype, np.integer) else numbers
