"""Attention with linear biases (ALiBi): the slope of a head times the distance of query and key.

``SlopeRule`` evaluates slopes, ``LinearBias`` multiplies distances by them; the families choose
the slopes, the form of the bias, and the queries and keys.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, islice
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from service.encodings.family import (
    ComposedFamily,
    InputArray,
    Parameters,
    RealDType,
    TableFamily,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import NamedVariant, Selection
from service.encodings.relative.distance import (
    BiasParameters,
    DistanceFunction,
    Heads,
    QueryKey,
    RelativeTable,
    position_parameters,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.numerics import phase as scaling
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_in_blocks,
    from_decimal,
    from_floats,
    from_integers,
    multiply,
)
from service.numerics.dtypes import DType, may_overflow, to_float64
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s, Int64s, exact_arithmetic, exact_context
from service.numerics.positions import Positions
from service.numerics.setups import NO_SETUP, KeptSetup, Setup, Steps, convert_decimals
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Curves,
    Document,
    FormulaTable,
    ParameterValue,
    RunningCount,
    StoredTable,
    Table,
)

MAX_BIAS_MAX = 100.0
"""The largest alibi_bias_max: no slope of a rule is below 2^-100."""

# The processor seconds of a slope, as a pair of float64.
_SLOPE_SECONDS = 8e-6

_MIN_SLOPE, _MAX_SLOPE = 1e-100, 1e9


@dataclass(frozen=True)
class SlopeRule(KeptSetup[DoubleDouble], capacity_bytes=8 * 2**20):
    """The slopes that a formula gives num_heads heads, each a pair of float64 within 2^-106.

    Attributes:
        convention: ``original`` is the rule of ALiBi's code, ``paper`` is one geometric series.
        count: the number of heads.
        bias_max: the smallest slope is 2^−bias_max.
    """

    convention: str
    count: int
    bias_max: float

    @property
    def setup(self) -> Setup:
        return self

    @property
    def new_seconds(self) -> float:
        return _SLOPE_SECONDS * self.count

    def compute(self) -> Steps[DoubleDouble]:
        parts = yield from convert_decimals(self.exact(), _pairs, _SLOPE_SECONDS)
        return DoubleDouble(*(np.concatenate(halves) for halves in zip(*parts, strict=True)))

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""
        return {
            "convention": self.convention,
            "num_heads": self.count,
            "alibi_bias_max": self.bias_max,
        }

    def exact(self) -> Iterator[Decimal]:
        """Return the slopes as decimals."""
        first = self.series_heads
        others = self._series(2 * first, 2 * (self.count - first))
        return chain(self._series(first, first), islice(others, 0, None, 2))

    def of_heads(self, heads: range) -> DoubleDouble:
        """Return the slopes of consecutive heads, (heads,)."""
        return DoubleDouble(*(part[heads.start : heads.stop] for part in self.get()))

    def sizes(self, heads: range) -> Float64s:
        """Return |slope| of consecutive heads, float64 with a relative error below 2^-40."""
        head, first = np.arange(heads.start, heads.stop), self.series_heads
        index = np.where(head < first, head + 1.0, head - first + 0.5)
        return np.asarray(np.exp2(index * (-self.bias_max / first)))

    @property
    def series_heads(self) -> int:
        """The length of the first geometric series.

        It is count for paper, and otherwise the largest power of two up to count; the slopes of
        later heads lie between those of the first series.
        """
        if self.convention == "paper":
            return self.count
        return 1 << (self.count.bit_length() - 1)

    def _series(self, heads: int, count: int) -> Iterator[Decimal]:
        """Return the first count slopes of the geometric series for this many heads."""
        base = exact_context().power(Decimal(2), Decimal(self.bias_max))
        return islice(scaling.geometric_series(base, 2 * heads, count + 1), 1, None)


@exact_arithmetic
def _pairs(slopes: list[Decimal]) -> DoubleDouble:
    pairs = [from_decimal(slope) for slope in slopes]
    return DoubleDouble(*(np.concatenate(halves) for halves in zip(*pairs, strict=True)))


@dataclass(frozen=True, eq=False)
class GivenSlopes:
    """The slopes that a request contains.

    Attributes:
        slopes: float64 (heads,).
    """

    slopes: Float64s

    setup = NO_SETUP

    @property
    def count(self) -> int:
        return len(self.slopes)

    def of_heads(self, heads: range) -> DoubleDouble:
        return from_floats(self.slopes[heads.start : heads.stop])

    def sizes(self, heads: range) -> Float64s:
        return np.abs(self.slopes[heads.start : heads.stop])


Slopes: TypeAlias = SlopeRule | GivenSlopes


@dataclass(frozen=True, eq=False)
class LinearBias(DistanceFunction):
    """The bias slope·(key − query) of each head, or −slope·|key − query|.

    Attributes:
        slopes: one slope for each of the first heads; the heads after them have the bias 0.
        is_symmetric: whether the bias is −slope·|key − query|.
        is_masked: whether keys after the query have the bias −∞.
    """

    slopes: Slopes
    is_symmetric: bool = False
    is_masked: bool = False

    @property
    def setup(self) -> Setup:
        return self.slopes.setup

    def values(self, distances: Int64s, heads: range) -> Float64s:
        values = self._scaled(-np.abs(distances) if self.is_symmetric else distances, heads)
        if self.is_masked:
            values[:, distances > 0] = -np.inf
        return values

    def bound(self, pairs: QueryKey, heads: range) -> float:
        farthest = pairs.longest(is_causal=self.is_masked)
        return farthest * float(self.slopes.sizes(self._with_slope(heads)).max(initial=0.0))

    def _scaled(self, numbers: Int64s, heads: range) -> Float64s:
        """Return slope·number, (heads, n), for integers (n,); heads without a slope have 0."""
        with_slope = self._with_slope(heads)
        slope = self.slopes.of_heads(with_slope)

        def scaled(some: slice, part: slice) -> Float64s:
            return multiply(from_integers(numbers[part]), slope.column(some)).high

        values = evaluate_in_blocks(scaled, len(with_slope), len(numbers))
        missing = len(heads) - len(with_slope)
        return np.concatenate([values, np.zeros((missing, len(numbers)))]) if missing else values

    def _with_slope(self, heads: range) -> range:
        """Return those of the heads that have a slope; they come first."""
        return heads[: max(0, self.slopes.count - heads.start)]


AlibiConvention: TypeAlias = Literal[
    "original", "paper", "bloom", "mpt", "keras-hub", "x-transformers", "mlx"
]
Form: TypeAlias = Literal["linear", "symmetric", "key", "last-key"]

_FORMS: Mapping[str, Form] = {
    "original": "linear",
    "paper": "linear",
    "bloom": "key",
    "mpt": "last-key",
    "keras-hub": "last-key",
    "x-transformers": "symmetric",
    "mlx": "symmetric",
}
_ONE_ROW_FORMS = {"key", "last-key"}
_MASKABLE = {"original", "paper", "bloom"}
_QUERY_NAMES = ("query_len", "query_start", "query_positions")
_KEY_NAMES = ("key_len", "key_start", "key_positions")


class SlopeParameters(Parameters):
    """The parameters of slopes."""

    convention: AlibiConvention = about(
        "The library or paper whose slopes and form of bias are used. The slopes are those of the "
        "ALiBi repository for every name but paper, which has one geometric series for any "
        "num_heads.",
        "bloom",
        default="original",
    )
    alibi_bias_max: Real = about(
        "The smallest slope is 2^-alibi_bias_max.", 8, default=8.0, gt=0, le=MAX_BIAS_MAX
    )
    dtype: RealDType = "float32"

    def slope_rule(self, num_heads: int) -> SlopeRule:
        """Return the slope rule for num_heads heads."""
        name = "paper" if self.convention == "paper" else "original"
        return SlopeRule(name, num_heads, self.alibi_bias_max)


class FormParameters(SlopeParameters, BiasParameters):
    """The parameters of linear biases: slopes, form, queries, keys and heads."""

    form: Form | None = optional(
        "linear: slope·(key - query), negative before the query; symmetric: "
        "-slope·|key - query|; key: slope·key, one row for all queries; last-key: slope·(key - "
        "last key), one row for all queries. The default is the form of the convention.",
        "symmetric",
    )
    masked: Boolean = about(
        "Whether keys after the query have the bias -inf, which is null in JSON.",
        True,
        default=False,
    )
    total_heads: Integer | None = optional(
        "Number of heads of the table, at least num_heads; heads after num_heads have the bias 0.",
        8,
        ge=1,
        le=MAX_CHANNELS,
    )

    @property
    def actual_form(self) -> Form:
        """The form that is given, or else the form of the convention."""
        return self.form or _FORMS[self.convention]

    @cached_property
    def pairs(self) -> QueryKey:
        """The queries and keys.

        The forms key and last-key have one query, at position 0 or at the last key.
        """
        if self.actual_form not in _ONE_ROW_FORMS:
            return super().pairs
        self.refuse(_QUERY_NAMES, f"the form {self.actual_form} has one row for all queries")
        if self.masked:
            rule = f"masked does not go with the form {self.actual_form}, one row for all queries"
            raise impossible("masked", self.masked, rule)
        keys = self._positions("key", None)
        query = 0 if self.actual_form == "key" else int(keys.at(keys.count - 1, keys.count)[0])
        pairs = QueryKey(Positions.contiguous(query, 1), keys)
        if pairs.farthest > MAX_POSITION:
            raise self._too_far("key")
        return pairs

    def selections(self) -> Mapping[str, Selection]:
        # The last key is that of the whole table.
        hidden = {"linear": (), "symmetric": (), "key": ("query",), "last-key": ("query", "key")}
        others = hidden[self.actual_form]
        return {axis: way for axis, way in super().selections().items() if axis not in others}

    def refuse(self, names: tuple[str, ...], reason: str) -> None:
        """Raise InvalidParameters if one of these parameters differs from its default."""
        for name in names:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                raise impossible(name, value, f"{name} does not go with this: {reason}")

    def linear_table(self, slopes: Slopes, dtype: DType) -> RelativeTable:
        """Return the table of biases for these slopes; it is computed when read."""
        # Evaluated first: errors of positions come before errors of heads.
        _ = self.pairs
        total = self.total_heads
        if total is not None and total < slopes.count:
            rule = f"total_heads must be at least {slopes.count}, the number of heads with a slope"
            raise impossible("total_heads", total, rule)
        function = LinearBias(slopes, self.actual_form == "symmetric", self.masked)
        return self.bias_table(function, dtype, total or slopes.count)

    def linear_parameters(self, count: int) -> dict[str, ParameterValue]:
        """Return the canonical parameters of the biases of count slopes."""
        parameters: dict[str, ParameterValue] = {"form": self.actual_form}
        if self.actual_form in _ONE_ROW_FORMS:
            parameters |= position_parameters("key", self.pairs.keys)
        else:
            parameters |= {"masked": self.masked, **self.pairs.parameters()}
        if self.total_heads is not None and self.total_heads > count:
            parameters["total_heads"] = self.total_heads
        return {**parameters, **self.head_parameters}


class Alibi(TableFamily, FormParameters, path="/relative/alibi"):
    """ALiBi's bias for every head, query and key.

    Each convention has a form, which ``form`` replaces: original and paper have ``linear``,
    slope·(key − query); x-transformers and mlx have ``symmetric``, −slope·|key − query|; bloom has
    ``key``, slope·key; mpt and keras-hub have ``last-key``, slope·(key − last key). ``key`` and
    ``last-key`` have one row for all queries, (head, 1, key), and refuse query parameters and
    masked=true; key_len counts cached and new keys together. ``parameters.convention`` of the
    answer is ``original`` for every convention but ``paper``. masked=true puts −∞ at keys after the
    query, which is null in JSON; biases that may be too large for the element type (float16) are
    refused in JSON.

    Formula: slope·(key − query), or the formula of ``form``; ``/relative/alibi/slopes`` has the
        slopes.
    Source: "Train Short, Test Long" (Press et al. 2022), §3: slope·(query − key) is subtracted from
        the score of a key before or at the query.
    Bound: 1.01·2^-53 relative: a slope is a pair of float64 within 2^-106, distances are exact, and
        their product is rounded once.
    Trap: ``linear`` is positive for keys after the query: an encoder, which has no causal mask,
        needs ``symmetric``. BLOOM's biases are positive and grow with the key position, MPT's are
        negative and end with 0; they differ from ``linear`` by a constant in each row, which
        softmax cancels.
    """

    example: ClassVar[str] = "num_heads=8&head=0&query_len=4"
    array: ClassVar[str] = "bias"

    num_heads: Heads

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, form in _FORMS.items():
            has_rows = form not in _ONE_ROW_FORMS
            own = cls.example if has_rows else cls.example.replace("query_", "key_")
            yield NamedVariant.of(name, own, ("masked", *_QUERY_NAMES) if has_rows else ())

    @property
    def axes(self) -> tuple[str, ...]:
        return self.bias_axes

    def table(self) -> Table:
        return self.linear_table(self.slope_rule(self.num_heads), self.element_type)

    def canonical(self) -> dict[str, ParameterValue]:
        rule = self.slope_rule(self.num_heads)
        return {**rule.parameters(), **self.linear_parameters(rule.count)}


class AlibiSlopes(TableFamily, SlopeParameters, path="/relative/alibi/slopes"):
    """ALiBi's slope for every head.

    Formula: 2^(−8(h + 1)/n) for head h = 0 … n − 1, if n heads are a power of two; the 8 is
        alibi_bias_max. For other n, ``paper`` has the same formula; the other conventions have the
        c slopes for the next lower power of two, c, then every second slope for 2c heads.
    Source: "Train Short, Test Long" (Press et al. 2022), §3; attention_with_linear_biases 4b92f28
        ``get_slopes``. The same: transformers 5.23.0 ``build_alibi_tensor`` (BLOOM) and
        ``build_mpt_alibi_tensor`` (MPT, computed from the next higher power), keras-hub 0.32.0
        ``AlibiBias``, x-transformers 2.31.10 ``AlibiPositionalBias``, mlx 0.32.4 ``ALiBi`` (0.30.0
        had the series of ``paper``).
    Bound: the float64 nearest to the formula, rounded once to the element type.
    Trap: where n is not a power of two, the paper's formula and the paper's own code differ: the
        code's slope for a head is up to 45 times as large at 12 heads and 89 times at 40. The
        code's slopes then do not descend: the first slope taken from the 2c heads is larger than
        all slopes before it.
    """

    example: ClassVar[str] = "num_heads=12"
    array: ClassVar[str] = "slopes"
    axes: ClassVar[tuple[str, ...]] = ("head",)
    curves: ClassVar[Curves | None] = "columns"

    num_heads: Heads

    def table(self) -> Table:
        rule = self.slope_rule(self.num_heads)

        def evaluate(heads: range, _: range) -> Float64s:
            return rule.of_heads(heads).high[:, np.newaxis]

        shape = (rule.count,)
        return FormulaTable(shape, self.element_type, 1, evaluate, setup=rule)

    def canonical(self) -> dict[str, ParameterValue]:
        return self.slope_rule(self.num_heads).parameters()


class AlibiBias(ComposedFamily, FormParameters, path="/relative/alibi/bias"):
    """ALiBi's biases from the slopes in the body, or for the keys of an attention mask.

    Formula: that of ``/relative/alibi``; with an attention mask slope·((cumsum(mask) − 1)·mask),
        the cumulative sum along each sequence: (batch, head, 1, key), the same for every query.
    Source: BLOOM, transformers 5.23.0 ``build_alibi_tensor``, which joins the axes batch and head.
    Bound: 1.01·2^-53 relative.
    Trap: padded keys have the bias 0, not −∞: they still have to be masked. A table made without
        the mask numbers keys from the padding on their left: differences between scores stay right,
        but padded keys have a bias other than 0.
    """

    example: ClassVar[str] = "num_heads=2&head=0"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "attention_mask",
            "1 for each token and 0 for padding, (batch, key)",
            ranks=(2,),
            example=[[0, 0, 1, 1]],
            is_integer=True,
            is_required=False,
        ),
        InputArray(
            "slopes",
            "the slope of each head, in place of num_heads, (heads,)",
            ranks=(1,),
            example=[0.5, 0.25],
            is_required=False,
        ),
    )

    num_heads: Integer | None = optional(
        "Number of attention heads; required unless the body has slopes.", 8, ge=1, le=MAX_CHANNELS
    )

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        slopes = self._slopes(arrays.get("slopes"))
        parameters = slopes.parameters() if isinstance(slopes, SlopeRule) else {}
        axes = self.bias_axes
        if "attention_mask" in arrays:
            self._check_maskable(arrays)
            table = self._masked_table(slopes, arrays["attention_mask"])
            parameters |= {"form": "key", **self.head_parameters}
            axes = ("batch", *axes)
        else:
            table = self.linear_table(slopes, self.element_type)
            parameters |= self.linear_parameters(slopes.count)
        return self.describe({"bias": table}, parameters, axes=axes, states_axes=True)

    def _masked_table(self, slopes: Slopes, mask: StoredTable) -> Table:
        """Return the biases under a mask (batch, key): (batch, head, 1, key) or (batch, 1, key)."""
        if mask.elements.min() < 0 or mask.elements.max() > 1:
            raise InvalidBody("attention_mask must be zeros and ones", "/attention_mask")
        heads = self.selected_heads(slopes.count)
        tokens = RunningCount(mask, 0)
        batch, keys = mask.shape

        def numbers(first: int, last: int, columns: range) -> Int64s:
            """Return cumsum(mask) − 1, or 0 for padding, of some keys of sequences."""
            # Of several sequences all keys are needed.
            places = first * keys + columns.start, (last - 1) * keys + columns.stop
            counts, is_token = tokens.at(*places)
            return np.asarray((counts - 1) * is_token).reshape(last - first, len(columns))

        def evaluate(rows: range, columns: range) -> Float64s:
            """Return some columns (keys) of some rows; row sequence·heads + head is for both."""
            sequence, head = np.divmod(np.arange(rows.start, rows.stop), len(heads))
            first, last = int(head.min()), int(head.max())
            of_heads = slopes.of_heads(heads[first : last + 1])
            slope = DoubleDouble(*(part[head - first, np.newaxis] for part in of_heads))
            start, stop = int(sequence[0]), int(sequence[-1]) + 1
            own = numbers(start, stop, columns)[sequence - start]
            return multiply(from_integers(own), slope).high

        steepest = float(slopes.sizes(heads).max())
        overflows = may_overflow((keys - 1) * steepest, self.element_type)
        if overflows:
            most = int(mask.elements.sum(axis=1, dtype=np.int64).max())
            overflows = may_overflow(max(0, most - 1) * steepest, self.element_type)
        return FormulaTable(
            (batch, *((len(heads),) if self.head is None else ()), 1, keys),
            self.element_type,
            keys,
            evaluate,
            element_seconds=8 * ELEMENT_SECONDS,
            setup=slopes.setup,
            overflows=overflows,
        )

    def _slopes(self, sent: StoredTable | None) -> Slopes:
        if sent is None:
            if self.num_heads is None:
                rule = "num_heads is required unless the body has slopes"
                raise impossible("num_heads", None, rule)
            return self.slope_rule(self.num_heads)
        self.refuse(("num_heads", "alibi_bias_max"), "the body has slopes")
        if self.convention == "paper":
            rule = "convention=paper selects a slope formula, but the body has slopes"
            raise impossible("convention", self.convention, rule)
        if sent.shape[0] > MAX_CHANNELS:
            raise InvalidBody(f"slopes must be at most {MAX_CHANNELS} numbers", "/slopes")
        slopes = to_float64(sent.elements, sent.dtype)
        sizes = np.abs(slopes)
        # Comparisons with NaN are false, so that NaN is refused.
        if not (((sizes >= _MIN_SLOPE) & (sizes <= _MAX_SLOPE)) | (sizes == 0)).all():
            rule = f"the size of each slope must be 0, or {_MIN_SLOPE:g} to {_MAX_SLOPE:g}"
            raise InvalidBody(rule, "/slopes")
        return GivenSlopes(slopes)

    def _check_maskable(self, arrays: Mapping[str, StoredTable]) -> None:
        if "slopes" in arrays and self.convention != "original":
            rule = "convention has no effect with slopes and an attention_mask"
            raise impossible("convention", self.convention, rule)
        if self.convention not in _MASKABLE or self.form not in {None, "key"}:
            rule = "with an attention_mask the form is key, that of BLOOM"
            name = "convention" if self.form in {None, "key"} else "form"
            raise impossible(name, getattr(self, name), rule)
        others = (*_QUERY_NAMES, *_KEY_NAMES, "masked", "total_heads")
        self.refuse(others, "the attention_mask determines the key positions")
