"""Keys at the top of a config that sound like rotary settings, and that nothing reads."""

import re
from collections.abc import Iterator

from service.configs.lookup import Log, Place, did_you_mean
from service.configs.model_types import NoRope
from service.configs.spellings import TOP
from service.configs.text import TextModel
from service.errors import shortened

_SOUNDS_ROTARY = re.compile(r"rope|rotary|ntk|logn|alibi|yarn|llama_?4_?scaling", re.IGNORECASE)
_BLOCKS = ("rope_scaling", "rope_parameters", "yarn", "rope_adjustments")
_MAX_NAMED = 20


def caution_of_unread(model: TextModel, log: Log, *, has_rope: bool) -> None:
    """Warn of every key that sounds like a rotary setting and is not read."""
    known = _read_by(model) if has_rope else frozenset((*model.type.rope_if, *_BLOCKS))
    if not has_rope and model.type.no_rope is True:
        known = frozenset()
    places = [model.place]
    if not has_rope and isinstance(model.place.content.get("attn_config"), dict):
        places.append(Place(model.place.content["attn_config"], model.place.at("attn_config")))
    for place in places:
        unread = [key for key in _sounding(place, has_rope=has_rope) if key not in known]
        for key in unread[:_MAX_NAMED]:
            hint = did_you_mean(key, known, cutoff=0.87) if has_rope else ""
            detail = f"{shortened(key)} is not read{hint}"
            if not has_rope:
                detail = f"{shortened(key)} asks for a rotary embedding that the class has not"
            log.caution("unknown-rope-key", detail, place.at(key))
        if len(unread) > _MAX_NAMED:
            detail = f"{len(unread) - _MAX_NAMED} more keys are not read"
            log.caution("unknown-rope-key", detail, place.pointer or place.at("model_type"))


def _sounding(place: Place, *, has_rope: bool) -> Iterator[str]:
    """Find keys that sound like it, or say ``rotary``, and are not null, false, 0 or empty."""
    for key, value in place.content.items():
        # What only says that there is, or is not, a rotary embedding is known already.
        if (has_rope and value is True) or (not has_rope and "alibi" in key.lower()):
            continue
        is_kind = not has_rope and "position" in key and isinstance(value, str)
        if value and (_SOUNDS_ROTARY.search(key) or (is_kind and _SOUNDS_ROTARY.search(value))):
            yield key


def _read_by(model: TextModel) -> frozenset[str]:
    """Name every key that is read at the top of a config."""
    kind = model.type
    blocks = (*_BLOCKS, *(("llama_4_scaling",) if model.place.has("yarn") else ()))
    no_rope = kind.no_rope if isinstance(kind.no_rope, NoRope) else NoRope()
    outright = (
        kind.layout_key,
        kind.head_dim,
        kind.rotary_dim,
        kind.theta_by_layer_key,
        kind.partial_by_layer_key,
        kind.scaling_layers_key,
        no_rope.layers_key,
        no_rope.every_key,
    )
    aliases = (alias for key in TOP.values() for alias in key.aliases)
    by_layer = (name for own in kind.rope_keys.values() for name in own.values())
    tables = (TOP, kind.rope_if, kind.not_read, kind.names.values(), blocks)
    return frozenset(name for name in outright if name is not None).union(
        aliases, by_layer, kind.head_dim_by_layer_type.values(), *tables
    )
