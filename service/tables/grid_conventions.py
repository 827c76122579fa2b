"""Whose sin-cos table of a grid there is to ask for, and what each convention takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from service.tables import grid_features as features
from service.tables import grid_layouts as layouts
from service.tables.channels_first import ChannelsFirstTable
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType
from service.tables.grid_layouts import Grid, Layout
from service.tables.sincos_grid import Block, GridTable
from service.tables.table import Table

AXES = ("depth", "height", "width")
"""The axes of a grid, of which one of fewer has the last."""


@dataclass(frozen=True)
class Convention:
    """How a library makes the table of a grid.

    Attributes:
        source: library and version.
        axes: how many axes a grid may have.
        layout: lays the table out.
        defaults: the parameters of its own that it takes, and what they are unless given.
        optional: others that it takes, which are nothing unless given.
        required: others that it cannot do without.
        multiple_of: what d_model must be a multiple of.
        is_spread: whether the exponents are k/(n − 1), so that one frequency for an axis divides
            by zero.
        gives_channels: whether d_model follows from the other parameters.
        channels_first: whether the channels come before the tokens unless asked otherwise.
    """

    source: str
    axes: tuple[int, ...]
    layout: Callable[[Grid], Layout]
    defaults: Mapping[str, ParameterValue]
    optional: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    multiple_of: int = 1
    is_spread: bool = False
    gives_channels: bool = False
    channels_first: bool = False

    @property
    def takes(self) -> frozenset[str]:
        """Name the parameters of its own."""
        return frozenset((*self.defaults, *self.optional, *self.required))


_BASE: Mapping[str, ParameterValue] = {"base": 10000.0}
_ONE_CLASS_TOKEN: Mapping[str, ParameterValue] = {**_BASE, "cls_token": False}
_FEATURES: Mapping[str, ParameterValue] = {"concat_pos": True}

CONVENTIONS: Mapping[str, tuple[Convention, ...]] = MappingProxyType(
    {
        "mae": (
            Convention(
                "facebookresearch/mae efb2a80", (2,), layouts.mae, _ONE_CLASS_TOKEN, multiple_of=4
            ),
        ),
        "transformers": (
            Convention(
                "transformers 5.23.0 ViT-MAE, AIMv2, RT-DETR",
                (2,),
                layouts.transformers,
                _ONE_CLASS_TOKEN,
                multiple_of=4,
            ),
        ),
        "moco-v3": (
            Convention(
                "facebookresearch/moco-v3", (2,), layouts.moco, _ONE_CLASS_TOKEN, multiple_of=4
            ),
        ),
        "simple-vit": (
            Convention(
                "big_vision, vit-pytorch SimpleViT",
                (2,),
                layouts.simple_vit,
                _BASE,
                multiple_of=4,
                is_spread=True,
            ),
        ),
        "timm": (
            Convention(
                "timm 1.0.31 build_sincos2d_pos_embed",
                (2,),
                layouts.timm,
                {**_BASE, "reverse_coord": False, "interleave_sin_cos": False},
                multiple_of=4,
            ),
        ),
        "timm-fourier": (
            Convention(
                "timm 1.0.31 FourierEmbed",
                (2,),
                features.timm_fourier,
                {"num_bands": 64, "max_resolution": (224, 224), **_FEATURES},
                gives_channels=True,
            ),
        ),
        "detr": (
            Convention(
                "facebookresearch/detr 29901c5, transformers 5.23.0 DETR",
                (2,),
                layouts.detr,
                {**_BASE, "normalize": False},
                optional=("scale",),
                multiple_of=4,
                channels_first=True,
            ),
        ),
        "diffusers": (
            Convention(
                "diffusers 0.42.1 get_2d_sincos_pos_embed",
                (2,),
                layouts.diffusers,
                {**_ONE_CLASS_TOKEN, "interpolation_scale": 1.0, "base_size": 16},
                optional=("extra_tokens",),
                multiple_of=4,
            ),
            Convention(
                "get_3d_sincos_pos_embed",
                (3,),
                layouts.diffusers_video,
                {
                    **_BASE,
                    "spatial_interpolation_scale": 1.0,
                    "temporal_interpolation_scale": 1.0,
                },
                multiple_of=16,
            ),
        ),
        "positional-encodings": (
            Convention(
                "positional-encodings 6.0.3", (1, 2, 3), layouts.positional_encodings, _BASE
            ),
        ),
        "tensor2tensor": (
            Convention(
                "tensor2tensor 1.15.7 add_timing_signal_nd",
                (1, 2, 3),
                layouts.tensor2tensor,
                {"min_timescale": 1.0, "max_timescale": 10000.0},
                is_spread=True,
            ),
        ),
        "perceiver": (
            Convention(
                "transformers 5.23.0 Perceiver generate_fourier_features",
                (1, 2, 3),
                features.perceiver,
                {**_FEATURES, "sine_only": False},
                required=("num_bands", "max_resolution"),
                gives_channels=True,
            ),
        ),
    }
)


def convention_for(name: str, axes: int) -> Convention | None:
    """Find what a convention makes of so many axes, if anything."""
    return next((known for known in CONVENTIONS[name] if axes in known.axes), None)


def sincos_grid(
    grid: Grid, convention: Convention, *, name: str, channels_first: bool, dtype: DType
) -> Document:
    """Describe the table of a grid.

    The axes of the answer say in words what comes after what: ``token(height*width)`` has the
    columns run fastest, ``channel(sin width + cos width + …)`` one block of channels after the
    other, and what takes turns within a block has a stroke between.

    Args:
        grid: what the table is of.
        convention: what is made of it.
        name: of the convention.
        channels_first: whether the channels come before the tokens.
        dtype: a real element type.
    """
    layout = convention.layout(grid)
    channels = {} if convention.gives_channels else {"d_model": grid.d_model}
    parameters: dict[str, ParameterValue] = {
        "convention": name,
        **{axis: grid.lengths[axis] for axis in AXES if axis in grid.lengths},
        **channels,
        **grid.values,
        "channels_first": channels_first,
    }
    tokens, token_axes = _tokens(layout)
    shape = *tokens, grid.d_model
    table = GridTable(layout.along, layout.blocks, grid.d_model, layout.zero_rows, dtype, shape)
    channel_axis = f"channel({_said(layout.blocks, grid.d_model)})"
    arrays: dict[str, Table] = {"encoding": table}
    axes = (*token_axes, channel_axis)
    if channels_first:
        axes, shape = (channel_axis, *token_axes), (grid.d_model, *tokens)
        arrays = {"encoding": ChannelsFirstTable(table, prod(tokens), shape)}
    return Document("encoding-grid", parameters, arrays, axes=axes, states_axes=True)


def channels_of(grid: Grid, convention: Convention) -> int:
    """Count the channels that a convention makes of a grid."""
    return sum(block.width for block in convention.layout(grid).blocks)


def _tokens(layout: Layout) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Give shape and names of the axes of tokens."""
    names = list(layout.along)
    lengths = [along.tokens.length for along in layout.along.values()]
    kept, flat = names[: layout.leading], names[layout.leading :]
    if not flat:
        return tuple(lengths), tuple(names)
    rows = layout.zero_rows + prod(lengths[layout.leading :])
    said = "*".join(flat)
    said = f"0 + {said}" if layout.zero_rows else said
    return (*lengths[: layout.leading], rows), (*kept, f"token({said})")


def _said(blocks: tuple[Block, ...], width: int) -> str:
    """Say what the channels hold, up to where they are cut off."""
    said, first = [], 0
    for block in blocks:
        if first < width:
            said.append(str(block))
        first += block.width
    return " + ".join(said)
