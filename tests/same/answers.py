"""The listed requests, and the answers of the application in the current directory."""

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
_MAX_SHOWN_LENGTH = 200_000


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        url: path and query.
        headers: all but Host, Content-Length and X-Request-Id.
        text: the body, if it is text.
        base64: the body, if it is not.
        body_of: a URL whose answer is the body.
        settings: of the application, if not the defaults.
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
        """A unique name: the start of the URL and a digest of the request."""
        content = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        return f"{self.method} {self.url[:_LABEL_CHARACTERS]} #{sha256(content).hexdigest()[:8]}"

    @property
    def path(self) -> str:
        return self.url.partition("?")[0]


@dataclass(frozen=True)
class Answer:
    """The answer to the request with a label, as it is compared."""

    label: str
    status: int
    headers: str
    body: str

    @property
    def record(self) -> str:
        """The status and the hashes of headers and body, separated by spaces."""
        return f"{self.status} {_hash(self.headers)} {_hash(self.body)}"


def main() -> None:
    """Write the answers to a share of the requests to standard output, one JSON object a line.

    Arguments: the root of the tree, the share, the number of shares, a substring of the labels.
    """
    root, share, shares, only = sys.argv[1:]
    requests = [Request(**entry) for entry in orjson.loads(REQUESTS.read_bytes())]
    chosen = [request for request in requests if only in request.label]
    asyncio.run(_write(Path(root), chosen[int(share) :: int(shares)]))


async def _write(root: Path, requests: list[Request]) -> None:
    async with Applications(root) as applications:
        for request in requests:
            async for answer in applications.answers(request):
                sys.stdout.buffer.write(orjson.dumps(asdict(answer)) + b"\n")


class Applications(AsyncExitStack):
    """The applications of a tree, one for each set of settings, created on first use."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        import service  # noqa: PLC0415 - Which one it is depends on the tree.

        if not Path(str(service.__file__)).is_relative_to(root):
            raise SystemExit(f"{service.__file__} is not in {root}")
        self._clients: dict[bytes, httpx.AsyncClient] = {}

    async def answers(self, request: Request) -> AsyncIterator[Answer]:
        """Yield the answer to a request, and each part of the OpenAPI document as an answer."""
        response = await self._sent(request)
        content = response.content
        pairs = response.headers.multi_items()
        if request == Request("GET", "/openapi.json"):
            for pointer, part in documented(content).items():
                yield Answer(f"{request.label} {pointer}", response.status_code, "", part)
        headers, body = masked(request.path, pairs, content)
        if len(body) > _MAX_SHOWN_LENGTH:
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
            self._clients[key] = await self._create(settings)
        return self._clients[key]

    async def _create(self, settings: Mapping[str, Any]) -> httpx.AsyncClient:
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
