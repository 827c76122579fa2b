"""Security headers of every answer."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from httpx import Response

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of
from tests.contract.kinds import KINDS

CACHED = "/encoding.npy?seq_len=5&d_model=4"


def is_safe(answer: Response) -> bool:
    return (
        answer.headers.get_list("X-Content-Type-Options") == ["nosniff"]
        and answer.headers.get_list("Cross-Origin-Resource-Policy") == ["cross-origin"]
        and "Server" not in answer.headers
        and "X-Powered-By" not in answer.headers
        and "Set-Cookie" not in answer.headers
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("url", KINDS.values(), ids=KINDS)
def test_nosniff_and_resource_policy_on_every_response(
    client: Client, method: str, url: str
) -> None:
    assert is_safe(client.request(method, url))


def test_cached_partial_and_empty_responses_have_them_too(client: Client) -> None:
    first = client.get(CACHED)
    preflight = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}

    answers = [
        first,
        client.get(CACHED),
        client.get(CACHED, if_none_match=first.headers["ETag"]),
        client.get(CACHED, range="bytes=0-3"),
        client.request("OPTIONS", "/rope/apply", headers=preflight),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 304, 206, 204]
    assert all(map(is_safe, answers))


def test_internal_errors_have_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    with client_of(create_app(default_settings())) as fresh:
        monkeypatch.setattr("service.numerics.phasors.PhasorTable.write", fail)
        answer = fresh.get("/encoding.npy?seq_len=3&d_model=4")

    assert answer.status_code == 500
    assert is_safe(answer)


@pytest.mark.parametrize("url", KINDS.values(), ids=KINDS)
def test_html_pages_have_a_content_security_policy_of_digests(client: Client, url: str) -> None:
    answer = client.get(url, accept="text/html,*/*;q=0.1")

    if not answer.headers["Content-Type"].startswith("text/html"):
        assert url not in {"/", "/docs"}
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


def test_html_pages_have_no_inline_handlers_or_styles(client: Client) -> None:
    for path in ("/", "/docs"):
        page = client.get(path, accept="text/html").text
        assert not re.search(r"""\son\w+\s*=|\sstyle\s*=|javascript:""", page)
