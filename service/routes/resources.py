"""What there is to ask for by a URL, and what arrays and objects are sent to."""

from collections.abc import Mapping

from service.delivery.composition import Composition
from service.delivery.parameters import choices
from service.delivery.reports import Report
from service.delivery.resource import Resource, Transform
from service.routes import (
    axial,
    encoding,
    encoding_curves,
    encoding_fourier,
    encoding_grid,
    encoding_mask,
    encoding_timesteps,
    encoding_tokens,
    permutation,
    relative,
    relative_alibi,
    relative_alibi_bias,
    relative_conformer,
    relative_coordinates,
    relative_deberta,
    relative_fire,
    relative_kerple,
    relative_sandwich,
    relative_shaw,
    relative_swin,
    relative_t5,
    relative_transformer_xl,
    relative_xlnet,
    rope,
    rope_config,
)

RESOURCES: tuple[Resource, ...] = (
    encoding.ENCODING,
    encoding.FREQUENCIES,
    encoding_curves.CURVES,
    encoding_grid.GRID,
    encoding_timesteps.TIMESTEPS,
    rope.ROPE,
    rope.FREQUENCIES,
    axial.AXIAL,
    permutation.PERMUTATION,
    relative.OPERATOR,
    relative.SIMILARITY,
    relative_t5.BUCKETS,
    relative_deberta.BUCKETS,
    relative_shaw.INDEX,
    relative_swin.INDEX,
    relative_coordinates.SWIN_V2,
    relative_alibi.ALIBI,
    relative_alibi.SLOPES,
    relative_kerple.KERPLE,
    relative_sandwich.SANDWICH,
    relative_fire.FIRE,
    relative_coordinates.DYNAMIC,
    relative_transformer_xl.TRANSFORMER_XL,
    relative_xlnet.XLNET,
    relative_conformer.CONFORMER,
)
TRANSFORMS: tuple[Transform, ...] = (encoding.APPLY, rope.APPLY)
COMPOSITIONS: tuple[Composition, ...] = (
    encoding_tokens.TOKENS,
    encoding_mask.MASK,
    relative_t5.BIAS,
    relative_shaw.EMBEDDINGS,
    relative_swin.BIAS,
    relative_alibi_bias.BIAS,
    relative_kerple.BIAS,
    relative_transformer_xl.SHIFT,
    encoding_fourier.FOURIER,
    encoding_fourier.BOXES,
)
REPORTS: tuple[Report, ...] = (rope_config.CONFIG,)

NAMED: Mapping[str, str] = {
    name: f"{resource.path}?convention={name}"
    for resource in reversed(RESOURCES)
    for name in choices(resource.parameters, "convention")
}
"""Where each convention is, the first of its resources if there are several."""

POSTED: tuple[Transform | Composition | Report, ...] = (*TRANSFORMS, *COMPOSITIONS, *REPORTS)
"""What something has to be sent to."""

EXAMINED = ("/compare", "/identify", "/diagnose")
"""Where arrays are examined, which are compared with tables of the resources above."""
