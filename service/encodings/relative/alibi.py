"""The slopes of attention with linear biases: what a head subtracts for each step of distance.

"Train Short, Test Long" (Press et al. 2022), §3: for n heads, a power of two, slope h is
2^(−8(h + 1)/n), h from 0. For other n the paper names the same series; its code
(attention_with_linear_biases 4b92f28, ``get_slopes``) takes the slopes of the next lower power of
two, c, and then every second one of the series of 2c. transformers 5.23.0
``build_mpt_alibi_tensor`` starts from the next higher power and has the same slopes in the same
order; its alibi_bias_max stands for the 8.

Attention with linear biases: a slope for each head, times the distance of query and key.

"Train Short, Test Long" (Press et al. 2022), §3: slope·(query − key) is subtracted from the score
of a key before or at the query.

A bias is within 1.01·2^-53 of its own size: a slope is kept as a pair within 2^-106, distances
are exact, and their product is rounded once.

``/relative/alibi``: attention with linear biases as libraries have them, and their slopes.

``/relative/alibi/bias``: attention with linear biases of slopes or a mask that is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition, Resource
from service.encodings.family import InputArray
from service.encodings.fields import (
    ArrayParameters,
    Parameters,
    RealDType,
    dtype_field,
    impossible,
    num_heads_field,
)
from service.encodings.relative.distance import (
    HeadParameters,
    QueryKey,
    QueryKeyParameters,
    bias_document,
    head_biases,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.numerics import frequencies as scaling
from service.numerics.document import Document, ParameterValue
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_in_blocks,
    from_floats,
    from_integers,
    multiply,
)
from service.numerics.dtypes import (
    REAL_DTYPES,
    DType,
    Elements,
    may_overflow,
    round_into,
    to_float64,
)
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s, Int64s, exact_context
from service.numerics.positions import Positions
from service.numerics.tables import FREQUENCY_WORK, RowTable, StoredTable, row_ranges, setup_work

MAX_BIAS_MAX = 100.0
"""The exponent of the smallest slope."""

# Slopes that are evaluated at least, which takes some milliseconds.
_FEWEST = 1024


class Slopes(Protocol):
    """A slope for each head."""

    @property
    def count(self) -> int:
        """How many there are."""

    def pairs(self, heads: range) -> DoubleDouble:
        """Evaluate those of heads that follow each other, (heads,)."""

    def sizes(self, heads: range) -> Float64s:
        """Give the size of those of heads, right to 2^-40 of it, without evaluating them."""


@dataclass(frozen=True)
class SlopeRule:
    """The slopes of a number of heads.

    Attributes:
        convention: ``original``, the rule of the code, or ``paper``, one geometric series.
        count: how many heads there are.
        bias_max: the last slope is 2^−bias_max.
    """

    convention: str
    count: int
    bias_max: float

    @property
    def setup_work(self) -> int:
        """A frequency for each slope."""
        return FREQUENCY_WORK * self.count

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {
            "convention": self.convention,
            "num_heads": self.count,
            "alibi_bias_max": self.bias_max,
        }

    def exact(self, heads: int) -> list[Decimal]:
        """Evaluate the slopes of the first so many heads."""
        own = min(heads, self._of_one_series)
        others = self._series(2 * self._of_one_series, 2 * (heads - own))[0::2]
        return self._series(self._of_one_series, own) + others

    def pairs(self, heads: range) -> DoubleDouble:
        """Evaluate the slopes of heads as pairs."""
        # So many that the next heads seldom need others.
        known = min(self.count, max(_FEWEST, 1 << (heads.stop - 1).bit_length()))
        return DoubleDouble(*(part[heads.start : heads.stop] for part in _pairs_of(self, known)))

    def sizes(self, heads: range) -> Float64s:
        """Give the size of the slopes of heads, nearly."""
        head, own = np.arange(heads.start, heads.stop), self._of_one_series
        place = np.where(head < own, head + 1.0, head - own + 0.5)
        return np.asarray(np.exp2(place * (-self.bias_max / own)))

    @property
    def _of_one_series(self) -> int:
        """How many heads have the slopes of as many, before those that have others."""
        if self.convention == "paper":
            return self.count
        return 1 << (self.count.bit_length() - 1)

    def _series(self, heads: int, count: int) -> list[Decimal]:
        """Evaluate the first slopes of a series for a number of heads."""
        base = exact_context().power(Decimal(2), Decimal(self.bias_max))
        return scaling.geometric_series(base, 2 * heads, count + 1)[1:]


@lru_cache(maxsize=64)
def _pairs_of(rule: SlopeRule, heads: int) -> DoubleDouble:
    context = exact_context()
    exact = rule.exact(heads)
    high = [float(slope) for slope in exact]
    rest = [context.subtract(slope, Decimal(h)) for slope, h in zip(exact, high, strict=True)]
    return DoubleDouble(np.array(high), np.array([float(part) for part in rest]))


@dataclass(frozen=True, eq=False)
class GivenSlopes:
    """Slopes that somebody sent: float64 (heads,)."""

    values: Float64s

    @property
    def count(self) -> int:
        """As many as were sent."""
        return len(self.values)

    def pairs(self, heads: range) -> DoubleDouble:
        """Give them as they are."""
        return from_floats(self.values[heads.start : heads.stop])

    def sizes(self, heads: range) -> Float64s:
        """Give their size."""
        return np.abs(self.values[heads.start : heads.stop])


@dataclass(frozen=True, eq=False)
class SlopesTable(RowTable):
    """The slopes of a rule, each the nearest number of a real type's to that of float64."""

    rule: SlopeRule
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """One for each head."""
        return (self.rule.count,)

    @property
    def setup_work(self) -> int:
        """That of the rule."""
        return self.rule.setup_work

    @property
    def row_width(self) -> int:
        """A row is one slope."""
        return 1

    def fill(self, first: int, rows: Elements) -> None:
        """Give slopes from the one numbered first on."""
        heads = range(first, first + len(rows))
        round_into(self.rule.pairs(heads).high, rows[:, 0], self.dtype)


def slopes(*, rule: SlopeRule, dtype: DType) -> Document:
    """Describe the slopes of heads, (num_heads,), of a real type."""
    table = SlopesTable(rule, dtype)
    return Document(
        "relative-alibi-slopes",
        rule.parameters(),
        {"slopes": table},
        axes=("head",),
        states_axes=True,
        curves="columns",
    )


@dataclass(frozen=True, eq=False)
class Linear:
    """Slope times distance.

    Attributes:
        slopes: one for each head; further heads have no bias.
        is_symmetric: whether it is −slope·|distance|, instead of slope·(key − query), which is
            negative for keys before the query and positive after it.
        is_masked: whether keys after the query have −∞ instead.
    """

    slopes: Slopes
    is_symmetric: bool
    is_masked: bool

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    @property
    def setup_work(self) -> int:
        """That of the slopes."""
        return setup_work(self.slopes)

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Evaluate distances (n,) for heads."""
        signed = -np.abs(distances) if self.is_symmetric else distances
        values = sloped(self.slopes, heads, signed)
        if self.is_masked:
            values[:, distances > 0] = -np.inf
        return values

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of biases, those of masked keys apart."""
        farthest = pairs.farthest_behind if self.is_masked else pairs.farthest
        return farthest * float(self.slopes.sizes(_sloping(self.slopes, heads)).max(initial=0.0))


def sloped(slopes: Slopes, heads: range, numbers: Int64s) -> Float64s:
    """Multiply integers (n,) by the slopes of heads; by 0 where a head is past the last slope."""
    sloping = _sloping(slopes, heads)
    if not sloping:
        return np.zeros((len(heads), len(numbers)))
    slope = slopes.pairs(sloping)

    def scaled(some: slice, part: slice) -> Float64s:
        return multiply(from_integers(numbers[part]), slope.column(some)).high

    values = evaluate_in_blocks(scaled, len(sloping), len(numbers))
    if sloping == heads:
        return values
    return np.concatenate([values, np.zeros((len(heads) - len(sloping), len(numbers)))])


def _sloping(slopes: Slopes, heads: range) -> range:
    """Give those of heads that have a slope: the first ones."""
    return heads[: max(0, slopes.count - heads.start)]


def bias(
    *,
    kind: str,
    parameters: dict[str, ParameterValue],
    linear: Linear,
    pairs: QueryKey,
    total_heads: int,
    head: int | None,
    dtype: DType,
) -> Document:
    """Describe the biases of heads, (head, query, key), or of one, (query, key).

    Args:
        kind: that of the document.
        parameters: what fixes the values, the form and the pairs apart.
        linear: the values.
        pairs: queries and keys.
        total_heads: how many heads there are, at least as many as slopes.
        head: the one wanted, or None for all.
        dtype: a real type.
    """
    if total_heads > linear.slopes.count:
        parameters = {**parameters, "total_heads": total_heads}
    table = head_biases(linear, pairs, dtype, total_heads, head)
    return bias_document(kind, parameters, table, head)


@dataclass(frozen=True, eq=False)
class MaskedKeysTable:
    """Slope times the number of a key among those that a mask leaves, 0 for the others.

    BLOOM (transformers 5.23.0 ``build_alibi_tensor``): the position of a key is
    (cumsum(mask) − 1)·mask along its sequence, and every query has the same biases.

    Attributes:
        slopes: one for each head.
        positions: int64 (batch, key).
        dtype: a real type.
        heads: the numbers of the heads, which follow each other.
        has_head_axis: whether there is an axis of them: not where one is wanted alone.
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
        """Less than a sine."""
        return 1

    @property
    def setup_work(self) -> int:
        """That of the slopes."""
        return setup_work(self.slopes)

    @property
    def overflows(self) -> bool:
        """Tell whether a bias may be too large for the type."""
        steepest = float(self.slopes.sizes(self.heads).max())
        return may_overflow(int(self.positions.max()) * steepest, self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
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
        of_heads = self.slopes.pairs(self.heads[least : most + 1])
        slope = DoubleDouble(*(part[head - least] for part in of_heads))

        def scaled(some: slice, part: slice) -> Float64s:
            return multiply(from_integers(positions[some, part]), slope.column(some)).high

        return evaluate_in_blocks(scaled, *positions.shape)


def mask_aware(
    *,
    parameters: dict[str, ParameterValue],
    slopes: Slopes,
    mask: Int64s,
    head: int | None,
    dtype: DType,
) -> Document:
    """Describe BLOOM's biases of keys under a mask (batch, key) of zeros and ones.

    The shape is (batch, head, 1, key), or (batch, 1, key) where one head is wanted.
    """
    positions = (np.cumsum(mask, axis=1) - 1) * mask
    heads = range(slopes.count) if head is None else range(head, head + 1)
    table = MaskedKeysTable(slopes, positions, dtype, heads, has_head_axis=head is None)
    axes = ("batch", "head", "query", "key") if head is None else ("batch", "query", "key")
    parameters = parameters if head is None else {**parameters, "head": head}
    arrays = {"bias": table}
    return Document("relative-alibi-bias", parameters, arrays, axes=axes, states_axes=True)


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
_OF_KEYS = {"key", "last-key"}
QUERIES = ("query_len", "query_start", "query_positions")
KEYS = ("key_len", "key_start", "key_positions")


class RuleParameters(Parameters):
    """Which slopes heads have."""

    convention: AlibiConvention = Field(
        default="original",
        description="Whose slopes, and whose form of bias. Slopes are those of the ALiBi "
        "repository for every name but paper, whose series is geometric for any num_heads.",
        examples=["bloom"],
    )
    alibi_bias_max: Real = Field(
        default=8.0,
        gt=0,
        le=MAX_BIAS_MAX,
        description="The smallest slope is 2^-alibi_bias_max.",
        examples=[8],
    )
    dtype: RealDType = dtype_field()

    def rule(self, num_heads: int) -> SlopeRule:
        """Give the slopes of a number of heads."""
        name = "paper" if self.convention == "paper" else "original"
        return SlopeRule(name, num_heads, self.alibi_bias_max)


class SlopesParameters(ArrayParameters, RuleParameters):
    """Parameters of slopes."""

    num_heads: Integer = num_heads_field()


class FormParameters(RuleParameters, QueryKeyParameters, HeadParameters):
    """Which biases slopes make, and for which queries and keys."""

    form: Form | None = Field(
        default=None,
        description="linear: slope·(key - query), negative before the query; symmetric: "
        "-slope·|key - query|; key: slope·key, one row for all queries; last-key: slope·(key - "
        "last key), one row. By default that of the convention.",
        examples=["symmetric"],
    )
    masked: Boolean = Field(
        default=False,
        description="Whether keys after the query have -inf (null in JSON) in place of a bias.",
        examples=[True],
    )
    total_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Number of heads with those that have no bias: the last ones, all 0.",
        examples=[8],
    )

    @property
    def wanted_form(self) -> Form:
        """The form asked for, or that of the convention."""
        return self.form or _FORMS[self.convention]

    def form_pairs(self) -> QueryKey:
        """Give queries and keys; the forms of keys have one row, that of a query of their own."""
        if self.wanted_form not in _OF_KEYS:
            return self.pairs()
        self.refuse(QUERIES, f"the form {self.wanted_form} has one row for all queries")
        if self.masked:
            raise impossible("masked", self.masked, "a row for all queries masks no keys")
        keys = self._along("key", None)
        own = 0 if self.wanted_form == "key" else int(keys.at(keys.count - 1, keys.count)[0])
        pairs = QueryKey(Positions.contiguous(own, 1), keys)
        if pairs.farthest > MAX_POSITION:
            raise self.too_far("key")
        return pairs

    def refuse(self, names: tuple[str, ...], reason: str) -> None:
        """Refuse parameters that were given, unless they say what is so anyway."""
        for name in names:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                raise impossible(name, value, f"{name} does not go with this: {reason}")

    def described(self, kind: str, of: Slopes, parameters: dict[str, ParameterValue]) -> Document:
        """Describe the biases that slopes make."""
        pairs, form = self.form_pairs(), self.wanted_form
        total = self._total(of.count)
        parameters = {**parameters, "form": form}
        spelled = pairs.parameters()
        if form in _OF_KEYS:
            spelled = {name: value for name, value in spelled.items() if name in KEYS}
        else:
            parameters["masked"] = self.masked
        linear = Linear(of, is_symmetric=form == "symmetric", is_masked=self.masked)
        return bias(
            kind=kind,
            parameters={**parameters, **spelled},
            linear=linear,
            pairs=pairs,
            total_heads=total,
            head=self.checked_head(total),
            dtype=REAL_DTYPES[self.dtype],
        )

    def _total(self, heads: int) -> int:
        if self.total_heads is not None and self.total_heads < heads:
            rule = f"total_heads must be at least the {heads} heads that have a slope"
            raise impossible("total_heads", self.total_heads, rule)
        return self.total_heads or heads


class AlibiParameters(ArrayParameters, FormParameters):
    """Parameters of biases."""

    num_heads: Integer = num_heads_field()


def _slopes(parameters: SlopesParameters) -> Document:
    rule = parameters.rule(parameters.num_heads)
    return slopes(rule=rule, dtype=REAL_DTYPES[parameters.dtype])


def _alibi(parameters: AlibiParameters) -> Document:
    rule = parameters.rule(parameters.num_heads)
    return parameters.described("relative-alibi", rule, rule.parameters())


SLOPES = Resource(
    path="/relative/alibi/slopes",
    operation="RelativeAlibiSlopes",
    summary="ALiBi's slope of every head",
    parameters=SlopesParameters,
    document=_slopes,
    example="num_heads=12",
)
ALIBI = Resource(
    path="/relative/alibi",
    operation="RelativeAlibi",
    summary="ALiBi's bias of every head, query and key",
    parameters=AlibiParameters,
    document=_alibi,
    example="num_heads=8&head=0&query_len=4",
)


_MASKABLE = {"original", "paper", "bloom"}
_LEAST, _MOST = 1e-100, 1e9


class AlibiBiasParameters(FormParameters):
    """Parameters of biases that are made of arrays."""

    num_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Number of attention heads; required unless slopes are sent.",
        examples=[8],
    )


def _bias(parameters: AlibiBiasParameters, arrays: Mapping[str, StoredTable]) -> Document:
    of, described = _slopes_of(parameters, arrays.get("slopes"))
    if "attention_mask" not in arrays:
        return parameters.described("relative-alibi-bias", of, described)
    if "slopes" in arrays and "convention" in parameters.model_fields_set:
        rule = "convention does not go with slopes and an attention_mask, which leave it no choice"
        raise impossible("convention", parameters.convention, rule)
    if parameters.convention not in _MASKABLE or parameters.form not in {None, "key"}:
        rule = "an attention_mask makes biases of keys, the form of BLOOM"
        given = "convention" if parameters.form in {None, "key"} else "form"
        raise impossible(given, getattr(parameters, given), rule)
    others = (*QUERIES, *KEYS, "masked", "total_heads")
    parameters.refuse(others, "an attention_mask numbers the keys itself")
    return mask_aware(
        parameters={**described, "form": "key"},
        slopes=of,
        mask=_checked_mask(arrays["attention_mask"]),
        head=parameters.checked_head(of.count),
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _slopes_of(
    parameters: AlibiBiasParameters, sent: StoredTable | None
) -> tuple[Slopes, dict[str, ParameterValue]]:
    if sent is None:
        if parameters.num_heads is None:
            raise impossible("num_heads", None, "num_heads is required, unless slopes are sent")
        rule = parameters.rule(parameters.num_heads)
        return rule, rule.parameters()
    parameters.refuse(("num_heads", "alibi_bias_max"), "slopes are sent")
    if parameters.convention == "paper":
        detail = "convention=paper is a rule of slopes, and slopes are sent"
        raise impossible("convention", parameters.convention, detail)
    values = to_float64(sent.elements, sent.dtype)
    sizes = np.abs(values)
    # Not above is also what is not a number.
    if not (((sizes >= _LEAST) & (sizes <= _MOST)) | (sizes == 0)).all():
        raise InvalidBody(f"slopes must be 0, or {_LEAST:g} to {_MOST:g} in size", "/slopes")
    if len(values) > MAX_CHANNELS:
        raise InvalidBody(f"slopes must be at most {MAX_CHANNELS} numbers", "/slopes")
    return GivenSlopes(values), {}


def _checked_mask(sent: StoredTable) -> Int64s:
    mask = sent.elements
    if not ((mask == 0) | (mask == 1)).all():
        raise InvalidBody("attention_mask must be zeros and ones", "/attention_mask")
    return np.asarray(mask, dtype=np.int64)


BIAS = Composition(
    path="/relative/alibi/bias",
    operation="RelativeAlibiBias",
    summary="ALiBi's biases from slopes, or for the keys that a mask leaves",
    parameters=AlibiBiasParameters,
    inputs=(
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
    ),
    document=_bias,
    example="num_heads=2&head=0",
)
