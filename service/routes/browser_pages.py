"""Pages for browsers: of tables, of ``/`` and of problems, and the files that they load.

A browser is a client whose Accept ranks HTML above JSON. The URL of the page of a table is that of
the table. Each page can be read without scripts; ``app.js`` replaces what can be read.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from shlex import quote as quoted_word
from string import Template
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from fastapi import FastAPI
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.dispatch import Delivery
from service.delivery.endpoints import Endpoint, Report
from service.delivery.handler import QUERY_BYTE_SECONDS, add_page
from service.delivery.middleware import ASSETS
from service.delivery.negotiation import list_header, prefers_page, raw
from service.delivery.openapi.operations import example_request
from service.delivery.parameters import NoParameters, parse_query, read_parameters
from service.delivery.problems import MEDIA_TYPE, html_headers
from service.delivery.responses import Answer, WholeFile
from service.delivery.schedule import SHORT_SECONDS, cancel_on_disconnect
from service.encodings.family import choices
from service.errors import NotFound, shortened
from service.grammar import to_query
from service.lazily import MadeOnDemand
from service.routes import ENDPOINTS, REPORTS, RESOURCES
from service.settings import Settings

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

# The media type of an asset, and its relation to a page that links to it.
_KINDS = {
    "css": ("text/css", "stylesheet"),
    "js": ("text/javascript", "modulepreload"),
    "json": ("application/json", ""),
    "svg": ("image/svg+xml", "icon"),
    "txt": ("text/plain", ""),
}
# The modules of the view of a table: pages open with it. Those of other views load when asked for.
_FIRST = ("app", "catalogue", "charts", "colours", "heatmap", "lib", "snippets", "sources", "table")
_PRELOADED = {f"{name}.js" for name in _FIRST}
_MAX_SHOWN = 300
# A parameter without a value.
_EMPTY = re.compile(rb"[^=]+=")

# What a page without a script loads.
_STYLES = ("/explorer.css", "/readable.css", "/icon.svg")

# The view in which a file for a report can be dropped; others are about models.
_VIEWS = dict.fromkeys(("/compare", "/diagnose", "/identify"), "file")


@cache
def _explorer() -> tuple[Mapping[str, WholeFile], Template]:
    """Return the assets by path, which changes when one does, and the page that loads them."""
    bodies = {each.name: each.read_bytes() for each in (files("service") / "explorer").iterdir()}
    page = Template(bodies.pop("page.html").decode())
    names = sorted(bodies)
    place = f"{ASSETS}{sha256(b''.join(bodies[name] for name in names)).hexdigest()[:16]}/"
    assets, links = {}, [f'<script type="module" src="{place}app.js"></script>']
    for name in names:
        media_type, relation = _KINDS[name.rpartition(".")[2]]
        if relation and (relation != "modulepreload" or name in _PRELOADED):
            links.append(f'<link rel="{relation}" href="{place}{name}">')
        headers = {
            "Content-Type": f"{media_type}; charset=utf-8",
            "Cache-Control": "public, max-age=31536000, immutable",
            "Vary": "Accept-Encoding",
        }
        assets[place + name] = WholeFile(bodies[name], headers)
    return assets, Template(page.safe_substitute(links="\n".join(links)))


class BrowserRoute(Route):
    """A route of browsers alone: others come to the next route of the same path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is not Match.FULL or not prefers_page(list_header(scope, b"accept")):
            return Match.NONE, {}
        return match, {**child, "route": self}


def add_browser_pages(app: FastAPI, delivery: Delivery) -> None:
    """Add the routes of the pages, before those of other clients, and of their assets."""

    async def table(request: Request) -> Answer:
        path, query = request.scope["path"], request.scope["query_string"]
        given = [field for field in query.split(b"&") if field]
        filled = [field for field in given if not _EMPTY.fullmatch(field)]
        if len(filled) < len(given):
            # A form sends every field.
            headers = {"Location": f"{path}?{_quoted(b'&'.join(filled))}"}
            return Answer(303, raw({**headers, "Cache-Control": "no-store"}))
        endpoint = await delivery.scheduler.made(ENDPOINTS, path)
        describe = await delivery.scheduler.made(ENDPOINTS, "/describe")
        page = partial(_table_page, endpoint, describe, query, delivery.settings)
        made = delivery.scheduler.run(page, max(SHORT_SECONDS, len(query) * QUERY_BYTE_SECONDS))
        return (await cancel_on_disconnect(request.receive, made)).answer(request.scope)

    async def home(request: Request) -> Answer:
        read_parameters(NoParameters, parse_query(request.scope["query_string"]))
        return (await delivery.scheduler.made(_HOME, "/")).answer(request.scope)

    async def asset(request: Request) -> Answer:
        path = request.scope["path"]
        if path not in _explorer()[0]:
            raise NotFound(f"There is no {shortened(path)}; the page / names the files that it has")
        return _explorer()[0][path].answer(request.scope)

    for path in RESOURCES:
        app.router.routes.append(BrowserRoute(path, table))
    app.router.routes.append(BrowserRoute("/", home))
    add_page(app, f"{ASSETS}{{folder}}/{{name}}", asset)


def _quoted(query: bytes) -> str:
    return quote(query, safe="=&%+,:-._~")


def _page(title: str, content: object, data: object, form: str = "") -> bytes:
    """Return a page with a title, content and a form to read, and the data for the script."""
    text = f"<p><a href='/'>posref</a></p><h1>{escape(title)}</h1>{_html(content)}{form}"
    answer = orjson.dumps(data).decode().replace("<", r"\u003c")
    page = _explorer()[1].substitute(title=escape(title), content=text, answer=answer)
    return page.encode()


def plain_page(title: str, content: str) -> WholeFile:
    """Return a page of HTML that has no script.

    Args:
        title: its title and heading.
        content: HTML.
    """
    names = [name for name in _explorer()[0] if name.endswith(_STYLES)]
    links = "".join(
        f'<link rel="{_KINDS[name.rpartition(".")[2]][1]}" href="{name}">' for name in names
    )
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · '
        'posref</title><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">{links}</head><body><main>'
        f'<article class="readable"><p><a href="/">posref</a></p><h1>{escape(title)}</h1>{content}'
        "</article></main></body></html>"
    )
    return _file(page.encode())


def _html(content: Any, *, has_links: bool = True) -> str:
    """Return content as HTML: an object as a list of terms, a path of this server as a link."""
    if isinstance(content, dict):
        items = ((name, each) for name, each in content.items() if each or each == 0)
        rows = (
            f"<dt>{escape(name)}</dt><dd>{_html(each, has_links=name != 'value')}</dd>"
            for name, each in items
        )
        return f"<dl>{''.join(rows)}</dl>"
    if isinstance(content, list):
        return f"<ul>{''.join(f'<li>{_html(each)}</li>' for each in content)}</ul>"
    text = escape(shortened(to_query(content), _MAX_SHOWN))
    is_path = has_links and str(content)[:1] == "/" and str(content)[1:2] not in {"/", "\\"}
    return f'<a href="{escape(content)}">{text}</a>' if is_path else text


def _file(page: bytes) -> WholeFile:
    headers = html_headers(_POLICY, "private, no-cache")
    return WholeFile(page, {**headers, "Vary": "Accept, Accept-Encoding"})


def _table_page(
    endpoint: Endpoint, describe: Endpoint, query: bytes, settings: Settings
) -> WholeFile:
    """Return the page of a table of any length; raises PosrefError as a GET of it does."""
    given = parse_query(query)
    url = describe.parameters.model_validate({"url": f"{endpoint.path}?{_quoted(query)}"})
    report = describe.answer_to(url, (), settings)
    assert isinstance(report, Report)
    data = report.content()
    content = {
        "arrays": [
            {**each, "shape": " × ".join(map(str, each["shape"]))} for each in data["arrays"]
        ],
        "axes": ", ".join(data["axes"]),
        "parameters": data["parameters"],
        "formats": [form["url"] for form in data["formats"]],
        "frequencies": data["frequencies"],
    }
    return _file(_page(endpoint.summary, content, {"describe": data}, _form(endpoint, given)))


def _form(endpoint: Endpoint, given: Mapping[str, str]) -> str:
    """Return the form of all parameters; those that are neither given nor required are folded."""
    labels: tuple[list[str], list[str]] = ([], [])
    for name, field in endpoint.parameters.model_fields.items():
        value, needed = given.get(name, ""), " required" * field.is_required()
        control = f'<input name="{name}" value="{escape(value)}"{needed}>'
        if possible := choices(endpoint.parameters, name):
            each = (f"<option{' selected' * (it == value)}>{it}</option>" for it in ("", *possible))
            control = f'<select name="{name}"{needed}>{"".join(each)}</select>'
        about = f"<small>{escape(field.description or '')}</small>"
        is_folded = not (value or needed)
        labels[is_folded].append(f"<label><code>{name}</code>{control}{about}</label>")
    first, others = map("".join, labels)
    return (
        f'<h2>Request</h2><form action="{endpoint.path}">{first}<details><summary>More parameters'
        f"</summary>{others}</details><button>Open</button></form>"
    )


def _home_page(_: str) -> WholeFile:
    """Return the page ``/``, which imports all endpoints."""
    tables = {each.summary: f"{path}?{each.example}" for path, each in RESOURCES.items()}
    posts = {
        ENDPOINTS[path].summary: _view(path) for path in ENDPOINTS if not ENDPOINTS[path].has_get
    }
    about = {
        "For people": "/docs",
        "For programs": "/openapi.json",
        "Test vectors": "/conformance/",
    }
    content = {"Tables": tables, "With a file of yours": posts, "Documentation": about}
    return _file(_page("The reference server for positional encodings", content, {}))


_HOME = MadeOnDemand(("/",), _home_page)


def _view(path: str) -> str:
    """Return the URL of the page at which a file for a POST can be dropped."""
    if path in REPORTS:
        return f"/#view={_VIEWS.get(path, 'model')}"
    return f"/#view=post&entry={path[1:]}"


@dataclass(frozen=True)
class ProblemPages:
    """Makes a page of each problem for a browser, with the same status and headers."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_browser = scope["type"] == "http" and prefers_page(list_header(scope, b"accept"))
        start: Message = {}

        async def send_page(message: Message) -> None:
            if (b"content-type", MEDIA_TYPE.encode()) in message.get("headers", ()):
                start.update(message)
            elif not start:
                await send(message)
            else:
                # A problem is short, and comes in one piece; that to HEAD has none.
                replaced = (b"content-type", b"content-length", b"cache-control")
                kept = [each for each in start["headers"] if each[0] not in replaced]
                headers = {**html_headers(_POLICY, "no-store"), "Vary": "Accept"}
                body = message["body"]
                allowed = dict(start["headers"]).get(b"allow", b"")
                page = b""
                if body:
                    problem = orjson.loads(body)
                    # In a thread, since that of a POST may import its endpoint.
                    page = await asyncio.to_thread(_problem_page, scope, problem, allowed)
                await Answer(start["status"], [*kept, *raw(headers)], page)(scope, receive, send)

        await self.app(scope, receive, send_page if is_browser else send)


def _problem_page(scope: Scope, problem: dict[str, Any], allowed: bytes) -> bytes:
    """Return the page of a problem, with a link to each repaired request."""
    resource = scope["path"].partition(".")[0]
    if b"POST" in allowed and resource in ENDPOINTS:
        return _post_page(ENDPOINTS[resource], scope, problem)
    content = {"detail": problem["detail"], "errors": problem["errors"]}
    return _page(problem["title"], content, {"problem": problem})


def _post_page(endpoint: Endpoint, scope: Scope, problem: dict[str, Any]) -> bytes:
    """Return the page of a URL that takes a POST alone: what it takes, and where to give it."""
    query, body = example_request(endpoint)
    url = str(URL(scope=scope).replace(path=endpoint.path, query=urlencode(query)))
    words = ("curl", "--json", quoted_word(json.dumps(body)), quoted_word(url))
    content = {
        "It takes": "POST with a body of one of: " + ", ".join(endpoint.inputs.formats),
        "With a file of yours": _view(endpoint.path),
        problem["title"]: problem["detail"],
    }
    example = f"<h2>For example</h2><pre>{escape(' '.join(words))}</pre>"
    return _page(endpoint.summary, content, {"problem": problem}, example)
