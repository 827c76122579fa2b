"""The packings of cosines and sines that consumers of rotary tables expect."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nextafter
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from service.encodings.family import (
    RealDType,
    TableFamily,
    about,
    impossible,
)
from service.encodings.rotary.angles import RotaryAngles
from service.grammar import Boolean
from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT64,
    DType,
    Elements,
    rounding_bound,
)
from service.numerics.phasors import Channels, Component
from service.numerics.tables import Document, Table, setup_work


@dataclass(frozen=True)
class Pack:
    """A layout of cosines and sines.

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
        self, angles: RotaryAngles, dtype: DType, leading: tuple[int, ...] = ()
    ) -> dict[str, Table]:
        """Return the arrays of this packing, below leading axes of length 1."""
        return {
            name: self._table(angles, dtype, leading, components)
            for name, components in self.parts.items()
        }

    def error_bound(self, angles: RotaryAngles, dtype: DType) -> float | None:
        """Return the bound on the error of elements, None where each is the nearest number."""
        distance = angles.distance()
        return distance and nextafter(distance + rounding_bound(dtype, angles.peak), inf)

    def _table(
        self,
        angles: RotaryAngles,
        dtype: DType,
        leading: tuple[int, ...],
        components: tuple[Component, ...],
    ) -> Table:
        width = angles.count * len(components) * self.repeats
        shape = (*leading, angles.rows, *((angles.count, 2) if self.paired else (width,)))
        channels = Channels(components, self.interleaved, width, self.repeats)
        table = angles.table(channels, dtype, shape)
        return ComplexTable(table) if self.complex else table


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
    """Return the name of a pack, from that of a pack or of a consumer."""
    return CONSUMERS.get(name, name)


def packed(
    angles: RotaryAngles, pack: str, dtype: DType, *, batch: bool = False, kind: str = "rope"
) -> Document:
    """Return the document of cosines and sines in a packing.

    Args:
        angles: S rows of r/2 angles.
        pack: a key of PACKS.
        dtype: a real element type; for the complex pack the type of the two parts.
        batch: whether there is a leading axis of 1.
        kind: the kind of the document.
    """
    parameters = {**angles.parameters(), "pack": pack, **({"batch": True} if batch else {})}
    tables = PACKS[pack].tables(angles, dtype, (1,) if batch else ())
    bound = PACKS[pack].error_bound(angles, dtype)
    shape = next(iter(tables.values())).shape
    axes = _axes(shape[int(batch) :], angles.count, "token" if kind == "rope-axial" else "position")
    named = (("batch",) if batch else ()) + axes
    return Document(kind, parameters, tables, len(tables) > 1, bound, axes=named)


def _axes(shape: tuple[int, ...], pairs: int, row: str) -> tuple[str, ...]:
    """Return the axis names of a packed table."""
    if len(shape) == 3:
        return row, "pair", "component"
    return row, "pair" if shape[1] == pairs else "channel"


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

    pack: Annotated[PackName, about(_PACK_DESCRIPTION, "pair")] = "pair"
    part: Annotated[
        Literal["cos", "sin"] | None,
        about("Answer one of the two arrays of compact, half or interleaved alone.", "cos"),
    ] = None
    batch: Annotated[Boolean, about("Add a leading axis of length 1.", example=False)] = False
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"batch": "leave out batch"}

    def rotary_angles(self) -> RotaryAngles:
        """Return the angles; raises InvalidParameters for an impossible combination."""
        raise NotImplementedError

    def document(self) -> Document:
        angles, pack, dtype = self.rotary_angles(), pack_of(self.pack), self.element_type
        if pack == "complex" and self.dtype not in {"float32", "float64"}:
            rule = "pack=complex needs dtype float32 (complex64) or float64 (complex128)"
            raise impossible("dtype", self.dtype, rule)
        if pack == "angle" and dtype is FLOAT16:
            rule = "pack=angle needs a dtype with room for angles, not float16"
            raise impossible("dtype", self.dtype, rule)
        return packed(angles, pack, dtype, batch=self.batch, kind=self.kind())
