"""What pages of HTML may load and run."""

import re
from base64 import b64decode
from hashlib import sha256

from service.delivery.html import content_policy, html_headers

PAGE = """<!doctype html><html><head><style>body{margin:0}</style></head><body>
<script src="/a.js"></script><SCRIPT>
run("ä");
</SCRIPT></body></html>"""


def directives(page: str) -> dict[str, str]:
    words = (directive.partition(" ") for directive in content_policy(page).split("; "))
    return {name: sources for name, _, sources in words}


def test_just_the_words_that_stand_in_a_page_may_run() -> None:
    found = re.findall(r"'sha256-([^']+)'", directives(PAGE)["script-src"])

    expected = [sha256(text.encode()).digest() for text in ("", '\nrun("ä");\n')]
    assert [b64decode(digest) for digest in found] == expected[1:]
    assert "'sha256-" in directives(PAGE)["style-src"]


def test_nothing_else_is_allowed() -> None:
    policy = directives("<p>plain</p>")

    assert "unsafe" not in content_policy(PAGE)
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    for name in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[name] == "'none'"


def test_a_page_says_what_it_is_and_names_no_referrer() -> None:
    headers = dict(html_headers(PAGE, "no-store", vary="Accept"))

    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    assert headers[b"content-security-policy"] == content_policy(PAGE).encode()
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert (headers[b"cache-control"], headers[b"vary"]) == (b"no-store", b"Accept")
    assert b"vary" not in dict(html_headers(PAGE, "no-store"))
