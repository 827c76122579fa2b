"""Pages beside the tables."""

import re
import threading
from typing import Any

import pytest

from service.app import create_app
from service.encodings.registry import table_revisions
from service.routes import COMPOSITIONS, REPORTS, TRANSFORMS
from service.settings import default_settings
from tests.client import Client, client_of

PAGES = ["/", "/livez", "/readyz", "/robots.txt", "/docs", "/openapi.json", "/conformance/"]


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_answer_and_are_never_cached(client: Client, path: str) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")


def test_home_lists_kinds_revisions_and_links_that_work(client: Client) -> None:
    home = client.get("/").json()

    assert home["kinds"] == table_revisions()
    for link in home["links"]:
        if link["method"] == "GET":
            assert client.get(link["href"]).status_code == 200


def test_home_links_to_every_post_endpoint(client: Client) -> None:
    links = client.get("/").json()["links"]

    posted = {link["href"] for link in links if link["method"] == "POST"}
    assert COMPOSITIONS.keys() < posted
    assert TRANSFORMS.keys() < posted
    assert REPORTS.keys() < posted


def test_browsers_get_the_directory_as_html(client: Client) -> None:
    answer = client.get("/", accept="text/html,application/xhtml+xml,*/*;q=0.8")

    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    for link in re.findall(r'href="([^"]+)"', answer.text):
        assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_robots_are_kept_from_tables(client: Client) -> None:
    answer = client.get("/robots.txt")

    assert "Disallow: /\n" in answer.text


def test_the_documentation_loads_nothing_from_other_hosts(client: Client) -> None:
    page = client.get("/docs").text

    sources = re.findall(r'(?:src|href)="([^"]+)"', page) + re.findall(r'url: "([^"]+)"', page)

    assert sources
    for source in sources:
        assert source.startswith("/")
        assert client.get(source).status_code == 200


def test_openapi_is_generated_once_and_not_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = create_app(default_settings())
    describe, threads = app.openapi, []

    def noted() -> dict[str, Any]:
        threads.append(threading.current_thread())
        return describe()

    monkeypatch.setattr(app, "openapi", noted)
    with client_of(app) as fresh:
        first, second = fresh.get_all(["/openapi.json"] * 2)

    assert first.content == second.content
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("path", PAGES)
def test_pages_answer_head_as_get_and_take_no_parameters(client: Client, path: str) -> None:
    get, head = client.get(path), client.head(path)

    assert (head.status_code, head.content) == (200, b"")
    assert {name: value for name, value in get.headers.items() if name != "x-request-id"} == {
        name: value for name, value in head.headers.items() if name != "x-request-id"
    }
    assert client.get(f"{path}?x=1").status_code == 422
