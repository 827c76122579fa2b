"""``POST /diagnose``: what is sent, what is said, and what is refused."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest

from tests.client import Client

ENCODING = "/encoding?seq_len=16&d_model=8"
ROPE = "/rope?head_dim=16&seq_len=16&pack=half"


def table(client: Client, url: str) -> Any:
    return client.get(f"{url}&dtype=float64").json()["data"]


def diagnose(client: Client, **body: Any) -> Any:
    answer = client.post("/diagnose", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: Client, **body: Any) -> str:
    answer = client.post("/diagnose", json=body)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["detail"])


def names(report: Any) -> list[str]:
    return [mistake["name"] for mistake in report["mistakes"]]


def test_a_table_of_this_server_is_equal_to_itself(client: Client) -> None:
    report = diagnose(client, to=ENCODING, have=table(client, ENCODING))

    assert report["verdict"] == "equal"
    assert report["mistakes"] == []
    assert report["correct"]["url"] == ENCODING


def test_a_mistake_is_said_in_a_sentence_with_what_to_do(client: Client) -> None:
    have = table(client, f"{ENCODING}&base=500000")

    (mistake,) = diagnose(client, to=ENCODING, have=have)["mistakes"]

    assert mistake["name"] == "wrong-base"
    assert (mistake["have"], mistake["want"]) == (500000, 10000)
    assert "500000" in mistake["sentence"]
    assert "10000" in mistake["correction"]


def test_both_may_be_sent(client: Client) -> None:
    want = table(client, ENCODING)
    have = [row[::2] + row[1::2] for row in want]

    report = diagnose(client, have=have, want=want)

    assert names(report) == ["layout-swapped"]
    assert "correct" not in report


def test_cosines_and_sines_are_two_arrays(client: Client) -> None:
    want = table(client, ROPE)
    sine = (-np.array(want["sin"])).tolist()
    pair = {f"want_{name}": part for name, part in want.items()}

    assert names(diagnose(client, to=ROPE, cos=want["cos"], sin=sine)) == ["sine-sign"]
    assert names(diagnose(client, have_cos=want["cos"], have_sin=sine, **pair)) == ["sine-sign"]
    assert names(diagnose(client, to=ROPE, cos=want["sin"], sin=want["cos"])) == ["halves-swapped"]


def test_a_row_that_is_wrong_is_named(client: Client) -> None:
    to = f"{ENCODING}&start=5"
    have = table(client, to)
    have[3][2] += 0.5

    report = diagnose(client, to=to, have=have)

    assert report["verdict"] == "none"
    assert report["leaves_at"]["index"] == [3, 2]
    assert (report["leaves_at"]["position"], report["leaves_at"]["channel"]) == (8, 2)
    assert report["leaves_at"]["error"] == pytest.approx(0.5)


YARN = (
    "/rope?head_dim=32&seq_len=64&pack=half&rope_type=yarn&factor=4"
    "&original_max_position_embeddings=64"
)
LLAMA3 = (
    "/rope?head_dim=32&seq_len=64&pack=half&rope_type=llama3&factor=8&low_freq_factor=1"
    "&high_freq_factor=4&original_max_position_embeddings=32&rope_theta=500000"
)
LINEAR = "/rope?head_dim=32&seq_len=64&pack=half&rope_type=linear&factor=4"


@pytest.mark.parametrize(
    ("to", "rule"), [(YARN, "yarn"), (LLAMA3, "llama3"), (LINEAR, "linear")], ids=str
)
def test_a_rule_that_was_not_read_is_named_with_its_keys(
    client: Client, to: str, rule: str
) -> None:
    theta = "&rope_theta=500000" if "rope_theta" in to else ""
    have = table(client, f"/rope?head_dim=32&seq_len=64&pack=half{theta}")

    report = diagnose(client, to=to, cos=have["cos"], sin=have["sin"])

    (mistake,) = report["mistakes"]
    assert mistake["name"] == "config-key-ignored"
    assert mistake["rule"] == rule
    assert "factor" in mistake["keys"]
    assert table(client, report["yours"]["url"])["cos"] == have["cos"]


def test_the_base_of_a_scaled_rule_is_found(client: Client) -> None:
    have = table(client, LLAMA3.replace("500000", "10000"))

    (mistake,) = diagnose(client, to=LLAMA3, cos=have["cos"], sin=have["sin"])["mistakes"]

    assert (mistake["name"], mistake["have"]) == ("wrong-base", 10000)


def test_short_factors_for_long_ones_are_found(client: Client) -> None:
    to = (
        "/rope?head_dim=8&seq_len=64&pack=half&rope_type=longrope&short_factor=1,1.1,1.2,1.3"
        "&long_factor=2,3,4,5&original_max_position_embeddings=32&max_position_embeddings=128"
    )
    have = table(client, f"{to}&context_length=32")

    report = diagnose(client, to=f"{to}&context_length=64", cos=have["cos"], sin=have["sin"])

    assert names(report) == ["short-for-long-factors"]


def test_height_and_width_that_are_exchanged_are_found(client: Client) -> None:
    to = "/encoding/grid?convention=mae&d_model=16"
    have = table(client, f"{to}&height=3&width=5")

    report = diagnose(client, to=f"{to}&height=5&width=3", have=have)

    assert names(report) == ["axes-swapped"]


def test_rows_that_go_down_and_not_across_are_found(client: Client) -> None:
    to = "/encoding/grid?convention=mae&d_model=16&height=3&width=5"
    want = np.array(table(client, to)).reshape(3, 5, 16)
    have = want.transpose(1, 0, 2).reshape(15, 16)

    assert names(diagnose(client, to=to, have=have.tolist())) == ["axes-swapped"]


def test_a_table_of_no_waves_is_compared_by_its_numbers(client: Client) -> None:
    to = "/relative/alibi?num_heads=4&query_len=6&key_len=6"
    have = np.array(table(client, to))

    assert diagnose(client, to=to, have=have.tolist())["verdict"] == "equal"
    assert names(diagnose(client, to=to, have=(2 * have).tolist())) == ["extra-factor"]


def test_an_array_alone_is_what_somebody_has(client: Client) -> None:
    body = BytesIO()
    np.save(body, -np.array(table(client, ENCODING), dtype=np.float32)[:, ::-1])
    headers = {"content-type": "application/x-npy"}

    answer = client.post(
        "/diagnose", params={"to": ENCODING}, content=body.getvalue(), headers=headers
    )
    alone = client.post("/diagnose", content=body.getvalue(), headers=headers)

    assert answer.json()["verdict"] == "none"
    assert alone.status_code == 422
    assert "to must name" in alone.json()["detail"]


def test_a_url_that_is_not_encoded_is_explained(client: Client) -> None:
    answer = client.post(f"/diagnose?to={ENCODING}", json={"have": [[0.0]]})

    assert answer.status_code == 422
    assert "%26" in answer.json()["detail"]


def test_numbers_that_no_table_has_are_refused(client: Client) -> None:
    assert "2^64" in refused(client, to=ENCODING, have=[[1e300]])


def test_what_is_missing_or_too_much_is_refused(client: Client) -> None:
    have = [[0.0, 1.0], [1.0, 0.5]]

    assert "want" in refused(client, have=have)
    assert "both" in refused(client, have=have, want=have, to=ENCODING)
    assert "have" in refused(client, want=have)
    assert "shape" in refused(client, have=[[1.0, 2.0, 3.0]], to=ENCODING)
    assert "NaN" not in refused(client, cos=have, to=ROPE)
    assert "rotated" in refused(client, x=have, to=ROPE)
    assert "to is required" in refused(client, x=have, rotated=have)
    assert "to names no table" in refused(client, have=have, to="/nothing")


def test_a_far_larger_table_is_refused_before_it_is_computed(client: Client) -> None:
    to = "/encoding?seq_len=1000000000&d_model=4096"

    assert "seq_len" in refused(client, have=[[0.0, 1.0]], to=to)
