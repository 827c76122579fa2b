"""Default HTTP clients of many languages get the bytes that a plain request gets."""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.connection import connected, spelled
from tests.system.debian import install
from tests.system.processes import run
from tests.system.servers import Server

pytestmark = pytest.mark.system

FOLDER = Path(__file__).parent / "http_clients"
PACKAGES = ["curl", "default-jdk-headless", "golang-go", "nodejs", "php-cli", "php-curl", "ruby"]
PACKAGES += ["rustc", "wget"]
OFFER = "Connection: Upgrade, HTTP2-Settings|Upgrade: h2c|HTTP2-Settings: AAMAAABk"

TABLE = "/encoding.npy?seq_len=4&d_model=4"
PARAMETERS = '{"seq_len": 4, "d_model": 4}'
TYPE = "Content-Type: application/json"


Answers = dict[str, tuple[int, bytes]]


@dataclass(frozen=True)
class Client:
    """A program that sends the requests of its standard input, and prints the answers.

    Attributes:
        command: its words before the URL; NAME.go and NAME.rs are compiled.
        offer: the headers of an offer to upgrade, which it may make by itself; None if it cannot.
    """

    command: tuple[str, ...]
    offer: str | None = OFFER


def _curl(*options: str) -> tuple[str, ...]:
    return ("client.sh", " ".join(["curl", *options]))


CLIENTS = {
    "Java HttpClient": Client(("Client.java",), offer=""),
    "Node fetch": Client(("client.mjs", "fetch"), offer=None),
    "Node http": Client(("client.mjs", "http")),
    "Go net/http": Client(("client.go",)),
    "Rust TcpStream": Client(("client.rs",)),
    "PHP curl": Client(("client.php", "curl"), offer=""),
    # It reads until the server closes the connection.
    "PHP file_get_contents": Client(
        ("client.php", "streams"), offer="Connection: close, Upgrade|Upgrade: h2c"
    ),
    "Ruby Net::HTTP": Client(("client.rb",)),
    "Python requests": Client(("client.py", "requests")),
    "Python httpx": Client(("client.py", "httpx")),
    # It sends Connection: close, whatever it is told.
    "Python urllib": Client(("client.py", "urllib"), offer=None),
    "curl --http1.0": Client(_curl("--http1.0")),
    "curl --http1.1": Client(_curl("--http1.1")),
    "curl --http2": Client(_curl("--http2"), offer=""),
    "wget": Client(("client.sh", "wget")),
}
CASES = ["GET", "POST", "range", "not modified", "offered GET", "offered POST"]


def requests_of(etag: str, offer: str | None) -> dict[str, tuple[str, str, str, str]]:
    """Return method, target, headers and body of every case."""
    requests = {
        "GET": ("GET", TABLE, "", ""),
        "POST": ("POST", "/encoding", TYPE, PARAMETERS),
        "range": ("GET", TABLE, "Range: bytes=128-191", ""),
        "not modified": ("GET", TABLE, f"If-None-Match: {etag}", ""),
    }
    if offer is not None:
        requests["offered GET"] = ("GET", TABLE, offer, "")
        requests["offered POST"] = ("POST", "/encoding", f"{TYPE}|{offer}".strip("|"), PARAMETERS)
    return requests


@dataclass(frozen=True)
class Compiled:
    """The clients, the compiled ones in a folder."""

    folder: Path

    def command(self, words: tuple[str, ...]) -> list[str]:
        """Return the command of a client, compiled first if need be."""
        source, made = FOLDER / words[0], self.folder / words[0].replace(".", "-")
        match source.suffix:
            case ".go":
                cache = {"GOCACHE": str(self.folder / "go"), "GO111MODULE": "off"}
                run("go", "build", "-o", made, source, environment=cache)
                return [str(made)]
            case ".rs":
                run("rustc", "--edition=2021", "-o", made, source)
                return [str(made)]
            case ".java":
                return ["java", "-XX:TieredStopAtLevel=1", str(source)]
            case ".py":
                return [sys.executable, str(source), *words[1:]]
            case suffix:
                program = {".mjs": "node", ".php": "php", ".rb": "ruby", ".sh": "bash"}[suffix]
                return [program, str(source), *words[1:]]

    def answers(self, client: Client, url: str, etag: str) -> Answers:
        """Return status and body of the answers to a client, by case."""
        requests = requests_of(etag, client.offer)
        lines = "".join("\t".join(request) + "\n" for request in requests.values())
        printed = run(*self.command(client.command), url, stdin=lines).splitlines()
        answers = [json.loads(line) for line in printed]
        found = [(answer["status"], bytes.fromhex(answer["body"])) for answer in answers]
        return dict(zip(requests, found, strict=True))


def plain_answers(port: int) -> tuple[str, Answers]:
    """Return the entity tag of the table, and the answers to plain requests, by case."""
    answers = {}
    with connected(port) as connection:
        etag = connection.ask(spelled(TABLE)).header("etag")
        assert etag
        for case, (method, target, headers, body) in requests_of(etag, offer=None).items():
            lines = [*filter(None, headers.split("|")), f"Content-Length: {len(body)}"]
            answer = connection.ask(spelled(target, *lines, method=method) + body.encode())
            answers[case] = (int(answer.status.split()[1]), answer.body)
    offered = {f"offered {case}": answers[case] for case in ("GET", "POST")}
    return etag, {**answers, **offered}


@pytest.fixture(scope="module")
def plain(server: Server) -> tuple[str, Answers]:
    return plain_answers(server.port)


@pytest.fixture(scope="module")
def outcomes(
    server: Server, plain: tuple[str, Answers], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Answers]]]:
    """Compile and run all clients, one on each core."""
    install(PACKAGES)
    compiled = Compiled(tmp_path_factory.mktemp("clients"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            name: pool.submit(compiled.answers, client, server.url(""), plain[0])
            for name, client in CLIENTS.items()
        }


def test_plain_requests_are_answered(plain: tuple[str, Answers]) -> None:
    statuses = {case: status for case, (status, _) in plain[1].items()}

    assert statuses == dict(zip(CASES, [200, 200, 206, 304, 200, 200], strict=True))


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_get_the_bytes_of_a_plain_request_whether_they_offer_an_upgrade_or_not(
    name: str, outcomes: dict[str, Future[Answers]], plain: tuple[str, Answers]
) -> None:
    answers = outcomes[name].result()

    assert answers == {case: plain[1][case] for case in answers}
    assert len(answers) == (len(CASES) if CLIENTS[name].offer is not None else 4)
