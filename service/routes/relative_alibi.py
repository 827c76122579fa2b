"""``/relative/alibi``: attention with linear biases as libraries have them, and their slopes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from pydantic import Field

from service.delivery.parameters import Parameters
from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import RealDType, dtype_field, impossible, num_heads_field
from service.routes.query_key import HeadParameters, QueryKeyParameters
from service.tables import alibi, slopes
from service.tables.angle import MAX_POSITION
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_CHANNELS
from service.tables.positions import Positions
from service.tables.query_key import QueryKey
from service.tables.slopes import SlopeRule, Slopes

Convention: TypeAlias = Literal[
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

    convention: Convention = Field(
        default="original",
        description="Whose slopes, and whose form of bias. Slopes are those of the ALiBi "
        "repository for every name but paper, whose series is geometric for any num_heads.",
        examples=["bloom"],
    )
    alibi_bias_max: Real = Field(
        default=8.0,
        gt=0,
        le=slopes.MAX_BIAS_MAX,
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
        linear = alibi.Linear(of, is_symmetric=form == "symmetric", is_masked=self.masked)
        return alibi.bias(
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
    return slopes.slopes(rule=rule, dtype=REAL_DTYPES[parameters.dtype])


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
