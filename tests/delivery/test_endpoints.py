"""Endpoints: every spelling of a request, and the strictness of all of them."""

import io
import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from service.app import create_app
from service.delivery import respond
from service.delivery.representation import Representation, represent
from service.delivery.wanted import Wanted
from service.delivery.workers import SHORT_WORK, Workers
from service.formats import FORMATS
from service.routes import COMPOSITIONS, RESOURCES, TRANSFORMS
from service.settings import default_settings
from service.tables.angle import FixedPointFrequencies, fixed_point
from service.tables.document import Document
from tests.client import Client, client_of

PATHS = [
    *(resource.path for resource in RESOURCES),
    *(transform.path for transform in TRANSFORMS),
    *(composition.path for composition in COMPOSITIONS),
]


def test_a_long_list_is_posted(client: Client) -> None:
    positions = list(range(0, 6000, 3))

    posted = client.post("/encoding", json={"positions": positions, "d_model": 2})
    asked = client.get("/encoding?positions=0:6000:3&d_model=2")

    assert posted.json() == asked.json()


def test_a_posted_parameter_may_be_in_the_query_but_not_in_both(client: Client) -> None:
    apart = client.post("/encoding?d_model=2", json={"seq_len": 1})
    twice = client.post("/encoding?d_model=2", json={"seq_len": 1, "d_model": 2})

    assert apart.status_code == 200
    assert twice.json()["errors"][0]["detail"] == (
        "d_model is given twice, in the query and in the body"
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_format_that_does_not_exist_is_not_found(client: Client, path: str) -> None:
    answer = client.post(f"{path}.pickle", json={})

    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "There is no format pickle; there are json, npy, safetensors, bin, csv, png, "
        "and .sha256 after each"
    )


@pytest.mark.parametrize("path", [resource.path for resource in RESOURCES])
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
def test_a_malformed_query_is_a_problem_on_every_resource(
    client: Client, path: str, query: str, value: str
) -> None:
    answer = client.get(f"{path}?{query}")

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert value in [error["value"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("path", [transform.path for transform in TRANSFORMS])
@pytest.mark.parametrize("query", ["zzz=1", "start=1&start=1", "start=5.0", "start=%ff"])
def test_a_malformed_query_is_a_problem_on_every_transform(
    client: Client, path: str, query: str
) -> None:
    answer = client.post(f"{path}?{query}", json={"x": [[1.0, 2.0]]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["detail"]


NO_REALS = "x: elements are integers or booleans: send floating-point numbers"


@pytest.mark.parametrize("path", [transform.path for transform in TRANSFORMS])
@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (np.ones((2, 4), "<i8"), NO_REALS),
        (np.ones((2, 4), "|b1"), NO_REALS),
        (np.ones(4), "x: it has 1 axis, and must have two at least, positions and channels last"),
    ],
)
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_transforms_take_real_vectors_only(
    client: Client, path: str, array: NDArray[Any], rule: str, form: str
) -> None:
    body, stream = safetensors.numpy.save({"x": array}), io.BytesIO()
    if form == "npy":
        np.save(stream, array)
        body = stream.getvalue()

    answer = client.post(path, content=body, headers={"Content-Type": FORMATS[form].media_type})

    assert (answer.status_code, answer.json()["type"]) == (422, "urn:posref:problem:invalid-body")
    assert answer.json()["detail"] == rule


@pytest.mark.parametrize("path", [transform.path for transform in TRANSFORMS])
def test_one_axis_of_json_is_no_vector_either(client: Client, path: str) -> None:
    answer = client.post(path, json={"x": [1, 2, 3, 4]})

    assert answer.status_code == 422
    assert "x: it has 1 axis" in answer.json()["detail"]


def test_what_no_format_satisfies_is_not_acceptable(client: Client) -> None:
    answer = client.get("/encoding?seq_len=1&d_model=2", accept="image/webp")

    assert answer.status_code == 406
    assert "application/x-npy" in answer.json()["detail"]


def test_bfloat16_as_npy_is_a_problem_that_names_the_formats_that_can(client: Client) -> None:
    answer = client.get("/encoding.npy?seq_len=1&d_model=2&dtype=bfloat16")

    assert answer.status_code == 422
    assert "json, safetensors, bin" in answer.json()["detail"]


def threads_of_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note on which thread each answer is planned."""
    threads: list[str] = []

    def noted(document: Document, wanted: Wanted) -> Representation:
        threads.append(threading.current_thread().name)
        return represent(document, wanted)

    monkeypatch.setattr(respond, "represent", noted)
    return threads


def test_a_long_query_is_read_on_a_thread_and_a_short_one_is_not(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, short = threads_of_plans(monkeypatch), "/encoding?d_model=2&positions=0,2,5"
    repeated = f"{short}{',3' * 3000}"
    longest = f"{short}{',3' * 15000}"

    answers = [client.get(url) for url in (short, repeated, longest)]

    assert [answer.status_code for answer in answers] == [200] * 3
    assert [name.rpartition("_")[0] for name in threads] == ["", "posref-short", "posref-long"]
    wrong = client.get(f"{repeated},x")
    assert (wrong.status_code, wrong.json()["errors"][0]["parameter"]) == (422, "positions")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/encoding", {"d_model": 2, "positions": [0.5, 2]}),
        ("/rope/apply", {"x": [[1.0, 2.0]]}),
        ("/encoding/tokens", {"input_ids": [[5]], "convention": "fairseq", "d_model": 4}),
    ],
)
def test_answers_to_posts_are_planned_on_threads_without_a_tag(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    threads = threads_of_plans(monkeypatch)
    monkeypatch.delattr("service.delivery.representation.entity_tag")

    answers = [client.post(f"{path}.{form}", json=body) for form in ("json", "safetensors")]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert {name.partition("_")[0] for name in threads} == {"posref-short"}


def costs_of_work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note what all work is said to take."""
    costs: list[int] = []
    run = Workers.run

    async def noted(workers: Workers, work: Callable[[], Any], cost: int) -> Any:
        costs.append(cost)
        return await run(workers, work, cost)

    monkeypatch.setattr(Workers, "run", noted)
    return costs


WIDE_ROW = np.zeros((1, 65_000), "<f2")


@pytest.mark.parametrize(
    ("method", "url", "sent"),
    [
        ("GET", "/encoding.npy?d_model=65536&seq_len=1", None),
        ("GET", "/encoding.npy?d_model=65536&positions=0.5", None),
        (
            "GET",
            "/encoding/grid.npy?convention=perceiver&width=3&num_bands=2000&max_resolution=7",
            None,
        ),
        ("GET", "/encoding/frequencies.safetensors?d_model=65536", None),
        ("GET", "/relative/alibi/slopes.npy?num_heads=65535", None),
        ("GET", "/relative/sandwich.npy?head_dim=65536&num_heads=1&query_len=1&head=0", None),
        (
            "POST",
            "/encoding/tokens.npy?part=encoding&convention=fairseq&d_model=65536",
            {"input_ids": np.array([[5]])},
        ),
        (
            "POST",
            "/encoding/fourier.bin?log=false",
            {"x": np.arange(1.0, 4097), "weight": 10.0 ** np.arange(16)},
        ),
        ("POST", "/encoding/boxes.bin?embed_dim=8192", {"boxes": np.ones((1, 4))}),
        ("POST", "/encoding/apply", {"x": WIDE_ROW}),
        ("POST", "/rope/apply", {"x": WIDE_ROW}),
    ],
)
def test_the_short_lane_evaluates_no_thousands_of_frequencies(
    monkeypatch: pytest.MonkeyPatch, method: str, url: str, sent: dict[str, NDArray[Any]] | None
) -> None:
    seen, costs = [], costs_of_work(monkeypatch)

    def noted(frequencies: Sequence[Decimal]) -> FixedPointFrequencies:
        if len(frequencies) > 1024:
            seen.append(threading.current_thread().name.rpartition("_")[0])
        return fixed_point(frequencies)

    for module in ("factors", "real_positions", "random_fourier"):
        monkeypatch.setattr(f"service.tables.{module}.fixed_point", noted)
    body = {} if sent is None else {"content": safetensors.numpy.save(sent)}
    headers = {"Content-Type": FORMATS["safetensors"].media_type}
    with client_of(create_app(default_settings())) as fresh:
        answer = fresh.request(method, url, headers=headers, **body)

    assert answer.status_code == 200
    assert max(costs) > SHORT_WORK
    assert set(seen) <= {"posref-long"}


@pytest.mark.parametrize(
    "url", ["/encoding.npy?d_model=1024&seq_len=8", "/rope.npy?head_dim=256&seq_len=8&pack=concat"]
)
def test_new_tables_of_the_widths_of_models_are_short_work(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    costs = costs_of_work(monkeypatch)
    with client_of(create_app(default_settings())) as fresh:
        assert fresh.get(url).status_code == 200

    assert max(costs) <= SHORT_WORK
