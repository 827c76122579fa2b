"""The tables of rotary angles: rows of angles, and the packings of their cosines and sines.

M-RoPE: "Qwen2-VL" (Wang et al. 2024), §2.1; transformers 5.23.0
``apply_multimodal_rotary_pos_emb`` of Qwen2-VL (chunked) and ``apply_interleaved_mrope`` of
Qwen3-VL (interleaved). xPos: "A Length-Extrapolatable Transformer" (Sun et al. 2023), §3.3.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from service.encodings.family import RealDType, TableFamily, about, impossible, optional
from service.encodings.grid.grids import Picked, Tokens
from service.encodings.rotary.rules import RotaryFrequencies
from service.grammar import Boolean
from service.lru import ByteBoundedLRU
from service.numerics.axes import AngleRounding, AxesTable, Axis, angles_table, float32_distance
from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT64,
    DType,
    Elements,
    rounding_bound,
)
from service.numerics.phase import Decimals, Float64s, Int64s, exact_context
from service.numerics.phasors import Channels, Component, PhasorTable
from service.numerics.positions import Positions
from service.numerics.tables import Document, ParameterValue, Table, setup_work

# 3.5 to this power is the last within the range of float64.
_MAX_POWER = 566

_SQUARINGS = 6
_RADIX = 2**_SQUARINGS


@dataclass(frozen=True)
class XPos:
    """The multipliers ζ_k^((p − centre)/scale_base) with ζ_k = (2k + 0.4·r)/(1.4·r).

    torchscale ``XPOS`` at commit 4d1e0e8, flash-attn 2.8.3, rotary-embedding-torch 0.9.1,
    x-transformers 2.31.10. Each is within (2d − 1)·2^-53 of its own size, where p − centre has d
    digits to the base of 64: a factor for each, rounded once, and d − 1 products.

    Attributes:
        rotary_dim: rotary channels, r.
        scale_base: the distance from the centre at which the multiplier is ζ_k itself.
        centre: the position where all are 1.
        inverse: whether to return the reciprocals, which multiply keys.
    """

    rotary_dim: int
    scale_base: float
    centre: int
    inverse: bool

    def at(self, positions: Int64s) -> Float64s:
        """Return the multipliers of positions (m,), shape (m, r/2)."""
        rest = positions - np.int64(self.centre)
        if self.inverse:
            rest = -rest
        total = np.ones((len(positions), self.rotary_dim // 2))
        place = 0
        while rest.any():
            digits = np.fmod(rest, np.int64(_RADIX))
            if digits.any():
                total *= _factors(self.rotary_dim, self.scale_base, place)[digits + _RADIX - 1]
            rest = (rest - digits) // _RADIX
            place += 1
        return total

    def peak(self, distance: int) -> float:
        """Return an upper bound of the multipliers up to a distance from the centre."""
        power = distance / self.scale_base
        # The smallest ζ is 0.4/1.4; the rest makes up for the roundings of both.
        return 3.5 ** nextafter(power, inf) * (1 + 2.0**-48) if power < _MAX_POWER else inf


_cache: ByteBoundedLRU[tuple[int, float, int], Float64s] = ByteBoundedLRU(32 * 1024 * 1024)


def _factors(rotary_dim: int, scale_base: float, place: int) -> Float64s:
    """Return the multipliers of the offsets d·64^place for d = −63 … 63, shape (127, r/2)."""
    key = rotary_dim, scale_base, place
    factors = _cache.get(key)
    if factors is None:
        context, count = exact_context(), rotary_dim // 2
        base = [_at_place(k, rotary_dim, scale_base, place) for k in range(count)]
        inverse = [context.divide(Decimal(1), factor) for factor in base]
        factors = np.array([*_powers(inverse)[::-1], [1.0] * count, *_powers(base)])
        _cache.put(key, factors, factors.nbytes + 256)
    return factors


def _powers(base: Decimals) -> list[list[float]]:
    """Return the powers 1 … 63 of every number, each rounded once."""
    powers, rows = base, [list(map(float, base))]
    for _ in range(_RADIX - 2):
        powers = list(map(exact_context().multiply, powers, base))
        rows.append(list(map(float, powers)))
    return rows


def _at_place(k: int, rotary_dim: int, scale_base: float, place: int) -> Decimal:
    """Return ζ_k^(64^place/scale_base)."""
    context = exact_context()
    zeta = context.divide(Decimal(10 * k + 2 * rotary_dim), Decimal(7 * rotary_dim))
    power = context.exp(context.divide(context.ln(zeta), Decimal(scale_base)))
    for _ in range(_SQUARINGS * place):
        power = context.multiply(power, power)
    return power


class RotaryAngles(ABC):
    """Rows of angles, one for each frequency of each token."""

    rounding: AngleRounding

    @property
    def count(self) -> int:
        """The number of angles in a row: half of the rotary channels."""
        return sum(len(axis.places) for axis in self.along())

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows: one for each token."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The attention factor, which multiplies sines and cosines."""

    @property
    def peak(self) -> float:
        """An upper bound of sines and cosines."""
        return self.scale

    @abstractmethod
    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""

    @abstractmethod
    def along(self) -> tuple[Axis, ...]:
        """Return the frequencies and positions of each axis."""

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of sines and cosines in a layout of channels."""
        return AxesTable(self.along(), self.rounding, channels, dtype, shape, self.scale)

    def angle_table(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of angles, in radians."""
        return angles_table(self.along(), self.rounding, dtype, shape)

    def distance(self) -> float | None:
        """Return the bound on the error of sines and cosines; None where angles are exact.

        They move by no more than their angle, nor by more than 2, times the scale; either is
        computed to within 6·2^-53 of its size.
        """
        if self.rounding == "exact":
            return None
        return nextafter((min(self._moved(), 2.0) + 12 * 2.0**-53) * self.scale, inf)

    def angle_distance(self) -> float | None:
        """Return the bound on the error of angles; None where they are exact."""
        return None if self.rounding == "exact" else nextafter(self._moved(), inf)

    def _moved(self) -> float:
        distances = (
            float32_distance(axis.rule.exact(), axis.positions.farthest) for axis in self.along()
        )
        return nextafter(float(max(distances)), inf)

    @property
    def reach(self) -> float:
        """An upper bound on the angles; it also holds after rounding to float32."""
        sizes = (max(axis.rule.exact()) * axis.positions.farthest for axis in self.along())
        return float(max(sizes)) * (1 + 2.0**-22)


@dataclass(frozen=True)
class SequenceAngles(RotaryAngles):
    """Angles by the one position of each row, with the multipliers of xPos, if any."""

    rule: RotaryFrequencies
    positions: Positions
    rounding: AngleRounding = "exact"
    xpos: XPos | None = None

    @property
    def count(self) -> int:
        return self.rule.count

    @property
    def rows(self) -> int:
        return self.positions.count

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
            return PhasorTable(self.rule, channels, self.positions, dtype, shape, self.scale)
        axes, scale = self.along(), self.scale
        return AxesTable(axes, self.rounding, channels, dtype, shape, scale, self.xpos)


@dataclass(frozen=True)
class AxesAngles(RotaryAngles):
    """Angles of tokens with several positions: each frequency times the position on its axis.

    Attributes:
        axes: frequencies and positions of each axis.
        tokens: the number of tokens.
        canonical: the canonical parameters, without the rounding.
        attention_factor: multiplies sines and cosines.
    """

    axes: tuple[Axis, ...]
    tokens: int
    canonical: Mapping[str, ParameterValue]
    rounding: AngleRounding = "exact"
    attention_factor: float = 1.0

    @property
    def rows(self) -> int:
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


def mrope_angles(
    rule: RotaryFrequencies,
    section: tuple[int, ...],
    tokens: Tokens,
    rounding: AngleRounding = "exact",
    *,
    interleaved: bool,
) -> AxesAngles:
    """Return the angles of M-RoPE, each by one of the three positions of its row.

    Args:
        rule: the frequencies.
        section: the number of frequencies of t, h and w, which sum to those of the rule.
        tokens: the positions.
        rounding: of the angles.
        interleaved: whether the axes alternate, as of ``axis_of_frequency``.
    """
    names = axis_of_frequency(rule.count, section, interleaved=interleaved)
    places = {axis: tuple(k for k, name in enumerate(names) if name == axis) for axis in AXES}
    axes = tuple(
        Axis(Picked(rule, places[axis]), tokens.axes[axis], places[axis])
        for axis in AXES
        if places[axis]
    )
    sections: dict[str, ParameterValue] = {
        "mrope_section": section,
        "mrope_interleaved": interleaved,
    }
    canonical = {**rule.parameters(), **sections, **tokens.canonical}
    return AxesAngles(axes, tokens.rows, canonical, rounding, rule.scale)


def axis_of_frequency(count: int, section: tuple[int, ...], *, interleaved: bool) -> str:
    """Return the axis of each frequency, a letter each.

    Chunked: the first section of frequencies is of t, the next of h, the rest of w.
    Interleaved: frequency k is of h where k mod 3 is 1 and k < 3·section[1], of w where k mod 3
    is 2 and k < 3·section[2], else of t.
    """
    if not interleaved:
        return "".join(axis * length for axis, length in zip(AXES, section, strict=True))
    cycle = (AXES[k % 3] if k < 3 * section[k % 3] else AXES[0] for k in range(count))
    return "".join(cycle)


@dataclass(frozen=True)
class Pack:
    """A layout of cosines and sines.

    Attributes:
        parts: for each array by name, the components of a row, in order.
        description: shape and content, for documentation.
        interleaved: whether the components alternate channel by channel.
        paired: whether the row is an array of (cos, sin) pairs, shape (S, r/2, 2).
        complex: whether such pairs are complex numbers, shape (S, r/2).
        repeats: how many times each frequency comes, next to itself.
    """

    parts: Mapping[str, tuple[Component, ...]]
    description: str
    interleaved: bool = False
    paired: bool = False
    complex: bool = False
    repeats: int = 1

    def tables(
        self, angles: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        """Return the arrays of this packing, below leading axes of length 1."""
        tables: dict[str, Table] = {}
        for name, components in self.parts.items():
            width = angles.count * len(components) * self.repeats
            shape = (*leading, angles.rows, *((angles.count, 2) if self.paired else (width,)))
            channels = Channels(components, self.interleaved, width, self.repeats)
            table = angles.table(channels, dtype, shape)
            tables[name] = ComplexTable(table) if self.complex else table
        return tables

    def error_bound(self, angles: RotaryAngles, dtype: DType) -> float | None:
        """Return the bound on the error of elements, None where each is the nearest number."""
        distance = angles.distance()
        return distance and nextafter(distance + rounding_bound(dtype, angles.peak), inf)


@dataclass(frozen=True)
class AnglePack:
    """The angles themselves, in radians."""

    description: str = "(S, r/2): the angles themselves, in radians"

    def tables(
        self, angles: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        return {"rope": angles.angle_table(dtype, (*leading, angles.rows, angles.count))}

    def error_bound(self, angles: RotaryAngles, dtype: DType) -> float | None:
        distance = angles.angle_distance()
        return distance and nextafter(distance + rounding_bound(dtype, angles.reach), inf)


@dataclass(frozen=True, eq=False)
class ComplexTable:
    """Pairs (cos, sin) read as the complex numbers cos + i·sin."""

    pairs: Table

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pairs.shape[:-1]

    @property
    def dtype(self) -> DType:
        return COMPLEX128 if self.pairs.dtype is FLOAT64 else COMPLEX64

    @property
    def work_per_element(self) -> int:
        return 2 * self.pairs.work_per_element

    @property
    def setup_work(self) -> int:
        return setup_work(self.pairs)

    def read(self, start: int, stop: int) -> Elements:
        return self.pairs.read(2 * start, 2 * stop).view(self.dtype.storage)


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
    "half_concat": Pack(
        {"rope": ("cos", "cos", "sin", "sin")}, "(S, 2r): cos as [f, f] ‖ sin as [f, f]"
    ),
    "sin_half_concat": Pack(
        {"rope": ("sin", "sin", "cos", "cos")}, "(S, 2r): sin as [f, f] ‖ cos as [f, f]"
    ),
    "sin_interleaved_concat": Pack(
        _SIN_COS, "(S, 2r): sin as [f0, f0, f1, f1, …] ‖ cos as the same", repeats=2
    ),
    "angle": AnglePack(),
}

CONSUMERS: Mapping[str, str] = {
    "transformers": "half",
    "cohere": "interleaved",
    "diffusers": "interleaved",
    "stable_audio": "half",
    "allegro": "half",
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

transformers 5.23.0 (Llama and its kin; Cohere; GPT-J; Llama 4; SAM 2), diffusers 0.42.1 (Flux,
CogVideoX; Stable Audio; Allegro; Lumina), Meta's Llama, vLLM 0.33.0 ``cos_sin_cache`` and those who
share it, flash-attn 2.8.3, ONNX RotaryEmbedding-23, torchtune 0.6.1, ggml's cache, DINOv3, timm
1.0.31.
"""


def packed(
    angles: RotaryAngles, pack: str, dtype: DType, *, batch: bool = False, kind: str = "rope"
) -> Document:
    """Return the document of cosines and sines in a packing.

    Args:
        angles: S rows of r/2 angles.
        pack: a key of PACKS.
        dtype: a real element type; for the complex pack the type of the two parts.
        batch: whether to add a leading axis of 1.
        kind: the kind of the document.
    """
    parameters = {**angles.parameters(), "pack": pack, **({"batch": True} if batch else {})}
    tables = PACKS[pack].tables(angles, dtype, (1,) if batch else ())
    bound = PACKS[pack].error_bound(angles, dtype)
    _, *widths = next(iter(tables.values())).shape[int(batch) :]
    row = "token" if kind == "rope-axial" else "position"
    channels = "pair" if widths[0] == angles.count else "channel"
    axes = (*(("batch",) if batch else ()), row, channels, *(("component",) * (len(widths) - 1)))
    return Document(kind, parameters, tables, len(tables) > 1, bound, axes=axes)


if TYPE_CHECKING:
    PackName: TypeAlias = str
else:
    PackName: TypeAlias = Literal[(*PACKS, *CONSUMERS)]

_PACK_DESCRIPTION = (
    "How cosines and sines are laid out: "
    + "; ".join(f"{name} {pack.description}" for name, pack in PACKS.items())
    + ". Or the consumer: "
    + ", ".join(f"{consumer} ({pack})" for consumer, pack in CONSUMERS.items())
)


class PackedTable(TableFamily):
    """Base of the rotary tables, in any packing."""

    pack: PackName = about(_PACK_DESCRIPTION, "pair", default="pair")
    part: Literal["cos", "sin"] | None = optional(
        "Return only one of the two arrays of compact, half or interleaved.", "cos"
    )
    batch: Boolean = about("Add a leading axis of length 1.", example=False, default=False)
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"batch": "leave out batch"}

    def rotary_angles(self) -> RotaryAngles:
        """Return the angles; raises InvalidParameters for an impossible combination."""
        raise NotImplementedError

    def document(self) -> Document:
        pack = CONSUMERS.get(self.pack, self.pack)
        angles, dtype = self.rotary_angles(), self.element_type
        if pack == "complex" and self.dtype not in {"float32", "float64"}:
            rule = "pack=complex needs dtype float32 (complex64) or float64 (complex128)"
            raise impossible("dtype", self.dtype, rule)
        if pack == "angle" and dtype is FLOAT16:
            rule = "pack=angle needs a dtype with room for angles, not float16"
            raise impossible("dtype", self.dtype, rule)
        return packed(angles, pack, dtype, batch=self.batch, kind=self.kind())
