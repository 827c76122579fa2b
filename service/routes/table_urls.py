"""URLs of tables: from a URL to its table, and from a table request to its URL.

A GET of each URL in an answer returns the whole table: where JSON, the default, would be too long,
the URL has the extension of another format. No URL has a revision: it would be refused once the
table has another one, and it is a parameter of tables alone. Table-Revision in the answer names it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import SplitResult, quote, unquote, unquote_plus, urlencode, urlsplit

from pydantic import Field

from service.analysis.array import TableRequest
from service.delivery.endpoints import (
    ABSENT,
    COMPOSITIONS,
    RESOURCES,
    TRANSFORMS,
    Endpoint,
    Report,
    revision_of,
    table_document,
)
from service.delivery.negotiation import (
    Job,
    RepresentationRequest,
    prefers_page,
    read_extension,
    unknown_path,
)
from service.delivery.parameters import parse_query, read_parameters
from service.delivery.representation import (
    check_answer_size,
    check_countable,
    check_revision,
    linked_format,
    represent,
)
from service.encodings.family import Parameters, choices
from service.errors import Fault, InvalidBody, InvalidParameters, NotFound, PosrefError, shortened
from service.formats.format import Input
from service.formats.json_text import JSON
from service.grammar import to_json, to_query
from service.numerics.tables import Document, ParameterValue
from service.routes import GET_REPORTS, REPORTS

if TYPE_CHECKING:
    from service.settings import Settings

# Of a request with many faults the first suggestions are tried.
_MAX_TRIED = 3
_POSTED = {*REPORTS, *TRANSFORMS, *COMPOSITIONS}


@cache
def conventions() -> Mapping[str, str]:
    """Return the path and query of the first table of each convention, by its name."""
    return {
        name: f"{path}?convention={name}"
        for path in reversed([*RESOURCES])
        for name in choices(RESOURCES[path].parameters, "convention")
    }


Url = Annotated[str, Field(json_schema_extra={"format": "uri-reference"})]

ROTATED = "POST x and what it was rotated to, as rotated, to /diagnose, with the same to"


class PostingReport(Report):
    """A report with URLs of tables, and what to POST to them where a GET is not possible."""

    post: dict[str, Any] = Field(
        default=ABSENT,
        description="Only where parameters are too long for a URL: the JSON object to POST to it.",
    )

    def request(self, url: str) -> str:
        """Return one of its URLs, after the JSON to POST to it, if there is any."""
        return url if self.post is None else f"POST {json.dumps(self.post)} to {url}"

    def lines(self) -> Iterator[str]:
        yield from super().lines()
        if self.post is not None:
            yield f"post: {json.dumps(self.post)}"


class TableLink(PostingReport):
    """A link to a table of this server."""

    url: Url = Field(description="Path and query of the table here.")

    def __str__(self) -> str:
        return self.request(self.url)


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
    def request(self) -> TableRequest:
        """The resource and the given parameters, in a fixed order."""
        given = self.parameters.model_fields_set
        query = {name: to_json(value) for name, value in self.parameters if name in given}
        return TableRequest(self.resource.path[1:], query)


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
    resource = RESOURCES.get(path)
    if resource is None:
        if path in GET_REPORTS:
            raise NotFound(f"{path} is a report, which is no table")
        if path in _POSTED:
            rule = "is made of what is POSTed to a server; a URL alone names no table there"
            raise NotFound(f"{path} {rule}" + f": {ROTATED}" * (path == "/rope/apply"))
        if not path.strip("/"):
            example = "/rope?head_dim=64&seq_len=8"
            raise NotFound(f"There is no table at /, which lists what is here; {example} is one")
        raise unknown_path(path, RESOURCES, conventions, "table")
    extension, is_digest = read_extension(text if dot else None)
    parameters = read_parameters(resource.parameters, _query(split))
    revision = revision_of(parameters)
    representation = RepresentationRequest(extension, is_digest, revision=revision)
    return TableUrl(resource, parameters, representation)


def table_request(url: str) -> TableRequest:
    """Return the resource and the parameters of a URL, without checking them."""
    split = split_url(url)
    return TableRequest(split.path.partition(".")[0].strip("/"), _query(split))


def table_in_to(url: str, name: str = "to") -> tuple[TableUrl, Document]:
    """Return the URL in the parameter ``to``, or another one, and its document.

    Raises:
        InvalidParameters: the URL has no document; the error names the parameter and the reason.
    """
    with pointing_at_to(url, name):
        parsed = read_url(url)
        return parsed, parsed.document


@contextmanager
def pointing_at_to(url: str, name: str = "to") -> Iterator[None]:
    """Convert errors about a URL into InvalidParameters for the parameter ``to``, or another one.

    Raises:
        InvalidParameters: replaces every PosrefError except InvalidBody.
    """
    try:
        yield
    except InvalidBody:
        raise
    except PosrefError as error:
        faults = [
            Fault(name, shortened(url), f"{name} names no table: {each.detail}")
            for each in error.faults or [Fault(None, None, error.detail)]
        ]
        raise InvalidParameters(*faults) from error


def arrays_in_to(url: str, document: Document, content: Input) -> str:
    """Return which arrays the table of ``to`` has, and how one is compared, for other ones."""
    names, *others = document.arrays
    known = f"the table of to has {' and '.join((names, *others))}"
    if not others:
        packs = "; with pack=half, interleaved or compact it has cos and sin"
        return known + packs * (names == "rope")
    part = f"add part={names} to the URL in to"
    if content.is_named:
        return f"{known}: send the same, or {part}"
    one = shortened(quote(f"{url}&part={names}", safe="/?=,:"), 200)
    return (
        f"{known}, and the body is one array without a name, as npy and application/octet-stream "
        f"are: {part} (to={one}), or send safetensors or JSON"
    )


class ReportParameters(Parameters):
    """Parameters of a report about arrays, whose accepted names ``array_names`` says."""

    array_names: ClassVar[str]

    @classmethod
    def hint_for_unknown(cls, name: str, values: Mapping[str, Any]) -> str | None:
        """Return a hint: an array, or a part of the URL in ``to``, cut at an ``&`` as it is."""
        if isinstance(values.get(name), list):
            own = f"an array goes by the name of {cls.array_names} in JSON"
            return ROTATED if name == "rotated" else own
        with suppress(NotFound):
            resource = RESOURCES.get(split_url(str(values.get("to"))).path.partition(".")[0])
            if resource is not None and name in resource.parameters.model_fields:
                rule = "if it is part of the URL in to, write the & before it as %26"
                return f"{rule}: curl does by --url-query 'to=…'"
        return None


def table_at(path: str) -> Endpoint | None:
    """Return the endpoint of the tables at a path; None if a GET of it has no table."""
    return RESOURCES.get(path)


def tables(request: TableRequest) -> Document:
    """Return the document of a table request; raises InvalidParameters."""
    resource = RESOURCES[f"/{request.resource}"]
    return table_document(resource, read_parameters(resource.parameters, request.parameters))


def url_of(request: TableRequest, extension: str | None = None, shared: str = "") -> str:
    """Return the URL of a table request: path, extension and query, which begins as ``shared``."""
    path = f"/{request.resource}{f'.{extension}' if extension else ''}"
    query = "&".join(filter(None, (shared, _query_text(request.parameters))))
    return f"{path}?{query}" if query else path


def _query_text(parameters: Mapping[str, ParameterValue]) -> str:
    return urlencode({name: to_query(value) for name, value in parameters.items()}, safe=",:")


def link_to(request: TableRequest, document: Document, settings: "Settings") -> dict[str, Any]:
    """Return the fields of a TableLink: the URL of a request, in a format for its document."""
    form = linked_format(document, settings)
    extension = None if form is JSON else form.extension
    requests = {"url": (TableRequest(request.resource), extension)}
    lasting = {name: value for name, value in request.parameters.items() if name != "revision"}
    return links_to(requests, lasting, settings)


def links_to(
    requests: Mapping[str, tuple[TableRequest, str | None]],
    shared: Mapping[str, ParameterValue],
    settings: "Settings",
) -> dict[str, Any]:
    """Return the URLs of table requests with extensions, and ``post`` if one were too long.

    Args:
        requests: the requests by name, without the parameters that they share.
        shared: these parameters.
        settings: the limits.
    """
    text = _query_text(shared)
    urls = {name: url_of(*request, text) for name, request in requests.items()}
    if max(map(len, urls.values())) <= settings.max_url_bytes:
        return urls
    urls = {name: url_of(*request) for name, request in requests.items()}
    return urls | {"post": {name: to_json(value) for name, value in shared.items()}}


def split_url(url: str) -> SplitResult:
    """Split a URL, with its path as a client sends it; raises NotFound for invalid ones."""
    if (control := _CONTROL.search(url)) is not None:
        raise NotFound(f"{shortened(url)!r} is no URL: {control[0]!r} is no character of one")
    try:
        split = urlsplit(url)
    except ValueError as error:
        raise NotFound(f"{shortened(url)} is no URL: its host cannot be read") from error
    return split._replace(path=_decoded(split.path))


def _decoded(path: str) -> str:
    """Return a path decoded, with ``.`` and ``..`` resolved as the URL standard has clients do."""
    kept: list[str] = []
    for segment in (names := [unquote(name) for name in path.split("/")]):
        if segment == "..":
            # The first one is empty, before the slash at the begin.
            del kept[max(len(kept) - 1, 1) :]
        elif segment != ".":
            kept.append(segment)
    return "/".join([*kept, *[""] * (names[-1] in {".", ".."})])


def repaired(
    faults: Sequence[Fault], url: str, accept: str | None, settings: "Settings"
) -> tuple[Fault, ...]:
    """Return the faults of a GET, with the URLs of requests without them that are valid.

    Each differs by one change, and is read as a request of its own. Only the first suggestions are
    tried.
    """
    tried = [fault for fault in faults if fault.suggestion][:_MAX_TRIED]
    found: dict[Fault, str] = {}
    for fault in tried:
        with suppress(PosrefError):
            changed = _changed(url, fault, fault.suggestion or "")
            _check(changed, accept, settings)
            found[fault] = changed
    return tuple(replace(fault, url=found.get(fault)) for fault in faults)


def _changed(url: str, fault: Fault, meant: str) -> str:
    """Return a URL with what is meant in place of what a fault is about."""
    _, _, path, query, _ = split_url(url)
    stem, dot, extension = path.partition(".")
    if fault.where is None:
        stem, _, own = meant.partition("?")
        query = "&".join(filter(None, (own, query)))
    elif fault.where == "extension":
        # A format that Accept has chosen is not in the URL.
        extension = extension.replace(fault.value or "", meant, 1) if dot else meant
        dot = "."
    else:
        endpoint = RESOURCES.get(stem) or GET_REPORTS.get(stem)
        is_known = endpoint is not None and fault.where in endpoint.parameters.model_fields
        fields = []
        for field in query.split("&"):
            name, _, value = field.partition("=")
            if unquote_plus(name) == fault.where:
                name, value = (name, quote(meant)) if is_known else (meant, value)
            fields.append(f"{name}={value}")
        query = "&".join(fields)
    return f"{stem}{dot}{extension}?{query}"


def _check(url: str, accept: str | None, settings: "Settings") -> None:
    """Raise PosrefError unless a GET of a URL is valid; comparisons take long and are not tried."""
    split = split_url(url)
    if (report := GET_REPORTS.get(split.path)) is not None:
        parameters = read_parameters(report.parameters, _query(split))
        if parameters.planning_seconds:
            raise NotFound("a comparison takes too long to be tried")
        report.answer_to(parameters, (), settings)
        return
    parsed = read_url(url)
    document, request = parsed.document, replace(parsed.representation, accept=accept)
    if request.extension is None and prefers_page(accept):
        check_countable(document)
        return
    job = Job(parsed.resource.path, parsed.resource.path, b"", request)
    check_answer_size(represent(document, request), settings, job)


def _query(split: SplitResult) -> Mapping[str, str]:
    return parse_query(split.query.encode("utf-8", "surrogateescape"))
