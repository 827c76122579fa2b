"""Headers of requests and of documents, as pure functions."""

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote

from starlette.types import Scope

from service import TABLE_REVISION
from service.delivery.negotiation import possible_formats
from service.formats.format import Format
from service.tables.document import Document

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

EXPOSED_HEADERS = (
    "Accept-Ranges",
    "Array-Axes",
    "Array-Dtype",
    "Array-Error-Bound",
    "Array-Shape",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Length",
    "Content-Location",
    "Content-Range",
    "ETag",
    "Link",
    "Repr-Digest",
    "Retry-After",
    "Table-Revision",
    "WWW-Authenticate",
    "X-Request-Id",
)
"""What a script of another origin may read."""

OPEN_HEADERS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode()),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"x-content-type-options", b"nosniff"),
]
"""What every answer has: pages of every origin may read and embed it, as what it says it is."""

_MAX_LINKED_QUERY_BYTES = 512
_DAY_SECONDS, _YEAR_SECONDS = 86_400, 31_536_000


def list_header(scope: Scope, name: bytes) -> str | None:
    """Give the value of a request's header that is a list, on however many lines it came."""
    lines = [value for known, value in scope["headers"] if known == name]
    return b", ".join(lines).decode("latin-1") if lines else None


def raw(headers: Mapping[str, str]) -> RawHeaders:
    """Spell headers the way that servers take them."""
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
    ]


def array_headers(document: Document) -> dict[str, str]:
    """Say what the arrays are; several that differ are said in the body only."""
    headers = {"Table-Revision": str(TABLE_REVISION[document.kind])}
    if document.shape is not None:
        headers["Array-Shape"] = ", ".join(map(str, document.shape))
    if document.dtype is not None:
        headers["Array-Dtype"] = document.dtype
    if document.error_bound is not None:
        headers["Array-Error-Bound"] = repr(document.error_bound)
    if document.axes:
        headers["Array-Axes"] = ", ".join(document.axes)
    return headers


def cache_control(extension: str | None, revision: int | None) -> str:
    """Say how long an answer may be kept: for good where the URL names the revision.

    Without an extension shared caches are shut out: they mishandle ``Vary: Accept``.
    """
    scope = "private" if extension is None else "public"
    if revision is None:
        return f"{scope}, max-age={_DAY_SECONDS}"
    return f"{scope}, max-age={_YEAR_SECONDS}, immutable"


def place_headers(
    path: str, query: bytes, document: Document, form: Format, extension: str | None
) -> dict[str, str]:
    """Say where this and the other representations are.

    Args:
        path: that of the URL as asked for.
        query: the raw query.
        document: what is answered.
        form: the format it is answered in.
        extension: the extension that path ends with, or None.

    A long query is not repeated: proxies refuse large headers.
    """
    if len(query) > _MAX_LINKED_QUERY_BYTES:
        return {}
    resource = path if extension is None else path.removesuffix(f".{extension}")
    suffix = f"?{quote(query, safe='=&%+,:-._~')}" if query else ""
    headers: dict[str, str] = {}
    if extension is None:
        headers["Content-Location"] = f"{resource}.{form.extension}{suffix}"
    links = [
        f'<{resource}.{other.extension}{suffix}>; rel="alternate"; type="{other.media_type}"'
        for other in possible_formats(document)
        if other is not form
    ]
    return headers | ({"Link": ", ".join(links)} if links else {})


def vary_header(form: Format, extension: str | None) -> dict[str, str]:
    """Name the request headers that chose an answer in a format."""
    varies = [
        *(["Accept"] if extension is None else []),
        *(["Accept-Encoding"] if extension is None or form.is_text else []),
    ]
    return {"Vary": ", ".join(varies)} if varies else {}


def file_name(document: Document, form: Format, tag: str) -> str:
    """Name the file that a document is saved as; different tables get different names."""
    name = document.kind.replace("-", "_")
    shape = "x".join(map(str, document.shape)) + "_" if document.shape is not None else ""
    return f"{name}_{shape}{tag.removeprefix('W/')[1:9]}.{form.extension}"
