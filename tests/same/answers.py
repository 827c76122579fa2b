"""Requests as they are listed, and what an application of the current directory answers them."""

import asyncio
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import orjson
from pydantic import SecretStr

# The package is imported by a bare name into a process that runs another tree.
from .masks import documented, masked

REQUESTS = Path(__file__).parents[1] / "data" / "same_requests.json"

_SECRET = frozenset({"api_keys"})
_HASH_DIGITS = 12
_LABEL_CHARACTERS = 84
_LONGEST_SHOWN = 200_000


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        method, url: path and query, as they are sent.
        headers: all of them but for Host, Content-Length and X-Request-Id.
        text: the body, if it is text.
        base64: the body, if it is not.
        body_of: a URL whose answer is the body.
        settings: of the application, where they are not the defaults.
    """

    method: str
    url: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    base64: str = ""
    body_of: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name it among all: a digest tells apart those whose URLs are the same."""
        content = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        return f"{self.method} {self.url[:_LABEL_CHARACTERS]} #{sha256(content).hexdigest()[:8]}"

    @property
    def path(self) -> str:
        return self.url.partition("?")[0]


@dataclass(frozen=True)
class Answer:
    """What of an answer is compared.

    Attributes:
        label: of the request.
        status, headers, body: without what is masked.
    """

    label: str
    status: int
    headers: str
    body: str

    @property
    def record(self) -> str:
        """Give the status and the hashes of headers and body, with spaces between."""
        return f"{self.status} {_hash(self.headers)} {_hash(self.body)}"


def read_requests(path: Path = REQUESTS) -> list[Request]:
    """Read the requests, in their order."""
    return [Request(**entry) for entry in orjson.loads(path.read_bytes())]


def write_requests(requests: list[Request], path: Path = REQUESTS) -> None:
    """Write requests, a line each, without the fields that are empty."""
    entries = [
        orjson.dumps({name: value for name, value in asdict(request).items() if value})
        for request in requests
    ]
    path.write_bytes(b"[\n" + b",\n".join(entries) + b"\n]\n")


def main() -> None:
    """Write the answers to a share of the requests, a JSON line each, to the standard output.

    Called in a process of its own, with the root of the tree whose service answers, the number of
    the share, the number of shares, and a part of the labels that are asked for.
    """
    root, share, shares, only = sys.argv[1:]
    chosen = [request for request in read_requests() if only in request.label]
    asyncio.run(_write(Path(root), chosen[int(share) :: int(shares)]))


async def _write(root: Path, requests: list[Request]) -> None:
    async with Applications(root) as applications:
        for request in requests:
            async for answer in applications.answers(request):
                sys.stdout.buffer.write(orjson.dumps(asdict(answer)) + b"\n")


class Applications(AsyncExitStack):
    """Applications of a tree, one for each set of settings, each made when first asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        import service  # noqa: PLC0415 - Which one it is depends on the tree.

        if not Path(str(service.__file__)).is_relative_to(root):
            raise SystemExit(f"{service.__file__} is not in {root}")
        self._clients: dict[bytes, httpx.AsyncClient] = {}

    async def answers(self, request: Request) -> AsyncIterator[Answer]:
        """Give the answer to a request; of the OpenAPI document, each part as one."""
        response = await self._sent(request)
        content = response.content
        pairs = response.headers.multi_items()
        if request == Request("GET", "/openapi.json"):
            for pointer, part in documented(content).items():
                yield Answer(f"{request.label} {pointer}", response.status_code, "", part)
        headers, body = masked(request.path, pairs, content)
        if len(body) > _LONGEST_SHOWN:
            body = f"{len(body)} characters, SHA-256 {sha256(body.encode()).hexdigest()}"
        yield Answer(request.label, response.status_code, headers, body)

    async def _sent(self, request: Request) -> httpx.Response:
        client = await self._client(request.settings)
        headers = [*request.headers, ("X-Request-Id", "same")]
        content = request.text.encode() or b64decode(request.base64)
        if request.body_of:
            made = await self._sent(Request("GET", request.body_of))
            made.raise_for_status()
            content = made.content
            headers.append(("Content-Type", made.headers["Content-Type"]))
        url = httpx.URL("http://posref.test").copy_with(raw_path=request.url.encode())
        return await client.send(
            httpx.Request(request.method, url, headers=headers, content=content)
        )

    async def _client(self, settings: Mapping[str, Any]) -> httpx.AsyncClient:
        key = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)
        if key not in self._clients:
            self._clients[key] = await self._made(settings)
        return self._clients[key]

    async def _made(self, settings: Mapping[str, Any]) -> httpx.AsyncClient:
        from service.app import create_app  # noqa: PLC0415
        from service.settings import default_settings  # noqa: PLC0415

        typed = {
            name: SecretStr(value) if name == "api_keys" else value
            for name, value in settings.items()
        }
        app = create_app(default_settings().model_copy(update=typed))
        await self.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return await self.enter_async_context(httpx.AsyncClient(transport=transport))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
