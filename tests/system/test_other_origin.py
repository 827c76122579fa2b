"""A page of another origin in a real browser: everything that a program can send and read."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.system.chromium import Page, opened
from tests.system.servers import Server, running

pytestmark = pytest.mark.system

HOST = "posref.test"
TABLE = "/encoding.npy?seq_len=8&d_model=8&revision=1"
KEY = "correct-horse-battery-staple"

# Sends a request and returns what the page can read: status, headers and body.
SEND = """
(async (url, options) => {
  const body = options.base64 && Uint8Array.from(atob(options.base64), each => each.charCodeAt());
  const answer = await fetch(url, {...options, body});
  const bytes = Array.from(new Uint8Array(await answer.arrayBuffer()));
  const content = btoa(bytes.map(each => String.fromCharCode(each)).join(""));
  return [answer.status, Object.fromEntries(answer.headers), content];
})(%s, %s).catch(error => [0, {}, btoa(error.message)])
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Open a page of a server that is not posref."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "page.html").write_text("<!doctype html><title>Another origin</title>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other, opened(HOST) as tab:
        Thread(target=other.serve_forever, daemon=True).start()
        tab.open(f"http://127.0.0.1:{other.server_port}/page.html")
        tab.wait_for("document.title == 'Another origin'")
        yield tab
        other.shutdown()


def sent(page: Page, server: Server, target: str, **options: Any) -> httpx.Response:
    """Return what the page reads of the answer to a request; status 0 if the browser refuses."""
    url = f"http://{HOST}:{server.port}{target}"
    words = json.dumps(url), json.dumps({"cache": "no-store", **options})
    status, headers, content = page.value(SEND % words)
    headers.pop("content-encoding", None)
    return httpx.Response(status, headers=headers, content=b64decode(content))


def test_page_reads_a_table_and_the_headers_that_describe_it(page: Page, server: Server) -> None:
    direct = server.get(TABLE)

    # The second answer comes from the cache of the server.
    for _ in range(2):
        answer = sent(page, server, TABLE)

        assert (answer.status_code, answer.content) == (200, direct.content)
        for name in ("ETag", "Array-Shape", "Array-Dtype", "Table-Revision", "Link"):
            assert answer.headers[name] == direct.headers[name]
        assert answer.headers["X-Request-Id"]


def test_page_reads_a_range(page: Page, server: Server) -> None:
    tag = server.get(TABLE).headers["ETag"]

    answer = sent(page, server, TABLE, headers={"Range": "bytes=128-159", "If-Range": tag})

    assert (answer.status_code, answer.content) == (206, server.range(TABLE, 128, 159))
    assert answer.headers["Content-Range"] == f"bytes 128-159/{128 + 8 * 8 * 4}"


def test_page_asks_whether_its_table_is_current(page: Page, server: Server) -> None:
    tag = sent(page, server, TABLE).headers["ETag"]

    answer = sent(page, server, TABLE, headers={"If-None-Match": tag})

    assert (answer.status_code, answer.headers["ETag"]) == (304, tag)


@pytest.mark.parametrize(
    ("target", "media_type"),
    [
        ("/encoding/apply", "application/x-npy"),
        ("/encoding/apply.bin?shape=8,8&dtype=float32", "application/octet-stream"),
    ],
)
def test_page_posts_an_array(page: Page, server: Server, target: str, media_type: str) -> None:
    array = server.get(TABLE.replace(".npy", ".bin" if "octet" in media_type else ".npy")).content
    headers = {"Content-Type": media_type}
    direct = httpx.post(server.url(target), content=array, headers=headers, trust_env=False)

    body = b64encode(array).decode()
    answer = sent(page, server, target, method="POST", headers=headers, base64=body)

    assert direct.is_success
    assert (answer.status_code, answer.content) == (200, direct.content)
    assert answer.headers["Array-Shape"] == "8, 8"


@pytest.mark.parametrize(
    ("target", "options", "status"),
    [
        ("/encoding.npy?seq_len=8&d_model=7&convention=vaswam", {}, 422),
        ("/nowhere", {}, 404),
        (TABLE, {"headers": {"Range": "bytes=9999-"}}, 416),
        ("/encoding/apply", {"method": "POST", "headers": {"Content-Type": "text/x-c"}}, 415),
        (f"/encoding?positions={'1,' * 40_000}", {}, 414),
    ],
)
def test_page_reads_problems(
    page: Page, server: Server, target: str, options: dict[str, Any], status: int
) -> None:
    answer = sent(page, server, target, **options)

    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_page_sends_a_key(page: Page) -> None:
    with running(api_keys=KEY) as server:
        refused = sent(page, server, TABLE)
        answer = sent(page, server, TABLE, headers={"Authorization": f"Bearer {KEY}"})

    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.status_code == 200
