"""Parameters from a query or a JSON object, held to a model, with every fault named."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from service.errors import Fault, InvalidParameters, shortened


class Parameters(BaseModel):
    """Base of every set of parameters: nothing unknown, nothing changed after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def chosen_part(self) -> str | None:
        """Name the one array that is wanted of several; None for all there are."""
        return None


class NoParameters(Parameters):
    """For what takes none."""


Model = TypeVar("Model", bound=Parameters)


def parse_query(query: bytes) -> dict[str, str]:
    """Split a raw query into names and values; refuses repeated names and what is not UTF-8."""
    values: dict[str, str] = {}
    for field in filter(None, query.split(b"&")):
        raw_name, _, raw_value = field.partition(b"=")
        name = _decoded(raw_name, raw_name)
        if not name:
            raise InvalidParameters(Fault("=", None, "a parameter needs a name before its ="))
        if name in values:
            raise InvalidParameters(given_twice(name, _decoded(raw_value, raw_name)))
        values[name] = _decoded(raw_value, raw_name)
    return values


def given_twice(name: str, value: str, places: str = "") -> Fault:
    """Make the fault of a parameter that is there more than once."""
    return Fault(shortened(name), shortened(value), f"{shortened(name)} is given twice{places}")


def _decoded(raw: bytes, raw_name: bytes) -> str:
    for escape in raw.split(b"%")[1:]:
        if len(escape) < 2 or not all(digit in b"0123456789abcdefABCDEF" for digit in escape[:2]):
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
    """Hold values to a model; raises InvalidParameters with every fault there is."""
    nulls = [name for name, value in values.items() if value is None]
    if nulls:
        raise InvalidParameters(
            *(Fault(shortened(n), "null", f"{shortened(n)} is null: leave it out") for n in nulls)
        )
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # What is unknown comes first: it may well be what is missing, misspelled.
        details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
        raise InvalidParameters(*(_fault(model, values, detail) for detail in details)) from None


_MAX_NAME_LENGTH = 64

# What the field calls the same things elsewhere.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "base": ("rope_theta",),
    "bf16": ("bfloat16",),
    "candle": ("compact",),
    "d": ("d_model", "head_dim"),
    "dim": ("d_model", "head_dim"),
    "double": ("float64",),
    "embedding_dim": ("d_model",),
    "float": ("float32",),
    "fp16": ("float16",),
    "fp32": ("float32",),
    "fp64": ("float64",),
    "freq_base": ("rope_theta",),
    "gguf": ("ggml",),
    "gptj": ("interleaved",),
    "half": ("float16",),
    "k": ("offset",),
    "length": ("seq_len",),
    "llama.cpp": ("ggml",),
    "llamacpp": ("ggml",),
    "max_len": ("seq_len",),
    "meta": ("interleaved",),
    "n": ("base",),
    "n_heads": ("num_attention_heads",),
    "neox": ("half",),
    "num_heads": ("num_attention_heads",),
    "num_kv_heads": ("num_key_value_heads",),
    "numpy": ("npy",),
    "rope_parameters": ("rope_type",),
    "rope_scaling": ("rope_type",),
    "rotate_half": ("half",),
    "scaling_factor": ("factor",),
    "su": ("longrope",),
    "theta": ("rope_theta", "base"),
    "type": ("rope_type",),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that means, or is spelled most like, this one, if any does."""
    if len(name) > _MAX_NAME_LENGTH:
        return None
    names = list(known)
    meant = (synonym for synonym in _SYNONYMS.get(name.lower(), ()) if synonym in names)
    return next(chain(meant, get_close_matches(name.lower(), names, n=1)), None)


def _fault(model: type[Parameters], values: Mapping[str, Any], detail: ErrorDetails) -> Fault:
    name = str(detail["loc"][0])
    if detail["type"] == "missing":
        return Fault(name, None, f"{name} is required")
    value = shortened(values[name])
    if detail["type"] == "extra_forbidden":
        return Fault(shortened(name), value, _unknown(name, model.model_fields))
    return Fault(name, value, f"{name} {_rule(detail)}")


def _unknown(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    if near is not None:
        return f"{shortened(name)} is not a parameter here; did you mean {near}?"
    names = ", ".join(sorted(known))
    return f"{shortened(name)} is not a parameter here; " + (
        f"there are {names}" if names else "there are none"
    )


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


_BOUNDS = {
    "ge": "must be at least",
    "gt": "must be more than",
    "le": "must be at most",
    "max_length": "must be a list no longer than",
    "min_length": "must be a list no shorter than",
    "multiple_of": "must be a multiple of",
}
