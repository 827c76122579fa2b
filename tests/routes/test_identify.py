"""``POST /identify`` names the tables that an array is equal to, or the nearest one."""

from typing import Any

import jsonschema
import numpy as np
import pytest
from safetensors.numpy import load, save

from service.analysis.array import MAX_ELEMENTS
from service.routes.identify import IdentifyReport
from tests.client import Client, npy_bytes
from tests.openapi import report_schema

ENCODING = "/encoding?seq_len=16&d_model=8"


VALIDATOR = jsonschema.Draft202012Validator(report_schema(IdentifyReport))
NPY = {"content-type": "application/x-npy"}


def data(client: Client, url: str) -> Any:
    return client.get(url).json()["data"]


def identify(client: Client, **body: Any) -> Any:
    """Return the report about arrays, which follows its schema."""
    answer = client.post("/identify", json=body)
    assert answer.status_code == 200, answer.text
    VALIDATOR.validate(answer.json())
    return answer.json()


def test_table_of_the_service_has_its_url(client: Client) -> None:
    report = identify(client, x=data(client, ENCODING))

    assert report["verdict"] == "identified"
    assert report["array"] == {"shape": [16, 8], "dtype": "float32", "names": None}
    best = report["hypotheses"][0]
    assert (best["url"], best["kind"]) == (ENCODING, "encoding")
    assert best["arithmetic"][0]["name"] == "exact"
    assert best["residual"]["max_absolute"] == 0
    assert best["support"]


def test_npy_array_keeps_its_type(client: Client) -> None:
    body = client.get("/encoding.npy?seq_len=9&d_model=8&dtype=float64&start=5").content

    report = client.post("/identify", content=body, headers=NPY).json()

    assert report["array"]["dtype"] == "float64"
    assert report["hypotheses"][0]["url"] == "/encoding?seq_len=9&start=5&d_model=8&dtype=float64"


def test_cosines_and_sines_are_recognized_by_their_names(client: Client) -> None:
    arrays = data(client, "/rope?head_dim=16&seq_len=12&pack=half")

    report = identify(client, freqs_cos=arrays["cos"], freqs_sin=arrays["sin"])

    assert report["array"]["names"] == ["cos", "sin"]
    assert "pack=half" in report["hypotheses"][0]["url"]


def test_integers_are_identified(client: Client) -> None:
    report = identify(client, x=data(client, "/relative/t5?query_len=40"))

    assert report["verdict"] == "identified"
    assert report["hypotheses"][0]["kind"] == "relative-t5"


def test_text_has_the_type_of_the_request_or_float64_if_it_has_more_digits(client: Client) -> None:
    given = identify(client, x=data(client, ENCODING), dtype="bfloat16")
    wide = identify(client, x=data(client, f"{ENCODING}&dtype=float64"))

    assert given["array"]["dtype"] == "bfloat16"
    assert wide["array"]["dtype"] == "float64"
    assert wide["hypotheses"][0]["url"] == f"{ENCODING}&dtype=float64"


def test_first_wrong_number_is_located(client: Client) -> None:
    table = data(client, ENCODING)
    table[9][5] += 0.001

    report = identify(client, x=table)

    assert (report["verdict"], report["hypotheses"]) == ("none", [])
    first = report["nearest"]["leaves_at"]
    assert report["nearest"]["url"] == ENCODING
    assert (first["index"], first["position"], first["channel"]) == ([9, 5], 9, 5)
    assert first["error"] == pytest.approx(0.001, rel=1e-3)
    assert first["allowed"] < 1e-6


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        ("positions=3,4,10", {"positions": [3, 4, 10]}, "positions=3"),
        ("seq_len=6&start=100", {"start": 100}, "start=100"),
    ],
)
def test_known_positions_are_those_of_the_table(
    client: Client, query: str, parameters: dict[str, Any], expected: str
) -> None:
    report = identify(client, x=data(client, f"/encoding?{query}&d_model=8"), **parameters)

    assert report["verdict"] == "identified"
    assert expected in report["hypotheses"][0]["url"]


ROWS = [[0, 1], [0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"x": ROWS, "positions": "3,3,4"}, "must rise"),
        ({"x": ROWS, "positions": [1.5, 0.5, 2]}, "must rise"),
        ({"x": ROWS, "positions": "0:5"}, "positions names 5 rows, and the array has 3"),
        ({"x": ROWS, "positions": "0:3", "start": 0}, "does not go with"),
        ({"x": ROWS, "cos": ROWS}, "cos in its name"),
        ({"cos": ROWS, "sin": ROWS[:2]}, "one shape"),
        ({"x": ROWS, "data": ROWS}, "an array goes by the name of x, or cos and sin,"),
        ({"d_model": 4}, "an array is missing"),
    ],
)
def test_arrays_and_positions_that_do_not_go_together_are_refused(
    client: Client, body: dict[str, Any], rule: str
) -> None:
    answer = client.post("/identify", json=body)

    assert answer.status_code == 422
    assert rule in answer.json()["detail"]


def test_most_numbers_that_are_possible_have_enough_memory(client: Client) -> None:
    array = np.random.default_rng(0).standard_normal((MAX_ELEMENTS // 128, 128)).astype("<f4")

    answer = client.post("/identify", content=npy_bytes(array), headers=NPY)

    assert answer.json()["verdict"] == "none"


def test_first_number_that_is_not_finite_is_named(client: Client) -> None:
    array = np.array([[0.0, 1.0], [np.nan, 0.5], [1.0, 2.0]])

    report = client.post("/identify", content=npy_bytes(array), headers=NPY).json()

    assert report["verdict"] == "none"
    assert "first non-finite element has the index 1, 0" in report["notes"][0]


@pytest.mark.parametrize(
    "body",
    [
        {"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]]},
        {"x": [[0.1, 0.9, 0.3], [0.7, 0.2, 0.5]]},
        {"x": [[0, 0], [0, 0]]},
        {"cos": [[1, 1], [0.5403023, 0.99995]], "sin": [[0, 0], [0.84147096, 0.009999833]]},
    ],
)
def test_report_follows_its_closed_schema(client: Client, body: Any) -> None:
    report = identify(client, **body)

    assert not VALIDATOR.is_valid({**report, "verdict": "perhaps"})
    assert not VALIDATOR.is_valid({**report, "more": 1})


@pytest.mark.parametrize("pack", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("part", "row", "channel"), [("cos", 100, 3), ("sin", 300, 50)])
def test_wrong_number_in_one_copy_of_one_array_of_a_pair_is_located(
    client: Client, pack: str, dtype: str, part: str, row: int, channel: int
) -> None:
    url = f"/rope.safetensors?head_dim=64&seq_len=512&pack={pack}&dtype={dtype}"
    arrays = load(client.get(url).content)
    arrays[part][row, channel] = 0.5
    headers = {"content-type": "application/vnd.safetensors"}

    answer = client.post("/identify", content=save(arrays), headers=headers)

    assert answer.status_code == 200, answer.text
    leaves = answer.json()["nearest"]["leaves_at"]
    assert (leaves["array"], leaves["index"]) == (part, [row, channel])


def test_evidence_of_an_identity_says_nothing_of_frequencies(client: Client) -> None:
    report = identify(client, x=np.eye(64).tolist())

    assert report["hypotheses"][0]["url"].startswith("/relative?d_model=64&offset=0")
    for each in report["hypotheses"]:
        (text,) = each["support"]
        assert text == "an identity is the matrix at offset 0, whatever the frequencies are"
