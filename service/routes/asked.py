"""Tables that a URL or a call names: found, and named by their URLs again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, urlencode, urlsplit

from service.analysis.call import Call
from service.delivery.negotiation import read_extension
from service.delivery.parameters import parse_query, read_parameters
from service.delivery.problems import unknown_path
from service.delivery.representation import check_revision
from service.delivery.resource import ArrayParameters, Resource
from service.delivery.wanted import Wanted
from service.errors import Fault, InvalidParameters, NotFound, PosrefError, shortened
from service.grammar import spelled
from service.routes.resources import NAMED, POSTED, RESOURCES
from service.tables.document import Document

_OF_PATH = {resource.path: resource for resource in RESOURCES}
_POSTED = {posted.path for posted in POSTED}


@dataclass(frozen=True)
class Asked:
    """What a URL asks for.

    Attributes:
        resource: what is there.
        parameters: what is asked for of it.
        wanted: the representation that is asked for.
    """

    resource: Resource
    parameters: ArrayParameters
    wanted: Wanted

    @property
    def document(self) -> Document:
        """Make the document; raises InvalidParameters where they are impossible together."""
        return self.resource.resolve(self.parameters)

    @property
    def canonical(self) -> str:
        """Spell the URL, without a format: what is asked for, in the order of the resource."""
        given = self.parameters.model_fields_set
        query = {name: spelled(value) for name, value in self.parameters if name in given}
        return _url(self.resource.path, query)


def read_url(url: str) -> Asked:
    """Read what a URL asks for by GET.

    Args:
        url: path and query, as in ``/encoding.npy?seq_len=50&d_model=512``; scheme and host, where
            there are any, are passed over.

    Raises:
        PosrefError: as the server would.
    """
    split = _split(url)
    path, dot, text = split.path.partition(".")
    resource = _OF_PATH.get(path)
    if resource is None:
        if path in _POSTED:
            raise NotFound(
                f"{path} is made of what is POSTed to a server; a URL alone names no table there"
            )
        raise unknown_path(path, _OF_PATH, NAMED)
    extension, is_digest = read_extension(text if dot else None)
    query = parse_query(split.query.encode("utf-8", "surrogateescape"))
    parameters = read_parameters(resource.parameters, query)
    return Asked(resource, parameters, Wanted(extension, is_digest, revision=parameters.revision))


def document_of(url: str) -> Document:
    """Find the document that a URL names, whatever the format that it asks for.

    Raises:
        PosrefError: as the server would.
    """
    asked = read_url(url)
    document = asked.document
    check_revision(document.kind, asked.parameters.revision)
    return document


def url_at(parameter: str, url: str) -> Asked:
    """Read a URL that is the value of a parameter.

    Raises:
        InvalidParameters: it names no table; the error points at the parameter and says why.
    """
    with _pointing_at(parameter, url):
        return read_url(url)


def document_at(parameter: str, url: str) -> Document:
    """Find the document of a URL that is the value of a parameter.

    Raises:
        InvalidParameters: there is none; the error points at the parameter and says why.
    """
    with _pointing_at(parameter, url):
        return document_of(url)


@contextmanager
def _pointing_at(parameter: str, url: str) -> Iterator[None]:
    try:
        yield
    except PosrefError as error:
        faults = [
            Fault(parameter, shortened(url), f"{parameter} names no table: {each.detail}")
            for each in error.faults or [Fault(None, None, error.detail)]
        ]
        raise InvalidParameters(*faults) from error


def unencoded(parameter: str, url: object, name: str) -> str | None:
    """Explain a parameter that is unknown where a URL is the value of another, and known there.

    Args:
        parameter: the one whose value is the URL.
        url: its value, cut off at the first ``&`` where nobody encoded that.
        name: what is unknown.
    """
    try:
        path = _split(str(url)).path
    except NotFound:
        return None
    resource = _OF_PATH.get(path.partition(".")[0])
    if resource is None or name not in resource.parameters.model_fields:
        return None
    return (
        f"if it is part of the URL in {parameter}, write the & before it as %26: "
        f"curl does by --url-query '{parameter}=…'"
    )


def tables(call: Call) -> Document:
    """Find the document that a call names.

    Raises:
        InvalidParameters: there is none.
    """
    resource = _OF_PATH[f"/{call.resource}"]
    return resource.resolve(read_parameters(resource.parameters, call.parameters))


def url_of(call: Call) -> str:
    """Name the table of a call by its URL here: path and query."""
    query = {name: spelled(value) for name, value in call.parameters.items()}
    return _url(f"/{call.resource}", query)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise NotFound(f"{shortened(url)} is no URL: {error}") from error


def _url(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query, safe=',:')}"
