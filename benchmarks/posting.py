"""A connection that posts the same body repeatedly."""

import time
from http import HTTPStatus
from http.client import HTTPConnection

from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import HOST, Running

_TIMEOUT_SECONDS = 60.0


class Posting:
    """Posts a body to a path, with a buffer for answers of one length.

    The connection stays open; ``answer`` is the last one.
    """

    def __init__(
        self, server: Running, path: str, body: bytes, media_type: str, answer_bytes: int
    ) -> None:
        self.answer = memoryview(bytearray(answer_bytes))
        self._body, self._path = body, path
        self._headers = {"Content-Type": media_type}
        self._connection = HTTPConnection(HOST, server.port, timeout=_TIMEOUT_SECONDS)

    def seconds(self, _number: int) -> float:
        """Return the time from the first byte sent to the last received."""
        before = time.perf_counter()
        self._connection.request("POST", self._path, self._body, self._headers)
        response = self._connection.getresponse()
        if response.status != HTTPStatus.OK or response.length != len(self.answer):
            body = response.read(400)
            raise BenchmarkFailed(
                f"{self._path} answers {response.status}, {response.length} bytes: {body!r}"
            )
        got_bytes = 0
        while part := response.readinto(self.answer[got_bytes:]):
            got_bytes += part
        taken = time.perf_counter() - before
        if got_bytes != len(self.answer):
            raise BenchmarkFailed(f"{self._path} answers {got_bytes} bytes")
        return taken
