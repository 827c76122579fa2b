"""What every answer gets, whoever gives it: a name, a place in the counts, a line in the log."""

from dataclasses import dataclass
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.labels import WARM_PATH, format_of, path_of
from service.delivery.metrics import Metrics
from service.delivery.request_ids import HEADER, REQUEST_ID
from service.delivery.request_log import RequestLog


@dataclass(frozen=True)
class Counted:
    """Name, count and log every answer of an application."""

    app: ASGIApp
    metrics: Metrics
    log: RequestLog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count and log its answer when that has ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_at = perf_counter()
        request_id = self.log.request_id(_header(scope, HEADER))
        # A line that is logged meanwhile bears it, too.
        REQUEST_ID.set(request_id)
        answer = _Sent(send, request_id)
        try:
            await self.app(scope, receive, answer.send)
        finally:
            self._note(scope, answer, perf_counter() - begun_at)

    def _note(self, scope: Scope, answer: "_Sent", seconds: float) -> None:
        warm_path = scope.get(WARM_PATH)
        path, is_warm = warm_path or path_of(scope), warm_path is not None
        tally = self.metrics.tally(path, answer.status, answer.form, is_warm=is_warm)
        tally.count(answer.body_bytes, seconds)
        told = self.log.told(
            scope["method"],
            _target(scope),
            tally.labels,
            answer.body_bytes,
            is_complete=answer.is_complete,
        )
        forwarded_for = _header(scope, b"x-forwarded-for")
        self.log.write(told, answer.request_id, scope.get("client"), seconds, forwarded_for)


@dataclass
class _Sent:
    """An answer on its way."""

    to_server: Send
    request_id: str
    status: int = 0
    form: str = "none"
    body_bytes: int = 0
    is_complete: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            self.status, self.form = message["status"], format_of(headers)
            message["headers"] = [*headers, (HEADER, self.request_id.encode())]
        elif message["type"] == "http.response.body":
            self.body_bytes += len(message.get("body", b""))
        await self.to_server(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for known, value in scope["headers"] if known == name), None)


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path
