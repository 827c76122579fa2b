"""The packings of cosines and sines that consumers of rotary tables expect.

Rotary tables: the cosines and sines by which queries and keys are turned.

"RoFormer" (Su et al. 2021), §3.2.2: a pair of channels turns by the angle position·ω. Every cosine
and sine is within 4·2^-53 of the formula; times an attention factor it is within 6·2^-53 of that
factor. Both are rounded once to their element type.

Parameters that say how cosines and sines are laid out, for which consumer, in which type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter
from types import MappingProxyType
from typing import Literal, TypeAlias

from pydantic import Field

from service.encodings.fields import ArrayParameters, RealDType, dtype_field, impossible
from service.encodings.rotary.angles import RotaryAngles
from service.encodings.rotary.rules import RotaryFrequencies
from service.grammar import Boolean
from service.numerics.document import Document
from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT64,
    REAL_DTYPES,
    DType,
    Elements,
    rounding_bound,
)
from service.numerics.frequencies import wavelengths
from service.numerics.phasors import Channels, Component
from service.numerics.tables import DecimalTable, Table, setup_work


@dataclass(frozen=True)
class Pack:
    """Lay out cosines and sines the way a consumer expects.

    Attributes:
        parts: for each array by name, the components a row holds.
        interleaved: whether they alternate channel by channel.
        paired: whether the row is an array of (cos, sin) pairs, shape (S, r/2, 2).
        complex: whether such pairs are complex numbers, shape (S, r/2).
        repeats: how often a frequency comes next to itself.
        description: shape and content, for documentation.
    """

    parts: Mapping[str, tuple[Component, ...]]
    interleaved: bool
    description: str
    paired: bool = False
    complex: bool = False
    repeats: int = 1

    def tables(
        self, turns: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        """Describe the arrays of this pack, below leading axes of length 1."""
        return {
            name: self._table(turns, dtype, leading, components)
            for name, components in self.parts.items()
        }

    def error_bound(self, turns: RotaryAngles, dtype: DType) -> float | None:
        """Bound how far elements are from the exact ones, where these are not meant."""
        distance = turns.distance()
        return distance and nextafter(distance + rounding_bound(dtype, turns.peak), inf)

    def _table(
        self,
        turns: RotaryAngles,
        dtype: DType,
        leading: tuple[int, ...],
        components: tuple[Component, ...],
    ) -> Table:
        width = turns.count * len(components) * self.repeats
        shape = (*leading, turns.rows, *((turns.count, 2) if self.paired else (width,)))
        channels = Channels(components, self.interleaved, width, self.repeats)
        table = turns.table(channels, dtype, shape)
        return ComplexTable(table) if self.complex else table


@dataclass(frozen=True)
class AnglePack:
    """Give the angles themselves, in radians."""

    description: str = "(S, r/2): the angles themselves, in radians"

    def tables(
        self, turns: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        """Describe the one array of this pack, below leading axes of length 1."""
        return {"rope": turns.angles(dtype, (*leading, turns.rows, turns.count))}

    def error_bound(self, turns: RotaryAngles, dtype: DType) -> float | None:
        """Bound how far elements are from the exact ones, where these are not meant."""
        distance = turns.angle_distance()
        return distance and nextafter(distance + rounding_bound(dtype, turns.reach), inf)


@dataclass(frozen=True, eq=False)
class ComplexTable:
    """Pairs (cos, sin) read as the complex numbers cos + i·sin."""

    pairs: Table

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the pairs without their axis of two."""
        return self.pairs.shape[:-1]

    @property
    def dtype(self) -> DType:
        """The complex type of two such elements."""
        return COMPLEX128 if self.pairs.dtype is FLOAT64 else COMPLEX64

    @property
    def work_per_element(self) -> int:
        """A cosine and a sine."""
        return 2 * self.pairs.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the pairs."""
        return setup_work(self.pairs)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        return self.pairs.read(2 * start, 2 * stop).view(self.dtype.storage)


def _single(*components: Component, interleaved: bool, description: str, **kind: bool) -> Pack:
    return Pack(MappingProxyType({"rope": components}), interleaved, description, **kind)


def _twin(copies: int, *, interleaved: bool, description: str) -> Pack:
    cos: Component = "cos"
    sin: Component = "sin"
    parts = {"cos": (cos,) * copies, "sin": (sin,) * copies}
    return Pack(MappingProxyType(parts), interleaved, description)


_SIN_COS: Mapping[str, tuple[Component, ...]] = MappingProxyType({"rope": ("sin", "cos")})

PACKS: Mapping[str, Pack | AnglePack] = MappingProxyType(
    {
        "pair": _single(
            "cos", "sin", interleaved=True, paired=True, description="(S, r/2, 2): cos, sin"
        ),
        "complex": _single(
            "cos",
            "sin",
            interleaved=True,
            paired=True,
            complex=True,
            description="(S, r/2) complex numbers cos + i·sin",
        ),
        "flat": _single("cos", "sin", interleaved=True, description="(S, r): c0, s0, c1, s1, …"),
        "concat": _single("cos", "sin", interleaved=False, description="(S, r): cos ‖ sin"),
        "sin_concat": _single("sin", "cos", interleaved=False, description="(S, r): sin ‖ cos"),
        "compact": _twin(1, interleaved=False, description="cos and sin, each (S, r/2)"),
        "half": _twin(2, interleaved=False, description="cos and sin, each (S, r) as [f, f]"),
        "interleaved": _twin(
            2, interleaved=True, description="cos and sin, each (S, r) as [f0, f0, f1, f1, …]"
        ),
        "half_concat": _single(
            "cos",
            "cos",
            "sin",
            "sin",
            interleaved=False,
            description="(S, 2r): cos as [f, f] ‖ sin as [f, f]",
        ),
        "sin_half_concat": _single(
            "sin",
            "sin",
            "cos",
            "cos",
            interleaved=False,
            description="(S, 2r): sin as [f, f] ‖ cos as [f, f]",
        ),
        "sin_interleaved_concat": Pack(
            _SIN_COS, False, "(S, 2r): sin as [f0, f0, f1, f1, …] ‖ cos as the same", repeats=2
        ),
        "angle": AnglePack(),
    }
)

CONSUMERS: Mapping[str, str] = MappingProxyType(
    {
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
)
"""The pack that each consumer expects.

transformers 5.23.0 (Llama and its kin; Cohere; GPT-J; Llama 4; SAM 2), diffusers 0.42.1 (Flux,
CogVideoX; Stable Audio; Allegro; Lumina), Meta's Llama, vLLM 0.33.0 ``cos_sin_cache`` and those who
share it, flash-attn 2.8.3, ONNX RotaryEmbedding-23, torchtune 0.6.1, ggml's cache, DINOv3, timm
1.0.31.
"""


def pack_of(name: str) -> str:
    """Give the name of a pack, for that of a pack or of a consumer."""
    return CONSUMERS.get(name, name)


def rope(
    *, turns: RotaryAngles, pack: str, dtype: DType, batch: bool = False, kind: str = "rope"
) -> Document:
    """Describe cosines and sines in a packing.

    Args:
        turns: S rows of r/2 angles.
        pack: a key of PACKS.
        dtype: a real element type; for the complex pack the type of the two parts.
        batch: whether there is a leading axis of 1.
        kind: the kind of the document.
    """
    parameters = {**turns.parameters(), "pack": pack, **({"batch": True} if batch else {})}
    tables = PACKS[pack].tables(turns, dtype, (1,) if batch else ())
    bound = PACKS[pack].error_bound(turns, dtype)
    shape = next(iter(tables.values())).shape
    axes = _axes(shape[int(batch) :], turns.count, "token" if kind == "rope-axial" else "position")
    named = (("batch",) if batch else ()) + axes
    return Document(kind, parameters, tables, len(tables) > 1, bound, axes=named)


def _axes(shape: tuple[int, ...], pairs: int, row: str) -> tuple[str, ...]:
    """Name what the axes of a packing count."""
    if len(shape) == 3:
        return row, "pair", "component"
    return row, "pair" if shape[1] == pairs else "channel"


def frequencies(rule: RotaryFrequencies) -> Document:
    """Describe the frequencies of a rule and the numbers on the way to them, all float64.

    ``inv_freq`` (r/2,) in radians per position; ``wavelength`` 2π/ω (r/2,) in positions, infinite
    where a frequency is 0; ``attention_factor`` (), and what the rule has ``beside``. Each number
    is the nearest to the formula.
    """
    arrays: dict[str, Table] = {
        "inv_freq": DecimalTable((rule.count,), rule.exact),
        "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact())),
        "attention_factor": DecimalTable((), lambda: [Decimal(rule.scale)]),
    }
    arrays |= rule.intermediates()
    return Document("rope-frequencies", rule.parameters(), arrays, has_parts=True)


PackName: TypeAlias = Literal[
    "pair",
    "complex",
    "flat",
    "concat",
    "sin_concat",
    "compact",
    "half",
    "interleaved",
    "half_concat",
    "sin_half_concat",
    "sin_interleaved_concat",
    "angle",
    "transformers",
    "cohere",
    "diffusers",
    "stable_audio",
    "allegro",
    "llama",
    "llama4",
    "lumina",
    "gptj",
    "vllm",
    "sglang",
    "flashinfer",
    "flash_attn",
    "onnx",
    "onnxruntime",
    "torchtune",
    "torchtune_phi3",
    "torchtune_qwen2",
    "ggml",
    "dinov3",
    "timm_dinov3",
    "timm_mrope",
    "timm_cat",
    "sam2",
]
_PACK_DESCRIPTION = (
    "How cosines and sines are laid out: "
    + "; ".join(f"{name} {pack.description}" for name, pack in PACKS.items())
    + ". Or the consumer: "
    + ", ".join(f"{consumer} ({pack})" for consumer, pack in CONSUMERS.items())
)


class PackParameters(ArrayParameters):
    """Parameters of the form of a rotary table."""

    pack: PackName = Field(default="pair", description=_PACK_DESCRIPTION, examples=["pair"])
    part: Literal["cos", "sin"] | None = Field(
        default=None,
        description="Answer one of the two arrays of compact, half or interleaved alone.",
        examples=["cos"],
    )
    batch: Boolean = Field(
        default=False, description="Add a leading axis of length 1.", examples=[False]
    )
    dtype: RealDType = dtype_field()

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the batch."""
        return {"batch": "leave out batch"}

    def packed(self, kind: str, turns: RotaryAngles) -> Document:
        """Describe a table of a kind in this form."""
        pack, dtype = pack_of(self.pack), REAL_DTYPES[self.dtype]
        if pack == "complex" and self.dtype not in {"float32", "float64"}:
            rule = "pack=complex needs dtype float32 (complex64) or float64 (complex128)"
            raise impossible("dtype", self.dtype, rule)
        if pack == "angle" and dtype is FLOAT16:
            rule = "pack=angle needs a dtype with room for angles, not float16"
            raise impossible("dtype", self.dtype, rule)
        return rope(turns=turns, pack=pack, dtype=dtype, batch=self.batch, kind=kind)
