"""The list of all families: the path of each, and the class in a module of this package.

A family is imported when it is first asked for.
"""

from collections.abc import Mapping

from service.encodings.family import Family
from service.lazily import MadeOnDemand, imported

TABLES: Mapping[str, str] = {
    "/attention/temperature": "absolute.temperature.AttentionTemperature",
    "/encoding": "absolute.sinusoidal.SinusoidalEncoding",
    "/encoding/curves": "absolute.sinusoidal.SinusoidCurves",
    "/encoding/frequencies": "absolute.sinusoidal.SinusoidalFrequencies",
    "/encoding/grid": "grid.grid_encoding.GridEncoding",
    "/encoding/timesteps": "absolute.timesteps.TimestepEmbedding",
    "/relative": "relative.operator.ShiftOperator",
    "/relative/alibi": "relative.alibi.Alibi",
    "/relative/alibi/slopes": "relative.alibi.AlibiSlopes",
    "/relative/conformer": "relative.sines.Conformer",
    "/relative/deberta": "relative.buckets.Deberta",
    "/relative/dynamic": "relative.windows.DynamicDistances",
    "/relative/fire": "relative.fire.Fire",
    "/relative/kerple": "relative.kerple.Kerple",
    "/relative/sandwich": "relative.sandwich.Sandwich",
    "/relative/shaw": "relative.buckets.Shaw",
    "/relative/similarity": "relative.similarity.Similarity",
    "/relative/swin": "relative.windows.Swin",
    "/relative/swin-v2": "relative.windows.SwinV2",
    "/relative/t5": "relative.buckets.T5",
    "/relative/transformer-xl": "relative.sines.TransformerXL",
    "/relative/xlnet": "relative.sines.XLNet",
    "/resize": "resize.resize.Resize",
    "/rope": "rotary.rope.Rope",
    "/rope/axial": "rotary.axial.Axial",
    "/rope/axial/frequencies": "rotary.frequencies_by_axis.AxialFrequencies",
    "/rope/frequencies": "rotary.rope.RopeFrequencies",
    "/rope/permutation": "rotary.rope_apply.RopePermutation",
}
"""Tables, which parameters alone determine."""

TRANSFORMS: Mapping[str, str] = {
    "/encoding/apply": "absolute.sinusoidal.SinusoidSum",
    "/rope/apply": "rotary.rope_apply.RopeApply",
    "/rope/axial/apply": "rotary.rope_apply.AxialApply",
}
"""Transformations of the arrays in a request body."""

COMPOSITIONS: Mapping[str, str] = {
    "/encoding/boxes": "absolute.fourier.BoxFourierFeatures",
    "/encoding/fourier": "absolute.fourier.RandomFourierFeatures",
    "/encoding/mask": "grid.mask.MaskedGridEncoding",
    "/encoding/tokens": "absolute.tokens.TokenEncoding",
    "/positions": "positions.position_ids.PositionIds",
    "/relative/alibi/bias": "relative.alibi.AlibiBias",
    "/relative/kerple/bias": "relative.kerple.KerpleBias",
    "/relative/shaw/embeddings": "relative.buckets.ShawEmbeddings",
    "/relative/swin/bias": "relative.windows.SwinBias",
    "/relative/t5/bias": "relative.buckets.T5Bias",
    "/relative/transformer-xl/shift": "relative.sines.RelativeShift",
    "/resize/apply": "resize.resize.ResizeApply",
}
"""Tables that are computed from the arrays in a request body."""

_PLACES = {**TABLES, **TRANSFORMS, **COMPOSITIONS}


def _family_at(path: str) -> type[Family]:
    family: type[Family] = imported(f"{__package__}.{_PLACES[path]}")
    return family


FAMILIES: Mapping[str, type[Family]] = MadeOnDemand(sorted(_PLACES), _family_at)
"""Every family, by path."""


def table_revisions() -> dict[str, int]:
    """Return the revision of each kind of table.

    It moves when, and only when, a byte of that kind does.
    """
    return {family.kind(): family.revision_of_bytes for family in FAMILIES.values()}
