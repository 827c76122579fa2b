"""The pages of the suite: what a browser shows of each case, without a script."""

import re
from html import unescape
from typing import Any
from urllib.parse import unquote

import orjson
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
            assert f'<a href="#{flag["name"]}">{flag["name"]}</a>' in text
    mistakes = unescape(page.partition('<h2 id="mistakes">')[2])
    for flag, known in PAGES[name]["flags"].items():
        assert f'<li id="{flag}">' in mistakes
        for part in (known["mistake"], known["effect"], *known["threads"]):
            assert part in mistakes


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


@pytest.mark.parametrize("name", PAGES)
def test_page_has_the_command_that_posts_each_body(client: Client, name: str) -> None:
    page, content = unescape(page_of(client, ROOT + name)), PAGES[name]
    place = rf"\$SERVER{ROOT}{name}\.json \| jq '\.cases\[(\d+)\]"
    flag = r"(?: \| (\{x\} \+ )?\.flags\[(\d+)\])?"
    command = rf"curl -s {place}{flag}\.request\.body' \| curl -s -H '[^']*' -d @- \$SERVER([^<]+)"
    asked = re.findall(command, page)

    requests = [each for case in content["cases"] for each in _posted(case)]
    assert len(asked) == len(requests)
    for (case, x, place, path), (request, own) in zip(asked, requests, strict=True):
        found = content["cases"][int(case)]
        body = (found["flags"][int(place)] if place else found)["request"]["body"]
        sent = {**({"x": found["x"]} if x else {}), **body}
        assert (path, sent) == (request["url"], {**own, **request["body"]})
        assert client.post(path, json=sent).status_code == 200
    assert len(page) < 2 * len(orjson.dumps(content))


def _posted(case: Any) -> list[tuple[Any, Any]]:
    """Return the requests with a body, each with the array x that a body has of the case."""
    x = {"x": case["x"]} if "x" in case else {}
    every = [(case["request"], {}), *((each.get("request"), x) for each in case["flags"])]
    return [(request, own) for request, own in every if request and request["method"] == "POST"]


def test_the_home_of_the_suite_shows_the_messages_of_an_adapter(client: Client) -> None:
    page = unescape(page_of(client, "/conformance/"))

    messages = [
        orjson.loads(each)
        for each in re.findall(r": +(\{.*\})", page.replace("{…}", "{}").replace("[…]", "[]"))
    ]
    assert [each["type"] for each in messages] == ["hello", "hello", "case", "answer", "bye"]
    assert "docs/conformance.md" in page
    assert not re.search(r"\b1 cases", page)


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
