"""Examinations: what is said about arrays."""

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from fastapi import FastAPI
from pydantic import Field

from service.app import create_app
from service.delivery.endpoints import add_examination
from service.delivery.examinations import Examination
from service.delivery.parameters import Parameters
from service.errors import InvalidBody
from service.formats.received import Input
from service.settings import default_settings
from service.tables.dtypes import FLOAT32
from service.tables.table import StoredTable
from tests.client import Client, client_of


class TimesParameters(Parameters):
    times: int = Field(default=1, description="What sums are multiplied by.")


def _examine(parameters: TimesParameters, content: Input) -> Mapping[str, Any]:
    sums = {
        name: parameters.times * float(np.abs(array.elements).sum())
        for name, array in content.arrays.items()
    }
    return {"sums": sums, "named": content.is_named, "types": sorted(content.integer_types)}


SUMS = Examination(
    path="/sums",
    operation="Sums",
    summary="Sums of arrays",
    parameters=TimesParameters,
    names=("x", "y"),
    examine=_examine,
    says="The sums",
    schema={"type": "object"},
    example={"x": [1.0], "times": 2},
)


@pytest.fixture(scope="module")
def sums() -> Iterator[Client]:
    app: FastAPI = create_app(default_settings())
    add_examination(app, SUMS, app.state.delivery)
    with client_of(app) as client:
        yield client


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_arrays_are_examined_in_every_format_that_is_read(sums: Client) -> None:
    array = np.array([1.5, -2.0], "<f4")
    binary = {"application/x-npy": npy(array)}
    binary["application/vnd.safetensors"] = safetensors.numpy.save({"x": array})
    for media_type, body in binary.items():
        answer = sums.post("/sums?times=2", content=body, headers={"Content-Type": media_type})
        assert list(answer.json()["sums"].values()) == [7.0]
        assert answer.json()["named"] == (media_type != "application/x-npy")
    answer = sums.post("/sums", json={"x": [1.5, -2], "y": [[1]], "times": 2})

    assert answer.json()["sums"] == {"x": 7.0, "y": 2.0}


def test_complex_numbers_reach_an_examination(sums: Client) -> None:
    for dtype in ("<c8", "<c16"):
        body = npy(np.array([3 + 4j], dtype))
        answer = sums.post("/sums", content=body, headers={"Content-Type": "application/x-npy"})
        assert list(answer.json()["sums"].values()) == [5.0]


def test_a_report_is_never_kept(sums: Client) -> None:
    answer = sums.post("/sums", json={"x": [1.0]})

    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "content", "name", "rule"),
    [
        ("", {"times": 2}, "invalid-body", "an array is missing: send x or y"),
        ("?times=2", {"x": [1.0], "times": 2}, "invalid-parameters", "given twice"),
        ("?time=2", {"x": [1.0]}, "invalid-parameters", "did you mean times?"),
        ("", {"x": [1.0], "z": 2}, "invalid-parameters", "z is not a parameter here"),
        ("", {"x": [[1.0], 2]}, "invalid-body", "all of a length"),
    ],
)
def test_what_is_wrong_is_named(
    sums: Client, query: str, content: Any, name: str, rule: str
) -> None:
    answer = sums.post(f"/sums{query}", json=content)

    assert answer.status_code == 422
    assert answer.json()["type"].endswith(name)
    assert rule in answer.json()["detail"]


def test_other_media_types_are_refused(sums: Client) -> None:
    answer = sums.post("/sums", content=b"1,2", headers={"Content-Type": "text/csv"})

    assert answer.status_code == 415


def test_nothing_is_held_after_an_answer(sums: Client) -> None:
    sums.post("/sums", json={"x": [1.0] * 1000})

    assert sums.app.state.delivery.gate.held_body_bytes == 0


def test_the_copies_that_are_made_are_counted() -> None:
    arrays = {"x": StoredTable(np.ones((4, 4), "<f4"), FLOAT32)}

    assert SUMS.copied_bytes(arrays) == 16 * 8 * SUMS.copies


def test_a_body_without_an_array_is_refused() -> None:
    with pytest.raises(InvalidBody, match="an array is missing"):
        SUMS.check(Input({}, {"times": 2}))


def test_the_report_can_be_written_as_json(sums: Client) -> None:
    assert json.loads(sums.post("/sums", json=dict(SUMS.example)).content)["sums"] == {"x": 2.0}
