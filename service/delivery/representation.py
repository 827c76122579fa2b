"""One way in which a document can be sent: in a format, perhaps compressed, or only its digest."""

from dataclasses import dataclass, field, replace
from functools import partial

from service import TABLE_REVISION
from service.delivery.conditional import entity_tag, weak
from service.delivery.derived import Derive, DerivedBody, checksum_line, gzipped
from service.delivery.headers import (
    array_headers,
    cache_control,
    file_name,
    place_headers,
    vary_header,
)
from service.delivery.negotiation import choose_coding, choose_format
from service.delivery.ranges import Span
from service.delivery.wanted import Wanted
from service.errors import Fault, InvalidParameters, RevisionRetired
from service.formats.format import Body, Format
from service.tables.document import Document
from service.tables.table import size_bytes

MAX_TABLE_BYTES = 2**63 - 1

# How many times the work of a sine it is to spell a number out, and to digest its bytes.
_TEXT_WORK = 16
_DIGEST_WORK = 4

# What it is to draw a picture, whatever is on it: about a tenth of a second, which is waited for.
_DRAWING_WORK = 2**23

GZIP = "gzip"
DIGEST_MEDIA_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Representation:
    """A document in a form in which it can be sent.

    Attributes:
        document: what is sent.
        form: the format it is written in.
        file: the bytes of that format.
        derive: makes what is sent of the bytes of the format, where that is not those themselves.
        coding: the content coding, or None.
        is_digest: whether only the digest is sent.
    """

    document: Document
    form: Format
    file: Body
    derive: Derive | None = None
    coding: str | None = None
    is_digest: bool = False
    _tags: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def file_tag(self) -> str:
        """The entity tag of the bytes of the format."""
        return self._tag_of("")

    @property
    def tag(self) -> str:
        """The entity tag of what is sent."""
        if self.is_digest:
            return self._tag_of("sha256")
        # Two builds of zlib may compress the same bytes to different ones.
        return self.file_tag if self.coding is None else weak(self._tag_of(self.coding))

    def _tag_of(self, variant: str) -> str:
        """Make a tag for whoever asks, as what it names may be a long list.

        A ``cached_property`` has a lock before Python 3.12: one thread that makes a long one
        would keep all others from theirs.
        """
        if variant not in self._tags:
            self._tags[variant] = entity_tag(self.document, self.form, variant)
        return self._tags[variant]

    @property
    def body(self) -> Body:
        """What is sent."""
        return self.file if self.derive is None else DerivedBody(self.file, self.derive)

    @property
    def length_bytes(self) -> int | None:
        """The length of what is sent, where it is known before: digests are all of one length."""
        if self.is_digest and self.derive is not None:
            return sum(map(len, self.derive(())))
        return self.body.length_bytes

    @property
    def file_name(self) -> str:
        """What it is saved as; a content coding is taken off before."""
        name = file_name(self.document, self.form, self.file_tag)
        return f"{name}.sha256" if self.is_digest else name

    def plain(self) -> "Representation":
        """Give the bytes of the format, of which this is made."""
        return Representation(self.document, self.form, self.file)

    def cost(self, span: Span | None = None) -> int:
        """Estimate what making it takes, or a part of it, in sines, once that has been set up."""
        per_sine = _TEXT_WORK if self.form.is_text else _DIGEST_WORK if self.is_digest else 1
        whole = self.document.work * per_sine + (_DRAWING_WORK if self.form.is_drawn else 0)
        if span is None or self.file.length_bytes is None:
            return whole
        return -(-whole * span.length_bytes // self.file.length_bytes)

    def headers(self, wanted: Wanted, path: str, query: bytes) -> dict[str, str]:
        """Describe it whatever the status: what it is, how long it is good, where the others are.

        Args:
            wanted: what the request says about it.
            path: that of the URL as asked for.
            query: the raw query.
        """
        document, form, extension = self.document, self.form, wanted.extension
        place = {} if self.is_digest else place_headers(path, query, document, form, extension)
        return {
            "ETag": self.tag,
            "Cache-Control": cache_control(extension, wanted.revision),
            "Content-Disposition": f'inline; filename="{self.file_name}"',
            **array_headers(document),
            **place,
            **self.vary(wanted),
        }

    def vary(self, wanted: Wanted) -> dict[str, str]:
        """Name the request headers that chose it."""
        return {} if self.is_digest else vary_header(self.form, wanted.extension)

    def described(self) -> dict[str, str]:
        """Describe the body that is sent, but for its length."""
        media_type = DIGEST_MEDIA_TYPE if self.is_digest else self.form.media_type
        headers = {"Content-Type": media_type}
        if self.coding is not None:
            headers["Content-Encoding"] = self.coding
        return headers


def represent(document: Document, wanted: Wanted) -> Representation:
    """Choose how a document is sent; raises PosrefError where there is no way."""
    check_revision(document.kind, wanted.revision)
    form = choose_format(document, wanted.extension, wanted.accept, wanted.default)
    file = form.body(document)
    check_countable(document, file)
    plain = Representation(document, form, file)
    is_compressible = form.is_text and not wanted.is_digest
    coding = choose_coding(wanted.accept_encoding, (GZIP,) if is_compressible else ())
    if wanted.is_digest:
        derive = partial(checksum_line, file_name=plain.file_name)
        return replace(plain, derive=derive, is_digest=True)
    return plain if coding is None else replace(plain, derive=gzipped, coding=coding)


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
