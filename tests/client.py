"""A client of an application in this process, with its lifespan; npy files as arrays."""

import asyncio
import io
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray

Result = TypeVar("Result")


class Client:
    """Send requests to an application, one by one or concurrently."""

    def __init__(self, app: FastAPI, runner: asyncio.Runner, http: httpx.AsyncClient) -> None:
        self.app = app
        self._runner = runner
        self._http = http

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def request(self, method: str, url: str, **options: Any) -> httpx.Response:
        return self.run(self._http.request(method, url, **options))

    def get(self, url: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("GET", url, headers=named)

    def head(self, url: str) -> httpx.Response:
        return self.request("HEAD", url)

    def post(self, url: str, **options: Any) -> httpx.Response:
        return self.request("POST", url, **options)

    def get_all(self, urls: list[str]) -> list[httpx.Response]:
        async def together() -> list[httpx.Response]:
            return await asyncio.gather(*(self._http.get(url) for url in urls))

        return self.run(together())


def load_npy(response: httpx.Response) -> NDArray[Any]:
    assert response.status_code == 200, response.text
    return np.asarray(np.load(io.BytesIO(response.content), allow_pickle=False))


def load_data(response: httpx.Response) -> NDArray[Any]:
    """Return the array of a JSON answer."""
    assert response.status_code == 200, response.text
    return np.array(response.json()["data"])


def npy_bytes(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def diagnose(client: Client, to: str, have: NDArray[Any]) -> Any:
    """Return the report about an array that should be the table of a URL."""
    answer = client.post(
        "/diagnose",
        params={"to": to},
        content=npy_bytes(have),
        headers={"Content-Type": "application/x-npy"},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextmanager
def client_of(app: FastAPI) -> Iterator[Client]:
    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        http = httpx.AsyncClient(transport=transport, base_url="http://posref.test")
        # No headers but those of the test and a constant request id, so that equal answers have
        # equal headers.
        del http.headers["Accept-Encoding"]
        http.headers["X-Request-Id"] = "of-a-test"
        try:
            yield Client(app, runner, http)
        finally:
            runner.run(http.aclose())
            runner.run(lifespan.__aexit__(None, None, None))
