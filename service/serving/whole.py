"""A whole answer as bytes, for those that no application sends."""

from collections.abc import Iterable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.delivery.answer import Answer


def spelled(answer: Answer, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Spell an answer whose body is there, with more headers than its own, as the last one.

    Args:
        answer: the answer.
        headers: what else is said.
    """
    assert isinstance(answer.payload, bytes)
    said = [*headers, *answer.raw_headers, (b"connection", b"close")]
    lines = [b"%s: %s\r\n" % header for header in said]
    return b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n", answer.payload])
