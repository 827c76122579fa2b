"""Problem documents; the security headers of pages."""

import re
from base64 import b64decode
from hashlib import sha256

import pytest

from service.app import create_app
from service.delivery.problems import TYPES, content_policy, html_headers
from service.settings import default_settings
from tests.client import Client, client_of
from tests.exchange import Exchange


def test_types_are_distinct_uris() -> None:
    uris = [problem.uri for problem in TYPES.values()]

    assert len(set(uris)) == len(uris)
    assert all(uri.startswith("urn:posref:problem:") for uri in uris)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/encodings", "did you mean /encoding?"),
        ("/encoding/", "did you mean /encoding?"),
        ("/rope/aply", "did you mean /rope/apply?"),
        ("/alibi", "did you mean /relative/alibi?"),
        ("/alibi.npy", "did you mean /relative/alibi?"),
        ("/swin-v2/t5", "did you mean /relative/t5?"),
        ("/whisper", "did you mean /encoding with convention=whisper?"),
        ("/detr", "did you mean /encoding/grid with convention=detr?"),
        ("/mae", "did you mean /encoding with convention=mae?"),
        ("/bias", "/ lists what is here"),
        ("/q1w2e3", "/ lists what is here"),
        ("/nothing", "/ lists what is here"),
        ("/pos", "/ lists what is here"),
        ("/docs/assets/nothing.js", "There is no resource at /docs/assets/nothing.js"),
        ("/%ff", "There is no"),
    ],
)
def test_unknown_path_has_a_hint(client: Client, path: str, hint: str) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert hint in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/encoding", "GET, HEAD, POST"),
        ("PUT", "/encoding.npy", "GET, HEAD, POST"),
        ("GET", "/rope/apply", "POST"),
        ("POST", "/livez", "GET, HEAD"),
        ("POST", "/docs/assets/swagger-ui.css", "GET, HEAD"),
    ],
)
def test_method_not_allowed_lists_the_allowed_methods(
    client: Client, method: str, path: str, allow: str
) -> None:
    answer = client.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["Allow"] == allow
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/no", 404), ("PUT", "/", 405)])
def test_undecodable_query_does_not_cause_a_500(
    client: Client, method: str, path: str, status: int
) -> None:
    exchange = Exchange(client.app, method, f"{path}?x=\udcff")

    assert client.run(exchange.run()).status == status


def test_internal_error_is_a_problem_without_details(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError("secret")

    with client_of(create_app(default_settings())) as fresh:
        monkeypatch.setattr("service.numerics.phasors.PhasorTable.write", fail)
        answer = fresh.get("/encoding.npy?seq_len=3&d_model=4")

    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:posref:problem:internal-error"
    assert "secret" not in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


PAGE = """<!doctype html><html><head><style>body{margin:0}</style></head><body>
<script src="/a.js"></script><SCRIPT>
run("ä");
</SCRIPT></body></html>"""


def directives(page: str) -> dict[str, str]:
    words = (directive.partition(" ") for directive in content_policy(page).split("; "))
    return {name: sources for name, _, sources in words}


def test_policy_allows_the_inline_scripts_and_styles_by_hash() -> None:
    found = re.findall(r"'sha256-([^']+)'", directives(PAGE)["script-src"])

    expected = [sha256(text.encode()).digest() for text in ("", '\nrun("ä");\n')]
    assert [b64decode(digest) for digest in found] == expected[1:]
    assert "'sha256-" in directives(PAGE)["style-src"]


def test_policy_allows_nothing_else() -> None:
    policy = directives("<p>plain</p>")

    assert "unsafe" not in content_policy(PAGE)
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    for name in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[name] == "'none'"


def test_html_headers_have_content_type_csp_and_no_referrer() -> None:
    headers = html_headers("default-src 'none'", "no-store")

    assert headers == {
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'",
        "Referrer-Policy": "no-referrer",
    }
