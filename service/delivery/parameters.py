"""Parameters from a query or a JSON object, held to a model, with every fault named."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from service.errors import Fault, InvalidParameters, shortened


class Parameters(BaseModel):
    """Base of every set of parameters: nothing unknown, nothing changed after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
            raise InvalidParameters(
                Fault(name, shortened(_decoded(raw_value, raw_name)), "it is given twice")
            )
        values[name] = _decoded(raw_value, raw_name)
    return values


def _decoded(raw: bytes, raw_name: bytes) -> str:
    for escape in raw.split(b"%")[1:]:
        if len(escape) < 2 or not all(digit in b"0123456789abcdefABCDEF" for digit in escape[:2]):
            raise _not_text(raw, raw_name, "a % must be followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(raw, raw_name, "it must be UTF-8") from error


def _not_text(raw: bytes, raw_name: bytes, rule: str) -> InvalidParameters:
    name = raw_name.decode("ascii", "backslashreplace")
    return InvalidParameters(
        Fault(shortened(name), shortened(raw.decode("ascii", "backslashreplace")), rule)
    )


def read_parameters(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Hold values to a model; raises InvalidParameters with every fault there is."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # What is unknown comes first: it may well be what is missing, misspelled.
        details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
        raise InvalidParameters(*(_fault(model, detail) for detail in details)) from None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that is spelled most like this one, if any is alike."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.5)), None)


def _fault(model: type[Parameters], detail: ErrorDetails) -> Fault:
    name = str(detail["loc"][0])
    if detail["type"] == "missing":
        return Fault(name, None, f"{name} is required")
    value = shortened(detail["input"])
    if detail["type"] == "extra_forbidden":
        return Fault(name, value, _unknown(name, model.model_fields))
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
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "literal_error":
            expected = str(context["expected"])
            near = nearest(str(detail["input"]), expected.replace("'", "").split(" "))
            hint = f"; did you mean {near}?" if near else ""
            return f"must be {expected}{hint}"
        case _:
            return detail["msg"].lower()
