"""Resources and transforms as endpoints of an application: every method, every spelling."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.delivery.bodies import (
    format_of_body,
    reading_work,
    receive_body,
    require_json,
)
from service.delivery.composition import Composition
from service.delivery.openapi import get_operation, post_operation
from service.delivery.openapi_arrays import posted_operation
from service.delivery.openapi_pages import report_operation
from service.delivery.parameters import NoParameters, given_twice, parse_query, read_parameters
from service.delivery.reports import Report, report_answer
from service.delivery.resource import Resource, Transform
from service.delivery.respond import Delivery, Plan
from service.delivery.wanted import Wanted
from service.delivery.workers import SHORT_WORK
from service.errors import InvalidParameters
from service.formats.json_text import JSON, read_object
from service.formats.received import Input

Endpoint = Callable[[Request], Awaitable[Response]]

EXTENSION = ".{extension}"

# Reading a longer one keeps the event loop for more than some milliseconds.
_SHORT_QUERY_BYTES = 4096


def add_resource(app: FastAPI, resource: Resource, delivery: Delivery) -> None:
    """Serve a resource: GET and HEAD by query, POST by JSON object, with and without extension."""

    async def get(request: Request) -> Response:
        def planned() -> Plan:
            wanted = Wanted.by(request)
            parameters = read_parameters(resource.parameters, _query(request))
            wanted = replace(wanted, revision=parameters.revision)
            return delivery.plan(request.scope, resource.resolve(parameters), wanted)

        query: bytes = request.scope["query_string"]
        if len(query) <= _SHORT_QUERY_BYTES:
            return await delivery.answer(request.scope, planned())
        plan = await delivery.workers.run(planned, reading_work(query, is_text=True))
        return await delivery.answer(request.scope, plan)

    async def post(request: Request) -> Response:
        wanted, query = Wanted.by(request), _query(request)
        require_json(request)
        body = await receive_body(request, JSON, delivery.settings)

        def planned() -> Plan:
            values = _merged(query, read_object(body))
            parameters = read_parameters(resource.parameters, values)
            document = resource.resolve(parameters)
            return delivery.plan_uncached(document, replace(wanted, revision=parameters.revision))

        plan = await delivery.workers.run(planned, reading_work(body, is_text=True))
        return await delivery.answer_uncached(plan)

    for suffix in ("", EXTENSION):
        path = resource.path + suffix
        app.add_api_route(path, get, methods=["GET"], **get_operation(resource, suffix))
        app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)
        app.add_api_route(path, post, methods=["POST"], **post_operation(resource, suffix))


def add_posted(app: FastAPI, posted: Transform | Composition, delivery: Delivery) -> None:
    """Serve what is made of arrays: POST of them, with and without extension."""

    async def post(request: Request) -> Response:
        wanted, query = Wanted.by(request), _query(request)
        form = format_of_body(request)
        body = await receive_body(request, form, delivery.settings)

        def planned(content: Input) -> Plan:
            parameters = read_parameters(posted.parameters, _merged(query, content.parameters))
            document = posted.resolve(parameters, content)
            return delivery.plan_uncached(document, replace(wanted, default=form))

        def begun() -> Plan | Callable[[], Plan]:
            """Read the body, and go on unless what is in it shows that it takes long."""
            content = form.read(body, posted.names)
            posted.check(content)
            rest = partial(planned, content)
            return rest() if posted.work(content.arrays) <= SHORT_WORK else rest

        plan = await delivery.workers.run(begun, reading_work(body, is_text=form.is_text))
        if not isinstance(plan, Plan):
            plan = await delivery.workers.run(plan, SHORT_WORK + 1)
        return await delivery.answer_uncached(plan)

    for suffix in ("", EXTENSION):
        path = posted.path + suffix
        app.add_api_route(path, post, methods=["POST"], **posted_operation(posted, suffix))


def add_report(app: FastAPI, report: Report, delivery: Delivery) -> None:
    """Serve a report: POST of a JSON object."""

    async def post(request: Request) -> Response:
        parameters = read_parameters(report.parameters, _query(request))
        require_json(request)
        body = await receive_body(request, JSON, delivery.settings)

        def answered() -> Response:
            return report_answer(report.report(parameters, read_object(body)))

        # Numbers of high precision are made on the way, however short the object.
        return await delivery.workers.run(answered, max(len(body), SHORT_WORK + 1))

    app.add_api_route(report.path, post, methods=["POST"], **report_operation(report))


def add_page(app: FastAPI, path: str, page: Endpoint, **documentation: Any) -> None:
    """Serve a page that takes no parameters, by GET and HEAD."""

    async def get(request: Request) -> Response:
        read_parameters(NoParameters, _query(request))
        return await page(request)

    app.add_api_route(path, get, methods=["GET"], **documentation)
    app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)


def _query(request: Request) -> dict[str, str]:
    return parse_query(request.scope["query_string"])


def _merged(query: Mapping[str, str], content: Mapping[str, Any]) -> dict[str, Any]:
    """Join the parameters of the query and of the body; none may be in both."""
    for name in query:
        if name in content:
            places = ", in the query and in the body"
            raise InvalidParameters(given_twice(name, query[name], places))
    return {**query, **content}
