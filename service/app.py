"""The application: routes, layers and lifespan."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request

from service import __version__
from service.conformance.served import CONFORMANCE_PAGES, add_conformance
from service.delivery.cache import ResponseCacheMiddleware
from service.delivery.clients import ClientAddresses
from service.delivery.dispatch import STATE, Delivery
from service.delivery.handler import RequestRoute, add_endpoint
from service.delivery.middleware import Authorized, CorsMiddleware, ErrorMiddleware
from service.delivery.negotiation import list_header
from service.delivery.openapi.operations import openapi_document
from service.delivery.problems import add_problem_handlers
from service.delivery.schedule import IMPORT_SECONDS, SHORT_SECONDS
from service.delivery.telemetry.log import LineWriter
from service.delivery.telemetry.metrics import SharedCounts, sharing
from service.delivery.telemetry.traffic import TelemetryMiddleware, target_of
from service.errors import Fault, PosrefError
from service.routes import ENDPOINTS, GET_REPORTS, REPORTS, RESOURCES
from service.routes.browser_pages import ProblemPages, add_browser_pages
from service.routes.pages import PAGES, add_pages
from service.routes.table_urls import conventions, repaired
from service.settings import Settings, load_settings

# What is read of a longer URL takes more than short work.
_MAX_REPAIRED_LENGTH = 2048


def create_app(
    settings: Settings | None = None,
    shared: SharedCounts | None = None,
    writer: LineWriter | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        settings: by default those of the POSREF_* variables.
        shared: the counts that this process shares with the others of a server.
        writer: the writer of the log, if requests are logged.
    """
    settings = settings or load_settings()
    delivery = Delivery(settings, shared, writer)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, object]]:
        async with sharing(delivery.metrics.share):
            yield {STATE: delivery}
        await delivery.children.close()
        delivery.scheduler.close()
        delivery.metrics.share(is_last=True)

    app = FastAPI(
        title="posref",
        version=__version__,
        description="The reference server for positional encodings.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.delivery = delivery
    app.router.route_class = RequestRoute
    add_browser_pages(app, delivery)
    for path in ENDPOINTS:
        add_endpoint(
            app,
            path,
            ENDPOINTS,
            delivery,
            has_get=path in {*RESOURCES, *GET_REPORTS},
            has_post=path not in GET_REPORTS or path in REPORTS,
            is_report=path in {*REPORTS, *GET_REPORTS},
        )
    add_pages(app, delivery)
    add_conformance(app, delivery)
    about = {"title": app.title, "description": app.description, "version": app.version}
    pages = (*PAGES, *CONFORMANCE_PAGES)
    document = cache(partial(openapi_document, about, ENDPOINTS.values(), pages))
    app.openapi = document  # type: ignore[method-assign]
    names = partial(delivery.scheduler.run, conventions, IMPORT_SECONDS)
    add_problem_handlers(app, names, partial(_repaired, delivery))
    app.add_middleware(ErrorMiddleware)
    app.add_middleware(ResponseCacheMiddleware, cache=delivery.response_cache)
    if settings.keys:
        app.add_middleware(Authorized, keys=settings.keys)
    app.add_middleware(ProblemPages)
    app.add_middleware(CorsMiddleware)
    app.add_middleware(
        TelemetryMiddleware,
        tallies=delivery.tallies,
        log=delivery.log,
        addresses=ClientAddresses(settings.trusted_networks),
    )
    return app


async def _repaired(delivery: Delivery, request: Request, error: PosrefError) -> Sequence[Fault]:
    """Return the faults of a GET with the URLs that repair it; raises Overloaded."""
    faults, url = error.faults, error.url or quote(target_of(request.scope), safe="/?=&%+,:")
    if len(url) > _MAX_REPAIRED_LENGTH:
        return faults
    accept = list_header(request.scope, b"accept")
    paths = {(each.suggestion or "").partition("?")[0] for each in faults if each.where is None}
    has_imports = (paths & RESOURCES.keys()) - RESOURCES.made.keys()
    find = partial(repaired, faults, url, accept, delivery.settings)
    return await delivery.scheduler.run(find, IMPORT_SECONDS if has_imports else SHORT_SECONDS)
