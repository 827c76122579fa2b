"""Pages: the directory, probes, metrics and documentation."""

import asyncio
from importlib.resources import files

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from service import __version__
from service.delivery.dispatch import Delivery
from service.delivery.endpoints import Endpoint
from service.delivery.handler import add_page
from service.delivery.negotiation import TEXT_MEDIA_TYPE, list_header, raw
from service.delivery.openapi.operations import Page
from service.delivery.problems import content_policy, html_headers
from service.delivery.responses import Answer, WholeFile
from service.encodings.registry import table_revisions
from service.errors import NotReady
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.lazily import MadeOnDemand
from service.routes import ENDPOINTS

_ASSETS = "/docs/assets"
PAGES = (
    Page("/", "getHome", "All resources", JSON.media_type),
    Page("/livez", "getLive", "Liveness probe", JSON.media_type),
    Page("/readyz", "getReady", "Readiness probe", JSON.media_type),
    Page("/metrics", "getMetrics", "Metrics for Prometheus", "text/plain"),
    Page("/robots.txt", "getRobots", "Rules for crawlers", "text/plain"),
)
"""The pages of the OpenAPI document."""

_ROBOTS = (
    "User-agent: *\nAllow: /$\nAllow: /docs\nAllow: /explorer/\nAllow: /conformance/\nDisallow: /\n"
)


def add_pages(app: FastAPI, delivery: Delivery) -> None:
    """Add the routes of all pages."""

    async def home(_: Request) -> Response:
        body = await delivery.scheduler.made(_DIRECTORY, "/")
        return _answer(body, JSON.media_type, vary="Accept")

    async def ready(request: Request) -> Response:
        if delivery.is_draining:
            raise NotReady("this process is about to end: send requests to another")
        return await _alive(request)

    async def counts(request: Request) -> Response:
        accept = list_header(request.scope, b"accept")
        return _answer(*delivery.metrics.exposition(accept), vary="Accept")

    answers = (home, _alive, ready, counts, _robots)
    for page, answer in zip(PAGES, answers, strict=True):
        add_page(app, page.path, answer)
    add_page(app, "/openapi.json", _OpenApiPage().answer)
    add_page(app, "/docs", _docs)
    static = files("fastapi_offline") / "static"
    app.mount(_ASSETS, StaticFiles(directory=str(static)), name="docs-assets")


def _answer(
    body: bytes, media_type: str, cache_control: str = "no-store", vary: str = ""
) -> Answer:
    headers = {"Content-Type": media_type, "Cache-Control": cache_control}
    return Answer(200, raw(headers | ({"Vary": vary} if vary else {})), body)


def _directory(_: str) -> bytes:
    """Return the directory of all endpoints, which this imports."""
    links = [
        {
            "href": f"{resource.path}?{resource.example}",
            "rel": "item",
            "method": "GET",
            "title": resource.summary,
        }
        for resource in _got()
    ]
    links += [
        {"href": posted.path, "rel": "item", "method": "POST", "title": posted.summary}
        for posted in _posted()
    ]
    links += [
        {"href": "/docs", "rel": "service-doc", "method": "GET", "title": "Documentation"},
        {"href": "/openapi.json", "rel": "service-desc", "method": "GET", "title": "OpenAPI"},
        {"href": "/conformance/", "rel": "related", "method": "GET", "title": "Test vectors"},
        {"href": "/metrics", "rel": "monitor", "method": "GET", "title": "Metrics for Prometheus"},
        {"href": "/readyz", "rel": "status", "method": "GET", "title": "Readiness"},
    ]
    directory = {
        "name": "posref",
        "version": __version__,
        "kinds": table_revisions(),
        "formats": {form.extension: form.media_type for form in FORMATS.values()},
        "links": links,
    }
    return orjson.dumps(directory)


_DIRECTORY = MadeOnDemand(("/",), _directory)


def _got() -> list[Endpoint]:
    every = (each for endpoint in ENDPOINTS.values() for each in (endpoint, endpoint.by_get))
    return [endpoint for endpoint in every if endpoint is not None and endpoint.has_get]


def _posted() -> list[Endpoint]:
    return [endpoint for endpoint in ENDPOINTS.values() if not endpoint.has_get]


async def _alive(_: Request) -> Response:
    return _answer(b'{"status":"ok"}', JSON.media_type)


async def _robots(_: Request) -> Response:
    return _answer(_ROBOTS.encode(), TEXT_MEDIA_TYPE, "public, max-age=86400")


class _OpenApiPage:
    """The OpenAPI document, generated once, in a thread, at the first request."""

    def __init__(self) -> None:
        self._file: WholeFile | None = None
        self._lock = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        async with self._lock:
            if self._file is None:
                self._file = await asyncio.to_thread(self._generate, request.app)
        return self._file.answer(request.scope)

    def _generate(self, app: FastAPI) -> WholeFile:
        kept = {"Cache-Control": "public, max-age=3600", "Vary": "Accept-Encoding"}
        file = WholeFile(orjson.dumps(app.openapi()), {"Content-Type": JSON.media_type, **kept})
        assert file.compressed
        return file


# Swagger UI takes seconds to parse the document as YAML, and to read all of it again for the
# references of one operation. Here it gets the lines of all operations, and the rest of one when
# that is opened. A reference within itself stays. The validator would be another host's.
_DOCS_SCRIPT = """
let whole;
const mapped = (node, change) =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, change(value)]));
const at = keys => keys.reduce((node, key) => node?.[key], whole);
const keysOf = reference => reference.split("/").slice(1).map(
  key => key.replaceAll("~1", "/").replaceAll("~0", "~"));
const resolved = (node, within) => {
  if (typeof node !== "object" || node === null || within.includes(node.$ref)) return node;
  if (Array.isArray(node)) return node.map(each => resolved(each, within));
  const {$ref, ...others} = node;
  if (typeof $ref !== "string") return mapped(node, each => resolved(each, within));
  return {...resolved(at(keysOf($ref)), [...within, $ref]), ...others};
};
const line = ({tags, summary, operationId}) => ({tags, summary, operationId});
const parseToJson = (_, {specActions}) => text => {
  whole = JSON.parse(text);
  const paths = mapped(whole.paths, path => mapped(path, line));
  specActions.updateJsonSpec({...whole, paths, components: {}});
};
const resolveSubtree = async (_, keys) => ({spec: resolved(at(keys), []), errors: []});
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  defaultModelsExpandDepth: -1,
  syntaxHighlight: false,
  validatorUrl: null,
  plugins: [{fn: {resolveSubtree}, statePlugins: {spec: {wrapActions: {parseToJson}}}}],
});
"""


async def _docs(_: Request) -> Response:
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>posref</title>'
        f'<link rel="icon" href="{_ASSETS}/favicon.png">'
        f'<link rel="stylesheet" href="{_ASSETS}/swagger-ui.css">'
        '<link rel="preload" href="/openapi.json" as="fetch" crossorigin>'
        '<meta name="viewport" content="width=device-width">'
        '</head><body><div id="swagger-ui"></div>'
        f'<script src="{_ASSETS}/swagger-ui-bundle.js"></script>'
        f"<script>{_DOCS_SCRIPT}</script></body></html>"
    )
    return Answer(
        200, raw(html_headers(content_policy(page), "public, max-age=3600")), page.encode()
    )
