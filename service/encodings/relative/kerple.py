"""KERPLE: attention biases that are kernels of the distance, a logarithm or a power of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from service.encodings.family import (
    ComposedFamily,
    InputArray,
    RealDType,
    Reals,
    TableFamily,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import NamedVariant
from service.encodings.relative.alibi import GivenSlopes, SlopeRule, Slopes
from service.encodings.relative.distance import (
    BiasParameters,
    Causal,
    DistanceFunction,
    QueryKey,
    distance_lengths,
)
from service.errors import InvalidBody, PosrefError
from service.grammar import Boolean, Integer, to_query
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
from service.numerics.dtypes import to_float64
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s, Int64s
from service.numerics.setups import Setup
from service.numerics.tables import ELEMENT_SECONDS, Document, ParameterValue, StoredTable, Table

# The range of nonzero factors; 0 is allowed, too.
_LEAST, _MOST = 1e-100, 1e9

# KERPLE's code (commit 25be3d7, ``megatron/mpu/layers.py``) raises smaller a and p to this.
_CLAMP = 0.01

# With a larger exponent, −a·|d|^p is not a kernel.
_MAX_POWER = 2.0

_NAMES = ("a", "b", "p")
_MAX_EXPONENTS = {"power": _MAX_POWER, "nemo": MAX_EXPONENT}

# Returns the error for the parameter or array of this name, its wrong value, and the rule.
_MakeError: TypeAlias = Callable[[str, float | None, str], PosrefError]


@dataclass(frozen=True, eq=False)
class Kernel(DistanceFunction):
    """−outer·ln(1 + inner·|d|^exponent), or −outer·|d|^exponent.

    The relative error is at most 1.1·2^-53: 2^-58 from the power, which ln(1 + …) does not enlarge,
    2^-58 from the logarithm, 2^-106 from each factor, 2^-102 from each product, and one rounding.

    Attributes:
        outer: the factor before the kernel, for each head.
        inner: the factor inside the logarithm, float64 (heads,); None for no logarithm.
        exponent: the exponent of |d|, float64 (heads,).
        is_causal: whether keys after the query have the bias 0, as at distance 0.
    """

    outer: Slopes
    inner: Float64s | None
    exponent: Float64s
    is_causal: bool

    @property
    def element_seconds(self) -> float:
        """A value takes a logarithm, an exponential and a logarithm."""
        return 50 * ELEMENT_SECONDS

    @property
    def setup(self) -> Setup:
        return self.outer.setup

    def values(self, distances: Int64s, heads: range) -> Float64s:
        lengths = distance_lengths(distances, is_causal=self.is_causal)
        outer = self.outer.of_heads(heads)

        def scaled(some: slice, part: slice) -> Float64s:
            return multiply(self._kernel(lengths[part], heads[some]), outer.column(some)).high

        # 0 − x instead of −x, so that the bias at distance 0 is 0 and not −0.
        return 0.0 - evaluate_in_blocks(scaled, len(heads), len(lengths))

    def bound(self, pairs: QueryKey, heads: range) -> float:
        own = slice(heads.start, heads.stop)
        farthest = float(pairs.longest(is_causal=self.is_causal))
        sizes = np.power(farthest, self.exponent[own])
        if self.inner is not None:
            sizes = np.log1p(self.inner[own] * sizes)
        return float((self.outer.sizes(heads) * sizes).max())

    def _kernel(self, lengths: Int64s, heads: range) -> DoubleDouble:
        powers = self._powers(lengths, heads)
        if self.inner is None:
            return powers
        inner = from_floats(self.inner[heads.start : heads.stop])
        return ln_1p(multiply(powers, inner.column(slice(None))))

    def _powers(self, lengths: Int64s, heads: range) -> DoubleDouble:
        """Return |d|^exponent, (heads, n); (n,) if all exponents are 1."""
        first_powers = from_integers(lengths)
        exponents = self.exponent[heads.start : heads.stop, np.newaxis]
        is_one = exponents == 1.0
        if is_one.all():
            return first_powers
        parts = zip(first_powers, power(lengths, exponents), strict=True)
        return DoubleDouble(*(np.where(is_one, *part) for part in parts))


class KernelParameters(BiasParameters):
    """The parameters of kernels: convention, queries, keys and heads."""

    convention: Literal["log", "power", "nemo"] = about(
        "log: -p·ln(1 + a·|d|); power: -a·|d|^p; nemo: -b·ln(1 + a·|d|^p).", "nemo", default="log"
    )
    clamp: Boolean = about(
        "Whether a and p below 0.01 are raised to 0.01, and with convention=power p above 2 is "
        "lowered to 2, as KERPLE's code does with learned parameters.",
        True,
        default=False,
    )
    causal: Causal = True
    dtype: RealDType = "float32"

    def kernel(self, numbers: Mapping[str, Float64s]) -> Kernel:
        """Return the kernel with these checked arrays a, b and p, (heads,)."""
        a, p = numbers["a"], numbers["p"]
        if self.convention == "log":
            return Kernel(GivenSlopes(p), a, np.ones(len(a)), self.causal)
        if self.convention == "power":
            return Kernel(GivenSlopes(a), None, p, self.causal)
        b = GivenSlopes(numbers["b"]) if "b" in numbers else SlopeRule("original", len(a), 8.0)
        return Kernel(b, a, p, self.causal)

    def checked(self, given: Mapping[str, Float64s], make_error: _MakeError) -> dict[str, Float64s]:
        """Return the arrays of the kernel in the order a, b, p, clamped if ``clamp`` is set.

        Args:
            given: some of the arrays a, b and p, (heads,).
            make_error: returns the error to raise for a wrong or missing array.
        """
        self._check_names(given, make_error)
        if self.convention == "nemo":
            heads = len(next(iter(given.values())))
            given = {"a": np.ones(heads), "p": np.ones(heads), **given}
        elif self.clamp:
            given = {name: np.maximum(values, _CLAMP) for name, values in given.items()}
            if self.convention == "power":
                given["p"] = np.minimum(given["p"], _MAX_POWER)
        for name, values in given.items():
            self._check_range(name, values, make_error)
        return {name: given[name] for name in _NAMES if name in given}

    def _check_names(self, given: Mapping[str, Float64s], make_error: _MakeError) -> None:
        if self.convention == "nemo":
            if self.clamp:
                raise impossible("clamp", self.clamp, "clamp does not go with convention=nemo")
            return
        if "b" in given:
            raise make_error("b", None, f"b does not go with {self.convention}, which has a and p")
        for name in ("a", "p"):
            if name not in given:
                raise make_error(name, None, f"{name} is required with {self.convention}")

    def _check_range(self, name: str, values: Float64s, make_error: _MakeError) -> None:
        is_exponent = name == "p" and self.convention in _MAX_EXPONENTS
        most = _MAX_EXPONENTS[self.convention] if is_exponent else _MOST
        # NeMo's b may be negative.
        sizes = np.abs(values) if name == "b" else values
        is_right = ((sizes == 0) & (not is_exponent)) | ((sizes >= _LEAST) & (sizes <= most))
        if not is_right.all():
            least = f"{_LEAST:g}" if is_exponent else f"0, or {_LEAST:g}"
            of = " in size" if name == "b" else ""
            rule = f"{name} must be {least} to {most:g}{of} with {self.convention}"
            raise make_error(name, float(values[~is_right][0]), rule)


class Kerple(TableFamily, KernelParameters, path="/relative/kerple"):
    """KERPLE's bias for every head, query and key.

    a, b and p are 0 or 1e-100 to 1e9; b may be negative, because NeMo does not keep its learned b
    positive. An exponent p is 1e-100 to 2, with nemo 1e-100 to 8. clamp=true raises a and p below
    0.01 to 0.01, and with power lowers p above 2 to 2, as KERPLE's code does each time it runs.

    Formula: ``log``: −p·ln(1 + a·|d|); ``power``: −a·|d|^p, 0 < p ≤ 2; ``nemo`` combines the two:
        −b·ln(1 + a·|d|^p), where a = p = 1 and b is ALiBi's slope unless given.
    Source: "KERPLE" (Chi et al. 2022), §4; KERPLE 25be3d7 ``ParallelKerpleLog`` and
        ``ParallelKerplePower``; NeMo 1.23.0 ``KERPLERelativePositionEmbedding``.
    Bound: 1.1·2^-53 relative, at any distance.
    Trap: the paper's r1 and r2 are p and a of ``log``, but a and p of ``power``. With causal=true
        keys after the query have the bias 0; they are not masked. causal=true compares the
        positions of key and query; NeMo cuts the block of scores along its own diagonal, which with
        more keys than queries also sets most biases of earlier keys to 0.
    """

    example: ClassVar[str] = "a=1,0.5&p=2,1&head=0&query_len=4"
    array: ClassVar[str] = "bias"

    num_heads: Integer | None = optional(
        "Number of heads; the length of the longest of a, b and p unless given. A single number "
        "applies to all heads.",
        4,
        ge=1,
        le=MAX_CHANNELS,
    )
    a: Reals | None = optional(
        "The factor a of each head; required, but 1 with nemo unless given.", "1,0.5"
    )
    b: Reals | None = optional(
        "The factor b of each head, only with nemo; it may be negative. ALiBi's slopes unless "
        "given.",
        "0.5,0.25",
    )
    p: Reals | None = optional(
        "The factor or exponent p of each head; required, but 1 with nemo unless given.", "1,2"
    )

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, taken in (("log", "clamp"), ("power", "clamp"), ("nemo", "b")):
            yield NamedVariant.of(name, cls.example, (taken,))

    @cached_property
    def numbers(self) -> dict[str, Float64s]:
        """The checked arrays a, b and p, (heads,); raises InvalidParameters if lengths differ."""
        lists = {name: values for name in _NAMES if (values := getattr(self, name)) is not None}
        heads = self.num_heads or max(map(len, lists.values()), default=0)
        if not 1 <= heads <= MAX_CHANNELS:
            rule = f"num_heads is required without a, b and p, and at most {MAX_CHANNELS}"
            raise impossible("num_heads", None, rule)
        for name, values in lists.items():
            if len(values) not in {1, heads}:
                rule = f"{name} must be one number, or {heads} numbers, one for each head"
                raise impossible(name, values, rule)
        given = {name: np.zeros(heads) + values for name, values in lists.items()}
        if not given and self.convention == "nemo":
            given = {"a": np.ones(heads)}
        return self.checked(given, impossible)

    @property
    def axes(self) -> tuple[str, ...]:
        return self.bias_axes

    def table(self) -> Table:
        kernel = self.kernel(self.numbers)
        return self.bias_table(kernel, self.element_type, kernel.outer.count)

    def canonical(self) -> dict[str, ParameterValue]:
        return {
            "convention": self.convention,
            "num_heads": len(self.numbers["a"]),
            **{name: tuple(values.tolist()) for name, values in self.numbers.items()},
            "causal": self.causal,
            **self.pair_parameters,
        }


_HeadNumbers = partial(InputArray, ranks=(1,), is_required=False)


class KerpleBias(ComposedFamily, KernelParameters, path="/relative/kerple/bias"):
    """KERPLE's biases from the arrays that a model has learned.

    Formula: that of ``/relative/kerple``; the body has its a, b and p as arrays, (heads,).
    Source: see ``/relative/kerple``.
    Bound: 1.1·2^-53 relative.
    Trap: a checkpoint of KERPLE may hold a and p below 0.01, which its model clamps each time it
        uses them: send clamp=true.
    """

    example: ClassVar[str] = "convention=nemo&query_len=2&key_len=3&head=0"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        _HeadNumbers("a", "the factor a of |d| or |d|^p, (heads,)", example=[1.0, 0.5]),
        _HeadNumbers("b", "the factor b of NeMo's logarithm, (heads,)", example=[0.5, 0.25]),
        _HeadNumbers(
            "p", "the factor p of log's logarithm, or the exponent p, (heads,)", example=[2.0, 1.0]
        ),
    )

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        heads = {sent.shape[0] for sent in arrays.values()}
        if len(heads) != 1 or max(heads) > MAX_CHANNELS:
            raise InvalidBody(f"arrays must have the same length, at most {MAX_CHANNELS}")
        given = {name: to_float64(sent.elements, sent.dtype) for name, sent in arrays.items()}
        kernel = self.kernel(self.checked(given, _body_error))
        table = self.bias_table(kernel, self.element_type, kernel.outer.count)
        parameters: dict[str, ParameterValue] = {
            "convention": self.convention,
            "clamp": self.clamp,
            "causal": self.causal,
            **self.pair_parameters,
        }
        return self.describe({"bias": table}, parameters, axes=self.bias_axes, states_axes=True)


def _body_error(name: str, value: float | None, rule: str) -> PosrefError:
    return InvalidBody(rule, f"/{name}", None if value is None else to_query(value))
