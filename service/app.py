"""The application: routes, layers and lifespan."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

from fastapi import FastAPI

from service import __version__
from service.delivery.cache import ResponseCacheMiddleware
from service.delivery.clients import ClientAddresses
from service.delivery.dispatch import STATE, Delivery
from service.delivery.handler import RequestRoute, add_endpoint
from service.delivery.middleware import Authorized, CorsMiddleware, ErrorMiddleware
from service.delivery.openapi.operations import openapi_document
from service.delivery.problems import add_problem_handlers
from service.delivery.schedule import IMPORT_SECONDS
from service.delivery.telemetry.log import LineWriter
from service.delivery.telemetry.metrics import SharedCounts, sharing
from service.delivery.telemetry.traffic import TelemetryMiddleware
from service.routes import ENDPOINTS, GET_REPORTS, REPORTS, RESOURCES
from service.routes.pages import PAGES, add_pages
from service.routes.table_urls import conventions
from service.settings import Settings, load_settings


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
    about = {"title": app.title, "description": app.description, "version": app.version}
    document = cache(partial(openapi_document, about, ENDPOINTS.values(), PAGES))
    app.openapi = document  # type: ignore[method-assign]
    names = partial(delivery.scheduler.run, conventions, IMPORT_SECONDS)
    add_problem_handlers(app, names)
    app.add_middleware(ErrorMiddleware)
    app.add_middleware(ResponseCacheMiddleware, cache=delivery.response_cache)
    if settings.keys:
        app.add_middleware(Authorized, keys=settings.keys)
    app.add_middleware(CorsMiddleware)
    app.add_middleware(
        TelemetryMiddleware,
        tallies=delivery.tallies,
        log=delivery.log,
        addresses=ClientAddresses(settings.trusted_networks),
    )
    return app
