"""Representations of a document: in a format, possibly compressed, or only the digest of its bytes.

Headers, entity tag, cost and limits are known before any byte of the body is computed.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import quote

from service.delivery.negotiation import (
    RepresentationRequest,
    choose_coding,
    choose_format,
    possible_formats,
)
from service.errors import AnswerTooLarge, Fault, InvalidParameters, RevisionRetired
from service.formats.format import Block, Body, Format, WholeBody
from service.formats.json_text import parameter_text
from service.numerics.tables import Document, ParameterValue, size_bytes
from service.settings import Settings

MAX_TABLE_BYTES = 2**63 - 1

# The work of a decimal, and of the digest of a number, in sines.
_TEXT_WORK = 16
_DIGEST_WORK = 4

# The work of drawing any picture: about a tenth of a second.
_DRAWING_WORK = 2**23

GZIP = "gzip"
DIGEST_MEDIA_TYPE = "text/plain; charset=utf-8"

_MAX_LINKED_QUERY_BYTES = 512
_DAY_SECONDS, _YEAR_SECONDS = 86_400, 31_536_000


@dataclass(frozen=True)
class Representation:
    """A document in a format, possibly with a content coding, or its digest.

    Attributes:
        file: the bytes of the format.
        is_digest: whether the body is only the digest of these bytes.
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
        """The function that makes the body from the bytes of the format, None for these bytes."""
        if self.is_digest:
            return partial(checksum_line, file_name=self._plain_file_name)
        return None if self.coding is None else gzipped

    @property
    def body(self) -> Body:
        return self.file if self.transform is None else DerivedBody(self.file, self.transform)

    @property
    def length_bytes(self) -> int | None:
        """The length of the body, None where only computing it tells."""
        if self.is_digest and self.transform is not None:
            return sum(map(len, self.transform(())))
        return self.body.length_bytes

    @property
    def file_name(self) -> str:
        """The name to save the body under, without a content coding."""
        return f"{self._plain_file_name}.sha256" if self.is_digest else self._plain_file_name

    @property
    def _plain_file_name(self) -> str:
        return file_name(self.document, self.form, self._tag_of(""))

    def plain(self) -> "Representation":
        """Return the representation without coding or digest."""
        return Representation(self.document, self.form, self.file)

    def cost(self, length_bytes: int | None = None) -> int:
        """Return the work of the body, or of a range of a length, in sines, without the setup."""
        per_sine = _TEXT_WORK if self.form.is_text else _DIGEST_WORK if self.is_digest else 1
        whole = self.document.work * per_sine + (_DRAWING_WORK if self.form.is_drawn else 0)
        if length_bytes is None or self.file.length_bytes is None:
            return whole
        return -(-whole * length_bytes // self.file.length_bytes)

    def headers(self, request: RepresentationRequest, path: str, query: bytes) -> dict[str, str]:
        """Return the headers of every status: tag, caching, arrays, links to a path and a query."""
        document, form, extension = self.document, self.form, request.extension
        place = {} if self.is_digest else place_headers(path, query, document, form, extension)
        return {
            "ETag": self.tag,
            "Cache-Control": cache_control(extension, request.revision),
            "Content-Disposition": f'inline; filename="{self.file_name}"',
            **array_headers(document),
            **place,
            **self.vary(request),
        }

    def vary(self, request: RepresentationRequest) -> dict[str, str]:
        """Return Vary: the request headers that chose this representation."""
        return {} if self.is_digest else vary_header(self.form, request.extension)

    def content_headers(self) -> dict[str, str]:
        """Return the headers of the body, without Content-Length."""
        media_type = DIGEST_MEDIA_TYPE if self.is_digest else self.form.media_type
        headers = {"Content-Type": media_type}
        if self.coding is not None:
            headers["Content-Encoding"] = self.coding
        return headers


def represent(document: Document, request: RepresentationRequest) -> Representation:
    """Return the representation that a request chooses; raises PosrefError."""
    check_revision(document, request.revision)
    form = choose_format(document, request.extension, request.accept, request.default)
    file = form.body(document)
    _check_countable(document, file)
    is_compressible = form.is_text and not request.is_digest
    coding = choose_coding(request.accept_encoding, (GZIP,) if is_compressible else ())
    return Representation(document, form, file, coding, request.is_digest)


def _check_countable(document: Document, body: Body) -> None:
    """Refuse tables past 2^63 − 1 bytes, which no file system or client can count."""
    tables_bytes = sum(size_bytes(table) for table in document.arrays.values())
    total_bytes = max(tables_bytes, body.length_bytes or 0)
    if total_bytes > MAX_TABLE_BYTES:
        rule = f"the table takes {total_bytes} bytes, and at most 2^63 - 1 are possible"
        raise InvalidParameters(Fault(None, None, rule))


def check_revision(document: Document, revision: int | None) -> None:
    """Raise RevisionRetired or InvalidParameters unless a revision is the current one."""
    kind, current = document.kind, document.revision
    if revision is None or revision == current:
        return
    if 1 <= revision < current:
        raise RevisionRetired(
            f"revision {revision} of {kind} is no longer served; the current one is {current}"
        )
    rule = f"revision must be {current}, the current one of {kind}"
    raise InvalidParameters(Fault("revision", str(revision), rule))


def check_answer_size(
    representation: Representation, settings: Settings, *, has_ranges: bool = True
) -> None:
    """Raise AnswerTooLarge if a body that is sent whole is past its limit.

    The error mentions ranges of a binary format, which a GET may request instead.
    """
    limit_bytes = representation.file.limit_bytes
    if representation.is_digest:
        limit, name = settings.max_digest_bytes, "POSREF_MAX_DIGEST_BYTES"
        label, way_out = "the digest is of a file of up to", "request that of a smaller table"
    elif representation.form.is_text:
        limit, name = settings.max_text_bytes, "POSREF_MAX_TEXT_BYTES"
        label, way_out = (
            "the answer may take up to",
            "request npy or safetensors, or a smaller table",
        )
    else:
        limit, name = settings.max_response_bytes, "POSREF_MAX_RESPONSE_BYTES"
        ranges = "ranges of it (Range), or " if has_ranges else ""
        label, way_out = "the answer takes", f"request {ranges}a smaller table"
    if limit_bytes > limit:
        raise AnswerTooLarge(
            f"{label} {limit_bytes} bytes and the limit is {limit} ({name}): {way_out}"
        )


def entity_tag(document: Document, form: Format, variant: str = "") -> str:
    """Return the entity tag of a document in a format, without computing its bytes.

    It is strong: parameters, format, revision and the version of the encoder fix the bytes. The
    tag of a picture is weak: another machine may draw different bytes. The variant names a
    transformation of the bytes, such as ``sha256``; it is empty for none.
    """
    arrays = [[name, table.shape, table.dtype.name] for name, table in document.arrays.items()]
    described = ", ".join(
        [
            json.dumps([document.kind, document.revision])[1:-1],
            _dumped(document.parameters),
            json.dumps([arrays, form.extension, form.version, *([variant] if variant else ())])[1:],
        ]
    )
    tag = f'"{sha256(f"[{described}".encode()).hexdigest()[:32]}"'
    return weak(tag) if form.is_drawn else tag


def _dumped(parameters: Mapping[str, ParameterValue]) -> str:
    """Return the text of ``json.dumps``, long lists part by part."""
    if not any(isinstance(value, tuple) for value in parameters.values()):
        return json.dumps(dict(parameters))
    each = (f"{json.dumps(name)}: {parameter_text(value)}" for name, value in parameters.items())
    return f"{{{', '.join(each)}}}"


def weak(tag: str) -> str:
    """Return the weak form of an entity tag: equivalent bodies, not necessarily the same bytes."""
    return f"W/{tag}"


def array_headers(document: Document) -> dict[str, str]:
    """Return the headers of the arrays; differing shapes and types are in the body only."""
    headers = {"Table-Revision": str(document.revision)}
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
    """Return Cache-Control: immutable where the URL names the revision.

    Without an extension the response is private: shared caches mishandle ``Vary: Accept``.
    """
    scope = "private" if extension is None else "public"
    if revision is None:
        return f"{scope}, max-age={_DAY_SECONDS}"
    return f"{scope}, max-age={_YEAR_SECONDS}, immutable"


def place_headers(
    path: str, query: bytes, document: Document, form: Format, extension: str | None
) -> dict[str, str]:
    """Return Content-Location and Link, the URLs of this and the other representations.

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
    """Return Vary: the request headers that select a format and its coding."""
    varies = [
        *(["Accept"] if extension is None else []),
        *(["Accept-Encoding"] if extension is None or form.is_text else []),
    ]
    return {"Vary": ", ".join(varies)} if varies else {}


def file_name(document: Document, form: Format, tag: str) -> str:
    """Return the name of the file of a document; different tables have different names."""
    name = document.kind.replace("-", "_")
    shape = "x".join(map(str, document.shape)) + "_" if document.shape is not None else ""
    return f"{name}_{shape}{tag.removeprefix('W/')[1:9]}.{form.extension}"


# Some builds of zlib make different bytes from different portions: portions have a fixed size.
_PORTION_BYTES = 64 * 1024

# Level 1 takes a sixth of the time of level 6, and its output is a tenth longer for tables.
_GZIP_LEVEL = 1
_GZIP_WINDOW = zlib.MAX_WBITS | 16

BodyTransform: TypeAlias = Callable[[Iterable[Block]], Iterator[Block]]


@dataclass(frozen=True)
class DerivedBody(WholeBody):
    """A body that is made from another one.

    Attributes:
        transform: makes the blocks from those of the source; some may be empty, so that the
            consumer can stop in between.
    """

    source: Body
    transform: BodyTransform

    @property
    def limit_bytes(self) -> int:
        """The limit of the source, which determines the work."""
        return self.source.limit_bytes

    def whole(self) -> Iterator[Block]:
        return self.transform(self.source.blocks())


def gzipped(blocks: Iterable[Block]) -> Iterator[Block]:
    """Compress blocks as one gzip member (RFC 1952) without a modification time."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for portion in _portions(blocks):
        yield packer.compress(portion)
    yield packer.flush()


def _portions(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the bytes of all blocks in portions of a fixed size, and the rest."""
    rest = b""
    for block in blocks:
        ready = memoryview(rest + block if rest else block)
        whole_bytes = len(ready) - len(ready) % _PORTION_BYTES
        for start in range(0, whole_bytes, _PORTION_BYTES):
            yield ready[start : start + _PORTION_BYTES]
        rest = bytes(ready[whole_bytes:])
    yield rest


def checksum_line(blocks: Iterable[Block], file_name: str) -> Iterator[Block]:
    """Yield the SHA-256 of blocks as a line for ``sha256sum --check``."""
    digest = sha256()
    for block in blocks:
        digest.update(block)
        yield b""
    yield f"{digest.hexdigest()}  {file_name}\n".encode()
