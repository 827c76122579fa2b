"""The suite over HTTP: the index, the files of the current version, and pages to read.

Files are read once, at the first request, on a worker thread; they are sent as they are, or
compressed as that thread compressed them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import orjson
from fastapi import FastAPI
from starlette.requests import Request

from service.conformance.release import ARCHIVE, PATH, SUMS, Release, changes
from service.delivery.dispatch import Delivery
from service.delivery.handler import add_page
from service.delivery.negotiation import TEXT_MEDIA_TYPE
from service.delivery.openapi.operations import Page
from service.delivery.parameters import NoParameters, parse_query, read_parameters
from service.delivery.responses import Answer, WholeFile
from service.errors import NotFound, RevisionRetired, counted, shortened
from service.formats.json_text import JSON
from service.lazily import MadeOnDemand
from service.routes.browser_pages import BrowserRoute, plain_page

_VERSION_PATH = f"{PATH}{{version}}/"
_FILE_PATH = f"{_VERSION_PATH}{{name}}"
CONFORMANCE_PAGES = (
    Page(PATH, "getConformance", "Index of the conformance suite", JSON.media_type),
)
"""The pages of the OpenAPI document; the index has the URLs of the files."""

_KEPT = "public, max-age=3600"
_IMMUTABLE = "public, max-age=31536000, immutable"
_POST = "curl -s -H 'Content-Type: application/json' -d @- $SERVER"
# A conversation of a runner and an adapter.
_CONVERSATION = """\
runner:  {"type":"hello","protocol":1,"suite":"…"}
adapter: {"type":"hello","protocol":1,"name":"mine","version":"1","language":"C"}
runner:  {"type":"case","id":"…","kind":"table","resource":"/rope","parameters":{…},"positions":[…]}
adapter: {"type":"answer","dtype":"float32","arrays":{"cos":[[…]],"sin":[[…]]}}
runner:  {"type":"bye"}
"""
_MEDIA_TYPES = {SUMS: TEXT_MEDIA_TYPE, ARCHIVE: "application/zip"}


@dataclass(frozen=True)
class ServedSuite:
    """The release in this package, ready to be sent.

    Attributes:
        version: its version.
        index: the index, as JSON.
        home: the index, as a page.
        files: vector files, schema, checksums and archive by name; the page of a vector file goes
            by its name without extension, and the index by "".
    """

    version: str
    index: WholeFile
    home: WholeFile
    files: Mapping[str, WholeFile]

    def file(self, version: str, name: str) -> WholeFile:
        """Return a file of a version, its index if name is ""; raises NotFound, RevisionRetired."""
        if version != self.version and version in changes():
            raise RevisionRetired(
                f"Version {version} of the conformance suite is no longer served; "
                f"the current one is {self.version}: {PATH} lists its files"
            )
        if version != self.version or name not in self.files:
            shown = shortened(f"{PATH}{version}/{name}")
            raise NotFound(f"There is no {shown}; {PATH} lists the files of {self.version}")
        return self.files[name]


def add_conformance(app: FastAPI, delivery: Delivery) -> None:
    """Add the routes of the suite."""

    async def served() -> ServedSuite:
        return await delivery.scheduler.made(_SERVED, PATH)

    async def home(request: Request) -> Answer:
        read_parameters(NoParameters, parse_query(request.scope["query_string"]))
        return (await served()).home.answer(request.scope)

    async def index(request: Request) -> Answer:
        return (await served()).index.answer(request.scope)

    async def file(request: Request) -> Answer:
        asked = request.path_params
        return (await served()).file(asked["version"], asked["name"]).answer(request.scope)

    async def home_of(request: Request) -> Answer:
        (await served()).file(request.path_params["version"], "")
        return await home(request)

    async def index_of(request: Request) -> Answer:
        return (await served()).file(request.path_params["version"], "").answer(request.scope)

    app.router.routes.append(BrowserRoute(PATH, home))
    add_page(app, PATH, index)
    app.router.routes.append(BrowserRoute(_VERSION_PATH, home_of))
    add_page(app, _VERSION_PATH, index_of)
    add_page(app, _FILE_PATH, file)


def _served(_: str) -> ServedSuite:
    release = Release.packaged()
    index = release.index()
    bodies = {**release.files, ARCHIVE: release.archive()}
    files = {
        name: _file(body, name, _IMMUTABLE, "Accept-Encoding") for name, body in bodies.items()
    }
    for name, content in release.contents.items():
        url = f"{PATH}{release.version}/{name}"
        files[name.removesuffix(".json")] = _compressed(_vectors_page(content, url))
    files[""] = _file(orjson.dumps(index), "", _KEPT, "Accept, Accept-Encoding")
    return ServedSuite(
        release.version,
        files[""],
        _compressed(_home_page(index)),
        files,
    )


_SERVED = MadeOnDemand((PATH,), _served)


def _file(body: bytes, name: str, cache_control: str, vary: str) -> WholeFile:
    media_type = _MEDIA_TYPES.get(name, JSON.media_type)
    headers = {"Content-Type": media_type, "Cache-Control": cache_control, "Vary": vary}
    return _compressed(WholeFile(body, headers))


def _compressed(file: WholeFile) -> WholeFile:
    """Return the file, compressed now: on the event loop that would take too long."""
    _ = file.compressed
    return file


def _home_page(index: Mapping[str, Any]) -> WholeFile:
    rows = "".join(
        f"<li>{_link(each['url'].removesuffix('.json'), each['name'])}: "
        f"{counted(each['cases'], 'case')}; {_link(each['url'], each['file'])}, "
        f"{each['bytes']} bytes</li>"
        for each in index["files"]
    )
    parts = {"All files": index["zip"], "Schema": index["schema"], "SHA-256": index["sums"]}
    links = "".join(
        f"<li>{title}: {_link(each['url'], each['url'].rpartition('/')[2])}</li>"
        for title, each in parts.items()
    )
    changed = "".join(
        f"<h3>{each['version']}</h3><pre>{escape(each['changes'])}</pre>"
        for each in index["changelog"]
    )
    content = (
        f"<p>Version {index['version']}: {counted(index['cases'], 'case')} of positional "
        "encodings, for implementations in any language. Each has exact numbers, the tolerance of "
        "an honest implementation in float32, and the mistakes that it catches.</p>"
        f"<h2>Files</h2><ul>{rows}{links}</ul>"
        "<h2>Judge an implementation</h2><pre>posref conformance run -- COMMAND</pre>"
        "<p>COMMAND starts an adapter: it reads messages from standard input and writes answers to "
        f"standard output, one JSON object a line.</p><pre>{escape(_CONVERSATION)}</pre><p>The "
        "section “Write an adapter” of docs/conformance.md has all members, and an adapter.</p>"
        f"<h2>Changes</h2>{changed}"
    )
    return plain_page("Conformance suite", content)


def _vectors_page(file: Mapping[str, Any], url: str) -> WholeFile:
    """Return the page of a vector file: its cases, and the mistakes that they catch."""
    cases = "".join(
        _case(case, f"curl -s $SERVER{url} | jq '.cases[{place}]")
        for place, case in enumerate(file["cases"])
    )
    mistakes = "".join(_mistake(name, known) for name, known in file["flags"].items())
    content = (
        f"<p>{counted(len(file['cases']), 'case')} of the {_link(PATH, 'conformance suite')}; "
        f"{_link(url, 'all numbers')} as JSON. $SERVER is the address of this server.</p>{cases}"
        f'<h2 id="mistakes">The mistakes</h2><ul>{mistakes}</ul>'
    )
    return plain_page(file["name"], content)


def _case(case: Mapping[str, Any], asks: str) -> str:
    """Return a case, and the mistakes that it catches; asks is a command that prints it."""
    number = case["id"].rpartition("/")[2]
    # A body has the x of the case, unless it has one of its own.
    x = "{x} + " if "x" in case else ""
    flags = "".join(
        f"<li>{_flag(flag, case, f'{asks} | {x}.flags[{place}]')}</li>"
        for place, flag in enumerate(case["flags"])
    )
    positions = ", ".join(map(str, case.get("positions", ())))
    return (
        f'<h2 id="{number}"><a href="#{number}">{case["id"]}</a></h2>'
        f"<p>{escape(case['comment'])}</p>"
        f"<pre>{escape(orjson.dumps(case['parameters']).decode())}</pre>"
        + (f"<p>Positions: {positions}</p>" if positions else "")
        + f"<div>{_request(case['request'], asks, 'Right numbers')}</div>"
        + (f"<h3>Mistakes that it catches</h3><ul>{flags}</ul>" if flags else "")
    )


def _flag(flag: Mapping[str, Any], case: Mapping[str, Any], asks: str) -> str:
    """Return the name of a mistake, with the request for its numbers, and both compared."""
    seen = f"up to {flag['times']:g} tolerances" if "times" in flag else "another shape"
    start = f"from position {flag['from']}, " if "from" in flag else ""
    wrong, right = flag.get("request"), case["request"]
    links = f" {_request(wrong, asks, 'Wrong numbers')}" if wrong else ""
    if wrong and wrong["method"] == right["method"] == "GET":
        both = f"{right['url']}#vs={quote(wrong['url'], safe='')}"
        links += f" · {_link(both, 'Right and wrong numbers')}"
    return f"{_link('#' + flag['name'], flag['name'])} ({start}{seen}){links}"


def _mistake(name: str, known: Mapping[str, Any]) -> str:
    """Return a mistake in words."""
    threads = f" Seen in {', '.join(known['threads'])}." if known["threads"] else ""
    text = escape(f"{known['mistake']} {known['effect']}".strip() + threads)
    return f'<li id="{name}"><b>{name}</b>: {text}</li>'


def _request(request: Mapping[str, Any], asks: str, title: str) -> str:
    """Return a link, or a body to be posted, with the command that takes it from the file."""
    if request["method"] == "GET":
        return _link(request["url"], title)
    body = escape(orjson.dumps(request["body"]).decode())
    command = escape(f"{asks}.request.body' | {_POST}{request['url']}")
    return (
        f"<details><summary>{title}: POST {request['url']}</summary>"
        f"<pre>{command}</pre><pre>{body}</pre></details>"
    )


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}">{escape(text)}</a>'
