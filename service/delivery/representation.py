"""Representations of a document: a file in a format, possibly compressed, or the file's digest.

Headers, entity tag, cost and limits are known before any byte of the body is computed.
"""

import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, TypeAlias
from urllib.parse import quote

from service.delivery.negotiation import (
    GZIP,
    TEXT_MEDIA_TYPE,
    Job,
    RepresentationRequest,
    choose_coding,
    choose_format,
    possible_formats,
)
from service.errors import AnswerTooLarge, Fault, InvalidParameters, RevisionRetired
from service.formats import FORMATS
from service.formats.format import BLOCK_BYTES, Block, Body, Format, WholeBody
from service.formats.json_text import JSON, parameter_text
from service.numerics.tables import Document, ParameterValue, size_bytes

if TYPE_CHECKING:
    from service.settings import Settings

MAX_TABLE_BYTES = 2**63 - 1

# The processor seconds of hashing a byte, and of compressing a byte of text.
_DIGEST_BYTE_SECONDS = 5.5e-10
_GZIP_BYTE_SECONDS = 2e-8

_MAX_LINKED_QUERY_BYTES = 512
_DAY_SECONDS, _YEAR_SECONDS = 86_400, 31_536_000


@dataclass(frozen=True)
class Representation:
    """A document in a format, possibly with a content coding, or its digest.

    Attributes:
        document: the arrays and their parameters.
        form: the format.
        file: the body without content coding: the document in the format.
        coding: the content coding (``gzip``), or None.
        is_digest: whether the body is only the SHA-256 of the file.
    """

    document: Document
    form: Format
    file: Body
    coding: str | None = None
    is_digest: bool = False
    _tags: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def tag(self) -> str:
        """The entity tag of the body."""
        if self.is_digest:
            return self._tag_of("sha256")
        # Two builds of zlib may compress the same bytes to different ones.
        return self._tag_of("") if self.coding is None else weak(self._tag_of(self.coding))

    def _tag_of(self, variant: str) -> str:
        """Return the tag of a variant of the body, computed once.

        ``cached_property`` has a lock before Python 3.12: one thread that hashes a long list of
        positions would block all others.
        """
        if variant not in self._tags:
            self._tags[variant] = entity_tag(self.document, self.form, variant)
        return self._tags[variant]

    @property
    def transform(self) -> "BodyTransform | None":
        """The function that computes the body from the file; None if the body is the file."""
        if self.is_digest:
            return partial(checksum_line, file_name=self._plain_file_name)
        return None if self.coding is None else gzipped

    @property
    def body(self) -> Body:
        return self.file if self.transform is None else DerivedBody(self.file, self.transform)

    @property
    def length_bytes(self) -> int | None:
        """The length of the body in bytes; None if it is unknown before the body is computed."""
        if self.is_digest and self.transform is not None:
            return sum(map(len, self.transform(())))
        return self.body.length_bytes

    @property
    def file_name(self) -> str:
        """The suggested file name for saving the decoded body."""
        return f"{self._plain_file_name}.sha256" if self.is_digest else self._plain_file_name

    @property
    def _plain_file_name(self) -> str:
        return file_name(self.document, self.form, self._tag_of(""))

    def plain(self) -> "Representation":
        """Return the representation of the file itself, without content coding or digest."""
        return Representation(self.document, self.form, self.file)

    def seconds(self, length_bytes: int | None = None) -> float:
        """Return the processor seconds of computing the body, without the setup of its tables.

        Args:
            length_bytes: the length of the requested range; None for the whole body.
        """
        writing = self.form.seconds(self.document)
        whole = self.document.seconds + writing + self.transform_seconds(self.file.limit_bytes)
        if length_bytes is None or self.file.length_bytes is None:
            return whole
        return whole * length_bytes / self.file.length_bytes

    def transform_seconds(self, file_bytes: int) -> float:
        """Return the processor seconds of computing the body from a file of this length."""
        if self.transform is None:
            return 0.0
        return file_bytes * (_DIGEST_BYTE_SECONDS if self.is_digest else _GZIP_BYTE_SECONDS)

    def headers(
        self, request: RepresentationRequest, path: str, query: bytes, settings: "Settings"
    ) -> dict[str, str]:
        """Return the headers of 200, 206 and 304: tag, caching, arrays and links.

        Args:
            request: the parts of the request that selected this representation.
            path: the path of the request, for the links.
            query: the query of the request, for the links.
            settings: the limits of what is linked.
        """
        document, form, extension = self.document, self.form, request.extension
        place: dict[str, str] = {}
        if not self.is_digest:
            place = place_headers(path, query, document, form, extension, settings=settings)
        return {
            "ETag": self.tag,
            "Cache-Control": cache_control(extension, request.revision),
            "Content-Disposition": f'inline; filename="{self.file_name}"',
            **array_headers(document),
            **place,
            **self.vary(request),
        }

    def vary(self, request: RepresentationRequest) -> dict[str, str]:
        """Return the header Vary, which names the request headers that selected the body."""
        return {} if self.is_digest else vary_header(self.form, request.extension)

    def content_headers(self) -> dict[str, str]:
        """Return Content-Type, and Content-Encoding if the body has a content coding."""
        media_type = TEXT_MEDIA_TYPE if self.is_digest else self.form.media_type
        headers = {"Content-Type": media_type}
        if self.coding is not None:
            headers["Content-Encoding"] = self.coding
        return headers


def represent(document: Document, request: RepresentationRequest) -> Representation:
    """Return the representation that a request selects; raises PosrefError."""
    check_revision(document, request.revision)
    form = choose_format(document, request.extension, request.accept, request.default)
    file = form.body(document)
    check_countable(document, file.length_bytes)
    is_compressible = form.is_text and not request.is_digest
    coding = choose_coding(request.accept_encoding, (GZIP,) if is_compressible else ())
    return Representation(document, form, file, coding, request.is_digest)


def check_countable(document: Document, length_bytes: int | None = None) -> None:
    """Raise InvalidParameters for tables longer than 2^63 − 1 bytes: no client can count them."""
    tables_bytes = sum(size_bytes(table) for table in document.arrays.values())
    total_bytes = max(tables_bytes, length_bytes or 0)
    if total_bytes > MAX_TABLE_BYTES:
        rule = f"the table takes {total_bytes} bytes, and at most 2^63 - 1 are possible"
        raise InvalidParameters(Fault(None, None, rule))


def check_revision(document: Document, revision: int | None) -> None:
    """Raise RevisionRetired or InvalidParameters unless a revision is None or the current one."""
    kind, current = document.kind, document.revision
    if revision is None or revision == current:
        return
    if 1 <= revision < current:
        raise RevisionRetired(
            f"revision {revision} of {kind} is no longer served; the current one is {current}"
        )
    rule = f"revision must be {current}, the current one of {kind}"
    raise InvalidParameters(Fault("revision", str(revision), rule))


def linked_format(document: Document, settings: "Settings") -> Format:
    """Return JSON if one answer may have all of a document, else the first binary format.

    Where a binary answer may not either, parts of it can be requested.
    """
    if JSON.refusal(document) is None and is_whole(document, JSON, settings):
        return JSON
    binary = (form for form in FORMATS.values() if not (form.is_text or form.is_drawn))
    return next((form for form in binary if form.refusal(document) is None), JSON)


def is_whole(document: Document, form: Format, settings: "Settings") -> bool:
    """Return whether one answer may have all of a document in a format."""
    return form.body(document).limit_bytes <= _limit_of(form, settings)[0]


def _limit_of(form: Format, settings: "Settings") -> tuple[int, str]:
    """Return the most bytes of an answer in a format, and the name of the setting."""
    if form.is_text:
        return settings.max_text_bytes, "POSREF_MAX_TEXT_BYTES"
    return settings.max_response_bytes, "POSREF_MAX_RESPONSE_BYTES"


def check_answer_size(representation: Representation, settings: "Settings", job: Job) -> None:
    """Raise AnswerTooLarge if a whole body is longer than the limit of its format.

    The hint is the URL of the job in another format, or a range of it if the job is a GET.
    """
    document, form = representation.document, representation.form
    limit_bytes, (limit, name) = representation.file.limit_bytes, _limit_of(form, settings)
    label, way_out = f"the answer {'may take up to' if form.is_text else 'takes'}", "request "
    suggestion = None
    if representation.is_digest:
        limit, name = settings.max_digest_bytes, "POSREF_MAX_DIGEST_BYTES"
        label = "the digest is of a file of up to"
    if limit_bytes <= limit:
        return
    if not representation.is_digest:
        is_file = not (form.is_text or form.is_drawn)
        other = form if is_file else linked_format(document, settings)
        is_short = len(job.query) <= _MAX_LINKED_QUERY_BYTES
        url = _url_in(other, job.path, job.query) if is_short else f"it as {other.extension}"
        if is_whole(document, other, settings):
            suggestion = other.extension
            is_post = is_short and job.media_type is not None
            way_out = f"POST the same to {url}, or request " if is_post else f"request {url}, or "
        elif job.media_type is None:
            last = settings.max_response_bytes - 1
            way_out = f"request parts of {url} with the header Range: bytes=0-{last}, or "
    rule = f"{label} {limit_bytes} bytes and the limit is {limit} ({name})"
    detail = f"{rule}: {way_out}a smaller table"
    fault = Fault("extension", form.extension, detail, suggestion=suggestion)
    raise AnswerTooLarge(detail, [fault] if suggestion else [])


def entity_tag(document: Document, form: Format, variant: str = "") -> str:
    """Return the entity tag of a document in a format, without computing its bytes.

    The tag is strong: parameters, format, revision and encoder version determine the bytes. The
    tag of a picture is weak: another machine may draw different bytes. ``variant`` names a
    transformation of the bytes, such as ``sha256``; it is empty if there is none.
    """
    arrays = [[name, table.shape, table.dtype.name] for name, table in document.arrays.items()]
    described = ", ".join(
        [
            json.dumps([document.kind, document.revision])[1:-1],
            _dumped(document.parameters),
            json.dumps([arrays, form.extension, form.encoder, *([variant] if variant else ())])[1:],
        ]
    )
    tag = f'"{sha256(f"[{described}".encode()).hexdigest()[:32]}"'
    return weak(tag) if form.is_drawn else tag


def _dumped(parameters: Mapping[str, ParameterValue]) -> str:
    """Return the same text as ``json.dumps``; long lists are written in parts."""
    if not any(isinstance(value, tuple) for value in parameters.values()):
        return json.dumps(dict(parameters))
    each = (f"{json.dumps(name)}: {parameter_text(value)}" for name, value in parameters.items())
    return f"{{{', '.join(each)}}}"


def weak(tag: str) -> str:
    """Return the weak form of an entity tag: equivalent bodies, not necessarily the same bytes."""
    return f"W/{tag}"


def array_headers(document: Document) -> dict[str, str]:
    """Return the headers that describe the arrays.

    Shape and dtype are left out if they differ between arrays.
    """
    headers = {"Table-Revision": str(document.revision)}
    if document.shape is not None:
        headers["Array-Shape"] = ", ".join(map(str, document.shape))
    if document.dtype is not None:
        headers["Array-Dtype"] = document.dtype
    if document.error_bound is not None:
        headers["Array-Error-Bound"] = repr(document.error_bound)
    if document.axes:
        headers["Array-Axes"] = ", ".join(document.axes)
    if document.warnings:
        headers["Array-Warnings"] = ", ".join(each.code for each in document.warnings)
    return headers


def cache_control(extension: str | None, revision: int | None) -> str:
    """Return the value of Cache-Control: immutable if the URL contains the revision.

    Without an extension the response is private: shared caches mishandle ``Vary: Accept``.
    """
    scope = "private" if extension is None else "public"
    if revision is None:
        return f"{scope}, max-age={_DAY_SECONDS}"
    return f"{scope}, max-age={_YEAR_SECONDS}, immutable"


def place_headers(
    path: str,
    query: bytes,
    document: Document,
    form: Format,
    extension: str | None,
    *,
    settings: "Settings",
) -> dict[str, str]:
    """Return the headers Content-Location (this representation) and Link (other formats).

    Link has the formats in which one answer may have all of the document. Both headers are left
    out for a long query, because proxies refuse large headers.
    """
    if len(query) > _MAX_LINKED_QUERY_BYTES:
        return {}
    headers: dict[str, str] = {}
    if extension is None:
        headers["Content-Location"] = _url_in(form, path, query)
    links = [
        f'<{_url_in(other, path, query)}>; rel="alternate"; type="{other.media_type}"'
        for other in possible_formats(document)
        if other is not form and is_whole(document, other, settings)
    ]
    return headers | ({"Link": ", ".join(links)} if links else {})


def _url_in(form: Format, path: str, query: bytes) -> str:
    """Return the URL in a format, from the path of a request, which may have an extension."""
    suffix = f"?{quote(query, safe='=&%+,:-._~')}" if query else ""
    return f"{path.partition('.')[0]}.{form.extension}{suffix}"


def vary_header(form: Format, extension: str | None) -> dict[str, str]:
    """Return the header Vary: the request headers that select a format and its coding."""
    varies = [
        *(["Accept"] if extension is None else []),
        *(["Accept-Encoding"] if extension is None or form.is_text else []),
    ]
    return {"Vary": ", ".join(varies)} if varies else {}


def file_name(document: Document, form: Format, tag: str) -> str:
    """Return the file name of a document: its kind, its shape and 8 digits of its tag."""
    name = document.kind.replace("-", "_")
    shape = "x".join(map(str, document.shape)) + "_" if document.shape is not None else ""
    return f"{name}_{shape}{tag.removeprefix('W/')[1:9]}.{form.extension}"


# Portions have a fixed size: with other portions, some builds of zlib output other bytes.
_PORTION_BYTES = 64 * 1024

# Level 1 takes a sixth of the time of level 6, and its output is a tenth longer for tables.
_GZIP_LEVEL = 1
_GZIP_WINDOW = zlib.MAX_WBITS | 16
# The window and the tables of zlib, and the beginning of a portion.
_GZIP_STATE_BYTES = 272 * 1024 + _PORTION_BYTES

BodyTransform: TypeAlias = Callable[[Iterable[Block]], Iterator[Block]]


@dataclass(frozen=True)
class DerivedBody(WholeBody):
    """A body that is computed from another body.

    Attributes:
        source: the other body.
        transform: takes the blocks of the source and yields blocks of this body; some are empty,
            so that the consumer can stop between them.
    """

    source: Body
    transform: BodyTransform
    state_bytes: ClassVar[int] = _GZIP_STATE_BYTES

    @property
    def limit_bytes(self) -> int:
        """The length limit of the source, in bytes: its length determines the cost."""
        return self.source.limit_bytes

    def parts(self) -> Iterator[Block]:
        return self.transform(self.source.blocks())


def gzipped(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks compressed as one gzip member (RFC 1952), without modification time."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    packed: deque[bytes] = deque()
    rest = b""
    for block in blocks:
        ready = memoryview(rest + block if rest else block)
        del block
        whole_bytes = len(ready) - len(ready) % _PORTION_BYTES
        for start in range(0, whole_bytes, _PORTION_BYTES):
            packed.append(packer.compress(ready[start : start + _PORTION_BYTES]))
            yield b""
        rest = bytes(ready[whole_bytes:])
        # While the client does not read, no text is in memory, and nothing that it has taken.
        del ready
        yield b"".join(packed.popleft() for _ in range(len(packed)))
    yield packer.compress(rest)
    yield packer.flush()


def checksum_line(blocks: Iterable[Block], file_name: str) -> Iterator[Block]:
    """Yield an empty block for each block, then the SHA-256 as a line for sha256sum --check."""
    digest = sha256()
    for block in blocks:
        for start in range(0, len(block), BLOCK_BYTES):
            digest.update(memoryview(block)[start : start + BLOCK_BYTES])
            yield b""
    yield f"{digest.hexdigest()}  {file_name}\n".encode()
