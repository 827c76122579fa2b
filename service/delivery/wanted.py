"""What a request says about its answer, beside which document it is."""

from dataclasses import dataclass

from starlette.requests import Request

from service.delivery.headers import list_header
from service.delivery.negotiation import read_extension
from service.formats import FORMATS
from service.formats.format import Format


@dataclass(frozen=True)
class Wanted:
    """The choice among the ways in which a document can be sent.

    Attributes:
        extension: the format that the URL ends with, or None.
        is_digest: whether the URL asks for the digest of that.
        accept, accept_encoding: the headers of that name, or None.
        revision: the one that is expected of this kind of table, or None.
        default: the format that wins among equals.
        takes_chunks: whether a body may be sent whose length is not known before (HTTP/1.1).
    """

    extension: str | None = None
    is_digest: bool = False
    accept: str | None = None
    accept_encoding: str | None = None
    revision: int | None = None
    default: Format = FORMATS["json"]
    takes_chunks: bool = True

    @classmethod
    def by(cls, request: Request) -> "Wanted":
        """Read a request."""
        extension, is_digest = read_extension(request.path_params.get("extension"))
        return cls(
            extension,
            is_digest,
            list_header(request.scope, b"accept"),
            list_header(request.scope, b"accept-encoding"),
            takes_chunks=request.scope["http_version"] not in {"0.9", "1.0"},
        )
