"""``POST /encoding/mask``: DETR's encoding of images with padding, from the mask of the padding."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field

from service.delivery.composition import Choice, Composition, InputArray
from service.delivery.parameters import Parameters
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import RealDType, dtype_field, impossible
from service.tables.angle import Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_AXES_CHANNELS, MAX_FACTOR, MAX_SCALED_BASE, MIN_FACTOR
from service.tables.masked_grid import (
    MAX_MASKS,
    MAX_PIXELS,
    MAX_QUOTIENTS,
    DetrRule,
    MaskedGridTable,
    quotients,
)
from service.tables.table import StoredTable

_KINDS = {"padding": "padding_mask", "valid": "valid_mask"}
_AXES = ("batch", "channel(sin|cos height + sin|cos width)", "height", "width")


class MaskParameters(Parameters):
    """Parameters of DETR's encoding of images with padding."""

    mask: Literal["padding", "valid"] | None = Field(
        default=None,
        description="What 1 means in a mask without a name (npy): padding_mask or valid_mask.",
        examples=["padding"],
    )
    d_model: Integer = Field(
        ge=4,
        le=MAX_AXES_CHANNELS,
        multiple_of=4,
        description="Channels of both axes: twice num_pos_feats, which is even.",
        examples=[256],
    )
    base: Real = Field(
        default=10000.0,
        ge=1,
        le=MAX_SCALED_BASE,
        description="Base of the frequencies.",
        examples=[10000],
    )
    normalize: Boolean = Field(
        default=False,
        description="Divide positions by the last of their column or row + 10^-6, times scale.",
        examples=[True],
    )
    scale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="What normalized positions are multiplied by; 2π unless given.",
        examples=[1],
    )
    dtype: RealDType = dtype_field()


def _mask(parameters: MaskParameters, arrays: Mapping[str, StoredTable]) -> Document:
    if parameters.scale is not None and not parameters.normalize:
        raise impossible("scale", parameters.scale, "scale goes with normalize=true")
    rule = DetrRule(parameters.d_model, parameters.base, parameters.normalize, parameters.scale)
    valid = _valid(arrays)
    if quotients(rule, valid) > MAX_QUOTIENTS:
        detail = f"columns and rows end at too many different counts for d_model {rule.d_model}"
        raise InvalidBody(detail, f"/{next(iter(arrays))}")
    described: dict[str, ParameterValue] = {
        "mask": next(said for said, name in _KINDS.items() if name in arrays),
        "d_model": rule.d_model,
        "base": rule.base,
        "normalize": rule.normalize,
    }
    if rule.scale is not None:
        described["scale"] = rule.scale
    table = MaskedGridTable(rule, valid, REAL_DTYPES[parameters.dtype])
    return Document("encoding-mask", described, {"encoding": table}, axes=_AXES, states_axes=True)


def _valid(arrays: Mapping[str, StoredTable]) -> Int64s:
    """Give 1 where a pixel counts, whichever of the two masks was sent, shape (B, h, w)."""
    if len(arrays) != 1:
        raise InvalidBody("send padding_mask or valid_mask, and not both")
    ((name, table),) = arrays.items()
    mask = np.asarray(table.elements, dtype=np.int64)
    if mask.ndim == 2:
        mask = mask[np.newaxis]
    if not mask.size or len(mask) > MAX_MASKS or mask.size > MAX_PIXELS:
        detail = f"{name} must have 1 to {MAX_PIXELS} pixels, and at most {MAX_MASKS} images"
        raise InvalidBody(detail, f"/{name}")
    if ((mask != 0) & (mask != 1)).any():
        raise InvalidBody(f"{name} must hold 0 and 1, or false and true", f"/{name}")
    return 1 - mask if name == "padding_mask" else mask


def _input(name: str, meaning: str, *aliases: str) -> InputArray:
    return InputArray(
        name=name,
        description=f"the mask, 1 is {meaning}, (height, width) or (batch, height, width)",
        ranks=(2, 3),
        example=[[0, 0, 1], [0, 0, 1]],
        is_integer=True,
        is_required=False,
        aliases=aliases,
    )


MASK = Composition(
    path="/encoding/mask",
    operation="EncodingMask",
    summary="DETR's encoding of images with padding: positions count the valid pixels",
    parameters=MaskParameters,
    inputs=(
        _input("padding_mask", "padding (facebookresearch)"),
        _input("valid_mask", "a pixel (transformers)", "pixel_mask"),
    ),
    document=_mask,
    example="d_model=4&normalize=true",
    choice=Choice("mask", _KINDS),
)
