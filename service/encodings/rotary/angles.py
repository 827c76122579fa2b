"""Rotary angles, and the tables of their cosines and sines in every packing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from math import inf, nextafter, prod
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from service.encodings.family import ChannelTable, RealDType, about, impossible, optional
from service.encodings.meaning import ChannelColumns, Meaning
from service.encodings.rotary.rules import RotaryFrequencies
from service.encodings.rotary.xpos import XPos
from service.grammar import Boolean
from service.numerics.axes import (
    AngleRounding,
    AxesTable,
    Axis,
    OrderedChannels,
    angles_table,
    float32_distance,
    simplified,
)
from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT64,
    DType,
    Elements,
    rounding_bound,
)
from service.numerics.phasors import Channels, Component, sinusoid_table
from service.numerics.positions import AnyPositions
from service.numerics.tables import DerivedTable, Document, ParameterValue, Table


class RotaryAngles(ABC):
    """Base class of rotary angles: a row for each token, with an angle for each frequency."""

    rounding: AngleRounding
    by_channel: bool = False
    xpos: XPos | None = None

    @property
    def count(self) -> int:
        """The number of angles in a row: half the number of rotary channels, or all of them."""
        return sum(len(axis.places) for axis in self.along())

    @property
    def width(self) -> int:
        """The number of rotary channels."""
        return self.count if self.by_channel else 2 * self.count

    @property
    @abstractmethod
    def row_shape(self) -> tuple[int, ...]:
        """The lengths of the axes of rows: sequences, if there are several, and positions."""

    @property
    def rows(self) -> int:
        """The number of rows: one for each token."""
        return prod(self.row_shape)

    @property
    @abstractmethod
    def scale(self) -> float:
        """The attention factor, by which sines and cosines are multiplied."""

    @property
    def peak(self) -> float:
        """An upper bound of sines and cosines, with the attention factor."""
        return self.scale

    @abstractmethod
    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""

    @abstractmethod
    def along(self) -> tuple[Axis, ...]:
        """Return the frequencies and positions of each axis."""

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of sines and cosines in a layout of channels."""
        return simplified(
            AxesTable(self.along(), self.rounding, channels, dtype, shape, self.scale)
        )

    def angle_table(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of angles, in radians."""
        return angles_table(self.along(), self.rounding, dtype, shape)

    def distance(self) -> float | None:
        """Return a bound on the error of sines and cosines; None if angles are exact.

        An angle error e changes a sine or cosine by at most min(e, 2)·scale; the exact and the
        rounded one each add at most 6·2^-53·scale.
        """
        if self.rounding == "exact":
            return None
        return nextafter((min(self._angle_error(), 2.0) + 12 * 2.0**-53) * self.scale, inf)

    def angle_distance(self) -> float | None:
        """Return a bound on the error of angles; None if they are exact."""
        return None if self.rounding == "exact" else nextafter(self._angle_error(), inf)

    def _angle_error(self) -> float:
        distances = (
            float32_distance(
                list(axis.rule.exact()),
                axis.positions.farthest,
                are_whole=getattr(axis.positions, "is_whole", True),
            )
            for axis in self.along()
        )
        return nextafter(float(max(distances)), inf)

    @property
    def reach(self) -> float:
        """An upper bound of |angle|, also after rounding to float32."""
        sizes = (max(axis.rule.exact()) * axis.positions.farthest for axis in self.along())
        return float(max(sizes)) * (1 + 2.0**-22)


@dataclass(frozen=True)
class SequenceAngles(RotaryAngles):
    """The angles of rows with one position each, with the multipliers of xPos if given."""

    rule: RotaryFrequencies
    positions: AnyPositions
    rounding: AngleRounding = "exact"
    xpos: XPos | None = None

    @property
    def count(self) -> int:
        return self.rule.count

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.positions.shape

    @property
    def scale(self) -> float:
        return self.rule.scale

    @property
    def peak(self) -> float:
        if self.xpos is None:
            return self.scale
        return self.scale * self.xpos.peak(self.positions.farthest_from(self.xpos.centre))

    def parameters(self) -> dict[str, ParameterValue]:
        parameters = {**self.rule.parameters(), **self.positions.parameters()}
        if self.xpos is not None:
            parameters["xpos"] = "key" if self.xpos.inverse else "query"
            parameters["xpos_scale_base"] = self.xpos.scale_base
            parameters["xpos_centre"] = self.xpos.centre
        return parameters | _rounding_parameters(self.rounding)

    def along(self) -> tuple[Axis, ...]:
        return (Axis(self.rule, self.positions, tuple(range(self.count))),)

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        if self.rounding == "exact" and self.xpos is None:
            rule, positions = self.rule, self.positions
            return sinusoid_table(rule, channels, positions, dtype, shape, scale=self.scale)
        axes, scale = self.along(), self.scale
        return simplified(AxesTable(axes, self.rounding, channels, dtype, shape, scale, self.xpos))


@dataclass(frozen=True)
class AxesAngles(RotaryAngles):
    """The angles of tokens with several positions: each frequency times the position on its axis.

    Attributes:
        axes: the frequencies and positions of each axis.
        tokens: the lengths of the axes of tokens: sequences, if there are several, and positions.
        canonical: the canonical parameters, without ``angle``.
        rounding: how angles are rounded.
        attention_factor: the factor of sines and cosines.
        by_channel: whether each channel has an angle of its own, so that a pair may have two.
    """

    axes: tuple[Axis, ...]
    tokens: tuple[int, ...]
    canonical: Mapping[str, ParameterValue]
    rounding: AngleRounding = "exact"
    attention_factor: float = 1.0
    by_channel: bool = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.tokens

    @property
    def scale(self) -> float:
        return self.attention_factor

    def parameters(self) -> dict[str, ParameterValue]:
        return {**self.canonical, **_rounding_parameters(self.rounding)}

    def along(self) -> tuple[Axis, ...]:
        return self.axes


def _rounding_parameters(rounding: AngleRounding) -> dict[str, ParameterValue]:
    return {} if rounding == "exact" else {"angle": rounding}


AXES = ("t", "h", "w")


@dataclass(frozen=True)
class Pack:
    """A packing: the arrays that hold the cosines and sines of a rotary table.

    Attributes:
        parts: the components of a row of each array, in order, by the name of the array.
        description: the shape and content, for the documentation.
        interleaved: whether the components alternate channel by channel.
        paired: whether a row is an array of (cos, sin) pairs, so that the shape is (S, r/2, 2).
        complex: whether these pairs become complex numbers, so that the shape is (S, r/2).
        repeats: how many adjacent channels each frequency fills.
        by_axis: whether the channels of each axis stand together.
    """

    parts: Mapping[str, tuple[Component, ...]]
    description: str
    interleaved: bool = False
    paired: bool = False
    complex: bool = False
    repeats: int = 1
    by_axis: bool = False

    @property
    def layout(self) -> str:
        """The order of the channels that the rows go with: any, if each pair has one cosine."""
        if self.by_axis:
            return "half_by_axis"
        if self.repeats > 1:
            return "interleaved"
        if all(len(set(components)) == len(components) for components in self.parts.values()):
            return "any"
        return "interleaved" if self.interleaved else "half"

    def tables(
        self, angles: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        """Return the arrays of this packing by name; leading is prepended to each shape."""
        tables: dict[str, Table] = {}
        for name, components in self.parts.items():
            channels = self.channels(angles, components)
            row = (angles.count, 2) if self.paired else (channels.width,)
            shape = (*leading, *angles.row_shape, *row)
            table = angles.table(channels, dtype, shape)
            tables[name] = ComplexTable(table) if self.complex else table
        return tables

    def channels(self, angles: RotaryAngles, components: tuple[Component, ...]) -> Channels:
        """Return the channels of a row of the array with these components."""
        width = angles.count * len(components) * self.repeats
        if self.by_axis:
            of_axes = (axis.places * len(components) for axis in angles.along())
            order = chain.from_iterable(of_axes)
            return OrderedChannels(components[:1], False, width, order=tuple(order))
        return Channels(components, self.interleaved, width, self.repeats)

    def columns(self, angles: RotaryAngles, part: str | None) -> tuple[ChannelColumns, ...]:
        """Return what the columns of an array are, by default those of the first."""
        components = self.parts[part or next(iter(self.parts))]
        if angles.by_channel:
            half = angles.count // 2
            return tuple(ChannelColumns(components[0], start, 1, half, 0, 1) for start in (0, half))
        return ChannelColumns.of(self.channels(angles, components))

    def error_bound(self, angles: RotaryAngles, dtype: DType) -> float | None:
        """Return a bound on the error of elements; None if angles are exact."""
        distance = angles.distance()
        return distance and nextafter(distance + rounding_bound(dtype, angles.peak), inf)


@dataclass(frozen=True)
class AnglePack:
    """The packing that holds the angles instead of cosines and sines, in radians."""

    description: str = "(S, r/2): the angles themselves, in radians"
    layout: str = "any"

    def tables(
        self, angles: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        return {"rope": angles.angle_table(dtype, (*leading, *angles.row_shape, angles.count))}

    def columns(self, angles: RotaryAngles, part: str | None) -> tuple[ChannelColumns, ...]:  # noqa: ARG002
        return (ChannelColumns(None, 0, 1, angles.count, 0, 1),)

    def error_bound(self, angles: RotaryAngles, dtype: DType) -> float | None:
        distance = angles.angle_distance()
        return distance and nextafter(distance + rounding_bound(dtype, angles.reach), inf)


@dataclass(frozen=True, eq=False)
class ComplexTable(DerivedTable):
    """The complex numbers cos + i·sin, from a table of pairs (cos, sin)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape[:-1]

    @property
    def dtype(self) -> DType:
        return COMPLEX128 if self.table.dtype is FLOAT64 else COMPLEX64

    @property
    def element_seconds(self) -> float:
        return 2 * self.table.element_seconds

    def read(self, start: int, stop: int) -> Elements:
        return self.table.read(2 * start, 2 * stop).view(self.dtype.storage)


_COS_SIN: Mapping[str, tuple[Component, ...]] = {"rope": ("cos", "sin")}
_SIN_COS: Mapping[str, tuple[Component, ...]] = {"rope": ("sin", "cos")}
_TWICE: Mapping[str, tuple[Component, ...]] = {"cos": ("cos", "cos"), "sin": ("sin", "sin")}

PACKS: Mapping[str, Pack | AnglePack] = {
    "pair": Pack(_COS_SIN, "(S, r/2, 2): cos, sin", interleaved=True, paired=True),
    "complex": Pack(
        _COS_SIN,
        "(S, r/2) complex numbers cos + i·sin",
        interleaved=True,
        paired=True,
        complex=True,
    ),
    "flat": Pack(_COS_SIN, "(S, r): c0, s0, c1, s1, …", interleaved=True),
    "concat": Pack(_COS_SIN, "(S, r): cos ‖ sin"),
    "sin_concat": Pack(_SIN_COS, "(S, r): sin ‖ cos"),
    "compact": Pack({"cos": ("cos",), "sin": ("sin",)}, "cos and sin, each (S, r/2)"),
    "half": Pack(_TWICE, "cos and sin, each (S, r) as [f, f]"),
    "interleaved": Pack(
        _TWICE, "cos and sin, each (S, r) as [f0, f0, f1, f1, …]", interleaved=True
    ),
    "half_by_axis": Pack(
        _TWICE,
        "cos and sin, each (S, r) as [f, f] of the first axis, [f, f] of the next, …",
        by_axis=True,
    ),
    "half_concat": Pack(
        {"rope": ("cos", "cos", "sin", "sin")}, "(S, 2r): cos as [f, f] ‖ sin as [f, f]"
    ),
    "sin_half_concat": Pack(
        {"rope": ("sin", "sin", "cos", "cos")}, "(S, 2r): sin as [f, f] ‖ cos as [f, f]"
    ),
    "sin_interleaved_concat": Pack(
        _SIN_COS,
        "(S, 2r): sin as [f0, f0, f1, f1, …] ‖ cos as [f0, f0, f1, f1, …]",
        repeats=2,
    ),
    "angle": AnglePack(),
}

CONSUMERS: Mapping[str, str] = {
    "transformers": "half",
    "cohere": "interleaved",
    "diffusers": "interleaved",
    "stable_audio": "half",
    "allegro": "half_by_axis",
    "gemma4": "half_by_axis",
    "vjepa2": "half_by_axis",
    "llama": "complex",
    "llama4": "complex",
    "lumina": "complex",
    "gptj": "sin_concat",
    "vllm": "concat",
    "sglang": "concat",
    "flashinfer": "concat",
    "flash_attn": "compact",
    "onnx": "compact",
    "onnxruntime": "compact",
    "torchtune": "pair",
    "torchtune_phi3": "half_concat",
    "torchtune_qwen2": "half_concat",
    "ggml": "flat",
    "dinov3": "half",
    "timm_dinov3": "sin_half_concat",
    "timm_mrope": "sin_half_concat",
    "timm_cat": "sin_interleaved_concat",
    "sam2": "interleaved",
}
"""The pack that each consumer expects.

transformers 5.23.0 (Llama and similar models; Cohere; GPT-J; Llama 4; SAM 2; Gemma 4 vision;
V-JEPA 2, whose attention pairs channels 2k and 2k + 1 of this row), diffusers 0.42.1
(Flux, CogVideoX; Stable Audio; Allegro; Lumina), Meta's Llama, vLLM 0.33.0 ``cos_sin_cache``, which
SGLang and FlashInfer share, flash-attn 2.8.3, ONNX RotaryEmbedding-23, torchtune 0.6.1, ggml's
cache, DINOv3, timm 1.0.31.
"""


def packed(
    angles: RotaryAngles, pack: str, dtype: DType, *, batch: bool = False, kind: str = "rope"
) -> Document:
    """Return the document of cosines and sines in a packing.

    Args:
        angles: the angles, S rows of r/2.
        pack: a key of PACKS.
        dtype: a real element type; for the complex pack, the type of real and imaginary parts.
        batch: whether to add a leading axis of length 1.
        kind: the kind of the document.
    """
    parameters = {**angles.parameters(), "pack": pack, **({"batch": True} if batch else {})}
    is_batch = batch or len(angles.row_shape) > 1
    held = PACKS["compact" if angles.by_channel else pack]
    tables = held.tables(angles, dtype, (1,) if batch else ())
    bound = PACKS[pack].error_bound(angles, dtype)
    _, *widths = next(iter(tables.values())).shape[int(is_batch) :]
    # No single position numbers a row that has one along each axis; lists of these include w.
    are_tokens = kind == "rope-axial" or parameters.keys() & {"grid", "positions_w"}
    row = "token" if are_tokens else "position"
    is_pair = widths[0] == angles.count and not angles.by_channel
    channels = "pair" if is_pair else "channel"
    axes = (*(("batch",) if is_batch else ()), row, channels, *(("component",) * (len(widths) - 1)))
    return Document(
        kind,
        parameters,
        tables,
        has_parts=len(tables) > 1,
        layout=PACKS[pack].layout,
        pack=pack,
        error_bound=bound,
        axes=axes,
        states_axes=len(angles.row_shape) > 1,
    )


if TYPE_CHECKING:
    PackName: TypeAlias = str
else:
    PackName: TypeAlias = Literal[(*PACKS, *CONSUMERS)]

_PACK_DESCRIPTION = (
    "The packing of cosines and sines, for S rows and r rotary channels, where f are the r/2 "
    "frequencies: "
    + "; ".join(f"{name} {pack.description}" for name, pack in PACKS.items())
    + ". Or the name of a consumer: "
    + ", ".join(f"{consumer} ({pack})" for consumer, pack in CONSUMERS.items())
)


_PAIRED = [pack for pack in PACKS.values() if isinstance(pack, Pack) and pack.paired]


class PackedTable(ChannelTable):
    """Base class of the families of rotary tables, in any packing."""

    no_channels: ClassVar[str] = (
        "rows of pack=pair and of complex are pairs: pack=flat has the same numbers as channels"
    )

    pack: PackName = about(_PACK_DESCRIPTION, "pair", default="pair")
    part: Literal["cos", "sin"] | None = optional(
        "Return only one of two arrays, as of compact, half or interleaved.", "cos"
    )
    batch: Boolean = about(
        "Whether arrays have a leading axis of length 1.", example=False, default=False
    )
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"batch": "leave out batch"} if self.batch else {}

    def rotary_angles(self) -> RotaryAngles:
        """Return the angles; raises InvalidParameters for an impossible combination."""
        raise NotImplementedError

    def packing(self) -> str:
        """Return the name of the packing in PACKS."""
        return CONSUMERS.get(self.pack, self.pack)

    def as_matrix(self) -> Mapping[str, ParameterValue]:
        return {"pack": "flat"} if PACKS[self.packing()] in _PAIRED else {}

    def meaning(self) -> Meaning:
        pack, angles = PACKS[self.packing()], self.rotary_angles()
        return Meaning(
            pack.columns(angles, self.part),
            (-angles.peak, angles.peak) if angles.xpos is None and isinstance(pack, Pack) else None,
            is_steady=angles.rounding == "exact" and angles.xpos is None,
        )

    def document(self) -> Document:
        pack, angles, dtype = self.packing(), self.rotary_angles(), self.element_type
        if angles.by_channel and pack != "half":
            rule = "the two channels of a pair have different angles: only pack=half holds them"
            raise impossible("pack", self.pack, rule)
        if self.batch and len(angles.row_shape) > 1:
            raise impossible("batch", True, "positions have a batch axis: leave batch out")
        if pack == "half_by_axis" and len(angles.along()) == 1:
            pack = "half"
        if pack == "complex" and self.dtype not in {"float32", "float64"}:
            rule = "pack=complex needs dtype float32 (complex64) or float64 (complex128)"
            raise impossible("dtype", self.dtype, rule)
        if pack == "angle" and dtype is FLOAT16:
            rule = "pack=angle does not go with dtype=float16, whose range is too small for angles"
            raise impossible("dtype", self.dtype, rule)
        return packed(angles, pack, dtype, batch=self.batch, kind=self.kind())
