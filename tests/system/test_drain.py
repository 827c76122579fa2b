"""Shutdown: running answers are finished, or cut off after a limit."""

import hashlib
import signal
import time
from threading import Thread

import httpx
import pytest

from tests.system.processes import wait_until
from tests.system.servers import MIB, Server, running

pytestmark = pytest.mark.system

TABLE = "/encoding.npy?seq_len=65536&d_model=512"
TABLE_BYTES = 128 + 65536 * 512 * 4
ENDLESS = f"/encoding.npy?seq_len={2**28}&d_model=512"


class Reader(Thread):
    """Read a table slowly."""

    def __init__(self, url: str, pause_seconds: float) -> None:
        super().__init__()
        self._url = url
        self._pause_seconds = pause_seconds
        self.received_bytes = 0
        self.digest = hashlib.sha256()
        self.error: httpx.HTTPError | None = None

    def run(self) -> None:
        try:
            with httpx.stream("GET", self._url, trust_env=False, timeout=60) as answer:
                for block in answer.iter_raw(MIB):
                    self.received_bytes += len(block)
                    self.digest.update(block)
                    time.sleep(self._pause_seconds)
        except httpx.HTTPError as error:
            self.error = error


@pytest.fixture(params=[1, 2], ids="{} workers".format)
def workers(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


def begun(reader: Reader) -> Reader:
    reader.start()
    wait_until("the table is being read", lambda: reader.received_bytes > 4 * MIB)
    return reader


def test_running_request_is_finished(workers: int) -> None:
    with running(workers=workers, drain_seconds=1, cache_entry_bytes=0) as server:
        expected = hashlib.sha256(server.get(TABLE).content).hexdigest()
        readers = [begun(Reader(server.url(TABLE), 0.02)) for _ in range(3)]

        assert server.end() == 0

        for reader in readers:
            reader.join()
            assert (reader.received_bytes, reader.error) == (TABLE_BYTES, None)
            assert reader.digest.hexdigest() == expected


def test_running_request_is_cut_off_after_shutdown_seconds(workers: int) -> None:
    with running(workers=workers, drain_seconds=0, shutdown_seconds=1) as server:
        reader = begun(Reader(server.url(ENDLESS), 0.05))
        server.process.send_signal(signal.SIGTERM)

        # Earlier than by the default setting.
        assert server.process.wait(20) == 0
        reader.join()
        assert isinstance(reader.error, httpx.RemoteProtocolError | httpx.ReadError)


def test_draining_server_is_unready_and_still_answers(workers: int) -> None:
    with running(workers=workers, drain_seconds=3) as server:
        server.process.send_signal(signal.SIGTERM)
        wait_until("it is not ready", lambda: server.get("/readyz").status_code == 503)

        answer = server.get("/encoding.npy?seq_len=4&d_model=4")

        assert answer.status_code == 200
        assert answer.headers["Connection"] == "close"
        assert server.process.wait(30) == 0


def alive(server: Server) -> bool:
    try:
        return server.get("/livez").is_success
    except httpx.TransportError:
        return False


def test_no_connection_is_accepted_after_the_end(workers: int) -> None:
    with running(workers=workers, drain_seconds=0) as server:
        assert alive(server)
        assert server.end() == 0

        assert not alive(server)
