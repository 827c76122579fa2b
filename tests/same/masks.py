"""The parts of an answer that are compared: not prose, pictures, dates and request ids."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import unescape
from typing import Any

import orjson

MASK = "…"

_PROSE = frozenset({"title", "detail", "sentence", "correction", "description", "summary"})
_LISTED_PROSE = frozenset({"support", "notes"})
_EXAMPLES = frozenset({"example", "examples"})
_SORTED_LISTS = frozenset({"errors", "links"})
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

_LINK = re.compile(r"<(\w+) (?:[^>]* )?(href|src)=\"?([^\"> ]*)")
_POINTER = re.compile(r"/[^\s,;()·]+")


def masked(path: str, headers: Iterable[tuple[str, str]], body: bytes) -> tuple[str, str]:
    """Return the headers and the decoded body of an answer as the text that is compared."""
    pairs = [(name.lower(), value) for name, value in headers]
    known = dict(pairs)
    text, dropped = _body(path, known, body)
    if "content-encoding" in known:
        dropped |= _OF_CODED_BYTES
    kept = sorted(pair for pair in pairs if pair[0] not in _PASSING | dropped)
    return "\n".join(f"{name}: {value}" for name, value in kept), text


def documented(body: bytes) -> dict[str, str]:
    """Return the parts of an OpenAPI document by JSON pointer, without prose and examples."""
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
    """Return a body as text, and the names of the headers that depend on masked bytes."""
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
        text = _json(_without_prose(orjson.loads(body), rounded=path in _ROUNDED))
    elif media_type == "text/html":
        # The files of the pages are in the source as they are.
        links = sorted(each for each in _LINK.findall(body.decode()) if "/explorer/" not in each[2])
        text = "\n".join(f"{tag} {name}={unescape(value)}" for tag, name, value in links)
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


def _without_prose(content: Any, key: str = "", *, rounded: bool = False) -> Any:
    """Return a report without prose, its floats rounded if asked; of an origin, the pointers."""
    if isinstance(content, dict) and key == "origin":
        return {name: _pointers(text) for name, text in content.items()}
    if isinstance(content, dict):
        return {
            name: _without_prose(value, name, rounded=rounded) for name, value in content.items()
        }
    if isinstance(content, list):
        of_items = "sentence" if key in _LISTED_PROSE else ""
        items = [_without_prose(item, of_items, rounded=rounded) for item in content]
        # The order of errors depends on that of a set, which differs between processes, and that of
        # links on the registry.
        return sorted(items, key=_json) if key in _SORTED_LISTS else items
    if rounded and isinstance(content, float):
        return float(f"{content:.{_DIGITS}g}")
    if key == "to" and isinstance(content, str):
        path, mark, query = content.partition("?")
        return path + mark + "&".join(sorted(query.split("&")))
    return MASK if key in _PROSE and isinstance(content, str) else content


def _pointers(origin: str) -> str:
    kind, colon, _ = origin.partition(":")
    pointers = " ".join(_POINTER.findall(origin))
    return f"{kind}: {pointers}" if colon else pointers or origin


def _undescribed(content: Any, key: str = "") -> Any:
    """Return a part of an OpenAPI document without prose, examples and order of parameters."""
    if key in _EXAMPLES or (key in _PROSE and isinstance(content, str)):
        return MASK
    if isinstance(content, dict):
        return {name: _undescribed(value, name) for name, value in content.items()}
    if isinstance(content, list):
        of_items = "sentence" if key in _LISTED_PROSE else ""
        items = [_undescribed(item, of_items) for item in content]
        return sorted(items, key=_json) if key in _UNORDERED else items
    return content
