"""What somebody has is named, where this server has it."""

import json

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
