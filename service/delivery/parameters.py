"""Parameters of a query or a JSON object: parsing, validation, and hints for unknown names."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.encodings.family import Parameters, choices
from service.errors import MAX_FAULTS, Fault, InvalidParameters, shortened

_MAX_NAME_LENGTH = 40

# Far more than any resource has: queries are also parsed on the event loop.
_MAX_FIELDS = 1000

_PLAIN = re.compile(rb"[^%+\x80-\xff]*")
_INCOMPLETE_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")

# Parameter names and values of other libraries, each with the names used here.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "base": ("rope_theta", "max_period", "temperature"),
    "bf16": ("bfloat16",),
    "cache_position": ("query_positions",),
    "candle": ("compact",),
    "causal": ("masked",),
    "channels": ("d_model",),
    "class_token": ("cls_token",),
    "cls_token": ("class_token",),
    "d": ("d_model", "head_dim"),
    "demb": ("d_model",),
    "dim": ("d_model", "head_dim"),
    "dims": ("dimensions", "d_model"),
    "double": ("float64",),
    "embed_dim": ("d_model", "embed_dim"),
    "embedding_dim": ("d_model",),
    "feat_shape": ("height",),
    "float": ("float32",),
    "fp16": ("float16",),
    "fp32": ("float32",),
    "fp64": ("float64",),
    "frames": ("depth",),
    "freq_base": ("rope_theta",),
    "gguf": ("ggml",),
    "gptj": ("interleaved",),
    "grid": ("height",),
    "grid_size": ("height",),
    "h": ("height",),
    "half": ("float16",),
    "heads": ("num_heads", "num_attention_heads"),
    "hidden_size": ("d_model",),
    "k": ("offset",),
    "key_length": ("key_len",),
    "klen": ("key_len",),
    "length": ("seq_len", "query_len"),
    "length_k": ("key_len",),
    "length_q": ("query_len",),
    "library": ("convention",),
    "llama.cpp": ("ggml",),
    "llamacpp": ("ggml",),
    "max_len": ("seq_len",),
    "max_period": ("base",),
    "max_relative_positions": ("max_position",),
    "max_timescale": ("base",),
    "max_wavelength": ("base",),
    "meta": ("interleaved",),
    "model": ("convention",),
    "n": ("base",),
    "n_ctx": ("seq_len",),
    "n_heads": ("num_attention_heads", "num_heads"),
    "n_state": ("d_model",),
    "neox": ("half",),
    "num_attention_heads": ("num_heads",),
    "num_heads": ("num_attention_heads",),
    "num_kv_heads": ("num_key_value_heads",),
    "numpy": ("npy",),
    "past": ("query_start",),
    "past_key_values_length": ("past", "query_start"),
    "past_seen_tokens": ("query_start",),
    "position": ("positions",),
    "position_buckets": ("bucket_size",),
    "qlen": ("query_len",),
    "query_length": ("query_len",),
    "relative_attention_max_distance": ("max_distance",),
    "relative_attention_num_buckets": ("num_buckets",),
    "rope_parameters": ("rope_type",),
    "rope_scaling": ("rope_type",),
    "rotate_half": ("half",),
    "scaling_factor": ("factor",),
    "seq_len": ("query_len", "key_len"),
    "su": ("longrope",),
    "t": ("timesteps",),
    "temperature": ("base", "temperature"),
    "theta": ("rope_theta", "base"),
    "time": ("depth",),
    "timestep": ("timesteps",),
    "type": ("rope_type",),
    "w": ("width",),
    "window": ("window_size",),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is a synonym of ``name``, or else the most similar; or None."""
    if len(name) > _MAX_NAME_LENGTH:
        return None
    names = list(known)
    synonyms = (synonym for synonym in _SYNONYMS.get(name.lower(), ()) if synonym in names)
    return next(chain(synonyms, similar(name, names)), None)


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the known names with a similar spelling, the most similar first.

    Negations of the name are left out. ``cutoff`` is the least similarity, 0 to 1.
    """
    matches = get_close_matches(name[:_MAX_NAME_LENGTH].lower(), list(known), cutoff=cutoff)
    return [match for match in matches if not _is_opposite(name, match)]


def _is_opposite(name: str, other: str) -> bool:
    """Return whether one name negates the other, so that its value would mean the opposite."""
    one, two = (each.lower().replace("_", "").replace("-", "") for each in (name, other))
    denied = any(one == no + two or two == no + one for no in ("no", "non", "not", "un", "in"))
    return denied or (one != two and one.replace("uni", "bi", 1) == two.replace("uni", "bi", 1))


def most_similar(name: str, known: Iterable[str], count: int) -> list[str]:
    """Return up to ``count`` known names, the most similar first."""
    return get_close_matches(name[:_MAX_NAME_LENGTH].lower(), list(known), count, cutoff=0.0)


class NoParameters(Parameters):
    """The parameters of a path that accepts none."""


Model = TypeVar("Model", bound=Parameters)


def parse_query(query: bytes) -> dict[str, str]:
    """Return the parameters of a raw query; raises InvalidParameters if one is repeated."""
    fields = [field for field in query.split(b"&") if field]
    if len(fields) > _MAX_FIELDS:
        rule = f"the query has {len(fields)} parameters, and at most {_MAX_FIELDS} are read"
        raise InvalidParameters(Fault(None, None, rule))
    values: dict[str, str] = {}
    for field in fields:
        raw_name, _, raw_value = field.partition(b"=")
        name = _decoded(raw_name, raw_name)
        if not name:
            raise InvalidParameters(Fault("=", None, "a parameter needs a name before its ="))
        if name in values:
            raise InvalidParameters(given_twice(name, _decoded(raw_value, raw_name)))
        values[name] = _decoded(raw_value, raw_name)
    return values


def given_twice(name: str, value: str, places: str = "") -> Fault:
    """Return the fault for a repeated parameter."""
    return Fault(shortened(name), shortened(value), f"{shortened(name)} is given twice{places}")


def _decoded(raw: bytes, raw_name: bytes) -> str:
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    if _INCOMPLETE_ESCAPE.search(raw):
        raise _not_text(raw, raw_name, "has a % that two hexadecimal digits do not follow")
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(raw, raw_name, "must be UTF-8") from error


def _not_text(raw: bytes, raw_name: bytes, rule: str) -> InvalidParameters:
    name = shortened(raw_name.decode("ascii", "backslashreplace"))
    value = shortened(raw.decode("ascii", "backslashreplace"))
    return InvalidParameters(Fault(name, value, f"{name} {rule}"))


def read_parameters(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the values as an instance of a model; raises InvalidParameters.

    The error names ten faults and counts the others: a request may have thousands of unknown names,
    and a hint for each would take seconds.
    """
    nulls = [name for name, value in values.items() if value is None]
    if nulls:
        named = (shortened(name) for name in nulls[:MAX_FAULTS])
        faults = [Fault(name, "null", f"{name} is null: leave it out") for name in named]
        raise InvalidParameters(*faults, others=len(nulls) - len(faults))
    known = model.model_fields
    unknown = [name for name in values if name not in known]
    unread = set(unknown[MAX_FAULTS:])
    read = {name: value for name, value in values.items() if name not in unread}
    try:
        return model.model_validate(read)
    except ValidationError as error:
        # An unknown name comes first: it may be a misspelling of a missing one.
        details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
        faults = [_fault(model, values, detail) for detail in details[:MAX_FAULTS]]
        others = len(details) + len(unread) - len(faults)
        raise InvalidParameters(*faults, others=others) from None


def _fault(model: type[Parameters], values: Mapping[str, Any], detail: ErrorDetails) -> Fault:
    name = str(detail["loc"][0])
    if detail["type"] == "missing":
        possible = ", ".join(map(repr, choices(model, name)))
        return Fault(name, None, f"{name} is required" + (f": {possible}" if possible else ""))
    value = shortened(values[name])
    if detail["type"] == "extra_forbidden":
        return Fault(shortened(name), value, _unknown(model, name, values))
    return Fault(name, value, f"{name} {_rule(detail)}{_related_choice(model, name, values[name])}")


def _unknown(model: type[Parameters], name: str, values: Mapping[str, Any]) -> str:
    """Return the detail for an unknown name, with a hint to the name that was likely meant."""
    known = sorted(model.model_fields)
    near = nearest(name, known)
    own_hint = model.hint_for_unknown(name, values)
    places = [path for path, other in model.related.items() if name in other.model_fields]
    if own_hint is not None:
        hint = own_hint
    elif near is not None:
        hint = f"did you mean {near}?"
    elif places:
        hint = f"{name} is a parameter of {' and '.join(places)}"
    elif len(known) > _MAX_LISTED:
        hint = f"there are {len(known)}, among them {', '.join(most_similar(name, known, _FEW))}"
    else:
        hint = f"there are {', '.join(known)}" if known else "there are none"
    return f"{shortened(name)} is not a parameter here; {hint}"


def _related_choice(model: type[Parameters], name: str, value: Any) -> str:
    """Return a hint if another resource accepts this value for the parameter, else ''."""
    places = [path for path, other in model.related.items() if value in choices(other, name)]
    return f"; {value} is one of {' and '.join(places)}" if places else ""


def _rule(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "value_error":
        return str(context["error"])
    if detail["type"] == "literal_error":
        near = nearest(str(detail["input"]), re.findall(r"'(.*?)'", context["expected"]))
        return f"must be {context['expected']}" + (f"; did you mean {near}?" if near else "")
    for bound, words in _BOUNDS.items():
        if bound in context:
            return f"{words} {context[bound]}"
    return detail["msg"].lower()


# Longer lists of names are cut to the most similar ones.
_MAX_LISTED, _FEW = 12, 5

_BOUNDS = {
    "ge": "must be at least",
    "gt": "must be more than",
    "le": "must be at most",
    "max_length": "must be a list no longer than",
    "min_length": "must be a list no shorter than",
    "multiple_of": "must be a multiple of",
}
