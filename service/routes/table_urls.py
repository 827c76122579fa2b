"""URLs of tables: from a URL to its table, and from a table request to its URL."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, urlencode, urlsplit

from service.analysis.array import TableRequest
from service.delivery.endpoints import (
    COMPOSITIONS,
    RESOURCES,
    TRANSFORMS,
    Endpoint,
)
from service.delivery.negotiation import RepresentationRequest, read_extension
from service.delivery.parameters import parse_query, read_parameters
from service.delivery.plans import revision_of, table_document
from service.delivery.problems import unknown_path
from service.delivery.representation import check_revision
from service.encodings.family import Parameters, choices
from service.errors import Fault, InvalidBody, InvalidParameters, NotFound, PosrefError, shortened
from service.grammar import to_query
from service.numerics.tables import Document

_OF_PATH = {resource.path: resource for resource in RESOURCES}
_REPORTS = ("/rope/config", "/compare", "/identify", "/diagnose")
_POSTED = {*_REPORTS, *(posted.path for posted in (*TRANSFORMS, *COMPOSITIONS))}

CONVENTION_URLS: Mapping[str, str] = {
    name: f"{resource.path}?convention={name}"
    for resource in reversed(RESOURCES)
    for name in choices(resource.parameters, "convention")
}
"""The URL of the first table of each convention, by the convention's name."""

# urlsplit silently removes some of these characters.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class TableUrl:
    """A parsed URL of a table."""

    resource: Endpoint
    parameters: Parameters
    representation: RepresentationRequest

    @property
    def document(self) -> Document:
        """The document of the URL; raises the same PosrefError as a GET of the URL."""
        document = table_document(self.resource, self.parameters)
        check_revision(document, revision_of(self.parameters))
        return document

    @property
    def canonical(self) -> str:
        """The URL without a format extension; its parameters are in a fixed order."""
        given = self.parameters.model_fields_set
        query = {name: value for name, value in self.parameters if name in given}
        return url_of(TableRequest(self.resource.path[1:], query))


def read_url(url: str) -> TableUrl:
    """Parse a URL in the same way as a GET request.

    Args:
        url: path and query, as in ``/encoding.npy?seq_len=50&d_model=512``; scheme and host are
            ignored.

    Raises:
        PosrefError: the error that a GET of the URL would return.
    """
    split = split_url(url)
    path, dot, text = split.path.partition(".")
    resource = _OF_PATH.get(path)
    if resource is None:
        if path in _POSTED:
            raise NotFound(
                f"{path} is made of what is POSTed to a server; a URL alone names no table there"
            )
        if not path:
            raise NotFound("there is no path in it, as /encoding is one; / lists what is here")
        raise unknown_path(path, _OF_PATH, CONVENTION_URLS)
    extension, is_digest = read_extension(text if dot else None)
    parameters = read_parameters(resource.parameters, _query(split))
    revision = revision_of(parameters)
    representation = RepresentationRequest(extension, is_digest, revision=revision)
    return TableUrl(resource, parameters, representation)


def table_request(url: str) -> TableRequest:
    """Return the resource and the parameters of a URL, without checking them."""
    split = split_url(url)
    return TableRequest(split.path.partition(".")[0].strip("/"), _query(split))


def table_in_to(url: str) -> tuple[TableUrl, Document]:
    """Return the URL in the parameter ``to``, and its document.

    Raises:
        InvalidParameters: the URL has no document; the error names the parameter and the reason.
    """
    with pointing_at_to(url):
        parsed = read_url(url)
        return parsed, parsed.document


@contextmanager
def pointing_at_to(url: str) -> Iterator[None]:
    """Convert errors about a URL into InvalidParameters for the parameter ``to``.

    Raises:
        InvalidParameters: replaces every PosrefError except InvalidBody.
    """
    try:
        yield
    except InvalidBody:
        raise
    except PosrefError as error:
        faults = [
            Fault("to", shortened(url), f"to names no table: {each.detail}")
            for each in error.faults or [Fault(None, None, error.detail)]
        ]
        raise InvalidParameters(*faults) from error


def unknown_parameter_hint(name: str, values: Mapping[str, object], arrays: str) -> str | None:
    """Return a hint for an unknown parameter: an array, or a part of the URL in ``to``.

    Args:
        name: the unknown parameter.
        values: all parameters; the URL in ``to`` may be cut at an ``&`` that was not encoded.
        arrays: the accepted array names, for the hint.
    """
    if isinstance(values.get(name), list):
        return f"an array goes by the name of {arrays} in JSON"
    try:
        path = split_url(str(values.get("to"))).path
    except NotFound:
        return None
    resource = _OF_PATH.get(path.partition(".")[0])
    if resource is None or name not in resource.parameters.model_fields:
        return None
    return (
        "if it is part of the URL in to, write the & before it as %26: "
        "curl does by --url-query 'to=…'"
    )


def tables(request: TableRequest) -> Document:
    """Return the document of a table request; raises InvalidParameters."""
    resource = _OF_PATH[f"/{request.resource}"]
    return table_document(resource, read_parameters(resource.parameters, request.parameters))


def url_of(request: TableRequest) -> str:
    """Return the URL of a table request: path and query."""
    query = {name: to_query(value) for name, value in request.parameters.items()}
    path = f"/{request.resource}"
    return f"{path}?{urlencode(query, safe=',:')}" if query else path


def split_url(url: str) -> SplitResult:
    """Split a URL; raises NotFound for invalid ones."""
    if (control := _CONTROL.search(url)) is not None:
        raise NotFound(f"{shortened(url)!r} is no URL: {control[0]!r} is no character of one")
    try:
        return urlsplit(url)
    except ValueError as error:
        raise NotFound(f"{shortened(url)} is no URL: {error}") from error


def _query(split: SplitResult) -> Mapping[str, str]:
    return parse_query(split.query.encode("utf-8", "surrogateescape"))
