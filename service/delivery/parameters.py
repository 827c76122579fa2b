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

# Parameter names and values, each with those of other libraries; of several, the first is meant.
_OTHER_NAMES: Mapping[str, str] = {
    "dimensions": "dims",
    "d_model": "channels d demb dim dims embed_dim embedding_dim hidden_size n_state",
    "head_dim": "d dim",
    "rope_theta": "base freq_base theta",
    "base": "max_period max_timescale max_wavelength n temperature theta",
    "max_period": "base",
    "temperature": "base",
    "seq_len": "length max_len n_ctx",
    "query_len": "length length_q seq_len",
    "key_len": "length_k seq_len",
    "bucket_size": "position_buckets",
    "compact": "candle",
    "convention": "library model",
    "depth": "frames time",
    "factor": "scaling_factor",
    "float16": "f2 fp16 half",
    "float32": "f4 float fp32",
    "float64": "double f8 fp64",
    "ggml": "gguf llama.cpp llamacpp",
    "half": "neox rotate_half",
    "height": "feat_shape grid grid_size h",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "interleaved": "gptj meta",
    "layout": "pack",
    "longrope": "su",
    "masked": "causal",
    "max_distance": "relative_attention_max_distance",
    "npy": "numpy",
    "num_attention_heads": "heads n_heads num_heads",
    "num_buckets": "relative_attention_num_buckets",
    "num_heads": "heads n_heads",
    "offset": "k",
    "pack": "layout",
    "past": "past_key_values_length",
    "positions": "pos",
    "query_positions": "cache_position",
    "query_start": "past past_key_values_length past_seen_tokens",
    "rope_type": "rope_parameters rope_scaling type",
    "timesteps": "t",
    "width": "w",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is a synonym of ``name``, or else the most similar; or None."""
    if len(name) > _MAX_NAME_LENGTH:
        return None
    names = list(known)
    # NumPy writes the order of bytes before a type: only little-endian ones are known.
    other = name.lower().lstrip("<=|")
    synonyms = (own for own in _OTHER_NAMES if own in names and other in _OTHER_NAMES[own].split())
    return next(chain(synonyms, similar(name, names)), None)


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the known names with a similar spelling, the most similar first.

    Negations of the name are left out. ``cutoff`` is the least similarity, 0 to 1.
    """
    matches = get_close_matches(name[:_MAX_NAME_LENGTH].lower(), list(known), cutoff=cutoff)
    near = (match for match in matches if 2 * len(match) > len(name))
    return [match for match in near if not _is_opposite(name, match)]


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
    name, *inner = map(str, detail["loc"])
    if inner and not (len(inner) == 1 and inner[0].isdigit()):
        return _inner_fault([name, *inner], detail)
    if detail["type"] == "missing":
        possible = ", ".join(map(repr, choices(model, name)))
        return Fault(name, None, f"{name} is required" + (f": {possible}" if possible else ""))
    value = shortened(values[name])
    if detail["type"] == "extra_forbidden":
        rule, near = _unknown(model, name, values)
        return Fault(shortened(name), value, rule, suggestion=near)
    meant = model.value_hints.get(name, {}).get(str(values[name]))
    if meant is not None:
        if " " in meant:
            # A sentence that says what to send in place of it.
            return Fault(name, value, meant)
        return Fault(name, value, f"did you mean {name}={meant}?", suggestion=meant)
    rule = _rule(name, detail) + _related_choice(model, name, values[name])
    return Fault(name, value, rule, suggestion=_meant(detail))


def _inner_fault(place: list[str], detail: ErrorDetails) -> Fault:
    """Return the fault of a value inside a parameter of a JSON body."""
    value = shortened(detail["input"])
    name = "/".join(place) if place[-1].isdigit() else place[-1]
    rule = _rule(name, detail)
    if detail["type"] == "extra_forbidden":
        rule = f"{shortened(place[-1])} is not known here"
    if detail["type"].endswith(("_type", "_attributes_type")):
        rule = f"{name} must be of another type: {detail['msg']}"
    pointer = "/".join(["", *map(shortened, place)])
    return Fault(pointer, value, rule, in_body=True, suggestion=_meant(detail))


def _unknown(
    model: type[Parameters], name: str, values: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the detail for an unknown name, with a hint, and the name that is likely meant."""
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
        hint = f"there {'is only' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"
    detail = f"{shortened(name)} is not a parameter here; {hint}"
    return detail, near if own_hint is None else None


def _related_choice(model: type[Parameters], name: str, value: Any) -> str:
    """Return a hint if another resource accepts this value for the parameter, else ''."""
    places = [path for path, other in model.related.items() if value in choices(other, name)]
    return f"; {value} is one of {' and '.join(places)}" if places else ""


def _meant(detail: ErrorDetails) -> str | None:
    """Return the value that is likely meant by an invalid one, or None."""
    context = detail.get("ctx", {})
    if detail["type"] == "literal_error":
        return nearest(str(detail["input"]), re.findall(r"'(.*?)'", context["expected"]))
    return getattr(context.get("error"), "suggestion", None)


def _rule(name: str, detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "value_error":
        return f"{name} {context['error']}"
    if detail["type"] == "literal_error":
        near = _meant(detail)
        hint = f"did you mean {name}={near}? " if near else ""
        return f"{hint}{name} must be {context['expected']}"
    bounds = (f"{words} {context[bound]}" for bound, words in _BOUNDS.items() if bound in context)
    return f"{name} {next(bounds, 'must be a string')}"


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
