"""Reports as short text: the first line is the answer, the others are names and values."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.delivery.endpoints import Endpoint, JsonObject, ReportedArrays
from service.grammar import to_query
from service.routes import REPORTS
from tests.client import Client, load_npy, npy_bytes

TEXT = {"Accept": "text/plain"}
LINE = re.compile(r"[a-z][\w.-]*: \S.*")
EVERY = pytest.mark.parametrize("report", REPORTS.values(), ids=lambda report: report.path)

ENCODING = "/encoding?seq_len=16&d_model=8"
TO = "to=/encoding?seq_len=16%26d_model=8"


def example(report: Endpoint) -> Any:
    assert isinstance(report.inputs, JsonObject | ReportedArrays)
    return report.inputs.example


@EVERY
def test_every_report_is_a_short_text_with_its_single_values(
    client: Client, report: Endpoint
) -> None:
    url, body = f"{report.path}?{report.example}", example(report)

    answer = client.post(url, json=body, headers=TEXT)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    first, *lines = answer.text.removesuffix("\n").split("\n")
    assert first.strip() == first != ""
    assert all(LINE.fullmatch(line) for line in lines)
    for name, value in client.post(url, json=body).json().items():
        if isinstance(value, str | int | float):
            assert f"{name}: {to_query(value)}" in lines or value == first


@pytest.mark.parametrize(
    ("accept", "is_text"),
    [
        ("text/plain", True),
        ("text/plain;charset=utf-8", True),
        ("text/*", True),
        ("text/plain, application/json;q=0.5", True),
        ("text/plain;q=0.5, application/json", False),
        ("application/json, text/plain, */*", False),
        ("*/*", False),
        ("text/plain;q=0", False),
        ("image/png", False),
    ],
)
def test_text_is_sent_only_where_it_is_preferred(
    client: Client, accept: str, is_text: bool
) -> None:
    report = REPORTS["/rope/config"]

    answer = client.post(report.path, json=example(report), headers={"Accept": accept})

    assert answer.headers["Content-Type"].startswith("text/plain") == is_text


def test_a_problem_stays_json(client: Client) -> None:
    answer = client.post("/compare", json={"x": [[1]]}, headers=TEXT)

    assert answer.headers["Content-Type"] == "application/problem+json"


def lines_of(client: Client, url: str, array: NDArray[Any]) -> list[str]:
    headers = TEXT | {"Content-Type": "application/x-npy"}
    return client.post(url, content=npy_bytes(array), headers=headers).text.splitlines()


def table(client: Client, url: str = ENCODING) -> NDArray[Any]:
    return load_npy(client.get(url.replace("?", ".npy?")))


def test_compare_answers_with_the_strongest_verdict(client: Client) -> None:
    right, wrong, bad = table(client), table(client), table(client)
    wrong[9, 5] += 0.001
    bad[0] = 7

    compared = {
        name: lines_of(client, f"/compare?{TO}{more}", array)
        for name, more, array in [
            ("right", "", right),
            ("wide", "", right.astype("<f8")),
            ("wrong", "", wrong),
            ("near", "&atol=0.01", wrong),
            ("bad", "", bad),
            ("part", "", right[:4]),
        ]
    }

    assert [lines[0] for lines in compared.values()] == [
        "equal, every byte",
        "equal, every number",
        "beyond the tolerance, good up to position 8",
        "within the tolerance",
        "beyond the tolerance, good at no position",
        "equal, every number, in the first 4 along axis position, where the table has 16",
    ]
    assert compared["wrong"][-2].startswith("first_beyond: position 9, channel 5: 0.")
    for name, lines in compared.items():
        is_beyond = "beyond" in lines[0]
        assert any("/diagnose" in line for line in lines[-1:]) == is_beyond, name
    assert all(f"summary: {lines[0]}" in lines for lines in compared.values())


def test_compare_answers_for_each_array(client: Client) -> None:
    arrays = client.get("/rope?head_dim=4&seq_len=3&pack=half").json()["data"]
    arrays["sin"][2][0] = 7
    url = "/compare?to=/rope?head_dim=4%26seq_len=3%26pack=half"

    both = client.post(url, json=arrays, headers=TEXT).text.splitlines()
    alone = client.post(url, json={"cos": arrays["cos"]}, headers=TEXT).text.splitlines()

    assert both[0] == (
        "cos is equal, every byte; sin is beyond the tolerance, good up to position 1"
    )
    assert {"cos.good_to: 2", "sin.good_to: 1"} <= set(both)
    assert alone[0] == "cos is equal, every byte"
    assert "not_sent: sin" in alone


def test_identify_says_that_the_array_is_transposed(client: Client) -> None:
    array = np.ascontiguousarray(table(client).T)
    spoiled = array.copy()
    spoiled[3, 2] += 0.5

    found, nearest = (lines_of(client, "/identify", each) for each in (array, spoiled))

    assert found[0] == ENCODING
    assert nearest[0] == "none"
    for lines in (found, nearest):
        assert "transposed: the array has the axes of the table in reverse order" in lines


def test_identify_answers_with_a_url_only_if_it_is_certain(client: Client) -> None:
    noise = np.random.default_rng(0).standard_normal((4, 6)).astype("<f4")

    found, unknown = (lines_of(client, "/identify", each) for each in (table(client), noise))

    assert found[:2] == [ENCODING, "verdict: identified"]
    assert f"url: {ENCODING}" in found
    assert "arithmetic: exact" in found
    assert unknown[0] == "none"


def test_diagnose_answers_with_the_sentences_of_the_mistakes(client: Client) -> None:
    other = f"{ENCODING}&base=5000"
    spoiled = table(client)
    spoiled[3, 2] += 0.5

    right, wrong, unknown = (
        lines_of(client, f"/diagnose?{TO}", array)
        for array in (table(client), table(client, other), spoiled)
    )

    assert right[0] == "This is the table, made exactly, and rounded once."
    assert {"verdict: equal", "arithmetic: exact"} <= set(right)
    assert wrong[0] == "The base is 5000; it should be 10000."
    assert {"mistake: wrong-base", f"correct: {ENCODING}", f"yours: {other}"} <= set(wrong)
    assert any(line.startswith("correction: Set the base to 10000") for line in wrong)
    assert unknown[0] == "Right but for the sine of pair 1 of row 3."
    assert "finding: right but for the sine of pair 1 of row 3" in unknown
    assert "verdict: none" in unknown
    for lines in (right, wrong, unknown):
        assert f"checked: {table(client).size} numbers" in lines
    assert not any(line.startswith(("mistake: ", "correction: ")) for line in unknown)


def test_diagnose_says_that_float32_angles_are_why_the_array_is_equal(client: Client) -> None:
    to = "/rope?head_dim=4&seq_len=5000&pack=compact&part=cos"
    frequencies = np.float32(1) / np.float32(10000) ** (np.arange(0, 4, 2, dtype="<f4") / 4)
    cosines = np.cos(np.outer(np.arange(5000, dtype="<f4"), frequencies.astype("<f4")))

    lines = lines_of(client, f"/diagnose?to={to.replace('&', '%26')}", cosines.astype("<f4"))

    assert lines[0] == "This is the table, made in float32."
    assert {"verdict: equal", "arithmetic: float32"} <= set(lines)


def test_text_of_a_config_has_the_files_of_both_lengths(client: Client) -> None:
    rule = {"rope_type": "dynamic", "factor": 2.0}
    config = {"head_dim": 4, "max_position_embeddings": 8, "rope_scaling": rule}

    lines = client.post("/rope/config", json=config, headers=TEXT).text.splitlines()

    prefix = "default.regimes.16.file: "
    (url,) = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    assert client.head(url).headers["Array-Shape"] == "16, 4"


def test_config_answers_with_the_files_of_its_layers(client: Client) -> None:
    config = example(REPORTS["/rope/config"])
    layered = {"model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 6}

    single = client.post("/rope/config", json=config, headers=TEXT).text.splitlines()
    several = client.post("/rope/config", json=layered, headers=TEXT).text.splitlines()
    none = client.post("/rope/config", json={"model_type": "gpt2"}, headers=TEXT).text

    assert client.get(single[0]).status_code == 200
    assert f"default.file: {single[0]}" in single
    assert len(several[0].split()) == 2
    assert several[1].startswith("warning: ")
    assert {"sliding_attention.layers: 0,1,2,3,4", "full_attention.layers: 5"} <= set(several)
    assert not any(
        line.startswith("warning: ") for line in several[several.index("layout: half") :]
    )
    assert none.startswith("no rotary embedding\n")
