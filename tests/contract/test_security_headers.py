"""Headers that every answer has, whatever it is and whoever made it."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from httpx import Response
from starlette.routing import Route

from service.app import create_app
from service.routes import RESOURCES
from service.settings import default_settings
from tests.client import Client, client_of

EXAMPLES = {known.path: known.example for known in RESOURCES}
PATHS = sorted(
    {
        route.path.replace("{extension}", "png")
        for route in create_app(default_settings()).routes
        if isinstance(route, Route)
    }
    | {"/docs/assets/swagger-ui-bundle.js", "/docs/assets/nothing", "/nowhere", "/%ff"}
)
IN_HTML = "text/html"
KEPT = "/encoding.npy?seq_len=5&d_model=4"


def is_safe(answer: Response) -> bool:
    return (
        answer.headers.get_list("X-Content-Type-Options") == ["nosniff"]
        and answer.headers.get_list("Cross-Origin-Resource-Policy") == ["cross-origin"]
        and "Server" not in answer.headers
        and "X-Powered-By" not in answer.headers
        and "Set-Cookie" not in answer.headers
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
def test_no_answer_is_taken_for_something_else(client: Client, method: str, path: str) -> None:
    query = EXAMPLES.get(path.removesuffix(".png"), "")

    assert is_safe(client.request(method, f"{path}?{query}".removesuffix("?")))


def test_answers_without_a_body_and_kept_ones_have_them_too(client: Client) -> None:
    first = client.get(KEPT)
    kept = client.get(KEPT)
    seen = client.get(KEPT, if_none_match=first.headers["ETag"])
    part = client.get(KEPT, range="bytes=0-3")
    question = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    preflight = client.request("OPTIONS", "/rope/apply", headers=question)

    answers = [first, kept, seen, part, preflight]
    assert [answer.status_code for answer in answers] == [200, 200, 304, 206, 204]
    assert all(map(is_safe, answers))


def test_a_failure_has_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    with client_of(create_app(default_settings())) as fresh:
        monkeypatch.setattr("service.numerics.phasors.PhasorTable.fill", fail)
        answer = fresh.get("/encoding.npy?seq_len=3&d_model=4")

    assert answer.status_code == 500
    assert is_safe(answer)


@pytest.mark.parametrize("path", PATHS)
def test_every_page_of_html_says_what_it_may_run(client: Client, path: str) -> None:
    query = EXAMPLES.get(path.removesuffix(".png"), "")
    answer = client.get(f"{path}?{query}".removesuffix("?"), accept="text/html,*/*;q=0.1")

    if not answer.headers["Content-Type"].startswith(IN_HTML):
        assert path not in {"/", "/docs"}
        return
    policy = answer.headers["Content-Security-Policy"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert policy.startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    inline = re.findall(r"<(script|style)>(.*?)</\1>", answer.text, re.DOTALL)
    assert len(inline) == policy.count("'sha256-")
    for _, text in inline:
        assert b64encode(sha256(text.encode()).digest()).decode() in policy


def test_no_page_has_what_a_policy_of_digests_forbids(client: Client) -> None:
    for path in ("/", "/docs"):
        page = client.get(path, accept=IN_HTML).text
        assert not re.search(r"""\son\w+\s*=|\sstyle\s*=|javascript:""", page)
