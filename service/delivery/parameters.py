"""Parameters from a query or a JSON object, held to a model, with every fault named."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from service.delivery.spelling import likest, nearest
from service.errors import Fault, InvalidParameters, shortened


class Parameters(BaseModel):
    """Base of every set of parameters: nothing unknown, nothing changed after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    related: ClassVar[Mapping[str, type["Parameters"]]] = {}
    """What is asked for here although it is at another path."""

    def chosen_part(self) -> str | None:
        """Name the one array that is wanted of several; None for all there are."""
        return None

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to ask for the table without an axis, by the name of the axis."""
        return {}

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Say what an unknown parameter may be about, from all that is given; None if it is not."""
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


def _fault(model: type[Parameters], values: Mapping[str, Any], detail: ErrorDetails) -> Fault:
    name = str(detail["loc"][0])
    if detail["type"] == "missing":
        possible = ", ".join(map(repr, choices(model, name)))
        return Fault(name, None, f"{name} is required" + (f": {possible}" if possible else ""))
    value = shortened(values[name])
    if detail["type"] == "extra_forbidden":
        return Fault(shortened(name), value, _unknown(model, name, values))
    return Fault(name, value, f"{name} {_rule(detail)}{_found(model, name, values[name])}")


def choices(model: type[Parameters], name: str) -> tuple[str, ...]:
    """List the words that a parameter may be, if it may only be some; none if it is not there."""
    field = model.model_fields.get(name)
    if field is None or get_origin(field.annotation) is not Literal:
        return ()
    return get_args(field.annotation)


def _unknown(model: type[Parameters], name: str, values: Mapping[str, Any]) -> str:
    """Say what is near to what is unknown: here, elsewhere, or here if one is generous."""
    known = sorted(model.model_fields)
    near = nearest(name, known)
    meant = model.meant(name, values)
    places = [path for path, other in model.related.items() if name in other.model_fields]
    if meant is not None:
        hint = meant
    elif near is not None:
        hint = f"did you mean {near}?"
    elif places:
        hint = f"{name} is a parameter of {' and '.join(places)}"
    elif len(known) > _MAX_LISTED:
        hint = f"there are {len(known)}, among them {', '.join(likest(name, known, _FEW))}"
    else:
        hint = f"there are {', '.join(known)}" if known else "there are none"
    return f"{shortened(name)} is not a parameter here; {hint}"


def _found(model: type[Parameters], name: str, value: Any) -> str:
    """Say where else a word is one that a parameter may be."""
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


# More names than this are not read to the end.
_MAX_LISTED, _FEW = 12, 5

_BOUNDS = {
    "ge": "must be at least",
    "gt": "must be more than",
    "le": "must be at most",
    "max_length": "must be a list no longer than",
    "min_length": "must be a list no shorter than",
    "multiple_of": "must be a multiple of",
}
