"""``POST /diagnose`` of queries or keys before and after they were turned."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

from tests.analysis.rotating import Array, Engine
from tests.client import Client

TABLE = "/rope?head_dim=32&seq_len=40"
APPLY = "/rope/apply?layout=half"
WANT = Engine(32)


def drawn(shape: tuple[int, ...] = (2, 40, 32), dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def diagnose(client: Client, to: str, x: Array, rotated: Array) -> Any:
    body = save({"x": x, "rotated": np.ascontiguousarray(rotated)})
    answer = client.post(
        "/diagnose", params={"to": to}, content=body, headers={"Content-Type": SAFETENSORS}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


SAFETENSORS = "application/vnd.safetensors"


def names(report: Any) -> list[str]:
    return [mistake["name"] for mistake in report["mistakes"]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_what_is_right_is_equal_in_every_type(client: Client, dtype: Any) -> None:
    x = drawn(dtype=dtype)

    assert diagnose(client, APPLY, x, WANT.rotate(x))["verdict"] == "equal"


def test_what_this_server_turns_is_equal(client: Client) -> None:
    x = drawn()
    for more in ("", "&start=7", "&inverse=true", "&rotary_dim=16", "&output_layout=interleaved"):
        to = APPLY + more
        answer = client.post(
            to,
            content=save({"x": x}),
            headers={"Content-Type": SAFETENSORS, "Accept": SAFETENSORS},
        )
        assert answer.status_code == 200, answer.text
        body = answer.content
        start = 8 + int.from_bytes(body[:8], "little")
        rotated = np.frombuffer(body[start:], np.float32).reshape(x.shape)
        assert diagnose(client, to, x, rotated)["verdict"] == "equal", more


def test_the_layout_of_apply_is_what_should_be(client: Client) -> None:
    x = drawn()
    rotated = WANT.having(layout="interleaved").rotate(x)

    assert names(diagnose(client, APPLY, x, rotated)) == ["layout-swapped"]
    assert names(diagnose(client, "/rope/apply?layout=interleaved", x, rotated)) == []


def test_a_table_without_a_layout_allows_both(client: Client) -> None:
    x = drawn()
    for layout in ("half", "interleaved"):
        assert names(diagnose(client, TABLE, x, WANT.having(layout=layout).rotate(x))) == []


def test_the_packing_says_the_layout(client: Client) -> None:
    x = drawn()
    rotated = WANT.having(layout="interleaved").rotate(x)

    assert names(diagnose(client, f"{TABLE}&pack=half", x, rotated)) == ["layout-swapped"]


def test_two_mistakes_are_said_with_their_values(client: Client) -> None:
    x = drawn()
    rotated = WANT.having(base=500000.0, start=1).rotate(x)

    base, offset = diagnose(client, APPLY, x, rotated)["mistakes"]

    assert (base["name"], base["have"], base["want"]) == ("wrong-base", 500000, 10000)
    assert (offset["name"], offset["rows"]) == ("position-offset", 1)
    assert "500000" in base["sentence"]


def test_a_rule_that_was_not_applied_is_said(client: Client) -> None:
    x = drawn()
    scaled = (
        f"{APPLY}&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"
        "&original_max_position_embeddings=64"
    )

    assert names(diagnose(client, scaled, x, WANT.rotate(x))) == ["config-key-ignored"]


def test_a_missing_attention_factor_is_said_with_its_value(client: Client) -> None:
    x = drawn()
    yarn = f"{APPLY}&rope_type=yarn&factor=4&original_max_position_embeddings=1024"
    rule = "/rope/frequencies?part=inv_freq&head_dim=32" + yarn.removeprefix(APPLY)
    frequencies = client.get(rule).json()["data"]
    angles = np.outer(np.arange(40.0), frequencies)
    first, second = x[..., :16], x[..., 16:]
    cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    rotated = np.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )

    (mistake,) = diagnose(client, yarn, x, rotated)["mistakes"]

    assert mistake["name"] == "missing-factor"
    assert mistake["factor"] == pytest.approx(0.1 * np.log(4) + 1)


def test_a_decode_step_is_looked_at_at_its_position(client: Client) -> None:
    x = drawn((4, 1, 32))
    to = f"{APPLY}&start=700"

    assert diagnose(client, to, x, WANT.having(start=700).rotate(x))["verdict"] == "equal"
    never = diagnose(client, to, x, x)
    early = diagnose(client, to, x, WANT.having(start=699).rotate(x))
    assert names(never) == ["not-rotated"]
    assert (names(early), early["mistakes"][0]["rows"]) == (["position-offset"], -1)


def test_positions_may_be_any(client: Client) -> None:
    x = drawn((4, 4, 32))
    angles = np.outer([5.0, 900.0, 17.0, 17.0], WANT.frequencies())
    pairs = x[..., :16] + 1j * x[..., 16:]

    def turned(by: Array) -> Array:
        made = pairs * np.exp(1j * by)
        return np.concatenate([made.real, made.imag], axis=-1).astype(np.float32)

    to = f"{APPLY}&positions=5,900,17,17"
    assert diagnose(client, to, x, turned(angles))["verdict"] == "equal"
    late = diagnose(client, to, x, turned(angles + WANT.frequencies()))
    assert (names(late), late["mistakes"][0]["rows"]) == (["position-offset"], 1)


def test_one_corrupted_row_is_none_and_where(client: Client) -> None:
    x = drawn()
    rotated = WANT.rotate(x)
    rotated[1, 33] = x[0, 0]

    report = diagnose(client, f"{APPLY}&start=100", x, WANT.having(start=100).rotate(x))
    assert report["verdict"] == "equal"
    report = diagnose(client, APPLY, x, rotated)

    assert report["verdict"] == "none"
    assert report["mistakes"] == []
    assert report["leaves_at"]["index"][:2] == [1, 33]
    assert report["leaves_at"]["position"] == 33
    assert report["leaves_at"]["error"] > report["leaves_at"]["allowed"]


def test_lists_of_json_will_do(client: Client) -> None:
    x = drawn((1, 4, 32))
    rotated = WANT.having(turns=-1.0).rotate(x)

    answer = client.post(
        "/diagnose", json={"to": APPLY, "x": x.tolist(), "rotated": rotated.tolist()}
    )

    assert names(answer.json()) == ["inverse"]


@pytest.mark.parametrize(
    ("to", "shape", "said"),
    [
        ("/encoding?seq_len=4&d_model=8", (4, 8), "to must name a rotation"),
        ("/rope?head_dim=64&seq_len=4", (4, 8), "channels turn"),
        ("/rope/apply?head_dim=6", (4, 8), "the last axis has 8 channels"),
        ("/rope/apply?rotary_dim=8&rotary_offset=4", (4, 8), "rotary_offset leaves"),
        ("/rope?head_dim=8&seq_len=2", (4, 8), "rows"),
    ],
)
def test_what_is_no_rotation_of_these_arrays_is_refused(
    client: Client, to: str, shape: tuple[int, ...], said: str
) -> None:
    x = np.zeros(shape).tolist()

    answer = client.post("/diagnose", json={"to": to, "x": x, "rotated": x})

    assert answer.status_code == 422, answer.text
    assert said in answer.text


@pytest.mark.parametrize(
    ("to", "rule"),
    [
        ("http://[/rope/apply", "to names no table"),
        ("/rope/apply?layout=neox", "did you mean half"),
        ("/rope/apply?rotary_offset=64&layout=half", "to names no table"),
    ],
)
def test_what_is_wrong_with_the_rotation_points_at_to(client: Client, to: str, rule: str) -> None:
    x = drawn()
    answer = client.post(
        "/diagnose",
        params={"to": to},
        content=save({"x": x, "rotated": x}),
        headers={"Content-Type": SAFETENSORS},
    )

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["parameter"] == "to"
    assert rule in fault["detail"]


def test_numbers_beyond_any_table_are_refused(client: Client) -> None:
    x = drawn(dtype=np.float64) * 1e300
    answer = client.post(
        "/diagnose",
        params={"to": APPLY},
        content=save({"x": x, "rotated": x}),
        headers={"Content-Type": SAFETENSORS},
    )

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/x"
