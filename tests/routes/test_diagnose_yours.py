"""What somebody has is named, where this server has it."""

import json
from typing import Any

import ml_dtypes
import numpy as np

from tests.client import Client


def diagnose(client: Client, to: str, url: str) -> dict[str, object]:
    have = client.get(f"{url}&dtype=float64").json()["data"]
    body = {"to": to, **(have if isinstance(have, dict) else {"have": have})}
    report: dict[str, object] = client.post("/diagnose", json=body).json()
    return report


def test_a_mistake_comes_with_the_url_of_what_somebody_has(client: Client) -> None:
    report = diagnose(
        client, "/encoding?seq_len=32&d_model=16", "/encoding?seq_len=32&d_model=16&base=500"
    )

    assert report["verdict"] == "diagnosed"
    assert "base=500" in json.dumps(report["yours"])


def test_a_rule_that_should_not_be_there_is_named(client: Client) -> None:
    plain = "/rope?head_dim=64&seq_len=64&pack=half"
    scaled = "&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"

    report = diagnose(
        client,
        f"{plain}&rope_theta=500000",
        f"{plain}&rope_theta=500000{scaled}&original_max_position_embeddings=8192",
    )

    assert report["verdict"] == "diagnosed"
    assert '"wrong-rule"' in json.dumps(report["mistakes"])
    assert "llama3" in json.dumps(report["yours"])


def test_what_is_right_needs_no_other_name(client: Client) -> None:
    to = "/encoding?seq_len=8&d_model=4"

    assert "yours" not in diagnose(client, to, to)


def mended(client: Client, to: str, have: np.ndarray) -> dict[str, Any]:
    report: dict[str, Any] = client.post("/diagnose", json={"to": to, "have": have.tolist()}).json()
    return report


def test_numbers_that_a_narrow_type_made_are_those_of_no_table(client: Client) -> None:
    positions, pairs = np.arange(64), np.arange(16)
    frequencies = (10000.0 ** (-pairs / 16)).astype(ml_dtypes.bfloat16)
    angles = np.outer(positions, frequencies.astype(np.float64))
    have = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(64, 32)

    report = mended(client, "/encoding?seq_len=64&d_model=32", have.astype(np.float32))

    assert [mistake["name"] for mistake in report["mistakes"]] == ["narrow-frequencies"]
    assert "yours" not in report


def test_a_table_on_its_side_is_no_other_table(client: Client) -> None:
    have = client.get("/encoding?seq_len=64&d_model=32&dtype=float64").json()["data"]

    report = mended(client, "/encoding?seq_len=64&d_model=32", np.array(have).T)

    assert [mistake["name"] for mistake in report["mistakes"]] == ["transposed"]
    assert "yours" not in report


def test_another_table_on_its_side_is_said_to_lie_so(client: Client) -> None:
    have = client.get("/encoding?seq_len=40&d_model=24&base=77&dtype=float64").json()["data"]

    report = mended(client, "/rope?seq_len=24&head_dim=40&pack=concat", np.array(have).T)

    assert report["verdict"] == "diagnosed"
    assert [mistake["name"] for mistake in report["mistakes"]] == ["another-table", "transposed"]


def test_rows_in_another_order_are_those_of_other_positions(client: Client) -> None:
    to = "/rope?seq_len=32&head_dim=16&pack=sin_concat"
    have = np.array(client.get(f"{to}&dtype=float64").json()["data"])
    have[[5, 9]] = have[[9, 5]]

    report = mended(client, to, have)

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["want"]) == ("other-positions", "0:32")
    assert "positions=0:5,9,6,7,8,5,10,11:32" in report["yours"]["url"]
