"""Resources and transforms as endpoints of an application: every method, every spelling."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.delivery.bodies import (
    ReceivedBody,
    answer_body,
    format_of_body,
    reading_work,
    require_json,
)
from service.delivery.composition import Composition
from service.delivery.examinations import Examination
from service.delivery.leaving import unless_gone
from service.delivery.openapi import get_operation, post_operation
from service.delivery.openapi_arrays import posted_operation
from service.delivery.openapi_examinations import examination_operation
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
from service.tables.table import size_bytes

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
            return await unless_gone(request.receive, delivery.answer(request.scope, planned()))

        async def answered() -> Response:
            plan = await delivery.workers.run(planned, reading_work(len(query), is_text=True))
            return await delivery.answer(request.scope, plan)

        return await unless_gone(request.receive, answered())

    async def post(request: Request) -> Response:
        wanted, query = Wanted.by(request), _query(request)
        require_json(request)

        def planned(body: ReceivedBody) -> Plan:
            values = _merged(query, read_object(body.take()))
            parameters = read_parameters(resource.parameters, values)
            document = resource.resolve(parameters)
            return delivery.plan_uncached(document, replace(wanted, revision=parameters.revision))

        async def answered(body: ReceivedBody) -> Response:
            work = reading_work(body.length_bytes, is_text=True)
            plan = await delivery.workers.run(partial(planned, body), work)
            return await delivery.answer_uncached(plan)

        return await answer_body(request, JSON, delivery, answered)

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

        def planned(content: Input) -> Plan:
            parameters = read_parameters(posted.parameters, _merged(query, content.parameters))
            document = posted.resolve(parameters, content)
            return delivery.plan_uncached(document, replace(wanted, default=form))

        def begun(body: ReceivedBody) -> tuple[Plan | Callable[[], Plan], int]:
            """Read the body, and go on unless what is in it shows that it takes long.

            Returns:
                Also the bytes of its arrays, which may be more than have come.
            """
            content = form.read(body.take(), posted.names)
            posted.check(content)
            rest = partial(planned, content)
            is_short = posted.work(content.arrays) <= SHORT_WORK
            return rest() if is_short else rest, sum(map(size_bytes, content.arrays.values()))

        async def answered(body: ReceivedBody) -> Response:
            work = reading_work(body.length_bytes, is_text=form.is_text)
            plan, array_bytes = await delivery.workers.run(partial(begun, body), work)
            body.held.grow(array_bytes)
            if not isinstance(plan, Plan):
                plan = await delivery.workers.run(plan, SHORT_WORK + 1)
            return await delivery.answer_uncached(plan)

        return await answer_body(request, form, delivery, answered)

    for suffix in ("", EXTENSION):
        path = posted.path + suffix
        app.add_api_route(path, post, methods=["POST"], **posted_operation(posted, suffix))


def add_report(app: FastAPI, report: Report, delivery: Delivery) -> None:
    """Serve a report: POST of a JSON object."""

    async def post(request: Request) -> Response:
        parameters = read_parameters(report.parameters, _query(request))
        require_json(request)

        def reported(body: ReceivedBody) -> Response:
            return report_answer(report.report(parameters, read_object(body.take())))

        async def answered(body: ReceivedBody) -> Response:
            # Numbers of high precision are made on the way, however short the object.
            return await delivery.workers.run(partial(reported, body), SHORT_WORK + 1)

        return await answer_body(request, JSON, delivery, answered)

    app.add_api_route(report.path, post, methods=["POST"], **report_operation(report))


def add_examination(app: FastAPI, examination: Examination, delivery: Delivery) -> None:
    """Serve an examination: POST of arrays."""

    async def post(request: Request) -> Response:
        query, form = _query(request), format_of_body(request)

        def begun(body: ReceivedBody) -> tuple[Callable[[], Response], int]:
            content = form.read(body.take(), examination.names)
            parameters = read_parameters(examination.parameters, _merged(query, content.parameters))
            examination.check(content)
            arrays = content.arrays
            held_bytes = sum(map(size_bytes, arrays.values())) + examination.copied_bytes(arrays)
            return lambda: report_answer(examination.examine(parameters, content)), held_bytes

        async def answered(body: ReceivedBody) -> Response:
            work = reading_work(body.length_bytes, is_text=form.is_text)
            examined, held_bytes = await delivery.workers.run(partial(begun, body), work)
            body.held.grow(held_bytes)
            return await delivery.workers.run(examined, SHORT_WORK + 1)

        return await answer_body(request, form, delivery, answered)

    documentation = examination_operation(examination)
    app.add_api_route(examination.path, post, methods=["POST"], **documentation)


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
