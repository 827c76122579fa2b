"""Requests: queries and bodies, refusals, the lane of the work, the memory of bodies."""

import asyncio
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from service.app import create_app
from service.delivery.budget import Budget
from service.delivery.handler import ReceivedBody, add_page
from service.delivery.negotiation import RepresentationRequest
from service.delivery.representation import Representation, represent
from service.delivery.schedule import SHORT_SECONDS, ThreadLane, Work
from service.formats import FORMATS, safetensors_file
from service.lru import shrink_shared
from service.numerics import phasors
from service.numerics.phase import FixedPointFrequencies, fixed_point
from service.numerics.setups import TURN_SECONDS
from service.numerics.tables import Document
from service.routes import COMPOSITIONS, RESOURCES, TRANSFORMS
from service.settings import Settings, default_settings
from tests.client import Client, client_of, npy_bytes
from tests.exchange import Exchange

PATHS = [*RESOURCES, *TRANSFORMS, *COMPOSITIONS]


def test_list_too_long_for_a_url_is_posted(client: Client) -> None:
    positions = list(range(0, 6000, 3))

    posted = client.post("/encoding", json={"positions": positions, "d_model": 2})
    got = client.get("/encoding?positions=0:6000:3&d_model=2")

    assert posted.json() == got.json()


def test_parameter_in_query_and_body_is_refused(client: Client) -> None:
    apart = client.post("/encoding?d_model=2", json={"seq_len": 1})
    twice = client.post("/encoding?d_model=2", json={"seq_len": 1, "d_model": 2})

    assert apart.status_code == 200
    assert twice.json()["errors"][0]["detail"] == (
        "d_model is given twice, in the query and in the body"
    )


@pytest.mark.parametrize("path", PATHS)
def test_unknown_extension_is_not_found(client: Client, path: str) -> None:
    answer = client.post(f"{path}.pickle", json={})

    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "There is no format pickle; there are json, npy, safetensors, bin, csv, png, "
        "and .sha256 after each"
    )


@pytest.mark.parametrize("path", ["/encoding", "/rope/frequencies", "/relative/sandwich"])
@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("zzz=1", "1"),
        ("dtype=float32&dtype=float64", "float64"),
        ("base=NaN", "NaN"),
        ("base=1e400", "1e400"),
        ("d_model=1_000", "1_000"),
        ("d_model=%205", " 5"),
        ("d_model=5.0", "5.0"),
        ("seq_len=%ff", "%ff"),
    ],
)
def test_malformed_query_is_refused_by_tables(
    client: Client, path: str, query: str, value: str
) -> None:
    answer = client.get(f"{path}?{query}")

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert value in [error["value"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("path", TRANSFORMS)
@pytest.mark.parametrize("query", ["zzz=1", "start=1&start=1", "start=5.0", "start=%ff"])
def test_malformed_query_is_refused_by_transforms(client: Client, path: str, query: str) -> None:
    answer = client.post(f"{path}?{query}", json={"x": [[1.0, 2.0]]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["detail"]


NO_REALS = (
    "x: elements of x are integers or booleans: send floating-point numbers, and positions under "
    "the name positions"
)


@pytest.mark.parametrize("path", [f"{each.path}?{each.example}" for each in TRANSFORMS.values()])
@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (np.ones((2, 4), "<i8"), NO_REALS),
        (np.ones((2, 4), "|b1"), NO_REALS),
        (np.ones((2, 4), "<c8"), "x: elements are complex numbers: send floating-point numbers"),
        (np.ones(4), "x: it has 1 axis, and needs at least 2: positions, then channels, last"),
    ],
)
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_transforms_refuse_integers_complex_numbers_and_single_axes(
    client: Client, path: str, array: NDArray[Any], rule: str, form: str
) -> None:
    body = npy_bytes(array) if form == "npy" else safetensors.numpy.save({"x": array})

    answer = client.post(path, content=body, headers={"Content-Type": FORMATS[form].media_type})

    assert (answer.status_code, answer.json()["type"]) == (422, "urn:posref:problem:invalid-body")
    assert answer.json()["detail"] == rule


def threads_of_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of the thread on which each answer is planned."""
    threads: list[str] = []

    def record(document: Document, request: RepresentationRequest) -> Representation:
        threads.append(threading.current_thread().name)
        return represent(document, request)

    monkeypatch.setattr("service.delivery.plans.represent", record)
    return threads


def test_long_query_is_parsed_on_a_worker_and_a_short_one_on_the_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, short = threads_of_plans(monkeypatch), "/encoding?d_model=2&positions=0,2,5"
    medium = f"{short}{',3' * 3000}"
    long = f"{short}{',3' * 15000}"

    answers = [client.get(url) for url in (short, medium, long)]

    assert [answer.status_code for answer in answers] == [200] * 3
    assert [name.rpartition("_")[0] for name in threads] == ["", "posref-short", "posref-long"]
    wrong = client.get(f"{medium},x")
    assert (wrong.status_code, wrong.json()["errors"][0]["parameter"]) == (422, "positions")


def test_function_of_a_route_gets_a_request_whose_query_is_not_parsed() -> None:
    requests: list[Request] = []

    async def page(request: Request) -> Response:
        requests.append(request)
        return Response()

    app = create_app()
    add_page(app, "/page", page)

    with client_of(app) as client:
        assert client.get("/page").status_code == 200
    assert "_query_params" not in vars(requests[0])
    assert not requests[0].query_params
    assert "_query_params" in vars(requests[0])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/encoding", {"d_model": 2, "positions": [0.5, 2]}),
        ("/rope/apply", {"x": [[1.0, 2.0]]}),
        ("/encoding/tokens", {"input_ids": [[5]], "convention": "fairseq", "d_model": 4}),
    ],
)
def test_posts_are_planned_on_workers_without_an_entity_tag(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    threads = threads_of_plans(monkeypatch)
    monkeypatch.delattr("service.delivery.representation.entity_tag")

    answers = [client.post(f"{path}.{form}", json=body) for form in ("json", "safetensors")]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert {name.partition("_")[0] for name in threads} == {"posref-short"}


def test_header_of_many_arrays_is_read_on_a_worker(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    described = safetensors_file._described

    def record(header: bytes) -> Any:
        threads.append(threading.current_thread().name.rpartition("_")[0])
        return described(header)

    monkeypatch.setattr(safetensors_file, "_described", record)
    many = {str(number): np.ones((1, 2), dtype=np.float32) for number in range(500)}
    headers = {"Content-Type": FORMATS["safetensors"].media_type}

    answer = client.post("/rope/apply", content=safetensors.numpy.save(many), headers=headers)

    assert answer.status_code == 200
    assert set(threads) == {"posref-short"}


def seconds_of_work(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that gets the estimated seconds of all work on threads."""
    seconds: list[float] = []
    tag = ThreadLane.tag

    def record(lane: ThreadLane, client: str, estimate: float) -> tuple[float, int]:
        seconds.append(estimate)
        return tag(lane, client, estimate)

    monkeypatch.setattr(ThreadLane, "tag", record)
    return seconds


WIDE_ROW = np.zeros((1, 65_000), "<f2")


@pytest.mark.full
@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("/encoding.npy?d_model=65536&seq_len=1", None),
        ("/encoding.npy?d_model=65536&positions=0.5", None),
        (
            "/encoding/grid.npy?convention=perceiver&width=3&num_bands=2000&max_resolution=7",
            None,
        ),
        ("/encoding/frequencies.safetensors?d_model=65536", None),
        ("/relative/alibi/slopes.npy?num_heads=65535", None),
        ("/relative/sandwich.npy?head_dim=65536&num_heads=1&query_len=1&head=0", None),
        (
            "/encoding/tokens.npy?part=encoding&convention=fairseq&d_model=65536",
            {"input_ids": np.array([[5]])},
        ),
        (
            "/encoding/fourier.bin?log=false",
            {"x": np.arange(1.0, 4097), "weight": 10.0 ** np.arange(16)},
        ),
        ("/encoding/boxes.bin?embed_dim=8192", {"boxes": np.ones((1, 4))}),
        ("/encoding/apply", {"x": WIDE_ROW}),
        ("/rope/apply", {"x": WIDE_ROW}),
    ],
)
def test_thousands_of_frequencies_are_evaluated_in_the_long_lane(
    monkeypatch: pytest.MonkeyPatch, url: str, sent: dict[str, NDArray[Any]] | None
) -> None:
    seen, seconds = [], seconds_of_work(monkeypatch)
    shrink_shared(0)

    def record(frequencies: Sequence[Decimal]) -> FixedPointFrequencies:
        if len(frequencies) >= 1000:
            seen.append(threading.current_thread().name.rpartition("_")[0])
        return fixed_point(frequencies)

    monkeypatch.setattr(phasors, "fixed_point", record)
    headers = {"Content-Type": FORMATS["safetensors"].media_type}
    with client_of(create_app(default_settings())) as fresh:
        if sent is None:
            answer = fresh.get(url)
        else:
            answer = fresh.post(url, content=safetensors.numpy.save(sent), headers=headers)

    assert answer.status_code == 200
    assert max(seconds) >= TURN_SECONDS
    assert set(seen) <= {"posref-long"}


@pytest.mark.full
@pytest.mark.parametrize(
    "url",
    [
        "/encoding.npy?d_model=512&seq_len=8",
        "/encoding.json?d_model=512&seq_len=50&base=1234.5",
        "/rope.npy?head_dim=256&seq_len=8&pack=concat",
    ],
)
def test_new_tables_of_model_widths_are_short_work(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    seconds = seconds_of_work(monkeypatch)
    with client_of(create_app(default_settings())) as fresh:
        assert fresh.get(url).status_code == 200

    assert max(seconds) <= SHORT_SECONDS


def test_text_of_a_table_is_short_work_once_another_of_its_width_was_computed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/encoding.npy?d_model=512&seq_len=1").status_code == 200
    seconds = seconds_of_work(monkeypatch)

    assert client.get("/encoding.json?d_model=512&seq_len=50&start=977").status_code == 200

    assert max(seconds) < SHORT_SECONDS / 2


NPY = "application/x-npy"


GOOD = npy_bytes(np.ones((2, 4), dtype=np.float32))


@pytest.mark.parametrize("path", ["/rope/apply", "/encoding/apply"])
@pytest.mark.parametrize(
    ("body", "media_type", "status", "problem"),
    [
        (GOOD[:-3], NPY, 422, "invalid-body"),
        (npy_bytes(np.ones((2, 4), dtype=">f8")), NPY, 422, "invalid-body"),
        (npy_bytes(np.ones((0, 4))), NPY, 422, "invalid-body"),
        (GOOD, "application/vnd.safetensors", 422, "invalid-body"),
        (GOOD, "application/json", 422, "invalid-body"),
        (b'{"x": [[1, 2]]', "application/json", 422, "invalid-body"),
        (b'{"x": [[1, 2]], "x": [[1, 2]]}', "application/json", 422, "invalid-body"),
        (b'{"x": [[1, 2]], "strat": 1}', "application/json", 422, "invalid-parameters"),
        (b'{"x": [[1, 2]], "start": 5.0}', "application/json", 422, "invalid-parameters"),
        (b'{"x": [[1, 2]], "positions": [1, 2]}', "application/json", 422, "invalid-body"),
        (GOOD, "text/plain", 415, "unsupported-media-type"),
        (GOOD, None, 415, "unsupported-media-type"),
    ],
    ids=range(12),
)
def test_invalid_body_has_its_problem_type(
    client: Client, path: str, body: bytes, media_type: str | None, status: int, problem: str
) -> None:
    headers = {"Content-Type": media_type} if media_type else {}

    answer = client.post(path, content=body, headers=headers)

    assert answer.status_code == status, answer.text
    assert answer.json()["type"] == f"urn:posref:problem:{problem}"
    assert answer.headers["Cache-Control"] == "no-store"


def test_media_type_may_have_parameters_and_any_case(client: Client) -> None:
    answer = client.post(
        "/rope/apply",
        content=b'{"x": [[1, 2]]}',
        headers={"Content-Type": "Application/JSON; charset=utf-8"},
    )

    assert answer.status_code == 200


@pytest.mark.full
@pytest.mark.parametrize(
    ("media_type", "limits", "setting"),
    [
        (NPY, {"max_body_bytes": 100}, "POSREF_MAX_BODY_BYTES"),
        ("application/json", {"max_json_body_bytes": 100}, "POSREF_MAX_JSON_BODY_BYTES"),
    ],
)
@pytest.mark.parametrize("path", ["/rope/apply", "/diagnose"])
@pytest.mark.parametrize("announced", [True, False])
def test_body_past_its_limit_is_refused_with_the_setting_and_the_way_out(
    media_type: str, limits: dict[str, int], setting: str, announced: bool, path: str
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 10

    content = b" " * 101 if announced else chunks()
    with client_of(create_app(Settings(**limits))) as limited:  # type: ignore[arg-type]
        answer = limited.post(path, content=content, headers={"Content-Type": media_type})

    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:posref:problem:body-too-large"
    assert answer.json()["detail"].endswith(f"({setting}): send the first rows")


def test_parameters_are_posted_as_json_only(client: Client) -> None:
    answer = client.post("/rope/frequencies", content=GOOD, headers={"Content-Type": NPY})

    assert answer.status_code == 415
    assert answer.json()["detail"].endswith("send the header Content-Type: application/json")


def test_body_with_a_content_coding_is_refused(client: Client) -> None:
    headers = {"Content-Type": NPY, "Content-Encoding": "gzip"}

    answer = client.post("/rope/apply", content=GOOD, headers=headers)

    assert answer.status_code == 415
    assert "gzip" in answer.json()["detail"]


def test_long_names_are_shortened_in_the_problem(client: Client) -> None:
    name = "a" * 30_000
    headers = {"Content-Type": "application/json"}

    answers = [
        client.get(f"/encoding?{name}=1&{name}=2"),
        client.post("/encoding", content=f'{{"{name}": 1, "{name}": 2}}', headers=headers),
        client.post(f"/encoding?{name}=1", content=f'{{"{name}": 2}}', headers=headers),
        client.post("/encoding", json={"x" * 4_000_000: 1}),
    ]

    for answer in answers:
        assert (answer.status_code, len(answer.content) < 2000) == (422, True)
    assert all("given twice" in answer.json()["detail"] for answer in answers[:3])


@pytest.mark.full
@pytest.mark.parametrize("text", ['{"layout": %s, "d_model": 2}', '{"\\ud83d\\ude00": %s}'])
def test_deep_nesting_of_json_is_refused(client: Client, text: str) -> None:
    for depth in range(900, 1000):
        body = text % ("[" * depth + "]" * depth)
        answer = client.post(
            "/encoding", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422


JSON_TYPE = {"Content-Type": "application/json"}
NPY_TYPE = {"Content-Type": NPY}
APPLY = "/rope/apply"


@contextmanager
def limited_by(**limits: int) -> Iterator[tuple[Client, Budget]]:
    """Yield a client of an application with limits, which counts no body in the end."""
    settings = default_settings().model_copy(update=limits)
    with client_of(create_app(settings)) as client:
        budget: Budget = client.app.state.delivery.budget
        yield client, budget
        assert budget.granted()["bodies"] == 0


def test_integers_sent_as_floating_point_numbers_are_granted_with_their_copy() -> None:
    ids = safetensors.numpy.save({"input_ids": np.ones((1, 2**20), dtype=np.float16)})
    headers = {"Content-Type": FORMATS["safetensors"].media_type}
    with limited_by() as (client, budget):
        url = "/encoding/tokens.npy?part=position_ids&convention=fairseq&d_model=8"
        answer = client.post(url, content=ids, headers=headers)

        assert answer.status_code == 200
        assert budget.take_fall(8 * 2**20)


def announced(body: bytes, **headers: str) -> dict[str, str]:
    return {"Content-Length": str(len(body)), **headers}


async def run_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.full
@pytest.mark.parametrize(
    ("media_type", "weight"),
    [(NPY, 1), ("application/json", 12), ("application/vnd.safetensors", 1)],
)
def test_announced_body_is_counted_before_it_arrives(media_type: str, weight: int) -> None:
    async def scenario(client: Client, budget: Budget) -> None:
        headers = {"Content-Length": "1000", "Content-Type": media_type}
        exchange = Exchange(client.app, "POST", APPLY, headers=headers)
        running = asyncio.ensure_future(exchange.run())
        await run_loop()

        assert budget.granted()["bodies"] == 1000 * weight
        exchange.leave()
        await running
        assert exchange.status == 0

    with limited_by() as (client, budget):
        client.run(scenario(client, budget))


@pytest.mark.full
def test_chunked_body_is_counted_as_it_arrives() -> None:
    async def scenario(client: Client, budget: Budget) -> None:
        exchange = Exchange(client.app, "POST", APPLY, headers=NPY_TYPE)
        running = asyncio.ensure_future(exchange.run())
        for received_bytes in (10, 20, 30):
            exchange.give(bytes(10))
            await run_loop()
            assert budget.granted()["bodies"] == received_bytes
        exchange.leave()
        await running

    with limited_by() as (client, budget):
        client.run(scenario(client, budget))


@pytest.mark.full
@pytest.mark.parametrize("is_announced", [True, False])
def test_body_is_refused_while_other_bodies_fill_the_memory_limit(is_announced: bool) -> None:
    async def scenario(client: Client, budget: Budget) -> None:
        headers = announced(GOOD, **NPY_TYPE)
        first = Exchange(client.app, "POST", APPLY, headers=headers)
        running = asyncio.ensure_future(first.run())
        await run_loop()

        chunks = [] if is_announced else [GOOD[:-1]]
        second = Exchange(client.app, "POST", APPLY, chunks, headers if is_announced else NPY_TYPE)
        await second.run()
        assert (second.status, second.json()["title"]) == (503, "Overloaded")
        assert "POSREF_MAX_HELD_BODY_BYTES" in second.json()["detail"]
        assert int(second.headers["retry-after"]) >= 1
        assert budget.refusals.counts["bodies"] == 1

        first.give(GOOD, more=False)
        await running
        assert first.status == 200
        again = Exchange(client.app, "POST", APPLY, [GOOD], headers)
        again.end()
        assert (await again.run()).body == first.body

    with limited_by(max_held_body_bytes=len(GOOD) + 10) as (client, budget):
        client.run(scenario(client, budget))


@pytest.mark.full
def test_body_past_the_memory_limit_is_read_if_no_other_is_held() -> None:
    with limited_by(max_held_body_bytes=1) as (client, budget):
        assert client.post(APPLY, content=GOOD, headers=NPY_TYPE).status_code == 200
        assert budget.refusals.counts["bodies"] == 0


def test_body_is_counted_until_its_answer_has_been_sent() -> None:
    async def scenario(client: Client, budget: Budget) -> None:
        exchange = Exchange(client.app, "POST", APPLY, [GOOD], announced(GOOD, **NPY_TYPE))
        exchange.end()
        exchange.may_send.clear()
        running = asyncio.ensure_future(exchange.run())
        await exchange.is_answered.wait()

        assert (exchange.status, budget.granted()["bodies"]) == (0, len(GOOD))
        exchange.may_send.set()
        await running
        assert (exchange.status, budget.granted()["bodies"]) == (200, 0)

    with limited_by() as (client, budget):
        client.run(scenario(client, budget))


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"x", NPY_TYPE, 422),
        (b"{", JSON_TYPE, 422),
        (b" " * 5000, JSON_TYPE, 413),
        (b" " * 5000, NPY_TYPE, 413),
        (GOOD, {"Content-Type": "text/plain"}, 415),
        (GOOD, NPY_TYPE, 200),
    ],
)
@pytest.mark.parametrize("path", [APPLY, "/encoding", "/rope/config", "/encoding/tokens"])
def test_no_body_stays_counted_after_any_answer(
    path: str, content: bytes, headers: dict[str, str], status: int
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 100):
            yield content[start : start + 100]

    with limited_by(max_body_bytes=4096, max_json_body_bytes=4096) as (client, budget):
        for body in (content, chunks()):
            answer = client.post(path, content=body, headers=headers)
            assert path != APPLY or answer.status_code == status
            assert budget.granted()["bodies"] == 0


def test_arrays_larger_than_their_body_are_counted_in_full() -> None:
    body = safetensors.numpy.save({"input_ids": np.ones((1, 1000), "|i1")})
    path = "/encoding/tokens?convention=fairseq&d_model=4"
    headers = announced(body, **{"Content-Type": "application/vnd.safetensors"})

    async def scenario(client: Client, budget: Budget) -> None:
        exchange = Exchange(client.app, "POST", path, [body], headers)
        exchange.end()
        exchange.may_send.clear()
        running = asyncio.ensure_future(exchange.run())
        await exchange.is_answered.wait()
        assert budget.granted()["bodies"] == 8000

        exchange.may_send.set()
        await running
        assert exchange.status == 200

        other = budget.grant("bodies", 1000)
        again = Exchange(client.app, "POST", path, [body], headers)
        again.end()
        assert (await again.run()).status == 503
        other.release()

    with limited_by(max_held_body_bytes=8000) as (client, budget):
        client.run(scenario(client, budget))


def test_internal_error_leaves_no_body_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("service.delivery.plans.represent", fail)
    with limited_by() as (client, _):
        assert client.post(APPLY, content=GOOD, headers=NPY_TYPE).status_code == 500


@pytest.mark.full
def test_disconnect_during_the_answer_leaves_no_body_counted() -> None:
    long = npy_bytes(np.ones((2**19, 8)))

    async def scenario(client: Client) -> None:
        exchange = Exchange(client.app, "POST", APPLY, [long], announced(long, **NPY_TYPE))
        exchange.end()
        exchange.may_send.clear()
        running = asyncio.ensure_future(exchange.run())
        await exchange.is_answered.wait()
        exchange.leave()
        exchange.may_send.set()
        await running
        assert (exchange.status, len(exchange.body) < len(long)) == (200, True)

    with limited_by() as (client, _):
        client.run(scenario(client))


@pytest.mark.parametrize(("path", "media_type"), [("/diagnose", NPY), (APPLY, "application/json")])
def test_long_body_is_not_received_if_its_answer_would_wait_too_long(
    path: str, media_type: str
) -> None:
    headers = {"Content-Type": media_type, "Content-Length": str(2**21)}

    async def scenario(client: Client) -> None:
        children = client.app.state.delivery.scheduler.children
        exchange = Exchange(client.app, "POST", path, headers=headers)
        async with Work(children, 100).slot(), Work(children, 2).slot():
            # No part of the body ever comes.
            await asyncio.wait_for(exchange.run(), 10)
        assert exchange.status == 503

    with limited_by(threads=1, wait_seconds=1) as (client, _):
        client.run(scenario(client))


@pytest.mark.parametrize("length_bytes", [1000, 2**21])
def test_body_in_chunks_of_any_size_is_kept_whole(length_bytes: int) -> None:
    content = np.random.default_rng(1).bytes(length_bytes)
    budget = Budget(2**30)
    body = ReceivedBody(FORMATS["npy"], default_settings(), budget, "")  # type: ignore[arg-type]
    tracemalloc.start()
    for start in range(0, length_bytes, 100):
        body.add(content[start : start + 100])
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    body.expect(body.length_bytes)

    assert held_bytes < 2**17
    assert bytes(body.content()) == content
    assert budget.granted()["bodies"] == length_bytes
    body.close()
    body.close()
    assert budget.granted()["bodies"] == 0
