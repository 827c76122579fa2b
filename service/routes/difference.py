"""``POST /model/diff``: whether two models have the same positional encodings, and what differs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

from pydantic import Field

from service.delivery.endpoints import ABSENT, Endpoint, JsonObject, Report
from service.encodings.family import Parameters, about, optional
from service.errors import InvalidBody, InvalidParameters, PosrefError, shortened
from service.formats.format import Block, ReadableFormat
from service.grammar import Integer, Real
from service.models.diff import Difference, compare_rotations, compare_tables
from service.models.documents import read_document, read_json
from service.models.translation import ModelDocument
from service.numerics.limits import MAX_LENGTH
from service.routes.compared_models import (
    ROPE,
    Compared,
    Pair,
    match,
    of_document,
    of_url,
    pointing_into,
)
from service.routes.model_links import OriginatedValue
from service.routes.table_urls import TableUrl, Url, read_url
from service.settings import Settings

_Verdict: TypeAlias = Literal["same", "same in effect", "differs", "unknown"]
_MAX_FREQUENCIES = 2**12
_STORED = "frequencies are divided by numbers in float32, and are equal within a share of 2^-20"
_BY_AXIS = "some channels turn with positions along other axes, which text has not"


class DiffParameters(Parameters):
    """Parameters of the comparison of two models."""

    epsilon: Real = about(
        "The distance of rotated unit vectors, or of numbers of tables, above which two encodings "
        "are told apart; 2^-8, the step of bfloat16, unless given.",
        0.1,
        default=2.0**-8,
        gt=0,
        le=1,
    )
    context_length: Integer | None = optional(
        "The context length of both models in use; each regime of frequencies unless given.",
        131072,
        ge=1,
        le=MAX_LENGTH,
    )


class ModelPair(JsonObject):
    """Two documents that describe models, as JSON in a and b; one may be a URL of a table."""

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:  # noqa: ARG002
        content = read_json(bytes(body))
        if not isinstance(content, dict) or content.keys() != {"a", "b"}:
            raise InvalidBody("the body must be an object with a and b, and nothing else")
        sent = {name: _sent(name, content[name]) for name in ("a", "b")}
        if all(isinstance(each, TableUrl) for each in sent.values()):
            raise InvalidBody("a or b must be a document: tables alone are for /compare", "/b")
        return {}, sent


def _sent(name: str, content: Any) -> ModelDocument | TableUrl:
    with pointing_into(name):
        if isinstance(content, dict):
            return read_document(json.dumps(content).encode())
        if not isinstance(content, str):
            rule = "must be an object, or the URL of a table"
            raise InvalidBody(f"{name} {rule}", value=shortened(content))
        if content.lstrip().startswith("{"):
            # The place of an error is then that in the document.
            return read_document(content.encode("utf-8", "surrogatepass"))
        try:
            url = read_url(content)
            _ = url.document
        except PosrefError as error:
            detail = f"{name} names no table: {error.detail}"
            raise InvalidBody(detail, value=shortened(content)) from error
        names = ("xpos", "angle")
        given = [each for each in names if each in url.parameters.model_fields_set]
        if given and url.resource.path in ROPE:
            rule = f"{given[0]} is not compared with models: /compare compares tables"
            raise InvalidBody(rule, value=shortened(content))
        return url


class BothValues(Report):
    """A value of both sides; absent where a side has none."""

    a: OriginatedValue = ABSENT
    b: OriginatedValue = ABSENT


class BothUrls(Report):
    """The URLs of both sides: of their frequencies, or of their tables."""

    a: Url = ABSENT
    b: Url = ABSENT


class RegimeDifference(Report):
    """The difference at a context length, where frequencies depend on it."""

    context_length: int
    same: bool
    first_position: int | None = ABSENT
    by: float = ABSENT


class EncodingDifference(Report):
    """An encoding of a and the one of b that has the same part of the model and the same kind."""

    a: str = Field(description="The id of the encoding in a.")
    b: str = Field(description="The id of the encoding in b.")
    kind: str
    result: Literal["same", "differs", "unknown"] = Field(
        description="same: the same numbers at every position; unknown: what is known does not "
        "decide, for the reason."
    )
    reason: str = ABSENT
    layers: dict[str, Any] = Field(default=ABSENT, description="The layers that this is about.")
    first_position: int | None = Field(
        default=ABSENT,
        description="The first position at which they are more than epsilon apart; null if there "
        "is none up to 2^62, absent if it is not known. Of a table, the first row.",
    )
    by: float = Field(
        default=ABSENT,
        description="The largest distance of two rotated unit vectors there; of a table, the "
        "largest difference of two numbers.",
    )
    at_most: float = Field(
        default=ABSENT, description="A bound of the distance up to the longer context length."
    )
    channels: str = Field(
        default=ABSENT, description="The channels that differ: integers and half-open ranges."
    )
    summary: str = Field(
        default=ABSENT, description="The channels that differ, by how much and where, in words."
    )
    by_axis: str = Field(default=ABSENT, description="Where positions along several axes decide.")
    regimes: list[RegimeDifference] = ABSENT
    regime_begins: list[int] = Field(
        default=ABSENT, description="The context lengths from which on other frequencies apply."
    )
    values: dict[str, BothValues] = Field(default=ABSENT, description="The values that differ.")
    also_spelled_differently: dict[str, BothValues] = Field(
        default=ABSENT,
        description="The values without an effect on the numbers that differ, or stand elsewhere.",
    )
    links: BothUrls = ABSENT


class OnlyEncoding(Report):
    """An encoding, or layers of one, that the other side does not have."""

    id: str
    kind: str
    known: bool = Field(description="Whether the code of its module is known.")
    layers: dict[str, Any] = ABSENT


class DiffReport(Report):
    """The comparison of the positional encodings of two models."""

    same: bool = Field(description="Whether all numbers are the same.")
    verdict: _Verdict = Field(
        description="same in effect: the same numbers by values that differ, or stand elsewhere; "
        "unknown: nothing is known to differ, and not everything is known."
    )
    epsilon: float
    encodings: list[EncodingDifference]
    only_in_a: list[OnlyEncoding]
    only_in_b: list[OnlyEncoding]
    reason: str = Field(default=ABSENT, description="Why the encodings of a side are not known.")

    def lines(self) -> Iterator[str]:
        """Yield the verdict with the first position, then each encoding."""
        firsts = [each.first_position for each in self.encodings if each.first_position is not None]
        if firsts and self.verdict == "differs":
            yield f"differs by more than {_share(self.epsilon)}, first at position {min(firsts)}"
        else:
            yield self.verdict
        yield from super().lines()
        for each in self.encodings:
            yield from (f"{each.a}.{line}" for line in each.lines())
            for key, both in (each.values or {}).items():
                a, b = (side.value if side else "nothing" for side in (both.a, both.b))
                yield f"{each.a}.{key}: {a} in a, {b} in b"
        for side, only in (("a", self.only_in_a), ("b", self.only_in_b)):
            yield from (f"only_in_{side}: {each.id}" for each in only)


class _Comparison:
    """Compares encodings one by one, within a limit for all of them together."""

    def __init__(self, parameters: DiffParameters) -> None:
        self._parameters, self._frequencies = parameters, 0

    def of(self, a: Compared, b: Compared, layers: Mapping[str, Any]) -> EncodingDifference:
        """Return the report about two encodings, in the layers that both have."""
        fields: dict[str, Any] = {"layers": dict(layers)} if layers else {}
        # A setting of both has the same effect, if the whole value is told.
        apart = sorted(
            (a.unresolved ^ b.unresolved) | {each for each in a.unresolved if "…" in each}
        )
        layouts, doubt = _layouts(a, b), a.doubt or b.doubt or "; ".join(apart) or None
        beside = {} if a.is_url or b.is_url else _unequal(_both(a.beside, b.beside))
        if not a.key[2] and None not in (a.layers, b.layers) and a.layers != b.layers:
            beside["layers"] = BothValues(a=_fixed(dict(a.listed)), b=_fixed(dict(b.listed)))
        differs = bool(beside) or layouts[0] != layouts[1]
        differs |= a.code != b.code and not (a.is_url or b.is_url)
        if a.rope is not None and b.rope is not None:
            differs |= self._compare_rotations(a, b, layouts, fields)
        elif a.endpoint is not None and b.endpoint is not None:
            found, doubts = self._compare_tables(a, b)
            differs |= found is not None
            fields |= _numbers(found, "reason")
            doubt = doubt or doubts
        values = _both(a.values, b.values)
        for key in b.asked if a.is_url else a.asked if b.is_url else ():
            values.pop(key, None)
        if a.layout != b.layout and None not in (a.layout, b.layout):
            values["layout"] = BothValues(a=_fixed(a.layout), b=_fixed(b.layout))
        unequal = _unequal(values)
        doubted = [each for each in (a, b) if each.doubt]
        is_usual = (
            not (differs or apart) and bool(doubted) and all(each.is_usual for each in doubted)
        )
        is_uncertain = doubt is not None and not is_usual
        is_uncertain &= a.is_uncertain or b.is_uncertain or not differs
        if differs or is_uncertain:
            values = {key: both for key, both in values.items() if key not in unequal}
            fields |= {"values": unequal | beside} if unequal or beside else {}
        fields |= {"also_spelled_differently": values} if values else {}
        if not doubt and not differs and (a.is_stored or b.is_stored):
            doubt = _STORED
        fields |= {"reason": doubt} if doubt else {}
        fields |= _in_words(fields, self._parameters.epsilon) if differs else {}
        urls = {key: each.link for key, each in (("a", a), ("b", b)) if each.link}
        fields |= {"links": BothUrls(**urls)} if urls else {}
        return EncodingDifference(
            a=a.id,
            b=b.id,
            kind=(b if a.is_url else a).key[1],
            result="unknown" if is_uncertain else "differs" if differs else "same",
            **fields,
        )

    def _compare_tables(self, a: Compared, b: Compared) -> tuple[Difference | None, str | None]:
        """Return how tables differ, and why that is not certain."""
        given = b if b.is_url else a
        try:
            one, other = (
                each.document(given if given.is_url else each, given.asked) for each in (a, b)
            )
        except InvalidParameters as error:
            return None, f"no grid or length that both have: {error.detail}"
        if (one.kind, one.parameters) == (other.kind, other.parameters):
            return None, None
        found, asked = compare_tables(one, other, self._parameters.epsilon), a.asked or b.asked
        is_uncertain = found is None and asked
        doubt = f"the numbers are equal for {urlencode(asked)} and not known beyond"
        return found, doubt if is_uncertain else None

    def _compare_rotations(
        self, a: Compared, b: Compared, layouts: tuple[str, str], fields: dict[str, Any]
    ) -> bool:
        """Add how rotary embeddings differ at each context length; return whether they do."""
        given, epsilon = self._parameters.context_length, self._parameters.epsilon
        lengths: list[int | None] = [*sorted({*a.lengths, *b.lengths})]
        found: dict[int | None, Difference | None] = {}
        for context_length in [given] if given or not lengths else lengths:
            assert a.rope is not None
            assert b.rope is not None
            ropes = a.rope(context_length), b.rope(context_length)
            self._frequencies += sum(each.rule(each.head_dim).count for each in ropes)
            if self._frequencies > _MAX_FREQUENCIES:
                raise InvalidBody(f"more than {_MAX_FREQUENCIES} frequencies are not compared")
            width = max(each.head_dim or 0 for each in ropes)
            length = max(a.length, b.length, context_length or 1)
            one, other = map(Compared.rotation, (a, b), ropes, layouts, (width, width))
            found[context_length] = compare_rotations(one, other, epsilon, length)
        first = next(filter(None, found.values()), None)
        fields |= _numbers(first, "at_most", "channels", "reason")
        fields |= {"by_axis": _BY_AXIS} if first and first.by_axis else {}
        if len(found) > 1:
            fields["regimes"] = [
                RegimeDifference(context_length=length, same=each is None, **_numbers(each))
                for length, each in found.items()
            ]
        begins = sorted({each.lengths[0] + 1 for each in (a, b) if each.lengths})
        fields |= {"regime_begins": begins} if begins else {}
        return first is not None


def _layouts(a: Compared, b: Compared) -> tuple[str, str]:
    """Return the layouts of two sides, for weights in the order of transformers if they can be."""
    is_table = a.is_url or b.is_url
    one, other = (
        "half"
        if each.is_permuted and each.layout == "interleaved" and not is_table
        else each.layout
        for each in (a, b)
    )
    return one or other or "half", other or one or "half"


def _numbers(found: Difference | None, *names: str) -> dict[str, Any]:
    """Return the first position of a difference, null only if there is none, and numbers of it."""
    if found is None:
        return {}
    first = {"first_position": found.first_position} if found.has_positions else {}
    own = {name: getattr(found, name) for name in ("by", *names)}
    return first | {name: each for name, each in own.items() if each is not None}


def _in_words(fields: Mapping[str, Any], epsilon: float) -> dict[str, str]:
    """Return the summary of the numbers of a difference; {} if there are none."""
    channels, first = fields.get("channels"), fields.get("first_position")
    if channels is None and "by" not in fields:
        return {}
    text = "the numbers differ" if channels is None else f"channels {_counted(channels)} differ"
    if first is not None:
        text += f", first by more than {_share(epsilon)} at position {first}"
    elif channels is None:
        text += f" by up to {fields['by']:g}"
    elif "first_position" in fields:
        text += f", by more than {_share(epsilon)} at no position up to 2^62"
    return {"summary": text}


def _counted(channels: str) -> str:
    """Return integers and half-open ranges in words, with the last number of each range."""
    words = []
    for item in channels.split(","):
        first, *rest = map(int, item.split(":"))
        every = range(first, *rest) if rest else range(first, first + 1)
        step = f" in steps of {every.step}" if every.step != 1 else ""
        words.append(f"{first} to {every[-1]}{step}" if rest else item)
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _share(epsilon: float) -> str:
    """Return a distance as a fraction of 1, if it is one, else as a decimal."""
    over, under = epsilon.as_integer_ratio()
    return f"1/{under}" if over == 1 < under < 2**20 else f"{epsilon:g}"


def _fixed(value: Any) -> OriginatedValue:
    return OriginatedValue(value=value, origin="fixed in code")


def _both(
    a: Mapping[str, OriginatedValue], b: Mapping[str, OriginatedValue]
) -> dict[str, BothValues]:
    """Return the values of both sides that are not equal, or have another origin."""
    return {
        key: BothValues(**{name: own[key] for name, own in (("a", a), ("b", b)) if key in own})
        for key in {**a, **b}
        if a.get(key) != b.get(key)
    }


def _unequal(values: Mapping[str, BothValues]) -> dict[str, BothValues]:
    """Return those that are not equal."""
    return {
        key: both
        for key, both in values.items()
        if not both.a or not both.b or both.a.value != both.b.value
    }


def report_diff(
    parameters: DiffParameters, sent: Mapping[str, ModelDocument | TableUrl], settings: Settings
) -> DiffReport:
    """Return how two models differ, or a model and a table; raises InvalidBody."""
    sides: dict[str, list[Compared]] = {}
    reasons: list[str] = []
    # Other formats do not say all that a mask depends on: one that they do not list may be there.
    has_windows = {getattr(each, "format", "") for each in sent.values()} == {"transformers"}
    for name, own in sent.items():
        if isinstance(own, TableUrl):
            sides[name] = [of_url(name, own)]
            continue
        items, reason = of_document(name, own, parameters.context_length, settings)
        sides[name] = items
        reasons += [reason] if reason else []
    shared = set.intersection(*({each.key for each in own} for own in sides.values()))
    for name, items in sides.items():
        sides[name] = [
            each for each in items if has_windows or each.key[1] != "window" or each.key in shared
        ]
    is_table = any(isinstance(each, TableUrl) for each in sent.values())
    pairs, *rests = (_comparable(**sides), [], []) if is_table else match(sides["a"], sides["b"])
    only = [[_only(*each) for each in rest] for rest in rests]
    comparison = _Comparison(parameters)
    found = [comparison.of(*pair) for pair in pairs]
    results = {each.result for each in found}
    unmatched = [each for own in only for each in own]
    if unmatched:
        # One that is not known may be the one that the other side seems to lack.
        results.add("differs" if all(each.known for each in unmatched) else "unknown")
    if reasons and not is_table:
        results = {"unknown"}
    elif is_table and "same" in results:
        results = {"same"}
    names: tuple[_Verdict, ...] = ("differs", "unknown", "same")
    verdict: _Verdict = next((each for each in names if each in results), "same")
    if verdict == "same" and any(each.also_spelled_differently for each in found):
        verdict = "same in effect"
    return DiffReport(
        same=verdict.startswith("same"),
        verdict=verdict,
        epsilon=parameters.epsilon,
        encodings=found,
        only_in_a=only[0],
        only_in_b=only[1],
        **({"reason": "; ".join(reasons)} if reasons else {}),
    )


def _only(item: Compared, layers: Mapping[str, Any]) -> OnlyEncoding:
    known = not item.is_uncertain
    return OnlyEncoding(id=item.id, kind=item.key[1], known=known, layers=dict(layers))


def _comparable(a: list[Compared], b: list[Compared]) -> list[Pair]:
    """Return the table of a URL with each encoding that has such a table; raises InvalidBody."""
    name, (table,), items = ("a", a, b) if a and a[0].is_url else ("b", b, a)
    path = str(table.endpoint and table.endpoint.path).removesuffix("/frequencies")
    same = [
        each
        for each in items
        if (each.rope and table.rope) or (each.endpoint and each.endpoint.path == path)
    ]
    if not same:
        raise InvalidBody(f"the model has no encoding with a table at {path}", f"/{name}")
    return [(*((table, each) if name == "a" else (each, table)), each.listed) for each in same]


_LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
}
_LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3 |= {"original_max_position_embeddings": 8192}

DIFF = Endpoint(
    path="/model/diff",
    operation="ModelDiff",
    summary="Whether two models have the same positional encodings, and what differs",
    parameters=DiffParameters,
    inputs=ModelPair(
        {
            "a": {**_LLAMA, "rope_scaling": {**_LLAMA3, "factor": 8.0}},
            "b": {**_LLAMA, "rope_scaling": {**_LLAMA3, "factor": 32.0}},
        }
    ),
    answer=report_diff,
    report=DiffReport,
)
