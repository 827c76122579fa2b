"""``POST /relative/alibi/bias`` through HTTP."""

from typing import Any

import pytest

from tests.client import Client

PATH = "/relative/alibi/bias"
MASK = [[0, 0, 1, 1], [1, 1, 1, 0]]


def data(client: Client, query: str, **body: Any) -> Any:
    answer = client.post(f"{PATH}?{query}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_mask_numbers_the_keys_it_leaves(client: Client) -> None:
    found = data(client, "num_heads=8&convention=bloom", attention_mask=MASK)

    assert found[0][0] == [[0, 0, 0, 0.5]]
    assert found[1][1] == [[0, 0.25, 0.5, 0]]


def test_a_mask_and_slopes_go_together_and_one_head_alone(client: Client) -> None:
    query = "form=key&head=1"

    assert data(client, query, attention_mask=MASK, slopes=[1.0, 2.0]) == [
        [[0, 0, 0, 2]],
        [[0, 2, 4, 0]],
    ]


def test_slopes_make_the_form_that_is_asked_for(client: Client) -> None:
    assert data(client, "query_len=2", slopes=[3.0]) == [[[0, 3], [-3, 0]]]
    assert data(client, "query_len=2&form=symmetric&head=0", slopes=[3.0]) == [[0, -3], [-3, 0]]
    assert data(client, "convention=mpt&key_len=3", slopes=[-1.0]) == [[[2, 1, 0]]]
    assert data(client, "query_len=1&total_heads=2", slopes=[0.0]) == [[[0]], [[0]]]


def test_the_answer_says_what_it_made(client: Client) -> None:
    answer = client.post(f"{PATH}?num_heads=2", json={"attention_mask": [[1]]}).json()

    assert answer["kind"] == "relative-alibi-bias"
    assert answer["shape"] == [1, 2, 1, 1]
    assert answer["parameters"] == {
        "convention": "original",
        "num_heads": 2,
        "alibi_bias_max": 8.0,
        "form": "key",
    }


@pytest.mark.parametrize(
    ("query", "body", "where"),
    [
        ("num_heads=8", {}, ""),
        ("num_heads=8", {"attention_mask": [[2, 1]]}, "/attention_mask"),
        ("num_heads=8", {"attention_mask": [1, 1]}, "/attention_mask"),
        ("", {"attention_mask": [[1, 1]]}, "num_heads"),
        ("num_heads=8&masked=true", {"attention_mask": [[1]]}, "masked"),
        ("num_heads=8&key_len=1", {"attention_mask": [[1]]}, "key_len"),
        ("num_heads=8&form=linear", {"attention_mask": [[1]]}, "form"),
        ("num_heads=8&convention=mpt", {"attention_mask": [[1]]}, "convention"),
        ("num_heads=1&query_len=1", {"slopes": [1.0]}, "num_heads"),
        ("alibi_bias_max=9&query_len=1", {"slopes": [1.0]}, "alibi_bias_max"),
        ("query_len=1&head=1", {"slopes": [1.0]}, "head"),
        ("query_len=1&convention=paper", {"slopes": [1.0]}, "convention"),
        ("convention=paper", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("convention=original", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("convention=bloom", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("query_len=1", {"slopes": [1e300]}, "/slopes"),
        ("query_len=1", {"slopes": [1e-300]}, "/slopes"),
        ("query_len=1", {"slopes": [1.0] * 65537}, "/slopes"),
    ],
)
def test_what_is_impossible_is_named(
    client: Client, query: str, body: dict[str, Any], where: str
) -> None:
    answer = client.post(f"{PATH}?{query}", json=body)

    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error.get("parameter", error.get("pointer")) == where
