"""``POST /diagnose``: what is sent, what is said, and what is refused.

``POST /diagnose`` of queries or keys before and after they were turned.

Arrays that are sent to be diagnosed: what is none of a table is refused with its name.

What ``/diagnose`` answers holds to its schema.

What a URL says that somebody should have.

What somebody has is named, where this server has it.
"""

import json
from io import BytesIO
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from safetensors.numpy import save

from service.analysis.array import MAX_ELEMENTS
from service.delivery.openapi.components import report_schema
from service.errors import InvalidBody, InvalidParameters
from service.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64
from service.numerics.tables import StoredTable
from service.routes.diagnose import DiagnoseReport
from service.routes.expected_tables import (
    alternative_tables,
    expected_table,
    finite_sample,
    row_positions,
    table_request,
)
from tests.analysis.rotating import Array, Engine
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


def test_a_table_of_a_smaller_grid_is_named(client: Client) -> None:
    to = "/rope/axial?convention=qwen2_vl&head_dim=8&pack=flat"
    have = table(client, f"{to}&grid=2,3")

    report = diagnose(client, to=f"{to}&grid=4,6", have=have)

    assert "grid=2,3" in report["yours"]["url"]


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


TABLE = "/rope?head_dim=32&seq_len=40"
APPLY = "/rope/apply?layout=half"
WANT = Engine(32)


def drawn(shape: tuple[int, ...] = (2, 40, 32), dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def diagnose_applied_diagnose(client: Client, to: str, x: Array, rotated: Array) -> Any:
    body = save({"x": x, "rotated": np.ascontiguousarray(rotated)})
    answer = client.post(
        "/diagnose", params={"to": to}, content=body, headers={"Content-Type": SAFETENSORS}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


SAFETENSORS = "application/vnd.safetensors"


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_what_is_right_is_equal_in_every_type(client: Client, dtype: Any) -> None:
    x = drawn(dtype=dtype)

    assert diagnose_applied_diagnose(client, APPLY, x, WANT.rotate(x))["verdict"] == "equal"


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
        assert diagnose_applied_diagnose(client, to, x, rotated)["verdict"] == "equal", more


def test_the_layout_of_apply_is_what_should_be(client: Client) -> None:
    x = drawn()
    rotated = WANT.with_changes(layout="interleaved").rotate(x)

    assert names(diagnose_applied_diagnose(client, APPLY, x, rotated)) == ["layout-swapped"]
    assert (
        names(diagnose_applied_diagnose(client, "/rope/apply?layout=interleaved", x, rotated)) == []
    )


def test_a_table_without_a_layout_allows_both(client: Client) -> None:
    x = drawn()
    for layout in ("half", "interleaved"):
        assert (
            names(
                diagnose_applied_diagnose(
                    client, TABLE, x, WANT.with_changes(layout=layout).rotate(x)
                )
            )
            == []
        )


def test_the_packing_says_the_layout(client: Client) -> None:
    x = drawn()
    rotated = WANT.with_changes(layout="interleaved").rotate(x)

    assert names(diagnose_applied_diagnose(client, f"{TABLE}&pack=half", x, rotated)) == [
        "layout-swapped"
    ]


def test_two_mistakes_are_said_with_their_values(client: Client) -> None:
    x = drawn()
    rotated = WANT.with_changes(base=500000.0, start=1).rotate(x)

    base, offset = diagnose_applied_diagnose(client, APPLY, x, rotated)["mistakes"]

    assert (base["name"], base["have"], base["want"]) == ("wrong-base", 500000, 10000)
    assert (offset["name"], offset["rows"]) == ("position-offset", 1)
    assert "500000" in base["sentence"]


def test_a_rule_that_was_not_applied_is_said(client: Client) -> None:
    x = drawn()
    scaled = (
        f"{APPLY}&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"
        "&original_max_position_embeddings=64"
    )

    assert names(diagnose_applied_diagnose(client, scaled, x, WANT.rotate(x))) == [
        "config-key-ignored"
    ]


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

    (mistake,) = diagnose_applied_diagnose(client, yarn, x, rotated)["mistakes"]

    assert mistake["name"] == "missing-factor"
    assert mistake["factor"] == pytest.approx(0.1 * np.log(4) + 1)


def test_a_decode_step_is_looked_at_at_its_position(client: Client) -> None:
    x = drawn((4, 1, 32))
    to = f"{APPLY}&start=700"

    assert (
        diagnose_applied_diagnose(client, to, x, WANT.with_changes(start=700).rotate(x))["verdict"]
        == "equal"
    )
    never = diagnose_applied_diagnose(client, to, x, x)
    early = diagnose_applied_diagnose(client, to, x, WANT.with_changes(start=699).rotate(x))
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
    assert diagnose_applied_diagnose(client, to, x, turned(angles))["verdict"] == "equal"
    late = diagnose_applied_diagnose(client, to, x, turned(angles + WANT.frequencies()))
    assert (names(late), late["mistakes"][0]["rows"]) == (["position-offset"], 1)


def test_one_corrupted_row_is_none_and_where(client: Client) -> None:
    x = drawn()
    rotated = WANT.rotate(x)
    rotated[1, 33] = x[0, 0]

    report = diagnose_applied_diagnose(
        client, f"{APPLY}&start=100", x, WANT.with_changes(start=100).rotate(x)
    )
    assert report["verdict"] == "equal"
    report = diagnose_applied_diagnose(client, APPLY, x, rotated)

    assert report["verdict"] == "none"
    assert report["mistakes"] == []
    assert report["leaves_at"]["index"][:2] == [1, 33]
    assert report["leaves_at"]["position"] == 33
    assert report["leaves_at"]["error"] > report["leaves_at"]["allowed"]


def test_lists_of_json_will_do(client: Client) -> None:
    x = drawn((1, 4, 32))
    rotated = WANT.with_changes(turns=-1.0).rotate(x)

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


def test_an_array_of_numbers_is_read() -> None:
    sample = finite_sample("have", StoredTable(np.array([[1.0, -2.0]]), FLOAT64))

    assert sample.values.tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("number", "rule"),
    [
        (np.nan, "have holds NaN or an infinity"),
        (-np.inf, "have holds NaN or an infinity"),
        (1e300, "have holds numbers beyond 2^64: no table of positions does"),
    ],
)
def test_what_is_no_number_of_a_table_is_refused(number: float, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule.replace("^", r"\^")) as refused:
        finite_sample("have", StoredTable(np.array([1.0, number]), FLOAT64))

    assert refused.value.faults[0].where == "/have"


def test_more_numbers_than_are_looked_into_are_refused() -> None:
    many = np.broadcast_to(np.zeros(1), (MAX_ELEMENTS + 1,))

    with pytest.raises(InvalidBody, match=f"at most {MAX_ELEMENTS} are possible"):
        finite_sample("x", StoredTable(many, FLOAT64))


TO = "/encoding?seq_len=4&d_model=4"
RIGHT = [[0.0, 1.0, 0.0, 1.0], [0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004]]


def test_every_verdict_holds_to_the_schema(client: Client) -> None:
    schema = report_schema(DiagnoseReport)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    wrong = [RIGHT[0], [0.1, 0.2, 0.3, 0.4]]
    verdicts = []
    for to, have in ((TO.replace("=4&", "=2&"), RIGHT), (TO, RIGHT), (TO, wrong)):
        report = client.post("/diagnose", json={"to": to, "have": have}).json()
        validator.validate(report)
        verdicts.append(report["verdict"])

    assert verdicts == ["equal", "diagnosed", "none"]


def test_a_url_is_a_call() -> None:
    call = table_request("https://host/relative/alibi.npy?num_heads=4&query_len=2")

    assert call.resource == "relative/alibi"
    assert call.parameters == {"num_heads": "4", "query_len": "2"}


def test_a_table_is_read_more_exactly_than_it_is_rounded() -> None:
    _, wanted = expected_table("/encoding?seq_len=4&d_model=4&dtype=bfloat16", 16)

    assert wanted.dtype is BFLOAT16
    assert wanted.table[1, 0] == np.sin(1.0)


def test_complex_numbers_and_integers_are_read() -> None:
    _, rotary = expected_table("/rope?head_dim=4&seq_len=3&pack=complex", 16)
    _, buckets = expected_table("/relative/t5?query_len=3&key_len=3", 16)

    assert (rotary.dtype, rotary.table.shape) == (FLOAT32, (3, 4))
    assert (buckets.dtype, buckets.table.shape) == (FLOAT64, (3, 3))


def test_listed_positions_are_known() -> None:
    assert row_positions(table_request("/encoding?positions=0,5,9:13:2")) is not None
    _, wanted = expected_table("/encoding?positions=0,5,9:13:2&d_model=8", 16)

    assert wanted.waves is not None
    assert wanted.waves.positions.tolist() == [0, 5, 9, 11]
    assert row_positions(table_request("/encoding?seq_len=3")) is None
    fractions = row_positions(table_request("/encoding?positions=0.5,1.5"))
    assert fractions is not None
    assert fractions.tolist() == [0.5, 1.5]


def test_height_and_width_are_known() -> None:
    grid = "/encoding/grid?convention=mae&d_model=8&height=2&width=3"

    assert expected_table(grid, 48)[1].grid == (2, 3)


def test_a_table_that_is_far_too_large_is_not_read() -> None:
    with pytest.raises(InvalidParameters, match="seq_len"):
        expected_table("/encoding?seq_len=1000000&d_model=512", 512)


def test_variants_that_there_are_not_are_passed_over() -> None:
    url = (
        "/rope?head_dim=8&seq_len=4&pack=half&rope_type=llama3&factor=8&low_freq_factor=1"
        "&high_freq_factor=4&original_max_position_embeddings=32"
    )

    names = [mistake.name for mistake, _, _ in alternative_tables(table_request(url))]

    assert names[0] == "config-key-ignored"
    assert "wrong-base" in names


def test_a_start_far_out_is_known_though_every_angle_has_gone_round() -> None:
    positions = row_positions(table_request("/encoding?d_model=4&seq_len=4&start=100000"))

    assert positions is not None
    assert positions.tolist() == [100000, 100001, 100002, 100003]


def diagnose_yours_diagnose(client: Client, to: str, url: str) -> dict[str, object]:
    have = client.get(f"{url}&dtype=float64").json()["data"]
    body = {"to": to, **(have if isinstance(have, dict) else {"have": have})}
    report: dict[str, object] = client.post("/diagnose", json=body).json()
    return report


def test_a_mistake_comes_with_the_url_of_what_somebody_has(client: Client) -> None:
    report = diagnose_yours_diagnose(
        client, "/encoding?seq_len=32&d_model=16", "/encoding?seq_len=32&d_model=16&base=500"
    )

    assert report["verdict"] == "diagnosed"
    assert "base=500" in json.dumps(report["yours"])


@pytest.mark.full
def test_a_rule_that_should_not_be_there_is_named(client: Client) -> None:
    plain = "/rope?head_dim=64&seq_len=64&pack=half"
    scaled = "&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"

    report = diagnose_yours_diagnose(
        client,
        f"{plain}&rope_theta=500000",
        f"{plain}&rope_theta=500000{scaled}&original_max_position_embeddings=8192",
    )

    assert report["verdict"] == "diagnosed"
    assert '"wrong-rule"' in json.dumps(report["mistakes"])
    assert "llama3" in json.dumps(report["yours"])


def test_what_is_right_needs_no_other_name(client: Client) -> None:
    to = "/encoding?seq_len=8&d_model=4"

    assert "yours" not in diagnose_yours_diagnose(client, to, to)


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
