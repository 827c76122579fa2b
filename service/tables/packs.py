"""The packings of cosines and sines that consumers of rotary tables expect."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nextafter
from types import MappingProxyType

from service.tables.channels import Channels, Component
from service.tables.dtypes import COMPLEX64, COMPLEX128, FLOAT64, DType, Elements, rounding_bound
from service.tables.table import Table, setup_work
from service.tables.turns import Turns


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

    def tables(self, turns: Turns, dtype: DType, leading: tuple[int, ...] = ()) -> dict[str, Table]:
        """Describe the arrays of this pack, below leading axes of length 1."""
        return {
            name: self._table(turns, dtype, leading, components)
            for name, components in self.parts.items()
        }

    def error_bound(self, turns: Turns, dtype: DType) -> float | None:
        """Bound how far elements are from the exact ones, where these are not meant."""
        distance = turns.distance()
        return distance and nextafter(distance + rounding_bound(dtype, turns.peak), inf)

    def _table(
        self,
        turns: Turns,
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

    def tables(self, turns: Turns, dtype: DType, leading: tuple[int, ...] = ()) -> dict[str, Table]:
        """Describe the one array of this pack, below leading axes of length 1."""
        return {"rope": turns.angles(dtype, (*leading, turns.rows, turns.count))}

    def error_bound(self, turns: Turns, dtype: DType) -> float | None:
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
