"""Content negotiation, and the headers that describe a document.

The extension of the URL chooses the format; without one, Accept does (RFC 9110, §12).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from service.delivery.parameters import nearest, similar
from service.errors import Fault, NotAcceptable, NotFound, UnsupportedByFormat, shortened
from service.formats import FORMATS
from service.formats.format import Format
from service.numerics.tables import Document

_ANYTHING = "*/*"
HTML_MEDIA_TYPE = "text/html"
GZIP = "gzip"
DIGEST_SUFFIX = ".sha256"
TEXT_MEDIA_TYPE = "text/plain; charset=utf-8"


def choose_format(
    document: Document, extension: str | None, accept: str | None, default: Format
) -> Format:
    """Return the format of a response: from the extension, or else the best that Accept allows.

    If Accept ranks several formats equally, the default is preferred.

    Raises:
        UnsupportedByFormat: the requested format cannot hold the document.
        NotAcceptable: Accept allows no format.
    """
    if extension is not None:
        return _required_to_hold(document, FORMATS[extension])
    ordered = [default, *(form for form in FORMATS.values() if form is not default)]
    ranked = ranked_formats(accept, ordered)
    if not ranked:
        media_types = ", ".join(form.media_type for form in ordered)
        raise NotAcceptable(
            f"Accept allows none of the possible formats: {media_types}; "
            "an extension names one without it"
        )
    # A format is asked only if no better one can hold the document: to find a NaN takes long.
    held = next((form for form in ranked if form.refusal(document) is None), None)
    return held or _required_to_hold(document, ranked[0])


def read_extension(text: str | None) -> tuple[str | None, bool]:
    """Return the format extension of a URL, and whether the URL requests the digest.

    Raises NotFound for an unknown format.
    """
    if text is None:
        return None, False
    extension = text.removesuffix(DIGEST_SUFFIX)
    if extension not in FORMATS:
        raise unknown_format(extension)
    return extension, extension != text


def unknown_format(extension: str) -> NotFound:
    """Return the error for an unknown format extension, with a hint."""
    near = nearest(extension, FORMATS)
    hint = f"did you mean {near}? There are" if near else "there are"
    formats = f"{', '.join(FORMATS)}, and {DIGEST_SUFFIX} after each"
    detail = f"There is no format {shortened(extension)}; {hint} {formats}"
    return NotFound(detail, _misspelled("extension", extension, detail, near))


def _misspelled(where: str | None, value: str, detail: str, near: str | None) -> list[Fault]:
    """Return the fault of a name for which there is a near one."""
    return [Fault(where, shortened(value), detail, suggestion=near)] if near else []


def unknown_path(
    path: str, known: Iterable[str], named: Callable[[], Mapping[str, str]], what: str = "resource"
) -> NotFound:
    """Return the error for an unknown path, with a hint.

    Args:
        path: the unknown path.
        known: the paths of all routes without path parameters.
        named: returns the path and query of each convention by its name, for hints.
        what: the kind of thing that the path should name.
    """
    name = path.rpartition("/")[2].partition(".")[0]
    paths = list(known)
    same = [each for each in paths if name and each.endswith(f"/{name}")]
    exact = same[0] if len(same) == 1 else named().get(name)
    near = exact or next(iter(similar(path.partition(".")[0], paths, cutoff=0.75)), None)
    shown = near and near.replace("?", " with ")
    hint = f"did you mean {shown}?" if shown else "/ lists what is here"
    detail = f"There is no {what} at {shortened(path)}; {hint}"
    return NotFound(detail, _misspelled(None, path, detail, near))


def choose_coding(accept_encoding: str | None, codings: Sequence[str]) -> str | None:
    """Return the content coding of a body (RFC 9110, §12.5.3), None for identity.

    A coding is chosen if the header names it with a q-value at least as high as for identity;
    identity ranks last unless it is named. ``codings`` are the possible ones, best first.

    Raises:
        NotAcceptable: the header excludes identity and every coding.
    """
    if accept_encoding is None:
        return None
    qualities = {
        _CODING_ALIASES.get(coding, coding): quality
        for coding, quality in _ranges(accept_encoding).items()
    }
    others = qualities.get("*", 0.0)
    plain = qualities.get(_IDENTITY, _LEAST_QUALITY if qualities.get("*", 1.0) > 0 else 0.0)
    best = max(codings, key=lambda coding: qualities.get(coding, 0.0), default=_IDENTITY)
    if qualities.get(best, 0.0) > 0 and qualities[best] >= plain and best != _IDENTITY:
        return best
    if plain > 0:
        return None
    allowed = [coding for coding in codings if qualities.get(coding, others) > 0]
    if allowed:
        return allowed[0]
    possible = " or ".join((_IDENTITY, *codings))
    raise NotAcceptable(f"Accept-Encoding excludes every possible coding: allow {possible}")


_IDENTITY = "identity"
_LEAST_QUALITY = 0.0001
_CODING_ALIASES = {"x-gzip": "gzip"}


def possible_formats(document: Document) -> list[Format]:
    """List the formats that can hold a document."""
    return [form for form in FORMATS.values() if form.refusal(document) is None]


def _required_to_hold(document: Document, form: Format) -> Format:
    refusal = form.refusal(document)
    if refusal is None:
        return form
    others = [other.extension for other in possible_formats(document)]
    possible = f"; these formats can: {', '.join(others)}" if others else ""
    detail = f"{form.extension} cannot hold this answer: {refusal}{possible}"
    near = next(iter(others), None)
    raise UnsupportedByFormat(detail, [Fault("extension", form.extension, detail, suggestion=near)])


def ranked_formats(accept: str | None, formats: Sequence[Format]) -> list[Format]:
    """Return the formats that Accept allows, best first; equal ones stay in their order.

    Browsers accept pictures as well as HTML: if Accept ranks HTML at least as high as a picture,
    the picture ranks last.
    """
    qualities = {form.extension: _format_quality(accept, form) for form in formats}
    allowed = [form for form in formats if qualities[form.extension] > 0]
    return sorted(allowed, key=lambda form: -qualities[form.extension])


def _format_quality(accept: str | None, form: Format) -> float:
    quality = media_quality(accept, form.media_type)
    if form.is_drawn and quality <= media_quality(accept, HTML_MEDIA_TYPE):
        return min(quality, _LEAST_QUALITY)
    return quality


def media_quality(accept: str | None, media_type: str) -> float:
    """Return the q-value of a media type in an Accept header (RFC 9110, §12.5.1).

    The most specific matching range decides. Parameters other than q are ignored, and so is a
    range with a malformed q. Without a header everything has the value 1.
    """
    if accept is None or not accept.strip():
        return 1.0
    ranges = _ranges(accept)
    family = media_type.partition("/")[0] + "/*"
    for candidate in (media_type, family, _ANYTHING):
        if candidate in ranges:
            return ranges[candidate]
    return 0.0


def prefers_text(accept: str | None) -> bool:
    """Return whether plain text ranks above JSON in an Accept header."""
    text = TEXT_MEDIA_TYPE.partition(";")[0]
    return media_quality(accept, text) > media_quality(accept, FORMATS["json"].media_type)


def prefers_page(accept: str | None) -> bool:
    """Return whether HTML ranks above JSON in an Accept header, and below no other format."""
    others = (media_quality(accept, form.media_type) for form in FORMATS.values())
    html = media_quality(accept, HTML_MEDIA_TYPE)
    return html > media_quality(accept, FORMATS["json"].media_type) and html >= max(others)


# Two headers of one request; what a long one holds takes megabytes.
@lru_cache(maxsize=2)
def _ranges(accept: str) -> Mapping[str, float]:
    """Return the q-values in a header; a long one takes milliseconds, and each format asks."""
    found: dict[str, float] = {}
    for item in accept.split(","):
        media_range, *parameters = (part.strip().lower() for part in item.split(";"))
        qualities = [part[2:] for part in parameters if part.startswith("q=")]
        if all(_QUALITY.fullmatch(quality) for quality in qualities):
            found[media_range] = float(qualities[0]) if qualities else 1.0
    return found


# RFC 9110, §12.4.2.
_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?", re.ASCII)


RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
Scope: TypeAlias = Mapping[str, Any]
"""The ASGI scope of a request; Starlette, which has such a type, takes long to import."""

EXPOSED_HEADERS = (
    "Accept-Ranges, Array-Axes, Array-Dtype, Array-Error-Bound, Array-Shape, Array-Warnings, "
    "Content-Disposition, Content-Encoding, Content-Length, Content-Location, Content-Range, ETag, "
    "Link, Repr-Digest, Retry-After, Table-Revision, WWW-Authenticate, X-Request-Id"
)
"""The response headers that a script of another origin may read."""

OPEN_HEADERS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", EXPOSED_HEADERS.encode()),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"x-content-type-options", b"nosniff"),
]
"""Headers of every response: any origin may read and embed it; browsers guess no media type."""


def list_header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a list-valued request header, repeated headers joined; None if absent."""
    lines = [value for known, value in scope["headers"] if known == name]
    return b", ".join(lines).decode("latin-1") if lines else None


def raw(headers: Mapping[str, str]) -> RawHeaders:
    """Return headers as ASGI expects them: pairs of lower-case name and value, as bytes."""
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
    ]


@dataclass(frozen=True)
class RepresentationRequest:
    """The parts of a request that select a representation.

    Attributes:
        extension: the format extension of the URL, or None.
        is_digest: whether the URL requests the digest of the file in this format.
        accept: the Accept header, or None.
        accept_encoding: the Accept-Encoding header, or None.
        revision: the expected table revision, or None.
        default: the preferred format if Accept ranks several equally.
        takes_chunks: whether the client accepts a body without Content-Length (HTTP/1.1).
    """

    extension: str | None = None
    is_digest: bool = False
    accept: str | None = None
    accept_encoding: str | None = None
    revision: int | None = None
    default: Format = FORMATS["json"]
    takes_chunks: bool = True

    @classmethod
    def of(cls, scope: Scope) -> "RepresentationRequest":
        extension, is_digest = read_extension(scope["path_params"].get("extension"))
        return cls(
            extension,
            is_digest,
            list_header(scope, b"accept"),
            list_header(scope, b"accept-encoding"),
            takes_chunks=scope["http_version"] not in {"0.9", "1.0"},
        )


@dataclass(frozen=True)
class Job:
    """The parts of a request from which a child derives its answer.

    Attributes:
        resource: the path of the endpoint.
        path: the path of the request.
        query: the query of the request.
        request: what selects the representation.
        media_type: the media type of the body; None for a GET.
    """

    resource: str
    path: str
    query: bytes
    request: RepresentationRequest
    media_type: str | None = None

    def plain(self) -> "Job":
        """Return the job of the file of which this one is the digest."""
        return replace(self, request=replace(self.request, is_digest=False))
