"""The pages of the suite: what a browser shows of each case, without a script."""

import re
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest

from service.conformance.release import Release
from tests.client import Client

RELEASE = Release.packaged()
ROOT = f"/conformance/{RELEASE.version}/"
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"
PAGES = {name.removesuffix(".json"): content for name, content in RELEASE.contents.items()}
# Most of the followed links are of the first cases.
MOST_FOLLOWED = 40


def page_of(client: Client, path: str) -> str:
    answer = client.get(path, accept=BROWSER)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    return answer.text


def links_of(page: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]+)"', page)]


def test_home_of_the_suite_links_to_every_file_and_its_page(client: Client) -> None:
    page = page_of(client, "/conformance/")

    links = links_of(page)
    assert {ROOT + name for name in [*RELEASE.files, "conformance.zip", *PAGES]} <= {*links}
    for link in links:
        assert client.get(link, accept=BROWSER).status_code == 200
    assert RELEASE.version in page


@pytest.mark.parametrize("name", PAGES)
def test_page_of_a_file_has_all_of_every_case(client: Client, name: str) -> None:
    page, text = page_of(client, ROOT + name), ""
    sections = re.split(r'<h2 id="(\d+)">', page)[1:]
    found = dict(zip(sections[::2], sections[1::2], strict=True))

    for case in PAGES[name]["cases"]:
        number = case["id"].rpartition("/")[2]
        text = unescape(found[number])
        assert f'<a href="#{number}">{case["id"]}</a>' in text
        assert case["comment"] in text
        for position in case.get("positions", ()):
            assert re.search(rf"\b{abs(position)}\b", text)
        for parameter in case["parameters"]:
            assert parameter in text
        for flag in case["flags"]:
            known = PAGES[name]["flags"][flag["name"]]
            for part in (flag["name"], known["mistake"], known["effect"], *known["threads"]):
                assert part in text


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_open_tables_and_comparisons(client: Client, name: str) -> None:
    page = page_of(client, ROOT + name)
    links = links_of(page)

    requests = [_requests_of(case) for case in PAGES[name]["cases"]]
    assert all(url in links for urls in requests for url in urls)
    compared = [link for link in links if "#vs=" in link]
    assert all(unquote(link.partition("#vs=")[2]) in links for link in compared)
    for link in dict.fromkeys(link.partition("#")[0] for link in links[:MOST_FOLLOWED]):
        target = ROOT + link if link and link[0] != "/" else link
        assert not link or client.get(target, accept=BROWSER).status_code == 200


def _requests_of(case: Any) -> list[str]:
    every = [case["request"], *(flag.get("request") for flag in case["flags"])]
    return [each["url"] for each in every if each and each["method"] == "GET"]


@pytest.mark.parametrize("path", ["/conformance/", *(ROOT + name for name in [*PAGES][:1])])
def test_pages_load_nothing_but_styles_of_this_server(client: Client, path: str) -> None:
    page = page_of(client, path)

    assert "<script" not in page
    assert "://" not in "".join(links_of(page))
    assert not re.search(r" (style|on\w+)=", page)
    assert page.count("<h1>") == 1
    assert 'name="viewport"' in page
    assert 'content="light dark"' in page
