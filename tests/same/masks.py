"""What of an answer is compared: everything but prose, pictures, and what differs by the hour."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import orjson

MASK = "…"

_PROSE = frozenset({"title", "detail", "sentence", "correction", "description", "summary"})
_LISTED_PROSE = frozenset({"support", "notes"})
_EXAMPLES = frozenset({"example", "examples"})
_UNORDERED = frozenset({"parameters", "required"})
_ROUNDED = ("/compare", "/identify", "/diagnose")
_PAGES = ("/", "/livez", "/readyz")
_REPORTS = (*_ROUNDED, "/rope/config")
_DIGITS = 5

_PASSING = frozenset({"date", "server", "x-request-id", "age", "server-timing", "x-cache"})
_OF_BYTES = frozenset(
    {"content-length", "content-range", "repr-digest", "content-digest", "etag", "last-modified"}
)
_OF_CODED_BYTES = _OF_BYTES - {"etag"}

_POINTER = re.compile(r"/[^\s,;()·]+")


def masked(path: str, headers: Iterable[tuple[str, str]], body: bytes) -> tuple[str, str]:
    """Give the headers and the body of an answer as the text that is compared.

    Args:
        path: what was asked for, without its query.
        headers: as they came.
        body: as it came, decoded where it was compressed.
    """
    pairs = [(name.lower(), value) for name, value in headers]
    known = dict(pairs)
    text, dropped = _body(path, known, body)
    if "content-encoding" in known:
        dropped |= _OF_CODED_BYTES
    kept = sorted(pair for pair in pairs if pair[0] not in _PASSING | dropped)
    return "\n".join(f"{name}: {value}" for name, value in kept), text


def documented(body: bytes) -> dict[str, str]:
    """Give each part of an OpenAPI document by its JSON pointer, without prose and examples."""
    document = orjson.loads(body)
    parts: dict[str, Any] = {}
    for name, section in document.items():
        nested = [name] if name == "components" else []
        for kind, members in section.items() if nested else [(name, section)]:
            base = "/".join(["", *nested, kind])
            split = isinstance(members, dict) and kind != "info"
            found = members.items() if split else [("", members)]
            parts |= {f"{base}/{key.replace('/', '~1')}": value for key, value in found}
    return {pointer: _json(_undescribed(part)) for pointer, part in parts.items()}


def _body(path: str, headers: Mapping[str, str], body: bytes) -> tuple[str, frozenset[str]]:
    """Give a body as text, and the headers that say what is not compared."""
    media_type = headers.get("content-type", "").partition(";")[0]
    is_problem = media_type == "application/problem+json"
    is_report = is_problem or (media_type == "application/json" and path in {*_PAGES, *_REPORTS})
    dropped: frozenset[str] = frozenset()
    if is_report or media_type == "text/html" or path == "/metrics":
        dropped = _OF_BYTES
    elif path == "/openapi.json" or path.startswith("/docs/assets/"):
        return MASK, _OF_BYTES
    elif media_type == "image/png" or ".png" in path:
        dropped = _OF_CODED_BYTES
        body = MASK.encode() if body else b""
    if not body or media_type == "image/png":
        text = body.decode()
    elif is_report:
        unworded = _unworded(orjson.loads(body))
        text = _json(_rounded(unworded) if path in _ROUNDED else unworded)
    elif media_type == "text/html":
        text = "\n".join(_links(body.decode()))
    elif path == "/metrics":
        types = [line for line in body.decode().splitlines() if line.startswith("# TYPE ")]
        text = "\n".join(sorted(types))
    elif media_type.startswith("text/") or media_type == "application/json":
        text = body.decode("utf-8", "backslashreplace")
    else:
        text = f"{len(body)} bytes, SHA-256 {sha256(body).hexdigest()}"
    return text, dropped


def _json(content: Any) -> str:
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode()


def _unworded(content: Any, key: str = "") -> Any:
    """Give a document without its prose; of the origin of a value, the pointers are kept."""
    if isinstance(content, dict):
        return {
            name: {of: _pointers(said) for of, said in value.items()}
            if name == "origin" and isinstance(value, dict)
            else _unworded(value, name)
            for name, value in content.items()
        }
    if isinstance(content, list):
        if key == "errors":
            # Their order depends on that of a set, which differs from process to process.
            return sorted(map(_unworded, content), key=_json)
        return [
            MASK if key in _LISTED_PROSE and isinstance(item, str) else _unworded(item)
            for item in content
        ]
    return MASK if key in _PROSE and isinstance(content, str) else content


def _pointers(said: str) -> str:
    kind, colon, _ = said.partition(":")
    pointers = " ".join(_POINTER.findall(said))
    return f"{kind}: {pointers}" if colon else pointers or said


def _undescribed(content: Any, key: str = "") -> Any:
    if isinstance(content, dict):
        return {
            name: MASK
            if (name in _PROSE and isinstance(value, str)) or name in _EXAMPLES
            else _undescribed(value, name)
            for name, value in content.items()
        }
    if isinstance(content, list):
        items = [_undescribed(item) for item in content]
        return sorted(items, key=_json) if key in _UNORDERED else items
    return content


def _rounded(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_rounded(item) for item in content]
    return float(f"{content:.{_DIGITS}g}") if isinstance(content, float) else content


def _links(page: str) -> list[str]:
    """List what a page links to, in order."""
    found: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(
                f"{tag} {name}={value}" for name, value in attrs if name in {"href", "src"}
            )

    Links().feed(page)
    return found
