"""The documentation of the headers of answers: components, and which answers have which."""

from typing import Any

from service.tables.dtypes import COMPLEX64, COMPLEX128, INDEX_DTYPES, REAL_DTYPES

Json = dict[str, Any]

_DTYPES = [*REAL_DTYPES, *INDEX_DTYPES, COMPLEX64.name, COMPLEX128.name]
_TEXT: Json = {"type": "string", "minLength": 1}


def _matching(pattern: str) -> Json:
    return {"type": "string", "pattern": pattern}


def _header(description: str, schema: Json, *, required: bool = False) -> Json:
    return {"description": description, "required": required, "schema": schema}


_KEPT = r"^(public|private), max-age=(86400|31536000, immutable)$"

HEADER_COMPONENTS: Json = {
    "Accept-Ranges": _header(
        "Where parts can be asked for.", {"type": "string", "enum": ["bytes"]}
    ),
    "Array-Axes": _header("What each axis counts, where the axes have names.", _TEXT),
    "Array-Dtype": _header(
        "The type of the elements, unless it differs between arrays.",
        {"type": "string", "enum": _DTYPES},
    ),
    "Array-Error-Bound": _header(
        "How far numbers that are not meant to be the nearest may be off.",
        {"type": "number", "minimum": 0},
    ),
    "Array-Shape": _header(
        "The lengths of the axes, unless they differ between arrays.",
        _matching("^([0-9]+(, [0-9]+)*)?$"),
    ),
    "Cache-Control": _header("How long the answer may be kept.", _matching(_KEPT), required=True),
    "Content-Disposition": _header(
        "The name of the file.",
        _matching('^inline; filename="[0-9a-z_]+[.][a-z0-9.]+"$'),
        required=True,
    ),
    "Content-Location": _header("The URL of the format that Accept led to.", _TEXT),
    "Content-Range": _header(
        "Which bytes of how many.", _matching("^bytes ([0-9]+-[0-9]+|[*])/[0-9]+$"), required=True
    ),
    "ETag": _header("Names the bytes.", _matching('^(W/)?"[0-9a-f]{32}"$'), required=True),
    "Link": _header("The other formats that can hold the table.", _TEXT),
    "No-Store": _header("Not to be kept.", {"type": "string", "enum": ["no-store"]}, required=True),
    "Repr-Digest": _header(
        "The SHA-256 of the whole (RFC 9530), where it is known before the answer.",
        _matching("^sha-256=:[0-9A-Za-z+/]{43}=:$"),
    ),
    "Retry-After": _header(
        "Seconds after which to ask again.", {"type": "integer", "minimum": 1}, required=True
    ),
    "Table-Revision": _header(
        "The revision of this kind of table.", {"type": "integer", "minimum": 1}, required=True
    ),
    "Vary": _header("The headers of the request that chose the answer.", _TEXT),
    "X-Request-Id": _header(
        "The name of the request: its own, if it has one that can be one, or a new one.",
        _matching("^[A-Za-z0-9._-]{1,128}$"),
        required=True,
    ),
    "WWW-Authenticate": _header("How to bear a key.", _matching("^Bearer "), required=True),
}

_OF_ARRAYS = ("Table-Revision", "Array-Shape", "Array-Dtype", "Array-Axes", "Array-Error-Bound")
_OF_FILES = ("ETag", "Cache-Control", "Content-Disposition", "Content-Location", "Link", "Vary")
_OF_BODIES = ("Accept-Ranges", "Repr-Digest")


def _named(name: str, component: str | None = None) -> Json:
    """Refer to the component of a header, which is named as the header is unless it is given."""
    return {name: {"$ref": f"#/components/headers/{component or name}"}}


def _headers(*names: str) -> Json:
    return {known: said for name in names for known, said in _named(name).items()}


OF_PAGE = _named("X-Request-Id")
NEVER_KEPT = {**OF_PAGE, **_named("Cache-Control", "No-Store")}
"""Of answers to POST, and of problems."""

OF_POSTED = {**NEVER_KEPT, **_headers(*_OF_ARRAYS, "Vary")}
OF_NOT_MODIFIED = {**OF_PAGE, **_headers(*_OF_FILES, *_OF_ARRAYS)}
OF_WHOLE = {**OF_NOT_MODIFIED, **_headers(*_OF_BODIES)}
OF_PART = {**OF_WHOLE, **_named("Content-Range")}

_BY_STATUS = {"401": "WWW-Authenticate", "416": "Content-Range", "503": "Retry-After"}


def of_problem(status: str) -> Json:
    """Give the headers of a problem of a status."""
    special = _BY_STATUS.get(status)
    return {**NEVER_KEPT, **(_named(special) if special else {})}
