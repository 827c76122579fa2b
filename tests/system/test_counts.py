"""Metrics and log of a server with several processes, one of which is killed."""

import http.client
import json
import os
import signal
from typing import Any

import pytest

from tests.system.faults import workers_of
from tests.system.processes import wait_until
from tests.system.servers import Server, running

pytestmark = pytest.mark.system

NPY = "/encoding.npy?seq_len=4&d_model=4"
REQUESTS = 200


def asked(server: Server, target: str, **headers: str) -> str:
    """GET on a new connection, and return the request id."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", target, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return str(answer.headers["X-Request-Id"])


def answered(server: Server) -> int:
    return server.count("posref_answers_total", path="/encoding.{extension}")


def log_of(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.log.read_text().splitlines()]


def test_counters_include_all_processes_and_survive_a_kill() -> None:
    with running(workers=2) as server:
        wait_until("both answer", lambda: server.count("posref_workers") == 2)
        for _ in range(REQUESTS):
            asked(server, NPY)
        # Each process has the counts of the other with a delay of up to a second.
        wait_until("all are counted", lambda: answered(server) == REQUESTS)
        assert [answered(server) for _ in range(6)] == [REQUESTS] * 6
        assert 1 <= server.count("posref_builds_total") <= 2
        assert server.count("posref_answer_seconds_count", path="/encoding.{extension}") == REQUESTS

        killed = min(workers_of(server))
        os.kill(killed, signal.SIGKILL)
        wait_until("it is gone", lambda: killed not in workers_of(server))
        wait_until("another has its place", lambda: server.count("posref_workers") == 2)
        assert [answered(server) for _ in range(6)] == [REQUESTS] * 6
        asked(server, NPY)
        wait_until("it is counted", lambda: answered(server) == REQUESTS + 1)


def test_every_request_is_one_line_of_the_log_in_every_process() -> None:
    with running(workers=2) as server:
        wait_until("both answer", lambda: server.count("posref_workers") == 2)
        named = [asked(server, NPY) for _ in range(REQUESTS)]
        assert asked(server, NPY, X_Request_Id="mine") == "mine"
        assert server.end() == 0
        lines = log_of(server)

    requests = [line for line in lines if line["message"] == "request"]
    assert len(set(named)) == REQUESTS
    assert sorted(line["request_id"] for line in requests) == sorted([*named, "mine"])
    assert {line["status"] for line in requests} == {200}
    assert {line["source"] for line in requests} == {"made", "kept"}
    assert all({"time", "level", "message"} <= set(line) for line in lines)
