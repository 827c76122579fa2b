"""``/rope``: rotary tables and their frequencies, and queries and keys turned by them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource, Transform
from service.errors import InvalidBody
from service.grammar import Boolean, Integer
from service.routes.parameters import (
    PositionParameters,
    StartParameters,
    impossible,
)
from service.routes.rope_packs import PackParameters
from service.routes.rope_parameters import RuleParameters
from service.routes.rope_turns import TurnParameters
from service.routes.rope_widths import rotary_offset_field
from service.tables import rotary
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES, largest
from service.tables.limits import MAX_CHANNELS
from service.tables.positions import Positions
from service.tables.rotation import Rotation
from service.tables.table import StoredTable


class FrequenciesParameters(ArrayParameters, RuleParameters):
    """Parameters of the frequencies of a rotary embedding."""

    part: (
        Literal[
            "inv_freq",
            "wavelength",
            "attention_factor",
            "effective_base",
            "ramp",
            "range_raw",
            "range_used",
            "rescale_factor",
            "smooth_factor",
        ]
        | None
    ) = Field(default=None, description="Answer one of the arrays alone.", examples=["inv_freq"])

    def chosen_part(self) -> str | None:
        """Name the one array that is wanted alone."""
        return self.part


class RopeParameters(PackParameters, PositionParameters, TurnParameters):
    """Parameters of a rotary table."""


class ApplyParameters(StartParameters, TurnParameters):
    """Parameters of a rotation."""

    layout: Literal["interleaved", "half"] = Field(
        default="interleaved",
        description="Which channels turn together: 2k and 2k+1, or k and k + rotary_dim/2.",
        examples=["half"],
    )
    output_layout: Literal["interleaved", "half"] | None = Field(
        default=None,
        description="Where turned channels are put: as layout unless given. DeepSeek-V3 in "
        "transformers reads interleaved pairs and writes half ones.",
        examples=["half"],
    )
    rotary_offset: Integer = rotary_offset_field()
    inverse: Boolean = Field(
        default=False,
        description="Turn the other way, which undoes it where nothing is scaled.",
        examples=[False],
    )


def _rope(parameters: RopeParameters) -> Document:
    def sequence() -> Positions:
        return parameters.resolved_positions(parameters.max_position_embeddings)

    turns = parameters.turns(parameters.head_dim, sequence)
    if turns.peak > largest(REAL_DTYPES[parameters.dtype]):
        rule = f"positions are so far from xpos_centre that {parameters.dtype} has no room"
        raise impossible("xpos_scale_base", parameters.xpos_scale_base, rule)
    return parameters.packed("rope", turns)


def _frequencies(parameters: FrequenciesParameters) -> Document:
    return rotary.frequencies(parameters.rule(parameters.head_dim))


def _apply(parameters: ApplyParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    *_, rows, head_dim = x.shape
    if parameters.head_dim not in {None, head_dim}:
        raise InvalidBody(
            f"the last axis has {head_dim} channels, and head_dim is {parameters.head_dim}"
        )
    turns = parameters.turns(head_dim, lambda: parameters.positions_of(rows))
    if 2 * turns.count > MAX_CHANNELS:
        rule = f"{2 * turns.count} channels turn, and at most {MAX_CHANNELS} are possible"
        raise InvalidBody(rule)
    if turns.rows != rows:
        raise InvalidBody(f"there are positions of {turns.rows} rows, and the array has {rows}")
    turning = parameters.rotary_offset + 2 * turns.count
    if turning > head_dim:
        rule = f"rotary_offset leaves fewer than {2 * turns.count} of {head_dim} channels"
        raise impossible("rotary_offset", parameters.rotary_offset, rule)
    rotation = Rotation(
        turns=turns,
        layout=parameters.layout,
        inverse=parameters.inverse,
        output_layout=parameters.output_layout,
        rotary_offset=parameters.rotary_offset,
    )
    return rotation.of(x), rotation.parameters()


ROPE = Resource(
    path="/rope",
    operation="Rope",
    summary="The rotary table of positions, in the packing that a consumer expects",
    parameters=RopeParameters,
    document=_rope,
    example="head_dim=4&seq_len=2",
)
FREQUENCIES = Resource(
    path="/rope/frequencies",
    operation="RopeFrequencies",
    summary="The frequency of each pair of rotary channels, and how it came about",
    parameters=FrequenciesParameters,
    document=_frequencies,
    example="head_dim=4",
)
APPLY = Transform(
    path="/rope/apply",
    operation="RopeApply",
    summary="Queries or keys rotated by their positions",
    parameters=ApplyParameters,
    kind="rope-apply",
    apply=_apply,
    example="start=1",
)
