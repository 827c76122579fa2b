"""``/relative/alibi/bias``: attention with linear biases of slopes or a mask that is sent."""

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.errors import InvalidBody
from service.grammar import Integer
from service.routes.parameters import impossible
from service.routes.relative_alibi import KEYS, QUERIES, FormParameters
from service.tables import alibi
from service.tables.angle import Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import REAL_DTYPES, widened
from service.tables.limits import MAX_CHANNELS
from service.tables.slopes import GivenSlopes, Slopes
from service.tables.table import StoredTable

_MASKABLE = {"original", "paper", "bloom"}
_LEAST, _MOST = 1e-100, 1e9


class AlibiBiasParameters(FormParameters):
    """Parameters of biases that are made of arrays."""

    num_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Number of attention heads; required unless slopes are sent.",
        examples=[8],
    )


def _bias(parameters: AlibiBiasParameters, arrays: Mapping[str, StoredTable]) -> Document:
    of, described = _slopes_of(parameters, arrays.get("slopes"))
    if "attention_mask" not in arrays:
        return parameters.described("relative-alibi-bias", of, described)
    if "slopes" in arrays and "convention" in parameters.model_fields_set:
        rule = "convention does not go with slopes and an attention_mask, which leave it no choice"
        raise impossible("convention", parameters.convention, rule)
    if parameters.convention not in _MASKABLE or parameters.form not in {None, "key"}:
        rule = "an attention_mask makes biases of keys, the form of BLOOM"
        given = "convention" if parameters.form in {None, "key"} else "form"
        raise impossible(given, getattr(parameters, given), rule)
    others = (*QUERIES, *KEYS, "masked", "total_heads")
    parameters.refuse(others, "an attention_mask numbers the keys itself")
    return alibi.mask_aware(
        parameters={**described, "form": "key"},
        slopes=of,
        mask=_checked_mask(arrays["attention_mask"]),
        head=parameters.checked_head(of.count),
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _slopes_of(
    parameters: AlibiBiasParameters, sent: StoredTable | None
) -> tuple[Slopes, dict[str, ParameterValue]]:
    if sent is None:
        if parameters.num_heads is None:
            raise impossible("num_heads", None, "num_heads is required, unless slopes are sent")
        rule = parameters.rule(parameters.num_heads)
        return rule, rule.parameters()
    parameters.refuse(("num_heads", "alibi_bias_max"), "slopes are sent")
    if parameters.convention == "paper":
        detail = "convention=paper is a rule of slopes, and slopes are sent"
        raise impossible("convention", parameters.convention, detail)
    values = widened(sent.elements, sent.dtype)
    sizes = np.abs(values)
    # Not above is also what is not a number.
    if not (((sizes >= _LEAST) & (sizes <= _MOST)) | (sizes == 0)).all():
        raise InvalidBody(f"slopes must be 0, or {_LEAST:g} to {_MOST:g} in size", "/slopes")
    if len(values) > MAX_CHANNELS:
        raise InvalidBody(f"slopes must be at most {MAX_CHANNELS} numbers", "/slopes")
    return GivenSlopes(values), {}


def _checked_mask(sent: StoredTable) -> Int64s:
    mask = sent.elements
    if not ((mask == 0) | (mask == 1)).all():
        raise InvalidBody("attention_mask must be zeros and ones", "/attention_mask")
    return np.asarray(mask, dtype=np.int64)


BIAS = Composition(
    path="/relative/alibi/bias",
    operation="RelativeAlibiBias",
    summary="ALiBi's biases from slopes, or for the keys that a mask leaves",
    parameters=AlibiBiasParameters,
    inputs=(
        InputArray(
            name="attention_mask",
            description="1 for each key that counts and 0 for padding, (batch, key)",
            ranks=(2,),
            example=[[0, 0, 1, 1]],
            is_integer=True,
            is_required=False,
        ),
        InputArray(
            name="slopes",
            description="a slope for each head, in place of the rule's, (heads,)",
            ranks=(1,),
            example=[0.5, 0.25],
            is_required=False,
        ),
    ),
    document=_bias,
    example="num_heads=2&head=0",
)
