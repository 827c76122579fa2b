"""Pages for browsers: what a browser gets, and that other clients get what they got."""

import re
from html import unescape
from html.parser import HTMLParser
from itertools import product

import httpx
import orjson
import pytest
from pydantic import SecretStr

from service.app import create_app
from service.encodings.relative.sandwich import Sandwich
from service.routes import RESOURCES
from service.settings import default_settings
from tests.client import Client, client_of

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
EXAMPLES = {path: f"{path}?{resource.example}" for path, resource in RESOURCES.items()}
ENDLESS = f"/rope?head_dim=128&seq_len={2**53}"
TABLE = "/encoding?seq_len=5&d_model=4"
SANDWICH = "/relative/sandwich?num_heads=1&head_dim=2&query_len=2"


class Elements(HTMLParser):
    """The elements of a page, the text of ``main``, and the data of its script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.data = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Templates are shown by the script alone.
        if "template" not in self._open:
            self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "main" in self._open and "template" not in self._open:
            self.text += data
        elif self._open and self._open[-1] == "script":
            self.data += data

    @property
    def answer(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = orjson.loads(self.data)
        return found

    def attributes(self, tag: str, name: str) -> list[str]:
        return [each[name] or "" for kind, each in self.elements if kind == tag and name in each]


def headers_of(answer: httpx.Response) -> dict[str, str]:
    return dict(answer.headers)


def assert_page(answer: httpx.Response) -> Elements:
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Accept" in answer.headers["Vary"].split(", ")
    assert "Content-Location" not in answer.headers
    return Elements(answer.text)


@pytest.mark.parametrize("url", ["/", *EXAMPLES.values()])
def test_a_browser_gets_a_page_and_others_what_they_got(client: Client, url: str) -> None:
    before = client.get(url)
    page = client.get(url, accept=BROWSER)
    after, any_type = client.get(url), client.get(url, accept="*/*")

    assert page.status_code == 200
    assert page.headers["Cache-Control"] == "private, no-cache"
    assert_page(page)
    for answer in (before, after, any_type):
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.content == before.content
        assert "Content-Security-Policy" not in answer.headers
    assert headers_of(before) == headers_of(after) == headers_of(any_type)


def test_pages_and_cached_answers_of_a_url_are_not_mixed_up(fresh_client: Client) -> None:
    accepts = {
        "*/*": "json",
        BROWSER: "html",
        "application/json": "json",
        "application/x-npy": "npy",
    }

    for accept, kind in [*accepts.items()] * 3:
        assert kind in fresh_client.get(TABLE, accept=accept).headers["Content-Type"].replace(
            "x-npy", "npy"
        )


@pytest.mark.parametrize("url", ["/", TABLE])
def test_a_page_has_a_tag_of_its_own_and_is_asked_for_again(client: Client, url: str) -> None:
    page = client.get(url, accept=BROWSER)
    tag = page.headers["ETag"]

    again = client.get(url, accept=BROWSER, if_none_match=tag)
    packed = client.get(url, accept=BROWSER, accept_encoding="gzip")

    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert again.headers["Vary"] == page.headers["Vary"] == "Accept, Accept-Encoding"
    assert (packed.text, packed.headers["Content-Encoding"]) == (page.text, "gzip")
    assert len({tag, packed.headers["ETag"], client.get(url).headers.get("ETag")}) == 3


@pytest.mark.parametrize("url", ["/", TABLE, ENDLESS])
def test_head_of_a_page_has_the_headers_of_get(client: Client, url: str) -> None:
    get = client.get(url, accept=BROWSER)
    head = client.request("HEAD", url, headers={"Accept": BROWSER})

    assert (head.status_code, head.content) == (200, b"")
    assert headers_of(head) == headers_of(get)


@pytest.mark.parametrize(
    "url", ["/encoding.npy?seq_len=5&d_model=4", "/rope.json?head_dim=8&seq_len=2"]
)
def test_an_extension_is_a_file_for_browsers_too(client: Client, url: str) -> None:
    answer = client.get(url, accept=BROWSER)

    assert headers_of(answer) == headers_of(client.get(url))
    assert answer.content == client.get(url).content


def test_a_format_that_ranks_above_a_page_is_sent(client: Client) -> None:
    answer = client.get(TABLE, accept="text/html;q=0.5, application/x-npy")

    assert answer.headers["Content-Type"] == "application/x-npy"


def test_the_page_of_a_table_has_no_limit_of_length(client: Client) -> None:
    page = assert_page(client.get(ENDLESS, accept=BROWSER))

    assert client.get(ENDLESS).status_code == 413
    assert str(2**53) in page.text
    assert str(2**53 * 128 * 4) in page.text


@pytest.mark.parametrize("path", RESOURCES)
def test_a_page_shows_its_table_without_scripts(client: Client, path: str) -> None:
    page = assert_page(client.get(EXAMPLES[path], accept=BROWSER))

    assert RESOURCES[path].summary in page.text
    links = page.attributes("a", "href")
    assert links
    for link in links:
        assert client.get(link).status_code == 200, link
    fields = page.attributes("input", "name") + page.attributes("select", "name")
    assert sorted(fields) == sorted(RESOURCES[path].parameters.model_fields)
    assert page.attributes("form", "action") == [path]


def test_the_form_of_a_page_works_without_scripts(client: Client) -> None:
    page = Elements(client.get(TABLE, accept=BROWSER).text)
    values = {
        str(each["name"]): each.get("value") or "" for tag, each in page.elements if tag == "input"
    }
    sent = httpx.QueryParams({**values, "seq_len": "7", "layout": ""})

    answer = client.get(f"/encoding?{sent}", accept=BROWSER)

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/encoding?seq_len=7&d_model=4"
    assert client.get(answer.headers["Location"]).json()["shape"] == [7, 4]


@pytest.mark.parametrize("field", ["dtype=float64=", "=", "dtype=="])
def test_a_page_refuses_a_value_that_ends_in_an_equals_sign(client: Client, field: str) -> None:
    """Only a parameter without a value is what a form sends of an empty field."""
    answer = client.get(f"{TABLE}&{field}", accept=BROWSER)

    assert answer.status_code == client.get(f"{TABLE}&{field}").status_code == 422


def test_home_page_links_to_every_table_and_every_post(client: Client) -> None:
    page = assert_page(client.get("/", accept=BROWSER))
    links = page.attributes("a", "href")

    assert {*EXAMPLES.values()} < {*links}
    assert len([link for link in links if link.startswith("/#view=")]) == len(
        [link for link in client.get("/").json()["links"] if link["method"] == "POST"]
    )
    assert page.answer == {}


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


@pytest.mark.parametrize("accept", [BROWSER, "text/html"])
@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len={}",
        "/encoding?seq_len=2&d_model=4&{}=1",
        "/encoding.{}",
        "/{}",
        "/explorer/{}/app.js",
        "/rope/apply?{}",
    ],
)
def test_hostile_input_never_becomes_markup(client: Client, url: str, accept: str) -> None:
    answer = client.get(url.replace("{}", str(httpx.QueryParams({"": HOSTILE}))[1:]), accept=accept)
    page = assert_page(answer)

    plain = assert_page(client.get("/nowhere", accept=accept))
    assert page.attributes("script", "src") == plain.attributes("script", "src")
    assert len(page.attributes("script", "type")) == 2
    assert not [tag for tag, each in page.elements if tag == "img" or "onerror" in each]
    assert page.answer["problem"]["status"] == answer.status_code


def test_a_problem_is_a_page_with_the_same_status_and_headers(client: Client) -> None:
    requests = {
        ("GET", "/nowhere"): 404,
        ("GET", "/rope/apply"): 405,
        ("GET", "/encoding?seq_len=4"): 422,
        ("GET", "/encoding.csv?seq_len=1048576&d_model=512"): 413,
        ("POST", "/rope/apply"): 415,
    }
    for (method, url), status in requests.items():
        plain = client.request(method, url)
        answer = client.request(method, url, headers={"Accept": BROWSER})

        page = assert_page(answer)
        assert answer.status_code == plain.status_code == status
        assert page.answer["problem"] == plain.json()
        for fault in plain.json()["errors"]:
            assert fault["detail"] in page.text
        assert plain.json()["title"] in page.text
        own = {
            "content-type",
            "content-length",
            "content-security-policy",
            "referrer-policy",
            "vary",
        }
        kept = {name: value for name, value in headers_of(answer).items() if name not in own}
        assert kept == {name: value for name, value in headers_of(plain).items() if name not in own}


@pytest.mark.parametrize(
    ("url", "status", "name"),
    [
        (f"{SANDWICH}&revision=1", 410, "revision-retired"),
        (f"{SANDWICH}&head=0", 500, "internal-error"),
        ("/readyz", 503, "not-ready"),
    ],
)
def test_a_retired_revision_a_failure_and_a_server_that_ends_are_pages(
    fresh_client: Client, monkeypatch: pytest.MonkeyPatch, url: str, status: int, name: str
) -> None:
    def fail(_: object) -> None:
        raise ArithmeticError("secret")

    fresh_client.app.state.delivery.is_draining = True
    monkeypatch.setattr(Sandwich, "revision_of_bytes", 2)
    if status == 500:
        monkeypatch.setattr(Sandwich, "table", fail)

    answer = fresh_client.get(url, accept=BROWSER)

    assert answer.status_code == status
    assert assert_page(answer).answer["problem"]["type"] == f"urn:posref:problem:{name}"
    assert "secret" not in answer.text


def test_head_of_a_problem_has_its_status_and_no_body(client: Client) -> None:
    answer = client.request("HEAD", "/encoding?seq_len=x", headers={"Accept": BROWSER})

    assert (answer.status_code, answer.content) == (422, b"")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


def test_a_page_of_a_post_alone_leads_to_where_a_file_can_be_dropped(client: Client) -> None:
    views = {
        "/identify": "/#view=file",
        "/model": "/#view=model",
        "/rope/config": "/#view=model",
        "/encoding/mask": "/#view=post&entry=encoding/mask",
    }

    for path, view in views.items():
        answer = client.get(path, accept=BROWSER)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
        page = Elements(answer.text)
        assert view in page.attributes("a", "href")
        assert "POST with a body of one of: " in page.text
        assert f"http://posref.test{path}" in page.text


@pytest.mark.parametrize(("method", "path"), [("POST", "/catalogue"), ("PUT", "/describe")])
def test_a_page_of_a_url_that_takes_no_post_offers_none(
    client: Client, method: str, path: str
) -> None:
    answer = client.request(method, path, headers={"Accept": BROWSER})

    assert answer.status_code == 405
    assert "It takes" not in answer.text
    assert "GET" in Elements(answer.text).text


def test_assets_of_a_page_are_immutable_and_compressed_once(client: Client) -> None:
    page = client.get("/", accept=BROWSER)
    sources = [unescape(url) for url in re.findall(r'"(/explorer/[^"]+)"', page.text)]
    kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

    for url, coding in product(sources, (None, "gzip")):
        headers = {"Accept-Encoding": coding} if coding else {}
        answer = client.request("GET", url, headers=headers)
        assert answer.status_code == 200, url
        kind = kinds[url[url.rindex(".") :]]
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers.get("Content-Encoding") == coding
        conditional = {**headers, "If-None-Match": answer.headers["ETag"]}
        assert client.request("GET", url, headers=conditional).status_code == 304
        head = client.request("HEAD", url, headers=headers)
        assert (headers_of(head), head.content) == (headers_of(answer), b"")


@pytest.mark.parametrize("name", ["page.html", "nothing.js", "../app.js"])
def test_an_unknown_asset_is_not_found(client: Client, name: str) -> None:
    page = client.get("/", accept=BROWSER).text
    (folder,) = {*re.findall(r'"(/explorer/[^/]+)/', page)}

    for url in (f"{folder}/{name}", "/explorer/0000/lib.js"):
        answer = client.get(url)
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:posref:problem:not-found"


def test_robots_may_render_home(client: Client) -> None:
    assert "Allow: /explorer/\n" in client.get("/robots.txt").text


def test_with_keys_a_page_asks_for_one_and_its_files_are_open() -> None:
    key = "correct-horse-battery"
    settings = default_settings().model_copy(update={"api_keys": SecretStr(key)})
    with client_of(create_app(settings)) as locked:
        for url in ("/", TABLE, "/nowhere"):
            answer = locked.get(url, accept=BROWSER)
            page = assert_page(answer)

            assert (answer.status_code, answer.headers["Cache-Control"]) == (401, "no-store")
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="posref"'
            assert page.answer["problem"]["title"] == "Unauthorized"
            assert "describe" not in page.answer
        (app,) = page.attributes("script", "src")
        for link in page.attributes("link", "href"):
            assert locked.get(link).status_code == 200
        assert locked.request("POST", app).status_code == 401
        opened = locked.get(TABLE, accept=BROWSER, authorization=f"Bearer {key}")
        assert (opened.status_code, "describe" in assert_page(opened).answer) == (200, True)
