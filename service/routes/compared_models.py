"""The encodings of two models, or of a model and a URL, in a form in which they can be compared."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from service.delivery.endpoints import Endpoint, table_document
from service.delivery.parameters import read_parameters
from service.encodings.rotary.mrope import LAYOUTS
from service.errors import InvalidBody
from service.grammar import to_json
from service.models.config_values import TEXT_CONFIGS, ResolvedValue
from service.models.describe import PartEncoding
from service.models.diff import ROUNDING, STORED, Rotation
from service.models.knowledge import part_type
from service.models.translation import ModelDocument
from service.numerics.tables import Document
from service.routes.model import DescribedModel, EncodingReport
from service.routes.model_links import ConfigParameters, OriginatedValue, rope_of
from service.routes.table_urls import TableUrl, table_at, url_of
from service.settings import Settings

ROPE = {"/rope", "/rope/frequencies"}
_ROWS = {"seq_len", "start", "positions"}
_NOT_NUMBERS = {"pack", "part", "dtype", "batch", "revision"}
# Examples are shorter than the distances of many buckets.
_LONG = {"query_len": 512, "key_len": 512}

# Warnings of what may change the numbers, and of what else is assumed.
_OTHER_NUMBERS = (
    *("rope-freqs-not-sent", "rope-freqs-not-seen", "table-incomplete", "nemo-regimes"),
    *("mlx-yarn", "theta-assumed", "scaled-rope-assumed"),
)
_UNRESOLVED = "setting-not-resolved"
_ASSUMPTIONS = (
    *_OTHER_NUMBERS,
    *("unknown-rope-key", "softmax-scale-unknown", "layers-unknown", "layout-assumed", "file-cut"),
)


@dataclass(frozen=True)
class Compared:
    """An encoding of one side, or the table of a URL.

    Attributes:
        key: the part of the model, the kind, and whether it is rotary along one sequence.
        listed: the layers that have it; ``layers`` has their numbers, or is None if they are not
            known.
        layout: of the pairs of channels; None for any.
        rope: returns the parameters of the rotary table at a context length.
        is_stored: whether a file has numbers that divide the frequencies.
        endpoint, query, asked: of another table; and the parameters that no config has.
        beside: the values with an effect that is not in the numbers; ``code`` is the rest of what
            its class does, where it has no table.
        doubt: why they are not certain; the numbers are uncertain if they may be others.
        unresolved: what is said of settings of the model whose effect is not known.
        is_usual: whether the doubt is of the usual numbers alone: those of Llama 3.1.
    """

    id: str
    key: tuple[str, str, bool]
    values: Mapping[str, OriginatedValue]
    layers: frozenset[int] | None = None
    listed: Mapping[str, Any] = field(default_factory=dict)
    layout: str | None = None
    is_permuted: bool = False
    rope: Callable[[int | None], Any] | None = None
    is_inverse: bool = False
    offset: int = 0
    is_stored: bool = False
    lengths: tuple[int, ...] = ()
    length: int = 1
    endpoint: Endpoint | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, OriginatedValue] = field(default_factory=dict)
    code: str = ""
    doubt: str | None = None
    is_usual: bool = False
    is_uncertain: bool = False
    unresolved: frozenset[str] = frozenset()
    link: str | None = None
    is_url: bool = False

    def rotation(self, rope: Any, layout: str, width: int) -> Rotation:
        """Return the rotation of a head of this width."""
        rule, section = rope.rule(rope.head_dim), getattr(rope, "mrope_section", None)
        order = "interleaved" if getattr(rope, "mrope_interleaved", None) else "chunked"
        layout_of_axes = LAYOUTS[getattr(rope, "mrope_layout", None) or order]
        axes = layout_of_axes.axis_of_each(section) if section else ""
        return Rotation(
            width=rope.head_dim or max(width, 2 * rule.count),
            frequencies=tuple(-each if self.is_inverse else each for each in rule.exact()),
            layout=layout,
            scale=rule.scale,
            offset=self.offset,
            axes=axes if layout_of_axes.by_channel else 2 * axes,
            rounding=STORED if self.is_stored else ROUNDING,
        )

    def document(self, like: "Compared", asked: Mapping[str, Any]) -> Document:
        """Return the table at the path of another, with these values of what no config has."""
        assert like.endpoint is not None
        model = like.endpoint.parameters
        own = {name: asked.get(name, each) for name, each in self.asked.items()}
        own = {**self.query, **own, "pack": "compact"}
        known = {name: each for name, each in own.items() if name in model.model_fields}
        return table_document(like.endpoint, read_parameters(model, known))


def of_url(name: str, url: TableUrl) -> Compared:
    """Return the table of a URL, of all layers."""
    own, is_rope = url.parameters, url.resource.path in ROPE
    given = {key: value for key, value in own if key in own.model_fields_set - _NOT_NUMBERS}
    layout = url.document.layout
    values = {key: (each, "computed") for key, each in url.document.parameters.items() if is_rope}
    values |= {key: (to_json(each), "request") for key, each in given.items()}
    return Compared(
        id=name,
        key=("", url.document.kind, is_rope),
        values={
            key: OriginatedValue(value=value, origin=origin, sources=[f"/{name}"])
            for key, (value, origin) in values.items()
            if not (is_rope and key in _ROWS | _NOT_NUMBERS)
        },
        layout=None if layout == "any" else layout,
        rope=(lambda _: own) if is_rope else None,
        endpoint=url.resource,
        query=given,
        asked=given,
        link=url_of(url.request),
        is_url=True,
    )


def of_document(
    name: str, document: ModelDocument, context_length: int | None, settings: Settings
) -> tuple[list[Compared], str | None]:
    """Return the encodings of a document, and why there may be others; raises InvalidBody."""
    with pointing_into(name):
        own = ConfigParameters(context_length=context_length)
        described = DescribedModel(own, document, settings)
        reports = [described.report(each) for each in described.model.encodings]
        warnings = described.warnings()
    doubts = [each.detail for code in _ASSUMPTIONS for each in warnings if each.code == code]
    if described.model.status == "assumed" and not doubts:
        doubts.append("its model_type is not known")
    codes = {each.code for each in warnings}.intersection(_ASSUMPTIONS)
    certainty = {
        "is_usual": codes == {"scaled-rope-assumed"},
        "doubt": f"{name}: {doubts[0]}" if doubts else None,
        "is_uncertain": any(each.code in _OTHER_NUMBERS for each in warnings),
        "is_permuted": document.weights is not None,
        "unresolved": frozenset(each.detail for each in warnings if each.code == _UNRESOLVED),
    }
    items = [
        _item(name, encoding, report, described, certainty)
        for encoding, report in zip(described.model.encodings, reports, strict=True)
        if encoding.kind != "none"
    ]
    known = part_type(str(described.model.model_type))
    if described.model.encodings or (known is not None and known.none is not None):
        return items, None
    return items, f"{name}: {described.model.reason}"


def _item(
    name: str,
    encoding: PartEncoding,
    report: EncodingReport,
    described: DescribedModel,
    certainty: Mapping[str, Any],
) -> Compared:
    settings, entry, resolved = encoding.settings, encoding.entry, encoding.resolved
    keys = (key for key in encoding.config.split("/") if key not in TEXT_CONFIGS)
    part = ".".join(key.removesuffix("_config") for key in keys if key)
    links, listed, own = report.links or {}, encoding.layers, dict(certainty)
    layers = listed.get("only", listed.get("all") and range(listed["all"]))
    beside: dict[str, ResolvedValue | None] = dict(encoding.values)
    lists = {"shape": () if links else encoding.shape}
    if not encoding.is_known:
        reason = report.reason or "the code of its module is not known"
        own |= {"doubt": f"{name}: {reason}", "is_uncertain": True}
    if settings is not None and resolved is not None:
        kind, section = settings.model.type, settings.block.values.get("mrope_section")
        multiplier = "softmax_scale_multiplier"
        beside = {multiplier: resolved.attention.get("origin", {}).get(multiplier)}
        if "mrope_section" not in settings.values:
            beside["mrope_section"] = section
        own |= {
            "rope": lambda length: rope_of(settings.at(length)),
            "is_inverse": kind.inverse,
            "offset": settings.offset.value if settings.offset else 0,
            "lengths": settings.lengths,
            "length": settings.length.value,
            "is_stored": resolved.model.type.name == "gguf" and settings.rope_type == "longrope",
        }
    elif entry is not None:
        asked = {key: _LONG.get(key, each.value) for key, each in encoding.asked.items()}
        query = {key: each.value for key, each in encoding.values.items()} | asked
        endpoint = None if entry.not_served else table_at(entry.url or "")
        code = replace(entry, at="", id=None, query={}, example={}, source=None, training_only=())
        own |= {"query": query, "asked": asked, "endpoint": endpoint}
        own["code"] = "" if endpoint else repr(code)
        beside = {} if endpoint else beside
        lists["untouched_tokens"] = encoding.untouched_tokens
    values = report.values or {}
    found = {key: described.value(each) for key, each in beside.items() if each and each.value}
    found |= {key: _listed(described, own) for key, own in lists.items() if own}
    if entry is not None and entry.applied:
        found["applied"] = OriginatedValue(value=entry.applied, origin="fixed in code")
    return Compared(
        id=encoding.id,
        key=(part, encoding.kind, encoding.kind == "rope" and entry is None),
        values={key: each for key, each in values.items() if key not in encoding.asked},
        layers=None if layers is None else frozenset(layers),
        listed=listed,
        layout=report.layout,
        beside=found,
        link=links.get("frequencies", links.get("table")) if report.post is None else None,
        **own,
    )


def _listed(described: DescribedModel, values: Iterable[ResolvedValue]) -> OriginatedValue:
    """Return several values as one, with all their sources."""
    each = [*map(described.value, values)]
    sources = dict.fromkeys(source for own in each for source in own.sources)
    value, origin = [own.value for own in each], each[0].origin
    return OriginatedValue(value=value, origin=origin, sources=[*sources])


@contextmanager
def pointing_into(name: str) -> Iterator[None]:
    """Convert the pointers of faults into a document to those into the member that holds it."""
    try:
        yield
    except InvalidBody as error:
        faults = [
            replace(each, where=f"/{name}{each.where or ''}") if each.in_body else each
            for each in error.faults
        ]
        raise type(error)(error.detail, faults=faults) from error


Pair: TypeAlias = tuple[Compared, Compared, Mapping[str, Any]]
Rest: TypeAlias = list[tuple[Compared, Mapping[str, Any]]]


def match(ones: list[Compared], others: list[Compared]) -> tuple[list[Pair], Rest, Rest]:
    """Return the pairs of the same part and kind, with their layers, and the rest of each side."""
    pairs: list[Pair] = []
    rests: tuple[Rest, Rest] = [], []
    for key in dict.fromkeys(each.key for each in (*ones, *others)):
        a, b = ([each for each in own if each.key == key] for own in (ones, others))
        if key[2]:
            found = [*_by_layers(a, b)]
            pairs += found
            rests[0].extend(_unmatched(a, [(one, other) for one, other, _ in found]))
            rests[1].extend(_unmatched(b, [(other, one) for one, other, _ in found]))
            continue
        names = {each.id: place for place, each in enumerate(a)}
        b.sort(key=lambda each, names=names: names.get(each.id, len(names)))  # type: ignore[misc]
        pairs += [(one, other, one.listed) for one, other in zip(a, b, strict=False)]
        rests[0].extend((each, each.listed) for each in a[len(b) :])
        rests[1].extend((each, each.listed) for each in b[len(a) :])
    return pairs, *rests


def _by_layers(ones: list[Compared], others: list[Compared]) -> Iterator[Pair]:
    """Yield the pairs that have layers in common, or types of layers if these are not known."""
    for a, b in product(ones, others):
        unknown = [each for each in (a, b) if each.layers is None and "type" in each.listed]
        if unknown:
            if a.listed.get("type") == b.listed.get("type"):
                yield a, b, unknown[0].listed
        elif a.layers is None or b.layers is None:
            yield a, b, b.listed if a.layers is None else a.listed
        elif shared := a.layers & b.layers:
            whole = (each.listed for each in (a, b) if each.layers == shared)
            yield a, b, next(whole, {"only": sorted(shared)})


def _unmatched(items: list[Compared], pairs: list[tuple[Compared, Compared]]) -> Rest:
    """Return the encodings without a match, and the layers of others without one."""
    rest: Rest = []
    for item in items:
        matched = [other.layers for own, other in pairs if own is item]
        if not matched:
            rest.append((item, item.listed))
        elif item.layers is not None and None not in matched:
            own = item.layers.difference(*filter(None, matched))
            rest += [(item, {"only": sorted(own)})] if own else []
    return rest
