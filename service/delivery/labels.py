"""What answers are told apart by when they are counted: a bounded number of values for each."""

from collections.abc import Iterable
from types import MappingProxyType

from starlette.types import Scope

from service.formats import FORMATS

WARM_PATH = "posref.warm_path"
"""Where a scope holds the path that a finished answer was kept for."""

_OTHER = "other"
_NONE = "none"

_FORMATS = MappingProxyType(
    {
        **{form.media_type.encode(): form.extension for form in FORMATS.values()},
        b"application/problem+json": "problem",
    }
)


def path_of(scope: Scope) -> str:
    """Give the path of the route that a request has met."""
    return getattr(scope.get("route"), "path", _OTHER)


def source_of(*, is_warm: bool) -> str:
    """Say whether an answer was kept or made."""
    return "kept" if is_warm else "made"


def format_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Give the extension of the format that the headers of an answer say its body has."""
    for name, value in headers:
        if name == b"content-type":
            return _FORMATS.get(value.partition(b";")[0], _OTHER)
    return _NONE
