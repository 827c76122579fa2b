"""The text model of a config: where its config is, its type, and what is said at its top."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from service.configs import values
from service.configs.lookup import (
    Found,
    Log,
    Place,
    Values,
    did_you_mean,
    read_object,
    read_value,
    read_values,
)
from service.configs.model_types import ModelType, model_types
from service.configs.spellings import TEXT_CONFIGS, TOP, Key
from service.errors import shortened

_MODEL_TYPE = Key(values.name)
_DEEPEST = 4
THETA_BY_LAYER, SHARE_BY_LAYER = "rope_theta by layer", "partial_rotary_factor by layer"


@dataclass(frozen=True)
class TextModel:
    """A text model.

    Attributes:
        place: its config.
        type: what is known of its type; general assumptions if nothing is.
        is_known: whether anything is.
        model_type: the model_type of the whole config, if it says one.
        values: what its config says at the top, by canonical name.
        unread: what its config says there though its class does not read it.
    """

    place: Place
    type: ModelType
    is_known: bool
    model_type: str | None
    values: Values
    unread: Values = field(default_factory=dict)

    def given(self, *names: str) -> Found | None:
        """Give the first of these values that the config says."""
        return next((self.values[name] for name in names if name in self.values), None)

    def default(self, name: str, log: Log | None = None) -> Found | None:
        """Give the class default of a value; where a log is given, that is a warning."""
        value = self.type.defaults.get(name)
        if value is None:
            return None
        pointer = self.place.at(self.type.names.get(name, name))
        if log is not None:
            detail = f"{name} is not in the config: {value} is the {self.type.origin}"
            log.caution("class-default-used", detail, pointer)
        return Found(value, self.type.origin, pointer)

    def value(self, name: str, log: Log | None = None) -> Found | None:
        """Give a value of the config, or else the class default."""
        return self.given(name) or self.default(name, log)

    def caution_of_unread(self, name: str, held: Found, log: Log) -> None:
        """Warn of a value that the class does not read, where it is not the one that holds."""
        said = self.unread.get(name)
        if said is not None and said.value != held.value:
            detail = f"{self.type.name} does not read {said.pointer}: {name} is {held.value}"
            log.caution("key-not-read", detail, said.pointer)

    def says(self, name: str) -> object:
        """Give a member of the config as it is, or else the class default."""
        sent = self.place.content.get(name)
        return self.type.defaults.get(name) if sent is None else sent


def find_text_model(config: Mapping[str, object], log: Log) -> TextModel:
    """Find the text model in a config; logs faults of everything at its top, and its type."""
    body = Place(config)
    whole = read_value(body, "model_type", _MODEL_TYPE, log)
    place, name = _descended(body, None, log)
    known = None if name is None else model_types().get(name)
    if known is None:
        _caution_of_type(name, place, log)
    kind = known or _unknown(place, name)
    keys = _keys_of(kind)
    fixed = {name: keys.pop(name) for name in kind.fixed if name in keys}
    by_layer = _by_layer(place, kind, keys, log)
    inner = read_object(place, kind.inside, log) if kind.inside else None
    inside = read_values(inner, keys, kind.names, log) if inner else {}
    _caution_of_inside(inside, log)
    read = {**inside, **read_values(place, keys, kind.names, log), **by_layer}
    unread = read_values(place, fixed, kind.names, log)
    model_type = whole.value if whole else None
    return TextModel(place, kind, known is not None, model_type, read, unread)


def _caution_of_inside(inside: Values, log: Log) -> None:
    if "rope_theta" in inside:
        pointer = inside["rope_theta"].pointer
        detail = f"{pointer} holds; transformers 5.23.0 turns by rope_parameters alone"
        log.caution("theta-not-everywhere", detail, pointer)


def _by_layer(place: Place, kind: ModelType, keys: dict[str, Key], log: Log) -> Values:
    """Read lists of one value per layer, which some classes have.

    A list of bases may stand in the place of one base, which then is looked for no more.
    """
    found: dict[str, Found | None] = {}
    theta, share = kind.theta_by_layer_key, kind.partial_by_layer_key
    if theta is not None and isinstance(place.content.get(theta), list):
        keys.pop(theta, None)
        found[THETA_BY_LAYER] = read_value(place, theta, Key(values.bases), log)
    if share is not None:
        found[SHARE_BY_LAYER] = read_value(place, share, Key(values.shares), log)
    return {name: listed for name, listed in found.items() if listed is not None}


def _descended(
    place: Place, inherited: str | None, log: Log, depth: int = 0
) -> tuple[Place, str | None]:
    """Go down to the config of the text model, and name its type."""
    said = read_value(place, "model_type", _MODEL_TYPE, log)
    name = said.value if said else inherited
    kind = None if name is None else model_types().get(name)
    inner = _inner(place, kind, log) if depth < _DEEPEST else None
    if inner is None:
        return place, _text_type(name)
    return _descended(inner, kind.text_model_type if kind else None, log, depth + 1)


def _text_type(name: str | None) -> str | None:
    """Name the type of the text model in a model type, however deep it is."""
    kind = None if name is None else model_types().get(name)
    if kind is None or kind.text_model_type is None:
        return name
    return _text_type(kind.text_model_type)


def _inner(place: Place, kind: ModelType | None, log: Log) -> Place | None:
    """Find the config of the text model in that of a multimodal one."""
    if kind is not None and kind.text is not None:
        for name in kind.text.split("."):
            found = read_object(place, name, log)
            if found is None:
                return None
            place = found
        return place
    if place.has(*_spellings("hidden_size"), *_spellings("head_dim")):
        return None
    inner = (read_object(place, name, log) for name in TEXT_CONFIGS)
    return next((found for found in inner if found is not None), None)


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield from TOP[name].aliases


def _caution_of_type(name: str | None, place: Place, log: Log) -> None:
    pointer = place.at("model_type")
    if name is None:
        detail = "there is no model_type: layout and defaults are assumptions"
        log.caution("model-type-missing", detail, pointer)
        return
    hint = did_you_mean(name, model_types(), cutoff=0.87)
    detail = f"nothing is known of model_type {shortened(name)}{hint}"
    log.caution("model-type-unknown", detail, pointer)


_LOCAL_THETA = {"full_attention": {}, "sliding_attention": {"rope_theta": "rope_local_base_freq"}}
_LOCAL_AND_GLOBAL_THETA = {
    "full_attention": {"rope_theta": "global_rope_theta"},
    "sliding_attention": {"rope_theta": "local_rope_theta"},
}


def _unknown(place: Place, name: str | None) -> ModelType:
    """Make the assumptions of a type of which nothing is known."""
    rope_keys: Mapping[str, Mapping[str, str]] = {}
    if place.has("rope_local_base_freq"):
        rope_keys = _LOCAL_THETA
    elif place.has("global_rope_theta") and place.has("local_rope_theta"):
        rope_keys = _LOCAL_AND_GLOBAL_THETA
    return ModelType(
        name=name or "unknown",
        source="",
        layout="half",
        layout_key="rope_interleave" if place.has(*_spellings("rope_interleave")) else None,
        head_dim="qk_rope_head_dim" if place.has("qk_rope_head_dim") else None,
        rope_keys=MappingProxyType(rope_keys),
        unscaled=("sliding_attention",) if rope_keys is _LOCAL_THETA else (),
    )


def _keys_of(kind: ModelType) -> dict[str, Key]:
    """Gather what is looked for in the config of a model type: of all, and its own."""
    keys = dict(TOP)
    for key in (kind.head_dim, kind.rotary_dim, *kind.head_dim_by_layer_type.values()):
        if key is not None:
            keys.setdefault(key, Key(values.channels))
    if kind.layout_key is not None:
        keys.setdefault(kind.layout_key, Key(values.flag))
    for own in kind.rope_keys.values():
        keys |= {key: Key(values.real) for key in own.values() if key not in keys}
    if kind.scaling_layers_key is not None:
        keys.setdefault(kind.scaling_layers_key, Key(values.indices))
    if not isinstance(kind.no_rope, bool) and kind.no_rope.layers_key is not None:
        keys.setdefault(kind.no_rope.layers_key, Key(values.flags))
    return keys
