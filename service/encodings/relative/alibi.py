"""Attention with linear biases (ALiBi): a slope for each head, times the distance of query and key.

``SlopeRule`` evaluates slopes, ``LinearBias`` multiplies distances by them; the families choose
the slopes, the form of the bias, and the queries and keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from service.encodings.family import (
    ComposedFamily,
    InputArray,
    Parameters,
    RealDType,
    TableFamily,
    about,
    impossible,
)
from service.encodings.relative.distance import BiasParameters, Heads, QueryKey, RelativeTable
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.numerics import phase as scaling
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_in_blocks,
    from_floats,
    from_integers,
    multiply,
)
from service.numerics.dtypes import DType, Elements, may_overflow, round_into, to_float64
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s, Int64s, exact_context
from service.numerics.positions import Positions
from service.numerics.tables import (
    FREQUENCY_WORK,
    Curves,
    Document,
    ParameterValue,
    RowTable,
    StoredTable,
    Table,
    row_ranges,
    setup_work,
)

MAX_BIAS_MAX = 100.0
"""The largest exponent of the smallest slope."""

# Slopes that are evaluated at least, which takes some milliseconds.
_FEWEST = 1024
_LEAST_SLOPE, _MOST_SLOPE = 1e-100, 1e9


class Slopes(Protocol):
    """A slope for each head."""

    @property
    def count(self) -> int:
        """The number of heads with a slope."""

    def of_heads(self, heads: range) -> DoubleDouble:
        """Evaluate the slopes of consecutive heads, (heads,)."""

    def sizes(self, heads: range) -> Float64s:
        """Return |slopes| of consecutive heads within 2^-40 of their size, cheaply."""


@dataclass(frozen=True)
class SlopeRule:
    """The slopes of a number of heads, each kept as a pair of float64 within 2^-106.

    Attributes:
        convention: ``original``, the rule of ALiBi's code, or ``paper``, one geometric series.
        count: the number of heads.
        bias_max: the last slope is 2^−bias_max.
    """

    convention: str
    count: int
    bias_max: float

    @property
    def setup_work(self) -> int:
        return FREQUENCY_WORK * self.count

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""
        return {
            "convention": self.convention,
            "num_heads": self.count,
            "alibi_bias_max": self.bias_max,
        }

    def exact(self, heads: int) -> list[Decimal]:
        """Evaluate the slopes of the first heads."""
        own = min(heads, self._of_one_series)
        others = self._series(2 * self._of_one_series, 2 * (heads - own))[0::2]
        return self._series(self._of_one_series, own) + others

    def of_heads(self, heads: range) -> DoubleDouble:
        # So many that the next heads seldom need others.
        known = min(self.count, max(_FEWEST, 1 << (heads.stop - 1).bit_length()))
        return DoubleDouble(*(part[heads.start : heads.stop] for part in _first_of(self, known)))

    def sizes(self, heads: range) -> Float64s:
        head, own = np.arange(heads.start, heads.stop), self._of_one_series
        place = np.where(head < own, head + 1.0, head - own + 0.5)
        return np.asarray(np.exp2(place * (-self.bias_max / own)))

    @property
    def _of_one_series(self) -> int:
        """The number of heads in one series, before those in between."""
        if self.convention == "paper":
            return self.count
        return 1 << (self.count.bit_length() - 1)

    def _series(self, heads: int, count: int) -> list[Decimal]:
        """Evaluate the first slopes of a series for a number of heads."""
        base = exact_context().power(Decimal(2), Decimal(self.bias_max))
        return scaling.geometric_series(base, 2 * heads, count + 1)[1:]


@lru_cache(maxsize=64)
def _first_of(rule: SlopeRule, heads: int) -> DoubleDouble:
    context = exact_context()
    exact = rule.exact(heads)
    high = [float(slope) for slope in exact]
    rest = [context.subtract(slope, Decimal(h)) for slope, h in zip(exact, high, strict=True)]
    return DoubleDouble(np.array(high), np.array([float(part) for part in rest]))


@dataclass(frozen=True, eq=False)
class GivenSlopes:
    """Slopes of a request: float64 (heads,)."""

    slopes: Float64s

    @property
    def count(self) -> int:
        return len(self.slopes)

    def of_heads(self, heads: range) -> DoubleDouble:
        return from_floats(self.slopes[heads.start : heads.stop])

    def sizes(self, heads: range) -> Float64s:
        return np.abs(self.slopes[heads.start : heads.stop])


@dataclass(frozen=True, eq=False)
class LinearBias:
    """Slope times distance.

    Attributes:
        slopes: one for each head; further heads have no bias.
        is_symmetric: whether it is −slope·|distance|, instead of slope·(key − query), which is
            negative for keys before the query and positive after it.
        is_masked: whether keys after the query have −∞ instead.
    """

    slopes: Slopes
    is_symmetric: bool = False
    is_masked: bool = False

    @property
    def work_per_element(self) -> int:
        return 1

    @property
    def setup_work(self) -> int:
        return setup_work(self.slopes)

    def values(self, distances: Int64s, heads: range) -> Float64s:
        signed = -np.abs(distances) if self.is_symmetric else distances
        values = self._scaled(signed, heads)
        if self.is_masked:
            values[:, distances > 0] = -np.inf
        return values

    def bound(self, pairs: QueryKey, heads: range) -> float:
        farthest = pairs.farthest_behind if self.is_masked else pairs.farthest
        return farthest * float(self.slopes.sizes(self._sloping(heads)).max(initial=0.0))

    def _scaled(self, numbers: Int64s, heads: range) -> Float64s:
        """Multiply integers (n,) by the slopes of heads; by 0 where a head has no slope."""
        sloping = self._sloping(heads)
        if not sloping:
            return np.zeros((len(heads), len(numbers)))
        slope = self.slopes.of_heads(sloping)

        def scaled(some: slice, part: slice) -> Float64s:
            return multiply(from_integers(numbers[part]), slope.column(some)).high

        values = evaluate_in_blocks(scaled, len(sloping), len(numbers))
        if sloping == heads:
            return values
        return np.concatenate([values, np.zeros((len(heads) - len(sloping), len(numbers)))])

    def _sloping(self, heads: range) -> range:
        """Return the heads that have a slope: the first ones."""
        return heads[: max(0, self.slopes.count - heads.start)]


AlibiConvention: TypeAlias = Literal[
    "original", "paper", "bloom", "mpt", "keras-hub", "x-transformers", "mlx"
]
Form: TypeAlias = Literal["linear", "symmetric", "key", "last-key"]

_FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "original": "linear",
        "paper": "linear",
        "bloom": "key",
        "mpt": "last-key",
        "keras-hub": "last-key",
        "x-transformers": "symmetric",
        "mlx": "symmetric",
    }
)
_ONE_ROW_FORMS = {"key", "last-key"}
_MASKABLE = {"original", "paper", "bloom"}
_QUERIES = ("query_len", "query_start", "query_positions")
_KEYS = ("key_len", "key_start", "key_positions")


class SlopeParameters(Parameters):
    """The rule of the slopes of the heads."""

    convention: Annotated[
        AlibiConvention,
        about(
            "Whose slopes, and whose form of bias. Slopes are those of the ALiBi repository for "
            "every name but paper, whose series is geometric for any num_heads.",
            "bloom",
        ),
    ] = "original"
    alibi_bias_max: Annotated[
        Real, about("The smallest slope is 2^-alibi_bias_max.", 8, gt=0, le=MAX_BIAS_MAX)
    ] = 8.0
    dtype: RealDType = "float32"

    def slope_rule(self, num_heads: int) -> SlopeRule:
        """Return the slopes of a number of heads."""
        name = "paper" if self.convention == "paper" else "original"
        return SlopeRule(name, num_heads, self.alibi_bias_max)


class FormParameters(SlopeParameters, BiasParameters):
    """The form of the bias, and for which queries, keys and heads it is."""

    form: Annotated[
        Form | None,
        about(
            "linear: slope·(key - query), negative before the query; symmetric: "
            "-slope·|key - query|; key: slope·key, one row for all queries; last-key: slope·(key - "
            "last key), one row. By default that of the convention.",
            "symmetric",
        ),
    ] = None
    masked: Annotated[
        Boolean,
        about("Whether keys after the query have -inf (null in JSON) in place of a bias.", True),
    ] = False
    total_heads: Annotated[
        Integer | None,
        about(
            "Number of heads with those that have no bias: the last ones, all 0.",
            8,
            ge=1,
            le=MAX_CHANNELS,
        ),
    ] = None

    @property
    def actual_form(self) -> Form:
        """The form, by default that of the convention."""
        return self.form or _FORMS[self.convention]

    @cached_property
    def pairs(self) -> QueryKey:
        """Queries and keys; the forms of keys have one row, of a query of their own."""
        if self.actual_form not in _ONE_ROW_FORMS:
            return super().pairs
        self.refuse(_QUERIES, f"the form {self.actual_form} has one row for all queries")
        if self.masked:
            raise impossible("masked", self.masked, "a row for all queries masks no keys")
        keys = self._positions("key", None)
        own = 0 if self.actual_form == "key" else int(keys.at(keys.count - 1, keys.count)[0])
        pairs = QueryKey(Positions.contiguous(own, 1), keys)
        if pairs.farthest > MAX_POSITION:
            raise self._too_far("key")
        return pairs

    def refuse(self, names: tuple[str, ...], reason: str) -> None:
        """Raise InvalidParameters for the first of parameters that differs from its default."""
        for name in names:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                raise impossible(name, value, f"{name} does not go with this: {reason}")

    def linear_table(self, slopes: Slopes, dtype: DType) -> RelativeTable:
        """Return the biases of slopes, unevaluated."""
        # What is wrong with the positions is said before what is wrong with the heads.
        _ = self.pairs
        total = self.total_heads
        if total is not None and total < slopes.count:
            rule = f"total_heads must be at least the {slopes.count} heads that have a slope"
            raise impossible("total_heads", total, rule)
        function = LinearBias(slopes, self.actual_form == "symmetric", self.masked)
        return self.bias_table(function, dtype, total or slopes.count)

    def linear_parameters(self, count: int) -> dict[str, ParameterValue]:
        """Return the canonical parameters of the biases of a number of slopes."""
        parameters: dict[str, ParameterValue] = {"form": self.actual_form}
        pairs = self.pairs.parameters()
        if self.actual_form in _ONE_ROW_FORMS:
            pairs = {name: value for name, value in pairs.items() if name in _KEYS}
        else:
            parameters["masked"] = self.masked
        parameters |= pairs
        if self.total_heads is not None and self.total_heads > count:
            parameters["total_heads"] = self.total_heads
        return {**parameters, **self.head_parameters}


class Alibi(TableFamily, FormParameters, path="/relative/alibi"):
    """ALiBi's bias of every head, query and key.

    The form is that of the convention unless given: ``linear`` slope·(key − query) of original and
    paper; ``symmetric`` −slope·|key − query| of x-transformers and mlx; ``key`` slope·key of bloom
    and ``last-key`` slope·(key − last key) of mpt and keras-hub, which have one row for all
    queries, (head, 1, key), and take key_len only: cached and new keys together. The answer states
    ``original`` for every library that has the original slopes. masked=true has −∞ after the query,
    which is null in JSON; biases that may be too large for the element type (float16) are refused
    in JSON.

    Formula: slope·(key − query), or as ``form`` says; slopes as of ``/relative/alibi/slopes``.
    Source: "Train Short, Test Long" (Press et al. 2022), §3: slope·(query − key) is subtracted from
        the score of a key before or at the query.
    Bound: 1.01·2^-53 of its own size: a slope is kept as a pair within 2^-106, distances are exact,
        and their product is rounded once.
    Trap: ``linear`` is positive for keys after the query: an encoder, which has no causal mask,
        needs ``symmetric``. BLOOM's biases are positive and grow with the key, MPT's are negative
        and end with 0; they differ from ``linear`` by a constant in each row, which softmax
        cancels.
    """

    example: ClassVar[str] = "num_heads=8&head=0&query_len=4"
    array: ClassVar[str] = "bias"

    num_heads: Heads

    @property
    def axes(self) -> tuple[str, ...]:
        return self.bias_axes

    def table(self) -> Table:
        return self.linear_table(self.slope_rule(self.num_heads), self.element_type)

    def canonical(self) -> dict[str, ParameterValue]:
        rule = self.slope_rule(self.num_heads)
        return {**rule.parameters(), **self.linear_parameters(rule.count)}


class AlibiSlopes(TableFamily, SlopeParameters, path="/relative/alibi/slopes"):
    """ALiBi's slope of every head.

    Formula: 2^(−8(h + 1)/n), h from 0, for a power of two n; the 8 is alibi_bias_max. For another
        n, ``paper`` takes the same series; the others take the slopes of the next lower power of
        two, c, and then every second one of the series of 2c.
    Source: "Train Short, Test Long" (Press et al. 2022), §3; attention_with_linear_biases 4b92f28
        ``get_slopes``. The same: transformers 5.23.0 ``build_alibi_tensor`` (BLOOM) and
        ``build_mpt_alibi_tensor`` (MPT, which starts from the next higher power), keras-hub 0.32.0
        ``AlibiBias``, x-transformers 2.31.10 ``AlibiPositionalBias``, mlx 0.32.4 ``ALiBi`` (0.30.0
        had the series of ``paper``).
    Bound: the float64 nearest to the formula, rounded once to the element type.
    Trap: where n is no power of two, the paper's sequence and the paper's own code differ: the
        code's slope of a head is up to 45 times as large at 12 heads and 89 times at 40. The code's
        slopes do not descend there: the first of the second series is larger than any of the first.
    """

    example: ClassVar[str] = "num_heads=12"
    array: ClassVar[str] = "slopes"
    curves: ClassVar[Curves | None] = "columns"

    num_heads: Heads

    @property
    def axes(self) -> tuple[str, ...]:
        return ("head",)

    def table(self) -> Table:
        return SlopeTable(self.slope_rule(self.num_heads), self.element_type)

    def canonical(self) -> dict[str, ParameterValue]:
        return self.slope_rule(self.num_heads).parameters()


@dataclass(frozen=True, eq=False)
class SlopeTable(RowTable):
    """The slopes of a rule, a row each."""

    rule: SlopeRule
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rule.count,)

    @property
    def setup_work(self) -> int:
        return self.rule.setup_work

    @property
    def row_width(self) -> int:
        return 1

    def fill(self, first: int, rows: Elements) -> None:
        heads = range(first, first + len(rows))
        round_into(self.rule.of_heads(heads).high, rows[:, 0], self.dtype)


class AlibiBias(ComposedFamily, FormParameters, path="/relative/alibi/bias"):
    """ALiBi's biases from slopes, or for the keys that a mask leaves.

    Formula: as of ``/relative/alibi``; under an attention mask slope·((cumsum(mask) − 1)·mask)
        along each sequence, (batch, head, 1, key), the same for every query.
    Source: BLOOM, transformers 5.23.0 ``build_alibi_tensor``, whose first two axes are one.
    Bound: 1.01·2^-53 of its own size.
    Trap: padded keys have the bias 0, not −∞: they still have to be masked. A table that does not
        know of the mask moves every key by the padding on its left: relative scores stay right, but
        padding has a bias other than 0.
    """

    example: ClassVar[str] = "num_heads=2&head=0"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            name="attention_mask",
            description="1 for each key that counts and 0 for padding, (batch, key)",
            ranks=(2,),
            example=[[0, 0, 1, 1]],
            is_integer=True,
            is_required=False,
        ),
        InputArray(
            name="slopes",
            description="a slope for each head, in place of the rule's, (heads,)",
            ranks=(1,),
            example=[0.5, 0.25],
            is_required=False,
        ),
    )

    num_heads: Annotated[
        Integer | None,
        about(
            "Number of attention heads; required unless slopes are sent.",
            8,
            ge=1,
            le=MAX_CHANNELS,
        ),
    ] = None

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        slopes = self._slopes(arrays.get("slopes"))
        parameters = slopes.parameters() if isinstance(slopes, SlopeRule) else {}
        if "attention_mask" not in arrays:
            table: Table = self.linear_table(slopes, self.element_type)
            parameters |= self.linear_parameters(slopes.count)
            return self.describe({"bias": table}, parameters, axes=self.bias_axes, states_axes=True)
        self._check_maskable(arrays)
        mask = arrays["attention_mask"].elements
        if not ((mask == 0) | (mask == 1)).all():
            raise InvalidBody("attention_mask must be zeros and ones", "/attention_mask")
        head = self.check_head(slopes.count)
        heads = range(slopes.count) if head is None else range(head, head + 1)
        positions = (np.cumsum(mask, axis=1) - 1) * mask
        has_head_axis = head is None
        table = MaskedKeyTable(slopes, positions, self.element_type, heads, has_head_axis)
        parameters |= {"form": "key", **self.head_parameters}
        axes = ("batch", *self.bias_axes)
        return self.describe({"bias": table}, parameters, axes=axes, states_axes=True)

    def _slopes(self, sent: StoredTable | None) -> Slopes:
        if sent is None:
            if self.num_heads is None:
                raise impossible("num_heads", None, "num_heads is required, unless slopes are sent")
            return self.slope_rule(self.num_heads)
        self.refuse(("num_heads", "alibi_bias_max"), "slopes are sent")
        if self.convention == "paper":
            rule = "convention=paper is a rule of slopes, and slopes are sent"
            raise impossible("convention", self.convention, rule)
        slopes = to_float64(sent.elements, sent.dtype)
        sizes = np.abs(slopes)
        # Written so that NaN is refused.
        if not (((sizes >= _LEAST_SLOPE) & (sizes <= _MOST_SLOPE)) | (sizes == 0)).all():
            rule = f"slopes must be 0, or {_LEAST_SLOPE:g} to {_MOST_SLOPE:g} in size"
            raise InvalidBody(rule, "/slopes")
        if len(slopes) > MAX_CHANNELS:
            raise InvalidBody(f"slopes must be at most {MAX_CHANNELS} numbers", "/slopes")
        return GivenSlopes(slopes)

    def _check_maskable(self, arrays: Mapping[str, StoredTable]) -> None:
        if "slopes" in arrays and "convention" in self.model_fields_set:
            rule = "convention has no effect with slopes and an attention_mask"
            raise impossible("convention", self.convention, rule)
        if self.convention not in _MASKABLE or self.form not in {None, "key"}:
            rule = "an attention_mask makes biases of keys, the form of BLOOM"
            name = "convention" if self.form in {None, "key"} else "form"
            raise impossible(name, getattr(self, name), rule)
        others = (*_QUERIES, *_KEYS, "masked", "total_heads")
        self.refuse(others, "an attention_mask numbers the keys itself")


@dataclass(frozen=True, eq=False)
class MaskedKeyTable:
    """Slope times the number of a key among those that a mask leaves, 0 for the others.

    Attributes:
        slopes: one for each head.
        positions: (cumsum(mask) − 1)·mask, int64 (batch, key).
        dtype: a real type.
        heads: consecutive heads.
        has_head_axis: whether they are an axis; without it there is one.
    """

    slopes: Slopes
    positions: Int64s
    dtype: DType
    heads: range
    has_head_axis: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Sequences, heads, the one row for every query, keys."""
        batch, keys = self.positions.shape
        return (batch, *((len(self.heads),) if self.has_head_axis else ()), 1, keys)

    @property
    def work_per_element(self) -> int:
        return 1

    @property
    def setup_work(self) -> int:
        return setup_work(self.slopes)

    @property
    def overflows(self) -> bool:
        """True if a bias may be too large for the type."""
        steepest = float(self.slopes.sizes(self.heads).max())
        return may_overflow(int(self.positions.max()) * steepest, self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = 0
        for rows, keys in row_ranges(start, stop, self.positions.shape[1]):
            values = self._of_rows(rows, slice(keys.start, keys.stop)).reshape(-1)
            with np.errstate(over="ignore"):
                round_into(values, elements[done : done + len(values)], self.dtype)
            done += len(values)
        return elements

    def _of_rows(self, rows: range, keys: slice) -> Float64s:
        """Evaluate some keys of rows, each of a sequence and a head."""
        batch, head = np.divmod(np.arange(rows.start, rows.stop), len(self.heads))
        positions = self.positions[batch, keys]
        least, most = int(head.min()), int(head.max())
        of_heads = self.slopes.of_heads(self.heads[least : most + 1])
        slope = DoubleDouble(*(part[head - least] for part in of_heads))

        def scaled(some: slice, part: slice) -> Float64s:
            return multiply(from_integers(positions[some, part]), slope.column(some)).high

        return evaluate_in_blocks(scaled, *positions.shape)
