"""``POST /identify``: what is sent, what is said, and what is refused.

What ``/identify`` answers, as its schema says it.
"""

from io import BytesIO
from typing import Any

import jsonschema
import numpy as np
import pytest

from service.delivery.openapi.components import report_schema
from service.routes.identify import IdentifyReport
from tests.client import Client

ENCODING = "/encoding?seq_len=16&d_model=8"


def data(client: Client, url: str) -> Any:
    return client.get(url).json()["data"]


def identify(client: Client, **body: Any) -> Any:
    answer = client.post("/identify", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: Client, **body: Any) -> str:
    answer = client.post("/identify", json=body)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["detail"])


def test_a_table_of_this_server_is_named_by_its_url(client: Client) -> None:
    report = identify(client, x=data(client, ENCODING))

    assert report["verdict"] == "identified"
    assert report["array"] == {"shape": [16, 8], "dtype": "float32", "names": None}
    best = report["hypotheses"][0]
    assert best["url"] == ENCODING
    assert best["kind"] == "encoding"
    assert best["arithmetic"][0]["name"] == "exact"
    assert best["residual"]["max_absolute"] == 0
    assert best["support"]


def test_an_npy_array_is_identified_as_what_it_is(client: Client) -> None:
    body = client.get("/encoding.npy?seq_len=9&d_model=8&dtype=float64&start=5").content
    answer = client.post("/identify", content=body, headers={"content-type": "application/x-npy"})
    report = answer.json()

    assert report["array"]["dtype"] == "float64"
    assert report["hypotheses"][0]["url"] == "/encoding?seq_len=9&start=5&d_model=8&dtype=float64"


def test_cosines_and_sines_are_known_by_their_names(client: Client) -> None:
    url = "/rope?head_dim=16&seq_len=12&pack=half"
    tables = {
        f"freqs_{part}": client.get(f"{url}&part={part}").json()["data"] for part in ("cos", "sin")
    }
    report = identify(client, **tables)

    assert report["array"]["names"] == ["cos", "sin"]
    assert "pack=half" in report["hypotheses"][0]["url"]


def test_integers_are_identified(client: Client) -> None:
    report = identify(client, x=data(client, "/relative/t5?query_len=40"))

    assert report["verdict"] == "identified"
    assert report["hypotheses"][0]["kind"] == "relative-t5"
    assert report["hypotheses"][0]["url"].startswith("/relative/t5?")


def test_text_has_the_type_that_is_said(client: Client) -> None:
    report = identify(client, x=data(client, ENCODING), dtype="bfloat16")

    assert report["array"]["dtype"] == "bfloat16"


def test_text_with_more_digits_than_float32_has_is_float64(client: Client) -> None:
    report = identify(client, x=data(client, f"{ENCODING}&dtype=float64"))

    assert report["array"]["dtype"] == "float64"
    assert report["hypotheses"][0]["url"] == f"{ENCODING}&dtype=float64"


def test_the_first_number_that_is_wrong_is_pointed_at(client: Client) -> None:
    table = data(client, ENCODING)
    table[9][5] += 0.001
    report = identify(client, x=table)

    assert report["verdict"] == "none"
    assert report["hypotheses"] == []
    nearest = report["nearest"]
    assert nearest["url"] == ENCODING
    assert nearest["leaves_at"]["index"] == [9, 5]
    assert nearest["leaves_at"]["position"] == 9
    assert nearest["leaves_at"]["channel"] == 5
    assert nearest["leaves_at"]["error"] == pytest.approx(0.001, rel=1e-3)
    assert nearest["leaves_at"]["allowed"] < 1e-6


def test_positions_may_be_known(client: Client) -> None:
    table = data(client, "/encoding?positions=3,4,10&d_model=8")
    report = identify(client, x=table, positions=[3, 4, 10])

    assert report["verdict"] == "identified"
    assert "positions=3" in report["hypotheses"][0]["url"]


def test_a_start_may_be_known(client: Client) -> None:
    table = data(client, "/encoding?seq_len=6&start=100&d_model=8")
    report = identify(client, x=table, start=100)

    assert "start=100" in report["hypotheses"][0]["url"]


@pytest.mark.parametrize("positions", ["3,3,4", "5,4,3", [1.5, 0.5, 2]])
def test_positions_that_do_not_rise_are_refused(client: Client, positions: Any) -> None:
    assert "must rise" in refused(client, x=[[0, 1], [0, 1], [1, 0]], positions=positions)


def test_positions_of_other_rows_are_refused(client: Client) -> None:
    detail = refused(client, x=[[0, 1], [1, 0]], positions="0:5")

    assert "names 5 rows" in detail
    assert "has 2" in detail


def test_a_start_beside_positions_is_refused(client: Client) -> None:
    assert "does not go with" in refused(client, x=[[0, 1], [1, 0]], positions="0:2", start=0)


def test_two_arrays_that_are_not_cosines_and_sines_are_refused(client: Client) -> None:
    assert "cos in its name" in refused(client, x=[[0, 1]], cos=[[0, 1]])


def test_cosines_and_sines_of_two_shapes_are_refused(client: Client) -> None:
    assert "one shape" in refused(client, cos=[[0, 1]], sin=[[0, 1, 2]])


def test_nothing_is_refused(client: Client) -> None:
    answer = client.post("/identify", json={"d_model": 4})

    assert answer.status_code == 422


def test_what_is_not_finite_is_said(client: Client) -> None:
    body = BytesIO()
    np.save(body, np.array([[0.0, 1.0], [np.nan, 0.5], [1.0, 2.0]]))
    headers = {"content-type": "application/x-npy"}
    report = client.post("/identify", content=body.getvalue(), headers=headers).json()

    assert report["verdict"] == "none"
    assert "first is at 1, 0" in report["notes"][0]


VALIDATOR = jsonschema.Draft202012Validator(report_schema(IdentifyReport))


@pytest.mark.parametrize(
    "body",
    [
        {"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]]},
        {"x": [[0.1, 0.9, 0.3], [0.7, 0.2, 0.5]]},
        {"x": [[0, 0], [0, 0]]},
        {"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.5, 0.99995]]},
        {"cos": [[1, 1], [0.5403023, 0.99995]], "sin": [[0, 0], [0.84147096, 0.009999833]]},
    ],
)
def test_every_answer_is_what_the_schema_says(client: Client, body: Any) -> None:
    answer = client.post("/identify", json=body)

    assert answer.status_code == 200
    VALIDATOR.validate(answer.json())


def test_the_schema_allows_nothing_else(client: Client) -> None:
    answer = client.post("/identify", json={"x": [[0, 0], [0, 0]]}).json()

    assert VALIDATOR.is_valid(answer)
    assert not VALIDATOR.is_valid({**answer, "verdict": "perhaps"})
    assert not VALIDATOR.is_valid({**answer, "more": 1})
