"""Names of requests, by which lines of several logs are found to be about one."""

import re
import secrets
from contextvars import ContextVar
from itertools import count

HEADER = b"x-request-id"

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""That of the request which is being answered."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")


class RequestIds:
    """Give every request a name: its own, or one that no other process gives."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)

    def name(self, sent: bytes | None) -> str:
        """Give the name that was sent, if it is one, or a new one."""
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent.decode()
        return f"{self._prefix}-{next(self._numbers)}"
