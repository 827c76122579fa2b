"""From a document to an answer: limits, format, headers, cache, body."""

from dataclasses import dataclass

from starlette.requests import Request

from service import TABLE_REVISION
from service.delivery.answer import Answer
from service.delivery.cache import BodyCache
from service.delivery.conditional import entity_tag, matches_none
from service.delivery.headers import (
    array_headers,
    body_headers,
    cache_control,
    content_disposition,
    list_header,
    place_headers,
)
from service.delivery.negotiation import check_extension, choose_format
from service.delivery.warm import FinishedAnswers, spelling_of
from service.delivery.workers import Workers
from service.errors import AnswerTooLarge, Fault, InvalidParameters, RevisionRetired
from service.formats import FORMATS
from service.formats.format import Body, Format
from service.settings import Settings
from service.tables.document import Document
from service.tables.table import size_bytes

MAX_TABLE_BYTES = 2**63 - 1
MAX_BUILD_WORK = 2**24


@dataclass(frozen=True)
class Wanted:
    """What a request says about its answer, beside which document it is.

    Attributes:
        extension: that of the URL, or None.
        accept: the Accept header, or None.
        revision: the one that is expected of this kind of table, or None.
        default: the format that wins among equals.
    """

    extension: str | None = None
    accept: str | None = None
    revision: int | None = None
    default: Format = FORMATS["json"]

    @classmethod
    def by(cls, request: Request) -> "Wanted":
        """Take extension and Accept from a request."""
        extension: str | None = request.path_params.get("extension")
        check_extension(extension)
        return cls(extension, list_header(request.scope, b"accept"))


@dataclass(frozen=True)
class Delivery:
    """Everything that the answers of one process share."""

    settings: Settings
    cache: BodyCache
    answers: FinishedAnswers
    workers: Workers

    @classmethod
    def of(cls, settings: Settings) -> "Delivery":
        """Share out what the settings allow: a sixteenth of the cache is for finished headers."""
        headers_bytes = settings.cache_bytes // 16
        return cls(
            settings,
            BodyCache(settings.cache_bytes - headers_bytes),
            FinishedAnswers(headers_bytes),
            Workers(settings.threads),
        )

    async def answer(self, request: Request, document: Document, wanted: Wanted) -> Answer:
        """Answer a GET or HEAD of a document; only a GET that has to makes a byte of it."""
        form, body = described(document, wanted)
        tag = entity_tag(document, form)
        path, query = request.scope["path"], request.scope["query_string"]
        headers = {
            "ETag": tag,
            "Cache-Control": cache_control(wanted.extension, wanted.revision),
            "Content-Disposition": content_disposition(document, form, tag),
            **array_headers(document),
            **place_headers(path, query, document, form, wanted.extension),
        }
        if not matches_none(list_header(request.scope, b"if-none-match"), tag):
            return Answer(304, headers)
        described_body = body_headers(form, body.length_bytes)
        if request.method == "HEAD":
            return Answer(200, {**headers, **described_body})
        check_answer_size(body, self.settings)
        if self._is_streamed(document, body):
            blocks = self.workers.iterate(body.blocks())
            return Answer(200, {**headers, **described_body}, blocks)
        whole = await self.cache.get(tag, lambda: self._whole(body))
        spelling = spelling_of(request.scope)
        self.answers.keep(spelling, tag, headers, described_body, len(whole))
        return Answer(200, {**headers, **described_body}, whole)

    async def answer_uncached(self, document: Document, wanted: Wanted) -> Answer:
        """Answer a POST with a document, by itself in the format that the request came in."""
        form, body = described(document, wanted)
        check_answer_size(body, self.settings)
        headers = {
            "Cache-Control": "no-store",
            **array_headers(document),
            **body_headers(form, body.length_bytes),
        }
        if self._is_streamed(document, body):
            return Answer(200, headers, self.workers.iterate(body.blocks()))
        return Answer(200, headers, await self._whole(body))

    def _is_streamed(self, document: Document, body: Body) -> bool:
        """Tell whether a body is made while it is sent: long work stops with its client."""
        return body.limit_bytes > self.settings.cache_entry_bytes or document.work > MAX_BUILD_WORK

    async def _whole(self, body: Body) -> bytes:
        return await self.workers.run(lambda: b"".join(body.blocks()))


def described(document: Document, wanted: Wanted) -> tuple[Format, Body]:
    """Describe the body of an answer; raises PosrefError where there is none to give."""
    check_revision(document.kind, wanted.revision)
    form = choose_format(document, wanted.extension, wanted.accept, wanted.default)
    body = form.body(document)
    check_countable(document, body)
    return form, body


def check_countable(document: Document, body: Body) -> None:
    """Refuse what takes more bytes than a file system, a client or a header can count."""
    tables_bytes = sum(size_bytes(table) for table in document.arrays.values())
    total_bytes = max(tables_bytes, body.length_bytes or 0)
    if total_bytes > MAX_TABLE_BYTES:
        rule = f"the table takes {total_bytes} bytes, and at most 2^63 - 1 are possible"
        raise InvalidParameters(Fault(None, None, rule))


def check_revision(kind: str, revision: int | None) -> None:
    """Refuse a revision other than the current one of a kind of table."""
    current = TABLE_REVISION[kind]
    if revision is None or revision == current:
        return
    if 1 <= revision < current:
        raise RevisionRetired(
            f"revision {revision} of {kind} is no longer served; the current one is {current}"
        )
    rule = f"revision must be {current}, the current one of {kind}"
    raise InvalidParameters(Fault("revision", str(revision), rule))


def check_answer_size(body: Body, settings: Settings) -> None:
    """Hold a body to its limit before a byte of it is made."""
    if body.length_bytes is None:
        limit, name = settings.max_json_bytes, "POSREF_MAX_JSON_BYTES"
        measure, way_out = "may take up to", "ask for npy or safetensors, or for less of it"
    else:
        limit, name = settings.max_response_bytes, "POSREF_MAX_RESPONSE_BYTES"
        measure, way_out = "takes", "ask for fewer positions or offsets at a time"
    if body.limit_bytes > limit:
        raise AnswerTooLarge(
            f"the answer {measure} {body.limit_bytes} bytes and the limit is {limit} ({name}): "
            f"{way_out}"
        )
