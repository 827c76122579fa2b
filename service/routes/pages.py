"""Pages: the directory, probes, metrics and documentation."""

import asyncio
from html import escape
from importlib.resources import files

import orjson
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from service import __version__
from service.delivery.dispatch import Delivery
from service.delivery.handler import add_page
from service.delivery.negotiation import list_header, media_quality, raw
from service.delivery.openapi.operations import page_operation
from service.delivery.problems import HTML_MEDIA_TYPE as HTML
from service.delivery.problems import html_headers
from service.delivery.responses import Answer
from service.encodings.registry import TABLE_REVISIONS
from service.errors import NotReady
from service.formats import FORMATS
from service.routes import ENDPOINTS

_TABLES = [endpoint for endpoint in ENDPOINTS if endpoint.has_get]
_POSTED = [endpoint for endpoint in ENDPOINTS if not endpoint.has_get]
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_ASSETS = "/docs/assets"
_ROBOTS = "User-agent: *\nAllow: /$\nAllow: /docs\nDisallow: /\n"


def add_pages(app: FastAPI, delivery: Delivery) -> None:
    """Add the routes of all pages."""

    async def ready(request: Request) -> Response:
        if delivery.is_draining:
            raise NotReady("this process is about to end: send requests to another")
        return await _alive(request)

    async def counts(request: Request) -> Response:
        accept = list_header(request.scope, b"accept")
        return _answer(*delivery.metrics.exposition(accept), vary="Accept")

    for path, page, name, summary, media_type in (
        ("/", _home, "getHome", "All resources", _JSON),
        ("/livez", _alive, "getLive", "Liveness probe", _JSON),
        ("/readyz", ready, "getReady", "Readiness probe", _JSON),
        ("/metrics", counts, "getMetrics", "Metrics for Prometheus", "text/plain"),
        ("/robots.txt", _robots, "getRobots", "Rules for crawlers", "text/plain"),
    ):
        schema = {"type": "object" if media_type == _JSON else "string"}
        add_page(app, path, page, **page_operation(name, summary, media_type, schema))
    add_page(app, "/openapi.json", _OpenApiPage().answer, include_in_schema=False)
    add_page(app, "/docs", _docs, include_in_schema=False)
    static = files("fastapi_offline") / "static"
    app.mount(_ASSETS, StaticFiles(directory=str(static)), name="docs-assets")


def _answer(
    body: bytes, media_type: str, cache_control: str = "no-store", vary: str = ""
) -> Answer:
    headers = {"Content-Type": media_type, "Cache-Control": cache_control}
    return Answer(200, raw(headers | ({"Vary": vary} if vary else {})), body)


async def _home(request: Request) -> Response:
    accept = list_header(request.scope, b"accept")
    if accept and media_quality(accept, HTML) > media_quality(accept, _JSON):
        page = _home_page()
        return Answer(200, html_headers(page, "no-store", vary="Accept"), page.encode())
    return _answer(orjson.dumps(_directory()), _JSON, vary="Accept")


def _directory() -> dict[str, object]:
    links = [
        {
            "href": f"{resource.path}?{resource.example}",
            "rel": "item",
            "method": "GET",
            "title": resource.summary,
        }
        for resource in _TABLES
    ]
    links += [
        {"href": posted.path, "rel": "item", "method": "POST", "title": posted.summary}
        for posted in _POSTED
    ]
    links += [
        {"href": "/docs", "rel": "service-doc", "method": "GET", "title": "Documentation"},
        {"href": "/openapi.json", "rel": "service-desc", "method": "GET", "title": "OpenAPI"},
        {"href": "/metrics", "rel": "monitor", "method": "GET", "title": "Metrics for Prometheus"},
        {"href": "/readyz", "rel": "status", "method": "GET", "title": "Readiness"},
    ]
    return {
        "name": "posref",
        "version": __version__,
        "kinds": dict(TABLE_REVISIONS),
        "formats": {form.extension: form.media_type for form in FORMATS.values()},
        "links": links,
    }


def _home_page() -> str:
    rows = "\n".join(
        f'<li><a href="{escape(f"{resource.path}?{resource.example}")}">'
        f"<code>{resource.path}</code></a> {escape(resource.summary)}</li>"
        for resource in _TABLES
    )
    posts = "\n".join(
        f"<li><code>POST {posted.path}</code> {escape(posted.summary)}</li>" for posted in _POSTED
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>posref</title>'
        f'<link rel="icon" href="{_ASSETS}/favicon.png">'
        '<meta name="viewport" content="width=device-width">'
        "<style>body{font:1rem/1.6 sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}"
        "</style></head><body><h1>posref</h1>"
        "<p>The reference server for positional encodings: request a URL, get the exact table.</p>"
        f"<ul>\n{rows}\n{posts}\n</ul>"
        '<p><a href="/docs">Documentation</a> · <a href="/openapi.json">OpenAPI</a> · '
        f"version {__version__}</p></body></html>"
    )


async def _alive(_: Request) -> Response:
    return _answer(b'{"status":"ok"}', _JSON)


async def _robots(_: Request) -> Response:
    return _answer(_ROBOTS.encode(), _TEXT, "public, max-age=86400")


class _OpenApiPage:
    """The OpenAPI document, generated once, in a thread, at the first request."""

    def __init__(self) -> None:
        self._body = b""
        self._lock = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        async with self._lock:
            if not self._body:
                self._body = await asyncio.to_thread(lambda: orjson.dumps(request.app.openapi()))
        return _answer(self._body, _JSON, "public, max-age=3600")


async def _docs(_: Request) -> Response:
    response = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="posref",
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
        # The validator would send the address of the document to another host.
        swagger_ui_parameters={"validatorUrl": None},
    )
    page = bytes(response.body).decode()
    return Answer(200, html_headers(page, "public, max-age=3600"), page.encode())
