"""Kernels of distances as biases of attention: a logarithm or a power for each head.

"KERPLE" (Chi et al. 2022), §4: the logarithmic variant −p·ln(1 + a·|d|) and the power variant
−a·|d|^p, 0 < p ≤ 2. NeMo 1.23.0 ``KERPLERelativePositionEmbedding`` joins the two:
−b·ln(1 + a·|d|^p), where unless trained a = p = 1 and b is ALiBi's slope.

A bias is within 1.1·2^-53 of its own size: a power is within 2^-58 of its size, and 1 + a·|d|^p
has a logarithm that is as little away for that, and by 2^-58 more of its own; factors are exact or
within 2^-106, products within 2^-102, and what comes out is rounded once.

``/relative/kerple``: KERPLE's kernels of distances, from numbers or arrays for each head.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition, Resource
from service.encodings.family import InputArray
from service.encodings.fields import ArrayParameters, RealDType, Reals, dtype_field, impossible
from service.encodings.relative.alibi import GivenSlopes, SlopeRule, Slopes
from service.encodings.relative.distance import (
    HeadParameters,
    QueryKey,
    QueryKeyParameters,
    bias_document,
    causal_field,
    head_biases,
)
from service.errors import InvalidBody, PosrefError
from service.grammar import Boolean, Integer, to_query
from service.numerics.document import Document, ParameterValue
from service.numerics.double_double import (
    MAX_EXPONENT,
    DoubleDouble,
    evaluate_in_blocks,
    from_floats,
    from_integers,
    ln_1p,
    multiply,
    power,
)
from service.numerics.dtypes import REAL_DTYPES, DType, to_float64
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import StoredTable, setup_work

LEAST, MOST = 1e-100, 1e9
"""The size of what distances and kernels are multiplied by, where it is not 0."""

CLAMP = 0.01
"""What the code of KERPLE (commit 25be3d7, ``megatron/mpu/layers.py``) raises parameters to."""

MAX_POWER = 2.0
"""The exponent of a power kernel: above it, it is no kernel."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """−outer·ln(1 + inner·|d|^exponent), or −outer·|d|^exponent.

    Attributes:
        outer: a factor for each head.
        inner: a factor for each head inside the logarithm; no logarithm where there are none.
        exponent: one for each head; all 1 where there are none.
        is_causal: whether keys after the query have the bias of distance 0, which is 0.
    """

    outer: Slopes
    inner: Float64s | None
    exponent: Float64s | None
    is_causal: bool

    @property
    def work_per_element(self) -> int:
        """As much as three sines: a logarithm, an exponential and a logarithm."""
        return 3

    @property
    def setup_work(self) -> int:
        """That of the slopes, where those are a rule's."""
        return setup_work(self.outer)

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Evaluate distances (n,) for heads."""
        lengths = np.maximum(-distances, 0) if self.is_causal else np.abs(distances)
        outer = self.outer.pairs(heads)

        def scaled(some: slice, part: slice) -> Float64s:
            return multiply(self._grown(lengths[part], heads[some]), outer.column(some)).high

        # A difference, so that the bias of distance 0 is no negative zero.
        return 0.0 - evaluate_in_blocks(scaled, len(heads), len(lengths))

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of biases, as right as the functions of this machine are."""
        own = slice(heads.start, heads.stop)
        farthest = float(pairs.farthest_behind if self.is_causal else pairs.farthest)
        exponent = 1.0 if self.exponent is None else self.exponent[own]
        sizes = np.power(farthest, exponent)
        if self.inner is not None:
            sizes = np.log1p(self.inner[own] * sizes)
        return float((self.outer.sizes(heads) * sizes).max())

    def _grown(self, lengths: Int64s, heads: range) -> DoubleDouble:
        grown = self._raised(lengths, heads)
        if self.inner is None:
            return grown
        inner = from_floats(self.inner[heads.start : heads.stop])
        return ln_1p(multiply(grown, inner.column(slice(None))))

    def _raised(self, lengths: Int64s, heads: range) -> DoubleDouble:
        """Raise lengths (n,) to the power of heads: (heads, n), or (n,) where all are 1."""
        own = from_integers(lengths)
        if self.exponent is None:
            return own
        exponents = self.exponent[heads.start : heads.stop, np.newaxis]
        is_one = exponents == 1.0
        if is_one.all():
            return own
        raised = power(lengths, exponents)
        high, low = (np.where(is_one, *both) for both in zip(own, raised, strict=True))
        return DoubleDouble(high, low)


def kernel(convention: str, numbers: Mapping[str, Float64s], *, is_causal: bool) -> Kernel:
    """Make the kernel of a convention, ``log``, ``power`` or ``nemo``.

    Args:
        convention: which of them.
        numbers: a, p and, with ``nemo`` unless ALiBi's slopes are to be b, b: each (heads,).
        is_causal: as of the kernel.
    """
    a, p = numbers["a"], numbers["p"]
    if convention == "log":
        return Kernel(GivenSlopes(p), a, None, is_causal)
    if convention == "power":
        return Kernel(GivenSlopes(a), None, p, is_causal)
    b = GivenSlopes(numbers["b"]) if "b" in numbers else SlopeRule("original", len(a), 8.0)
    return Kernel(b, a, p, is_causal)


def bias(
    *,
    kind: str,
    parameters: dict[str, ParameterValue],
    kernel: Kernel,
    pairs: QueryKey,
    head: int | None,
    dtype: DType,
) -> Document:
    """Describe the biases of heads, (head, query, key), or of one, (query, key).

    Args:
        kind: that of the document.
        parameters: what fixes the kernel, causality and the pairs apart.
        kernel: the values.
        pairs: queries and keys.
        head: the one wanted, or None for all.
        dtype: a real type.
    """
    parameters = {**parameters, "causal": kernel.is_causal, **pairs.parameters()}
    table = head_biases(kernel, pairs, dtype, kernel.outer.count, head)
    return bias_document(kind, parameters, table, head)


KerpleConvention: TypeAlias = Literal["log", "power", "nemo"]

_NAMES = ("a", "b", "p")
_MAX_EXPONENTS = MappingProxyType({"power": MAX_POWER, "nemo": MAX_EXPONENT})

# Makes the error of numbers of a name, of which one is shown, that break a rule.
_Fault: TypeAlias = Callable[[str, float | None, str], PosrefError]


class KernelParameters(QueryKeyParameters, HeadParameters):
    """Which kernel, and for which queries and keys."""

    convention: KerpleConvention = Field(
        default="log",
        description="log: -p·ln(1 + a·|d|); power: -a·|d|^p; nemo: -b·ln(1 + a·|d|^p).",
        examples=["nemo"],
    )
    clamp: Boolean = Field(
        default=False,
        description="Whether a and p below 0.01 are raised to it, and the p of power above 2 is "
        "lowered to it, as the code of KERPLE does with what it has learned.",
        examples=[True],
    )
    causal: Boolean = causal_field()
    dtype: RealDType = dtype_field()

    def numbers(self, given: Mapping[str, Float64s], fault: _Fault) -> dict[str, Float64s]:
        """Hold the numbers of every head to the kernel, clamped where that is wanted."""
        self._check_names(given, fault)
        if self.convention == "nemo":
            heads = len(next(iter(given.values())))
            given = {"a": np.ones(heads), "p": np.ones(heads), **given}
        elif self.clamp:
            given = {name: np.maximum(values, CLAMP) for name, values in given.items()}
            if self.convention == "power":
                given["p"] = np.minimum(given["p"], MAX_POWER)
        for name, values in given.items():
            self._check_range(name, values, fault)
        return {name: given[name] for name in _NAMES if name in given}

    def _check_names(self, given: Mapping[str, Float64s], fault: _Fault) -> None:
        if self.convention == "nemo":
            if self.clamp:
                raise impossible("clamp", self.clamp, "NeMo clamps nothing")
            return
        if "b" in given:
            raise fault("b", None, f"b does not go with {self.convention}, which has a and p")
        for name in ("a", "p"):
            if name not in given:
                raise fault(name, None, f"{name} is required with {self.convention}")

    def _check_range(self, name: str, values: Float64s, fault: _Fault) -> None:
        is_exponent = name == "p" and self.convention in _MAX_EXPONENTS
        most = _MAX_EXPONENTS[self.convention] if is_exponent else MOST
        # What NeMo learns b to be is of either sign.
        sizes = np.abs(values) if name == "b" else values
        is_right = ((sizes == 0) & (not is_exponent)) | ((sizes >= LEAST) & (sizes <= most))
        if not is_right.all():
            wrong = float(values[~is_right][0])
            least = f"{LEAST:g}" if is_exponent else f"0, or {LEAST:g}"
            of = " in size" if name == "b" else ""
            rule = f"{name} must be {least} to {most:g}{of} with {self.convention}"
            raise fault(name, wrong, rule)

    def described(
        self, kind: str, numbers: Mapping[str, Float64s], parameters: dict[str, ParameterValue]
    ) -> Document:
        """Describe the biases of numbers for each head."""
        made = kernel(self.convention, numbers, is_causal=self.causal)
        return bias(
            kind=kind,
            parameters={"convention": self.convention, **parameters},
            kernel=made,
            pairs=self.pairs(),
            head=self.checked_head(made.outer.count),
            dtype=REAL_DTYPES[self.dtype],
        )


class KerpleParameters(ArrayParameters, KernelParameters):
    """Parameters of kernels whose numbers are in the query."""

    num_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Number of heads; as many as numbers unless given. One number is for all.",
        examples=[4],
    )
    a: Reals | None = Field(
        default=None,
        description="A number for each head; with nemo 1 unless given.",
        examples=["1,0.5"],
    )
    b: Reals | None = Field(
        default=None,
        description="A number for each head, of either sign, with nemo alone; ALiBi's slopes "
        "unless given.",
        examples=["0.5,0.25"],
    )
    p: Reals | None = Field(
        default=None,
        description="A number for each head; with nemo 1 unless given.",
        examples=["1,2"],
    )

    def given(self) -> dict[str, Float64s]:
        """Give the numbers of every head; raises InvalidParameters where they do not agree."""
        lists = {name: values for name in _NAMES if (values := getattr(self, name)) is not None}
        heads = self.num_heads or max(map(len, lists.values()), default=0)
        if not 1 <= heads <= MAX_CHANNELS:
            rule = f"num_heads is required where there are no numbers, and at most {MAX_CHANNELS}"
            raise impossible("num_heads", None, rule)
        for name, values in lists.items():
            if len(values) not in {1, heads}:
                rule = f"{name} must be one number, or one for each of {heads} heads"
                raise impossible(name, values, rule)
        every = {name: np.zeros(heads) + values for name, values in lists.items()}
        return every if every or self.convention != "nemo" else {"a": np.ones(heads)}


def _kerple(parameters: KerpleParameters) -> Document:
    numbers = parameters.numbers(parameters.given(), impossible)
    described: dict[str, ParameterValue] = {"num_heads": len(numbers["a"])}
    described |= {name: tuple(values.tolist()) for name, values in numbers.items()}
    return parameters.described("relative-kerple", numbers, described)


def _bias(parameters: KernelParameters, arrays: Mapping[str, StoredTable]) -> Document:
    given = {name: to_float64(sent.elements, sent.dtype) for name, sent in arrays.items()}
    heads = {len(values) for values in given.values()}
    if len(heads) != 1 or max(heads) > MAX_CHANNELS:
        raise InvalidBody(f"arrays must be of one length, at most {MAX_CHANNELS} heads")
    numbers = parameters.numbers(given, _body_fault)
    return parameters.described("relative-kerple-bias", numbers, {"clamp": parameters.clamp})


def _body_fault(name: str, value: float | None, rule: str) -> PosrefError:
    return InvalidBody(rule, f"/{name}", None if value is None else to_query(value))


_of_heads = partial(InputArray, ranks=(1,), is_required=False)

KERPLE = Resource(
    path="/relative/kerple",
    operation="RelativeKerple",
    summary="KERPLE's bias of every head, query and key",
    parameters=KerpleParameters,
    document=_kerple,
    example="a=1,0.5&p=2,1&head=0&query_len=4",
)
BIAS = Composition(
    path="/relative/kerple/bias",
    operation="RelativeKerpleBias",
    summary="KERPLE's biases from the arrays that a model has learned",
    parameters=KernelParameters,
    inputs=(
        _of_heads(
            name="a",
            description="the factor of distances, or of powers, (heads,)",
            example=[1.0, 0.5],
        ),
        _of_heads(
            name="b", description="the factor of NeMo's logarithms, (heads,)", example=[0.5, 0.25]
        ),
        _of_heads(
            name="p",
            description="the factor of logarithms, or the exponent, (heads,)",
            example=[2.0, 1.0],
        ),
    ),
    document=_bias,
    example="convention=nemo&query_len=2&key_len=3&head=0",
)
