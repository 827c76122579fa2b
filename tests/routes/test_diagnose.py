"""``POST /diagnose`` names the mistakes that turn an expected table or rotation into an array."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from safetensors.numpy import load, save

from service.analysis.array import MAX_ELEMENTS
from service.errors import InvalidBody
from service.grammar import real_positions
from service.numerics.dtypes import FLOAT32, FLOAT64
from service.numerics.tables import StoredTable
from service.routes.diagnose import DiagnoseReport, against
from service.routes.expected_tables import expected_at, finite_sample
from service.settings import default_settings
from tests.analysis.rotating import Array, Engine
from tests.client import Client, load_npy, npy_bytes
from tests.openapi import report_schema

ENCODING = "/encoding?seq_len=16&d_model=8"
ROPE = "/rope?head_dim=16&seq_len=16&pack=half"
SCHEMA = Draft202012Validator(report_schema(DiagnoseReport))


def table(client: Client, url: str) -> Any:
    """Return the array of a URL, or its arrays by name, as lists."""
    return client.get(f"{url}&dtype=float64").json()["data"]


def diagnose(client: Client, **body: Any) -> Any:
    """POST arrays as JSON, and return the report, which follows its schema."""
    lists = {name: np.asarray(each).tolist() for name, each in body.items() if name != "to"}
    answer = client.post("/diagnose", json=body | lists)
    assert answer.status_code == 200, answer.text
    SCHEMA.validate(answer.json())
    return answer.json()


def refused(client: Client, **body: Any) -> str:
    answer = client.post("/diagnose", json=body)
    assert answer.status_code == 422, answer.text
    return answer.text


def names(report: Any) -> list[str]:
    return [mistake["name"] for mistake in report["mistakes"]]


def test_table_of_the_service_is_equal_to_itself(client: Client) -> None:
    report = diagnose(client, to=ENCODING, have=table(client, ENCODING))

    assert (report["verdict"], report["mistakes"]) == ("equal", [])
    assert report["correct"]["url"] == ENCODING
    assert "yours" not in report


def test_mistake_has_a_sentence_a_correction_and_the_matching_table(client: Client) -> None:
    report = diagnose(client, to=ENCODING, have=table(client, f"{ENCODING}&base=500000"))

    (mistake,) = report["mistakes"]
    assert mistake["name"] == "wrong-base"
    assert (mistake["have"], mistake["want"]) == (500000, 10000)
    assert "500000" in mistake["sentence"]
    assert "10000" in mistake["correction"]
    assert report["verdict"] == "diagnosed"
    assert "base=500000" in report["yours"]["url"]


LLAMA3 = "&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"


@pytest.mark.parametrize(
    ("rule", "have", "exact"),
    [
        (LLAMA3, 10052, True),
        (f"{LLAMA3}&dtype=float16", 163840, False),
        ("&rope_type=yarn&factor=4", 40960, False),
        ("&rope_type=yarn&factor=4", 131072, False),
    ],
)
def test_unusual_original_length_is_named_as_exactly_as_numbers_show_it(
    client: Client, rule: str, have: int, exact: bool
) -> None:
    url = f"/rope?head_dim=64&seq_len=512&pack=concat{rule}&original_max_position_embeddings="
    sent = client.get(f"{url}{have}".replace("/rope", "/rope.npy", 1)).content
    headers = {"Content-Type": "application/x-npy"}

    report = client.post(
        "/diagnose", params={"to": f"{url}8192"}, content=sent, headers=headers
    ).json()

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["key"]) == (
        "wrong-parameter",
        url.rsplit("&", maxsplit=1)[-1][:-1],
    )
    assert mistake["low"] <= have <= mistake["high"]
    assert (mistake["low"] == mistake["high"]) == exact
    assert ("any from" in mistake["sentence"]) != exact


@pytest.mark.parametrize("base", [100000, 1000000])
@pytest.mark.parametrize("original", [4096, 32768])
@pytest.mark.parametrize("rule", [LLAMA3, "&rope_type=yarn&factor=8"])
def test_usual_original_length_is_named_beside_a_wrong_base(
    client: Client, rule: str, original: int, base: int
) -> None:
    url = f"/rope?head_dim=64&seq_len=256&pack=concat{rule}"
    sent = client.get(
        f"{url}&rope_theta={base}&original_max_position_embeddings={original}&dtype=float64"
    )
    to = f"{url}&rope_theta=500000&original_max_position_embeddings=8192"

    report = diagnose(client, to=to, have=sent.json()["data"])

    assert sorted(names(report)) == ["wrong-base", "wrong-parameter"]
    assert "yours" in report


@pytest.mark.parametrize(
    "to",
    [
        (
            "/rope?head_dim=16&mrope_section=2,3,3&positions_t=1073741824,3,5"
            "&positions_h=1,2,3&positions_w=1,2,3&pack=flat"
        ),
        "/rope/axial?convention=qwen2_vl&head_dim=48&grid=5,8&pack=flat&reference_grid=5,4.1",
        "/rope/axial?convention=dinov3&head_dim=64&grid=5,8&pack=flat&grid_offset=1099511627776,0",
    ],
)
def test_right_table_with_far_places_along_several_axes_is_equal(client: Client, to: str) -> None:
    sent = client.get(to.replace("?", ".npy?", 1)).content
    headers = {"Content-Type": "application/x-npy"}

    report = client.post("/diagnose", params={"to": to}, content=sent, headers=headers)

    assert report.json()["verdict"] == "equal"


def test_setting_of_many_digits_is_no_diagnosis(client: Client) -> None:
    omega = 1e4 ** (-np.arange(32) / 31)
    rows, columns = np.divmod(np.arange(60), 20)
    halves = [f(np.outer(at, omega)) for at in (columns, rows) for f in (np.sin, np.cos)]
    to = "/encoding/grid?convention=mae&height=3&width=20&d_model=128"

    report = diagnose(client, to=to, have=np.hstack(halves).astype(np.float32).tolist())

    assert "base=" not in report.get("yours", {}).get("url", "")
    assert "base" not in report["sentence"]


def test_last_query_of_a_decoder_is_named_by_its_position(client: Client) -> None:
    to = "/relative/t5?query_len=1&key_len=50&bidirectional=false"

    report = diagnose(client, to=to, have=client.get(f"{to}&query_start=49").json()["data"])

    (mistake,) = report["mistakes"]
    assert (mistake["key"], mistake["have"], mistake["want"]) == ("query_start", 49, 0)


def test_distances_of_the_other_sign_are_not_called_transposed(client: Client) -> None:
    other = client.get("/relative/t5?query_len=50&key_len=30").json()["data"]
    have = np.swapaxes(other, -1, -2).tolist()

    report = diagnose(client, to="/relative/t5?query_len=30&key_len=50", have=have)

    assert report["verdict"] == "none"


@pytest.mark.parametrize("have", [0.25, 2, 3])
def test_other_highest_frequency_is_no_base_and_no_factor(client: Client, have: float) -> None:
    to = "/encoding?convention=tensor2tensor&seq_len=90&d_model=48"

    report = diagnose(client, to=to, have=table(client, f"{to}&min_timescale={have}"))

    assert {"wrong-base", "linear-factor", "rotated-twice"}.isdisjoint(names(report))


def test_wrong_denominator_of_a_rotation_is_named(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((40, 64))
    angles = np.outer(np.arange(40), 5e5 ** (-2 * np.arange(8) / 64))
    first, second, rotated = x[:, :8], x[:, 8:16], x.copy()
    rotated[:, :8] = first * np.cos(angles) - second * np.sin(angles)
    rotated[:, 8:16] = second * np.cos(angles) + first * np.sin(angles)
    to = "/rope/apply?layout=half&rotary_dim=16&rope_theta=500000"

    report = diagnose(client, to=to, x=x.tolist(), rotated=rotated.tolist())

    assert names(report) == ["wrong-denominator"]


@pytest.mark.parametrize("position", [0.75, 3])
def test_one_row_at_a_fractional_position_is_examined(client: Client, position: float) -> None:
    to = "/rope?head_dim=16&pack=concat&positions="
    have = table(client, f"{to}{position}")

    assert names(diagnose(client, to=f"{to}0.5", have=have)) == ["position-offset"]


def test_positions_that_go_on_over_packed_sequences_are_named(client: Client) -> None:
    packed = "/rope?head_dim=16&pack=half&cu_seqlens=0,9,16"
    report = diagnose(client, to=packed, **table(client, ROPE))

    assert report["verdict"] == "diagnosed"
    assert "cu_seqlens" not in report["yours"]["url"]
    assert client.get(report["yours"]["url"]).status_code == 200


def test_expected_table_may_be_an_array(client: Client) -> None:
    want = table(client, ENCODING)
    have = [row[::2] + row[1::2] for row in want]

    report = diagnose(client, have=have, want=want)

    assert names(report) == ["layout-swapped"]
    assert "correct" not in report


def test_cosines_and_sines_are_two_arrays(client: Client) -> None:
    want = table(client, ROPE)
    sine = -np.array(want["sin"])
    pair = {f"want_{name}": part for name, part in want.items()}

    assert names(diagnose(client, to=ROPE, cos=want["cos"], sin=sine)) == ["sine-sign"]
    assert names(diagnose(client, have_cos=want["cos"], have_sin=sine, **pair)) == ["sine-sign"]
    assert names(diagnose(client, to=ROPE, cos=want["sin"], sin=want["cos"])) == ["halves-swapped"]


def test_unexplained_element_has_its_position_channel_and_error(client: Client) -> None:
    to = f"{ENCODING}&start=5"
    have = table(client, to)
    have[3][2] += 0.5

    report = diagnose(client, to=to, have=have)

    first = report["findings"][0]
    assert (report["verdict"], first["name"], first["part"]) == ("none", "element", "sines")
    assert (first["row"], first["position"], first["channel"]) == (3, 8, 2)
    assert first["have"] == have[3][2]
    assert first["error"] == pytest.approx(0.5)


def float32_angles(theta: float, positions: Iterable[int] = range(512)) -> np.ndarray:
    """Return the angles of positions and 16 frequencies as engines compute them in float32."""
    exponents = np.arange(0, 32, 2, dtype=np.float32) / np.float32(32)
    frequencies = np.float32(1) / np.float32(theta) ** exponents
    return np.outer(np.array([*positions], dtype=np.float32), frequencies)


@pytest.mark.parametrize("theta", [10000, 500000])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda dtype: dtype.__name__
)
@pytest.mark.parametrize(
    ("pack", "arrange"),
    [("compact", lambda part: part), ("interleaved", lambda part: np.repeat(part, 2, axis=1))],
)
def test_cosines_or_sines_alone_may_be_of_float32_angles(
    client: Client, pack: str, arrange: Callable[[Array], Array], dtype: Any, theta: int
) -> None:
    for part, function in (("cos", np.cos), ("sin", np.sin)):
        to = f"/rope?head_dim=32&seq_len=512&rope_theta={theta}&pack={pack}&part={part}"
        to += f"&dtype={dtype.__name__}"
        right, wrong = (function(float32_angles(each)) for each in (theta, 1.01 * theta))

        assert diagnose(client, to=to, x=arrange(right.astype(dtype)))["verdict"] == "equal"
        assert diagnose(client, to=to, x=arrange(wrong.astype(dtype)))["verdict"] != "equal"


def test_float32_angles_are_the_arithmetic_only_where_they_are_the_reason(client: Client) -> None:
    to = "/rope?head_dim=32&seq_len=512&pack=compact&part=cos"

    own, engine = load_npy(client.get(to.replace("?", ".npy?"))), np.cos(float32_angles(10000))

    right, made = (diagnose(client, to=to, x=each) for each in (own, engine))
    assert (right["verdict"], right["arithmetic"]) == ("equal", "exact")
    assert made["verdict"] == "equal"
    assert made["arithmetic"] in {"float32", "float32-steps"}
    narrow = own.astype(ml_dtypes.bfloat16)
    report = diagnose(client, to=to, x=narrow.astype(np.float32))
    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["dtype"]) == ("narrow-tables", "bfloat16")
    assert report["arithmetic"] == "exact"
    right = diagnose(client, to=f"{to}&dtype=bfloat16", x=narrow)
    # Numbers were rounded to float32 first.
    assert (right["verdict"], right["mistakes"]) == ("equal", [])
    assert right["arithmetic"] in {"exact", "float32"}


def test_rounded_table_of_float32_angles_has_a_mistake_and_an_arithmetic(client: Client) -> None:
    to = "/rope?head_dim=32&start=200000&seq_len=8&pack=compact&part=cos"
    angles = float32_angles(10000, range(200000, 200008))

    report = diagnose(client, to=to, x=np.cos(angles).astype(np.float16).astype(np.float32))

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["dtype"]) == ("narrow-tables", "float16")
    assert (report["verdict"], report["arithmetic"]) == ("diagnosed", "float32")


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("start=500&seq_len=1", [500]),
        ("start=500&seq_len=2", [500, 501]),
        ("positions=9,7", [9, 7]),
    ],
)
@pytest.mark.parametrize("parts", [("cos", "sin"), ("cos",)])
def test_float32_angles_are_allowed_with_a_batch_axis(
    client: Client, query: str, places: list[int], parts: tuple[str, ...]
) -> None:
    angles = np.tile(float32_angles(10000, places), 2)[None]
    arrays = {"cos": np.cos(angles), "sin": np.sin(angles)}
    to = f"/rope?head_dim=32&{query}&batch=true&pack=half"
    to += f"&part={parts[0]}" if len(parts) == 1 else ""

    report = diagnose(client, to=to, **{name: arrays[name] for name in parts})

    assert report["verdict"] == "equal"


@pytest.mark.parametrize(
    "rows", ["100", "100,101", "0,0,0,1,2", "100,100,101", "700,30,1200", "500,9000,9007"]
)
@pytest.mark.parametrize("pack", ["compact", "half", "pair", "complex"])
def test_float32_angles_are_allowed_in_any_order_of_positions(
    client: Client, rows: str, pack: str
) -> None:
    to = f"/rope?head_dim=32&positions={rows}&pack={pack}"
    places = [*map(int, rows.split(","))]
    angles = float32_angles(10000, places)

    def arrays(angles: Array) -> dict[str, Array]:
        cosine, sine = np.cos(angles), np.sin(angles)
        if pack in {"pair", "complex"}:
            return {"x": np.stack([cosine, sine], axis=-1)}
        copies = 2 if pack == "half" else 1
        return {"cos": np.tile(cosine, copies), "sin": np.tile(sine, copies)}

    assert diagnose(client, to=to, **arrays(angles))["verdict"] == "equal"
    spoiled = angles * (1 + 2.0**-18)
    assert max(places) < 100 or diagnose(client, to=to, **arrays(spoiled))["verdict"] != "equal"


@pytest.mark.parametrize(
    ("query", "sines"),
    [
        ("encoding?d_model=32&convention=fairseq", slice(16)),
        ("encoding?d_model=32", slice(0, None, 2)),
        ("encoding/curves?d_model=32", slice(0, None, 2)),
    ],
)
def test_float32_angles_are_allowed_in_any_rows_of_sinusoids(
    client: Client, query: str, sines: slice
) -> None:
    places = np.array([[5000.0], [300.0]])
    exact = np.array(table(client, f"/{query}&positions=5000,300"))
    is_sine = np.zeros(32, dtype=bool)
    is_sine[sines] = True
    phases = np.arctan2(exact[:, is_sine], exact[:, ~is_sine])

    def report(share: float, frequencies: int) -> Any:
        errors = np.where(np.arange(16) < frequencies, share * places, 0.0)
        x = exact.copy()
        x[:, is_sine], x[:, ~is_sine] = np.sin(phases + errors), np.cos(phases + errors)
        return diagnose(client, to=f"/{query}&positions=5000,300", x=x)

    assert report(2.0**-24, 2)["verdict"] == "equal"
    assert report(2.0**-24, 16)["verdict"] != "equal"
    assert report(2.0**-18, 2)["verdict"] != "equal"


@pytest.mark.parametrize("far", [2**31, 2**40])
def test_far_row_is_right_only_if_it_is_exact(client: Client, far: int) -> None:
    rows = f"positions=0,1,{far}"
    exact = {
        name: np.array(each)
        for name, each in table(client, f"/rope?head_dim=32&{rows}&pack=compact").items()
    }
    x = vectors((3, 32))
    rotated = rotate(x, np.arctan2(exact["sin"], exact["cos"]))
    to, apply = f"/rope?head_dim=32&{rows}&pack=compact", f"{APPLY}&{rows}"

    assert diagnose(client, to=to, **exact)["verdict"] == "equal"
    assert diagnose_rotation(client, apply, x, rotated)["verdict"] == "equal"
    for each in (exact["cos"], exact["sin"], rotated):
        each[2] = 0.5
    assert diagnose(client, to=to, **exact)["verdict"] != "equal"
    assert diagnose_rotation(client, apply, x, rotated)["verdict"] != "equal"


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("value", [0.0, 1000.0])
def test_nothing_is_equal_where_float32_angles_predict_nothing(
    client: Client, rows: int, value: float
) -> None:
    rule = f"head_dim=64&start=2147483648&seq_len={rows}"
    x = np.full((rows, 64), value)

    assert diagnose(client, to=f"/rope?{rule}&pack=concat", x=x)["verdict"] == "none"
    to = "/rope/apply?layout=half&start=2147483648"
    before = np.random.default_rng(0).standard_normal((rows, 64))
    assert diagnose(client, to=to, x=before, rotated=x)["verdict"] == "none"


def test_table_by_repeated_multiplication_is_equal_at_large_positions(client: Client) -> None:
    engine = Engine(128, base=500000.0, start=60000, powers="products")
    x = np.hstack(engine.tables(256, np.float32))
    to = "/rope?head_dim=128&rope_theta=500000&pack=concat&start=60000&seq_len=256"

    report = diagnose(client, to=to, x=x)

    assert (report["verdict"], report["mistakes"]) == ("equal", [])


@pytest.mark.parametrize(
    ("have", "mistake"),
    [
        (np.sin(float32_angles(10000)) * np.float32(1.0001), "wrong-factor"),
        (np.sin(float32_angles(10000))[3:], "position-offset"),
        (np.sin(float32_angles(10000))[:, :8], "truncated"),
        (np.sin(float32_angles(10000**2)[:, :8]), "partial-width"),
    ],
)
def test_mistakes_of_sines_alone_are_named(client: Client, have: Array, mistake: str) -> None:
    to = f"/rope?head_dim=32&seq_len={len(have)}&pack=compact&part=sin"

    spoilt = have.copy()
    spoilt[-1, 0] += 0.5

    report = diagnose(client, to=to, x=have)

    assert (report["verdict"], names(report)) == ("diagnosed", [mistake])
    assert diagnose(client, to=to, x=spoilt)["verdict"] == "none"


def test_rows_after_the_last_of_curves_are_compared(client: Client) -> None:
    to = "/encoding/curves?d_model=12&seq_len=9&dimensions=5,2&start="
    have = np.array(table(client, f"{to}1"))

    report = diagnose(client, to=f"{to}0", x=have)
    have[-1, 0] += 0.5

    assert (report["verdict"], names(report)) == ("diagnosed", ["position-offset"])
    assert report["checked"]["elements"] == have.size
    assert diagnose(client, to=f"{to}0", x=have)["verdict"] == "none"


@pytest.mark.parametrize("part", ["pack=compact&part=cos", "pack=half&part=sin"])
@pytest.mark.parametrize(
    ("rows", "start", "shift"), [(8, 100, 3), (8, 0, 12), (64, 0, 62), (512, 7, 12)]
)
def test_all_rows_are_compared_where_positions_are_off(
    client: Client, rows: int, start: int, shift: int, part: str
) -> None:
    to = f"/rope?head_dim=32&seq_len={rows}&{part}&start="
    have = np.array(table(client, f"{to}{start + shift}"))

    report = diagnose(client, to=f"{to}{start}", x=have)
    have[2:] = np.random.default_rng(1).normal(size=have[2:].shape)
    noise = diagnose(client, to=f"{to}{start}", x=have)

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["rows"]) == ("position-offset", shift)
    assert (report["verdict"], report["checked"]["elements"]) == ("diagnosed", have.size)
    assert (noise["verdict"], noise["checked"]["elements"]) == ("none", have.size)


def test_unexplained_element_of_a_single_row_has_the_position_of_the_row(client: Client) -> None:
    to = "/encoding?positions=7&d_model=8"
    have = table(client, to)
    have[0][2] += 0.5

    first = diagnose(client, to=to, x=have)["findings"][0]
    assert (first["name"], first["row"], first["position"]) == ("element", 0, 7)


SCALED = "/rope?head_dim=32&seq_len=64&pack=half"
YARN = f"{SCALED}&rope_type=yarn&factor=4&original_max_position_embeddings=64"
LLAMA3 = (
    f"{SCALED}&rope_type=llama3&factor=8&low_freq_factor=1"
    "&high_freq_factor=4&original_max_position_embeddings=32&rope_theta=500000"
)
LINEAR = f"{SCALED}&rope_type=linear&factor=4"


@pytest.mark.parametrize("to", [YARN, LLAMA3, LINEAR])
def test_ignored_rule_is_named_with_its_keys(client: Client, to: str) -> None:
    have = table(client, f"{SCALED}&rope_theta=500000" if to is LLAMA3 else SCALED)

    report = diagnose(client, to=to, **have)

    (mistake,) = report["mistakes"]
    assert mistake["name"] == "config-key-ignored"
    assert f"rope_type={mistake['rule']}" in to
    assert "factor" in mistake["settings"]
    assert table(client, report["yours"]["url"])["cos"] == have["cos"]


def test_wrong_base_of_a_scaling_rule_is_found(client: Client) -> None:
    have = table(client, LLAMA3.replace("500000", "10000"))

    (mistake,) = diagnose(client, to=LLAMA3, **have)["mistakes"]

    assert (mistake["name"], mistake["have"]) == ("wrong-base", 10000)


def test_short_factors_in_place_of_long_ones_are_found(client: Client) -> None:
    to = (
        "/rope?head_dim=8&seq_len=64&pack=half&rope_type=longrope&short_factor=1,1.1,1.2,1.3"
        "&long_factor=2,3,4,5&original_max_position_embeddings=32&max_position_embeddings=128"
    )
    have = table(client, f"{to}&context_length=32")

    report = diagnose(client, to=f"{to}&context_length=64", **have)

    assert names(report) == ["short-for-long-factors"]


@pytest.mark.full
def test_rule_that_should_not_be_applied_is_named(client: Client) -> None:
    have, to = LLAMA3.replace("embeddings=32", "embeddings=8192"), f"{SCALED}&rope_theta=500000"
    have, to = (url.replace("head_dim=32", "head_dim=64") for url in (have, to))

    report = diagnose(client, to=to, **table(client, have))

    assert report["verdict"] == "diagnosed"
    assert names(report) == ["wrong-rule"]
    assert "llama3" in report["yours"]["url"]


MAE = "/encoding/grid?convention=mae&d_model=16"


def test_swapped_axes_of_a_grid_are_found(client: Client) -> None:
    exchanged = table(client, f"{MAE}&height=3&width=5")
    want = np.array(table(client, f"{MAE}&height=5&width=3")).reshape(5, 3, 16)
    column_by_column = want.transpose(1, 0, 2).reshape(15, 16)

    for have in (exchanged, column_by_column):
        report = diagnose(client, to=f"{MAE}&height=5&width=3", have=have)
        assert names(report) == ["axes-swapped"]


def test_table_of_a_smaller_grid_is_identified(client: Client) -> None:
    to = "/rope/axial?convention=qwen2_vl&head_dim=8&pack=flat"

    report = diagnose(client, to=f"{to}&grid=4,6", have=table(client, f"{to}&grid=2,3"))

    assert "grid=2,3" in report["yours"]["url"]


def test_table_without_sinusoids_is_compared_by_its_numbers(client: Client) -> None:
    to = "/relative/alibi?num_heads=4&query_len=6&key_len=6"
    have = np.array(table(client, to))

    assert diagnose(client, to=to, have=have)["verdict"] == "equal"
    assert names(diagnose(client, to=to, have=2 * have)) == ["extra-factor"]


def test_rounding_to_a_narrow_type_has_no_matching_table(client: Client) -> None:
    frequencies = (10000.0 ** (-np.arange(16) / 16)).astype(ml_dtypes.bfloat16)
    angles = np.outer(np.arange(64), frequencies.astype(np.float64))
    have = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(64, 32)

    report = diagnose(client, to="/encoding?seq_len=64&d_model=32", have=have.astype(np.float32))

    assert names(report) == ["narrow-frequencies"]
    assert "yours" not in report


@pytest.mark.parametrize(
    ("url", "to", "mistakes"),
    [
        ("/encoding?seq_len=64&d_model=32", "/encoding?seq_len=64&d_model=32", ["transposed"]),
        (
            "/encoding?seq_len=40&d_model=24&base=77",
            "/rope?seq_len=24&head_dim=40&pack=concat",
            ["another-table", "transposed"],
        ),
    ],
)
def test_transposed_table_has_no_matching_table(
    client: Client, url: str, to: str, mistakes: list[str]
) -> None:
    report = diagnose(client, to=to, have=np.array(table(client, url)).T)

    assert (report["verdict"], names(report)) == ("diagnosed", mistakes)
    assert "yours" not in report


def test_rows_in_another_order_are_other_positions(client: Client) -> None:
    to = "/rope?seq_len=32&head_dim=16&pack=sin_concat"
    have = np.array(table(client, to))
    have[[5, 9]] = have[[9, 5]]

    report = diagnose(client, to=to, have=have)

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["want"]) == ("other-positions", "0:32")
    assert mistake["have"] == "0:5,9,6:9,5,10:32"
    assert "positions=0:5,9,6:9,5,10:32" in report["yours"]["url"]


def test_clamped_positions_are_named_whatever_the_rule(client: Client) -> None:
    rule = "rope_type=longrope&factor=2&original_max_position_embeddings=64&context_length=128"
    lists = "short_factor=1,1.1,1.2,1.3&long_factor=1.9,10.9,31.8,44.1"
    to = f"/rope?head_dim=8&rope_theta=1000000&{rule}&{lists}"
    clamped = table(client, f"{to}&positions=0,1,2,2,2,2,2,2&pack=half")

    report = diagnose(client, to=f"{to}&seq_len=8&pack=half", **clamped)

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["position"], mistake["row"]) == ("positions-stuck", 2, 2)
    assert "positions=0:3,2,2,2,2,2" in report["yours"]["url"]
    assert "rope_theta=1000000" in report["yours"]["url"]


def listed(positions: str) -> list[float]:
    found = real_positions(positions)
    return [float(each) for each in found.at(0, found.count)]


LLAMA3_RULE = "&rope_theta=500000&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"
LLAMA3_RULE += "&original_max_position_embeddings=8192"


TIMES, NO_SHIFT = "999,749.25,500.5,250.75,1", "&downscale_freq_shift=0"


@pytest.mark.parametrize(
    ("times", "more", "name", "values"),
    [
        (TIMES, "&downscale_freq_shift=1", "downscale-shift", {"have": 1, "want": 0}),
        (TIMES, f"{NO_SHIFT}&max_period=1000000", "wrong-base", {"have": 1000000, "want": 10000}),
        ("0.999,0.74925,0.5005,0.25075,0.001", NO_SHIFT, "linear-factor", {"ratio": 0.001}),
        ("999000,749250,500500,250750,1000", NO_SHIFT, "linear-factor", {"ratio": 1000}),
        ("1,250.75,500.5,749.25,999", NO_SHIFT, "positions-reversed", {}),
        ("999,749,500,250,1", NO_SHIFT, "other-positions", {"have": "999,749,500,250,1"}),
        ("999,749.25,500.625,250.75,1", NO_SHIFT, "other-positions", {"want": TIMES}),
    ],
)
def test_mistakes_of_fractional_timesteps_are_named(
    client: Client, times: str, more: str, name: str, values: dict[str, Any]
) -> None:
    path = "/encoding/timesteps?d_model=64&timesteps="
    have = table(client, f"{path}{times}{more}")

    report = diagnose(client, to=f"{path}{TIMES}{NO_SHIFT}", have=have)

    (mistake,) = report["mistakes"]
    assert mistake["name"] == name
    assert {key: mistake[key] for key in values} == values
    assert ("yours" in report) == (name in {"downscale-shift", "wrong-base"})


@pytest.mark.parametrize("pack", ["half", "pair"])
@pytest.mark.parametrize(
    ("have", "want", "name", "rows"),
    [
        ("0:8", "0:4,0:4", "positions-reset", [4]),
        ("0:9,0:9", "1,1,1,0:6,1,0:8", "padding-counted", [3, 1]),
        ("40:45,0:5", "0:5,40:45", "next-sequence", 5),
    ],
)
def test_positions_of_a_batch_are_named(
    client: Client, have: str, want: str, name: str, rows: Any, pack: str
) -> None:
    to = f"/rope?head_dim=64&pack={pack}&positions="
    sent = table(client, f"{to}{have}")

    report = diagnose(client, to=f"{to}{want}", **(sent if pack == "half" else {"x": sent}))

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["rows"]) == (name, rows)
    assert f"positions={have}" in report["yours"]["url"]


@pytest.mark.parametrize("rule", ["", LLAMA3_RULE, "&rope_type=dynamic&factor=4"])
@pytest.mark.parametrize(
    ("have", "want"),
    [
        ("0,1,2,3,4,5", "0,0,0,1,2,7000"),
        ("0,1,2", "10,20,30"),
        ("900,900,900,900", "17,5,900,33"),
        ("17,900,5,33,2", "17,5,900,33,2"),
        ("0,5,5,5,5", "0:5"),
    ],
)
@pytest.mark.parametrize("pack", ["half", "pair"])
def test_rows_of_other_positions_are_named_whatever_the_rule(
    client: Client, rule: str, have: str, want: str, pack: str
) -> None:
    if "dynamic" in rule:
        rule += "&max_position_embeddings=2048&context_length=4096"
    to = f"/rope?head_dim=64{rule}&pack={pack}&positions="
    rows = table(client, f"{to}{have}")

    report = diagnose(client, to=f"{to}{want}", **(rows if pack == "half" else {"x": rows}))

    (mistake,) = report["mistakes"]
    if have == "900,900,900,900":
        assert (mistake["name"], mistake["position"]) == ("positions-stuck", 900)
        assert mistake["row"] == 0
    else:
        assert mistake["name"] == "other-positions"
        assert listed(mistake["want"]) == listed(want)
        assert listed(mistake["have"]) == listed(have)
    assert f"positions={mistake.get('have', have)}" in report["yours"]["url"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda angles: -angles, "sine-sign"),
        (lambda angles: angles + float32_angles(10000, [1]), "position-offset"),
    ],
)
@pytest.mark.parametrize("position", [7, 257, 511, 8193])
def test_sign_and_offset_by_one_are_named_in_one_row(
    client: Client, position: int, change: Callable[[Array], Array], name: str
) -> None:
    angles = change(float32_angles(10000, [position]))
    arrays = {"cos": np.cos(angles), "sin": np.sin(angles)}

    report = diagnose(client, to=f"/rope?head_dim=32&positions={position}&pack=compact", **arrays)

    assert names(report) == [name]


@pytest.mark.parametrize("rows", ["1500", "700,30,1200", "0,0,0,1,2,7000"])
@pytest.mark.parametrize(("have", "want"), [(10000, 1000000), (500000, 1000000), (10000, 500000)])
def test_common_base_is_named_in_rows_that_do_not_show_frequencies(
    client: Client, rows: str, have: int, want: int
) -> None:
    angles = float32_angles(have, map(int, rows.split(",")))
    arrays = {"cos": np.cos(angles), "sin": np.sin(angles)}
    table = f"/rope?head_dim=32&rope_theta={want}&positions={rows}&pack=compact"
    apply = f"{APPLY}&rope_theta={want}&positions={rows}"
    x = vectors((4, len(angles), 32))

    for report in (
        diagnose(client, to=table, **arrays),
        diagnose_rotation(client, apply, x, rotate(x, angles)),
    ):
        (mistake,) = report["mistakes"]
        assert (mistake["name"], mistake["have"], mistake["want"]) == ("wrong-base", have, want)


def test_rule_that_was_forgotten_is_named_in_one_rotated_row(client: Client) -> None:
    x, to = vectors((4, 1, 32)), f"{APPLY}{LLAMA3_RULE}&start=5000"

    for base, further in ((500000, []), (10000, ["wrong-base"])):
        rotated = rotate(x, float32_angles(base, [5000]))
        found = names(diagnose_rotation(client, to, x, rotated))
        assert found == ["config-key-ignored", *further]


def test_frequencies_may_be_computed_in_float32(client: Client) -> None:
    to = f"/rope/frequencies?head_dim=128{LLAMA3_RULE}&part=inv_freq"
    exponents = np.arange(0, 128, 2, dtype=np.float32) / np.float32(128)
    plain = np.float32(1) / np.float32(500000) ** exponents
    wavelength = np.float32(2 * np.pi) / plain
    smooth = (np.float32(8192) / wavelength - np.float32(1)) / np.float32(3)
    low, middle = plain / np.float32(8), (1 - smooth) * plain / np.float32(8) + smooth * plain
    engine = np.where(wavelength < 2048, plain, np.where(wavelength > 8192, low, middle))

    report = diagnose(client, to=to, x=engine)

    assert (report["verdict"], report["mistakes"]) == ("equal", [])
    assert names(diagnose(client, to=to, x=plain)) == ["config-key-ignored"]


@pytest.mark.parametrize("theta", [500000, 1000000])
def test_wrong_base_of_frequencies_alone_is_named(client: Client, theta: int) -> None:
    to = "/rope/frequencies?head_dim=128&part=inv_freq"
    have = client.get(f"{to}&rope_theta={theta}").json()["data"]

    (mistake,) = diagnose(client, to=to, x=have)["mistakes"]

    assert (mistake["name"], mistake["have"], mistake["want"]) == ("wrong-base", theta, 10000)


@pytest.mark.parametrize(
    ("counted", "how", "have"), [(0, "not at all", 0), (2, "twice", 2)], ids=["0", "2"]
)
@pytest.mark.parametrize("start", [1000, 32768, 200000])
def test_rows_counted_from_0_are_named_far_from_it(
    client: Client, start: int, counted: int, how: str, have: int
) -> None:
    to = "/rope?head_dim=64&seq_len=16&pack=compact&start="
    rows = table(client, f"{to}{counted * start}")

    report = diagnose(client, to=f"{to}{start}", **rows)

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["how"]) == ("cache-offset", how)
    assert (mistake["offset"], mistake["have"]) == (start, have * start)
    assert mistake["rows"] == (have - 1) * start


@pytest.mark.parametrize(
    ("have", "want"), [(10000, 100000), (10000, 1000000), (500000, 10000), (1000000, 10000)]
)
def test_common_base_is_named_before_another_width(client: Client, have: int, want: int) -> None:
    rows = {
        base: f"/rope?head_dim=128&seq_len=16&pack=compact&rope_theta={base}"
        for base in (have, want)
    }

    (mistake,) = diagnose(client, to=rows[want], **table(client, rows[have]))["mistakes"]

    assert (mistake["name"], mistake["have"], mistake["want"]) == ("wrong-base", have, want)


def test_factor_that_is_right_is_no_mistake_of_an_ignored_rule(client: Client) -> None:
    plain = "/rope?head_dim=64&seq_len=16&pack=compact"
    to = f"{plain}&rope_type=yarn&factor=4&original_max_position_embeddings=1024"
    factor = 0.1 * np.log(4) + 1
    arrays = {name: factor * np.array(part) for name, part in table(client, plain).items()}

    assert names(diagnose(client, to=to, **arrays)) == ["config-key-ignored"]


def test_array_without_a_name_is_x(client: Client) -> None:
    array = -np.array(table(client, ENCODING), dtype=np.float32)[:, ::-1]
    npy: Any = {"content": npy_bytes(array), "headers": {"content-type": "application/x-npy"}}

    answer = client.post("/diagnose", params={"to": ENCODING}, **npy)
    without_to = client.post("/diagnose", **npy)

    assert answer.json()["verdict"] == "none"
    assert without_to.status_code == 422
    assert "give the URL of the expected table as to=" in without_to.json()["detail"]


def test_the_array_is_x_or_have(client: Client) -> None:
    want, spoiled = table(client, ENCODING), table(client, ENCODING)
    spoiled[0][0] = 1e300

    for name in ("x", "have"):
        assert diagnose(client, to=ENCODING, **{name: want})["verdict"] == "equal"
        assert diagnose(client, want=want, **{name: want})["verdict"] == "equal"
        alone = {name: [[1e300]]}
        assert f"/{name}" in refused(client, to="/relative/t5?query_len=1&key_len=1", **alone)
        report = diagnose(client, to=ENCODING, **{name: spoiled})
        assert report["verdict"] == "none"
        assert report["findings"][0]["have"] == 1e300


def test_rotation_of_single_channels_is_refused(client: Client) -> None:
    x = np.ones((6, 8)).tolist()
    to = "/rope/apply?mrope_layout=hunyuan_vl&mrope_section=1,1,1,1&layout=half"

    assert "angles of single channels" in refused(client, to=to, x=x, rotated=x)


def test_url_that_is_not_encoded_is_explained(client: Client) -> None:
    answer = client.post(f"/diagnose?to={ENCODING}", json={"have": [[0.0]]})

    assert answer.status_code == 422
    assert "%26" in answer.json()["detail"]


HAVE = [[0.0, 1.0], [1.0, 0.5]]
ZEROS = np.zeros((4, 8)).tolist()
AXIAL = "/rope/axial?convention=qwen2_vl&head_dim=8"
ROTATED = {"x": ZEROS, "rotated": ZEROS}


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"have": HAVE}, "want"),
        ({"have": HAVE, "want": HAVE, "to": ENCODING}, "both"),
        ({"want": HAVE}, "send x, or have_cos and have_sin"),
        ({"x": HAVE, "have": HAVE, "to": ENCODING}, "x and have are two names of one array"),
        ({"have": HAVE, "mine": HAVE}, "an array goes by the name of x"),
        ({"have": [[1.0, 2.5, 3.0]], "to": ENCODING}, "shape"),
        ({"cos": [[1.0, 2.5, 3.0]], "to": ROPE}, "shape"),
        ({"x": HAVE, "want_cos": HAVE, "want_sin": HAVE}, "with want_cos and want_sin"),
        ({"have_cos": HAVE, "have_sin": [[1.0]], "to": ROPE}, "same shape"),
        ({"have": [[1e300]], "want": [[1e300]]}, "2^64"),
        ({"have": HAVE, "to": "/nothing"}, "to names no table"),
        ({"have": HAVE, "to": "/relative/t5?query_len=1000000&key_len=4096"}, "name the part"),
        ({"rotated": HAVE, "to": ROPE}, "x and rotated go together"),
        ({"x": HAVE, "rotated": HAVE}, "to is required"),
        ({"x": HAVE, "rotated": [[1.0]], "to": ROPE}, "must be the same"),
        ({"x": [1e300], "rotated": [1.0], "to": ROPE}, "positions by channels"),
        ({"x": [[1e300]], "rotated": [[1.0]], "to": ROPE}, "/x"),
        (ROTATED | {"to": "/encoding?seq_len=4&d_model=8"}, "to must name a rotation"),
        (ROTATED | {"to": "/rope?head_dim=64&seq_len=4"}, "the rotation has 64 channels"),
        (ROTATED | {"to": "/rope?head_dim=8&seq_len=2"}, "rows"),
        (ROTATED | {"to": f"{AXIAL}&grid=400,400"}, "as many as x has"),
        (ROTATED | {"to": "/rope/apply?head_dim=6"}, "it has 8 channels, but head_dim is 6"),
        (ROTATED | {"to": "/rope/apply?rotary_dim=8&rotary_offset=4"}, "rotary_offset leaves"),
        (ROTATED | {"to": "http://[/rope/apply"}, "to names no table"),
        (ROTATED | {"to": "/rope/apply?layout=neox"}, "did you mean layout=half"),
    ],
    ids=str,
)
def test_arrays_that_do_not_go_with_the_expected_table_are_refused(
    client: Client, body: dict[str, Any], rule: str
) -> None:
    assert rule in refused(client, **body)


def test_errors_of_a_rotation_point_at_to(client: Client) -> None:
    text = refused(client, to="/rope/apply?rotary_offset=64&layout=half", **ROTATED)

    (fault,) = json.loads(text)["errors"]
    assert fault["parameter"] == "to"
    assert "to names no table" in fault["detail"]


TABLE = "/rope?head_dim=32&seq_len=40"
APPLY = "/rope/apply?layout=half"
RIGHT = Engine(32)
SAFETENSORS = "application/vnd.safetensors"


def vectors(shape: tuple[int, ...] = (2, 40, 32), dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def diagnose_rotation(client: Client, to: str, x: Array, rotated: Array) -> Any:
    """POST arrays in their types, and return the report."""
    body = save({"x": np.ascontiguousarray(x), "rotated": np.ascontiguousarray(rotated)})
    headers = {"Content-Type": SAFETENSORS}
    answer = client.post("/diagnose", params={"to": to}, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "more", ["", "&start=7", "&inverse=true", "&rotary_dim=16", "&output_layout=interleaved"]
)
def test_rotation_of_the_service_is_equal(client: Client, more: str) -> None:
    x, headers = vectors(), {"Content-Type": SAFETENSORS, "Accept": SAFETENSORS}
    rotated = load(client.post(APPLY + more, content=save({"x": x}), headers=headers).content)["x"]

    assert diagnose_rotation(client, APPLY + more, x, rotated)["verdict"] == "equal"


@pytest.mark.parametrize(
    ("to", "mistakes"),
    [
        (APPLY, ["layout-swapped"]),
        ("/rope/apply?layout=interleaved", []),
        (f"{TABLE}&pack=half", ["layout-swapped"]),
        (TABLE, []),
    ],
)
def test_layout_is_that_of_the_url_if_it_has_one(
    client: Client, to: str, mistakes: list[str]
) -> None:
    x = vectors()
    rotated = RIGHT.with_changes(layout="interleaved").rotate(x)

    assert names(diagnose_rotation(client, to, x, rotated)) == mistakes


def test_rotation_of_fewer_rows_is_by_the_first_of_the_table(client: Client) -> None:
    x = vectors((2, 40, 32))
    to = "/rope?head_dim=32&seq_len=10000000&pack=half"

    right = diagnose_rotation(client, to, x, RIGHT.rotate(x))
    swapped = diagnose_rotation(client, to, *(each.swapaxes(0, 1) for each in (x, RIGHT.rotate(x))))

    assert right["verdict"] == "equal"
    assert right["correct"]["url"] == "/rope?head_dim=32&seq_len=40&pack=half"
    assert (right["checked"]["rows"], right["checked"]["of"]) == (40, 10000000)
    assert names(swapped) == ["axes-swapped"]


def test_two_mistakes_have_their_values(client: Client) -> None:
    x = vectors()
    rotated = RIGHT.with_changes(base=500000.0, start=1).rotate(x)

    base, offset = diagnose_rotation(client, APPLY, x, rotated)["mistakes"]

    assert (base["name"], base["have"], base["want"]) == ("wrong-base", 500000, 10000)
    assert (offset["name"], offset["rows"]) == ("position-offset", 1)


def test_ignored_rule_of_a_rotation_is_named(client: Client) -> None:
    x, rule = vectors(), LLAMA3.removeprefix(SCALED).replace("500000", "10000")

    assert names(diagnose_rotation(client, APPLY + rule, x, RIGHT.rotate(x))) == [
        "config-key-ignored"
    ]


def test_missing_attention_factor_is_named_with_its_value(client: Client) -> None:
    x = vectors()
    yarn = f"{APPLY}&rope_type=yarn&factor=4&original_max_position_embeddings=1024"
    rule = "/rope/frequencies?part=inv_freq&head_dim=32" + yarn.removeprefix(APPLY)
    rotated = rotate(x, np.outer(np.arange(40.0), client.get(rule).json()["data"]))

    (mistake,) = diagnose_rotation(client, yarn, x, rotated)["mistakes"]

    assert mistake["name"] == "missing-factor"
    assert mistake["factor"] == pytest.approx(0.1 * np.log(4) + 1)


def rotate(x: Array, angles: Array) -> Array:
    """Rotate channels in the layout half."""
    half = x.shape[-1] // 2
    rotated = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([rotated.real, rotated.imag], axis=-1).astype(np.float32)


def test_equal_rotation_by_float32_angles_says_so(client: Client) -> None:
    x, to = vectors(), f"{APPLY}&start=100000"
    engine = RIGHT.with_changes(start=100000)
    exact = engine.rotate(x.astype(np.float64)).astype(np.float32)

    assert diagnose_rotation(client, to, x, exact)["arithmetic"] == "exact"
    report = diagnose_rotation(client, to, x, engine.rotate(x))
    assert (report["verdict"], report["arithmetic"]) == ("equal", "float32")
    assert "in float32" in report["sentence"]


@pytest.mark.parametrize("wide", [np.float32, np.float64])
@pytest.mark.parametrize("narrow", [np.float16, ml_dtypes.bfloat16])
def test_rotation_in_a_half_type_is_equal_in_a_wider_array(
    client: Client, wide: Any, narrow: Any
) -> None:
    x = vectors().astype(narrow)
    rotated = RIGHT.rotate(x)

    report = diagnose_rotation(client, APPLY, x.astype(wide), rotated.astype(wide))

    assert (report["verdict"], report["mistakes"]) == ("equal", [])
    assert f"rounded to {np.dtype(narrow).name}" in report["sentence"]


@pytest.mark.parametrize(
    ("shift", "expected"), [(0, []), (3, ["position-offset"])], ids=["right", "shifted"]
)
def test_float32_frequencies_of_float64_angles_are_no_mistake(
    client: Client, shift: int, expected: list[str]
) -> None:
    x = vectors().astype(np.float64)
    frequencies = RIGHT.frequencies(np.float32).astype(np.float64)
    angles = np.outer(shift + np.arange(40.0), frequencies)
    half = x.shape[-1] // 2
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)

    rotated = np.concatenate([turned.real, turned.imag], axis=-1)
    report = diagnose_rotation(client, APPLY, x, rotated)

    assert names(report) == expected
    assert report["arithmetic"] == "float32"


def test_attention_factor_of_float32_is_no_mistake_of_float64_arrays(client: Client) -> None:
    to = f"{APPLY}&rope_type=yarn&factor=4&original_max_position_embeddings=1024"
    factor = float(np.float32(0.1 * np.log(4) + 1))
    x = vectors((4, 1, 32)).astype(np.float64)

    assert diagnose_rotation(client, to, x, factor * x)["verdict"] == "equal"


def test_base_that_a_rule_changes_is_not_what_a_config_says(client: Client) -> None:
    rule = "&rope_type=dynamic&factor=4&max_position_embeddings=2048&context_length=4096"
    x = vectors()
    npy = {"content-type": "application/x-npy"}
    wrong = f"/rope/apply.npy?layout=half&rope_theta=1000000{rule}"
    rotated = load_npy(client.post(wrong, content=npy_bytes(x), headers=npy))

    report = diagnose_rotation(client, f"{APPLY}&rope_theta=500000{rule}", x, rotated)

    # Not the base that the rule makes of it.
    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["have"], mistake["want"]) == ("wrong-base", 1000000, 500000)


def test_single_row_is_diagnosed_at_its_position(client: Client) -> None:
    x, to = vectors((4, 1, 32)), f"{APPLY}&start=700"
    right, early = (RIGHT.with_changes(start=start).rotate(x) for start in (700, 699))

    assert diagnose_rotation(client, to, x, right)["verdict"] == "equal"
    assert names(diagnose_rotation(client, to, x, x)) == ["cache-offset"]
    (mistake,) = diagnose_rotation(client, to, x, early)["mistakes"]
    assert (mistake["name"], mistake["rows"]) == ("position-offset", -1)


def test_rotation_may_have_any_positions(client: Client) -> None:
    x, to = vectors((4, 4, 32)), f"{APPLY}&positions=5,900,17,17"
    angles = np.outer([5.0, 900.0, 17.0, 17.0], RIGHT.frequencies())

    assert diagnose_rotation(client, to, x, rotate(x, angles))["verdict"] == "equal"
    late = rotate(x, angles + RIGHT.frequencies())
    (mistake,) = diagnose_rotation(client, to, x, late)["mistakes"]
    assert (mistake["name"], mistake["rows"]) == ("position-offset", 1)


def test_corrupted_row_of_a_rotation_is_located(client: Client) -> None:
    x = vectors()
    rotated = RIGHT.rotate(x)
    rotated[1, 33] = x[0, 0]

    report = diagnose_rotation(client, APPLY, x, rotated)

    first = report["findings"][0]
    assert (report["verdict"], report["mistakes"]) == ("none", [])
    assert (first["name"], first["from"], first["to"]) == ("rows", 33, 33)
    assert first["heads"] == {"from": 1, "to": 1}


def test_rotation_may_be_json(client: Client) -> None:
    x = vectors((1, 4, 32))
    rotated = RIGHT.with_changes(angle_factor=-1.0).rotate(x)

    assert names(diagnose(client, to=APPLY, x=x, rotated=rotated)) == ["inverse"]


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_nan_and_infinity_are_found(client: Client, number: float) -> None:
    array = np.array(table(client, ENCODING))
    array[3, 4] = number
    npy = {"content": npy_bytes(array), "headers": {"content-type": "application/x-npy"}}

    report = client.post("/diagnose", params={"to": ENCODING}, **npy).json()

    SCHEMA.validate(report)
    found = {each["name"]: each for each in report["findings"]}
    assert (report["verdict"], report["mistakes"]) == ("none", [])
    assert (found["not-finite"]["row"], found["not-finite"]["lane"]) == (3, 2)
    assert found["element"]["channel"] == 4


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_nan_and_infinity_are_refused_where_numbers_are_compared_one_by_one(number: float) -> None:
    with pytest.raises(InvalidBody, match="have holds NaN or an infinity") as caught:
        finite_sample("have", StoredTable(np.array([1.0, number]), FLOAT64))

    assert caught.value.faults[0].where == "/have"


def test_table_of_any_size_is_taken(client: Client) -> None:
    rows = MAX_ELEMENTS // 64 + 1
    to = f"/rope?head_dim=64&seq_len={rows}&pack=concat"
    content = client.get(to.replace("?", ".npy?")).content
    npy: Any = {"content": content, "headers": {"content-type": "application/x-npy"}}

    report = client.post("/diagnose", params={"to": to}, **npy).json()

    assert report["verdict"] == "equal"
    assert report["checked"]["elements"] > MAX_ELEMENTS
    assert 0 < report["sampled"]["rows"] < rows


def test_array_of_too_many_numbers_is_refused() -> None:
    many = np.broadcast_to(np.zeros(1), (MAX_ELEMENTS + 1,))

    with pytest.raises(InvalidBody, match=f"at most {MAX_ELEMENTS} are possible"):
        finite_sample("x", StoredTable(many, FLOAT64))


def test_array_of_too_many_numbers_is_refused_with_the_rows_to_send() -> None:
    tall, wide = (
        np.broadcast_to(np.zeros(1), shape) for shape in [(2, 65536, 128), (2**17, 1, 64)]
    )

    with pytest.raises(InvalidBody, match="send at most 16384 rows, and later ones with start="):
        finite_sample("x", StoredTable(tall, FLOAT64))
    with pytest.raises(InvalidBody, match="send fewer heads"):
        finite_sample("x", StoredTable(wide, FLOAT64))


def test_table_of_angles_is_compared_by_its_cosines_and_sines(client: Client) -> None:
    angles = float32_angles(10000)

    right = diagnose(client, to="/rope?head_dim=32&pack=concat", x=angles)
    wrong = diagnose(client, to="/rope?head_dim=32&pack=half&rope_theta=500000", x=angles)

    assert right["verdict"] == "equal"
    assert right["sentence"].startswith("These are the angles of the table")
    assert names(wrong) == ["wrong-base"]


def test_table_of_one_number_a_row_is_equal_to_itself(client: Client) -> None:
    url = "/attention/temperature?seq_len=4&convention=llama4"

    assert diagnose(client, to=url, x=table(client, url))["verdict"] == "equal"


T5 = "/relative/t5?query_len=40&key_len=40"
ALIBI = "/relative/alibi?num_heads=4&query_len=6&key_len=6"


@pytest.mark.parametrize(("have", "want"), [("true", "false"), ("false", "true")])
def test_setting_of_a_table_without_frequencies_is_named(
    client: Client, have: str, want: str
) -> None:
    url = f"{T5}&bidirectional="

    report = diagnose(client, to=url + want, have=client.get(url + have).json()["data"])

    (mistake,) = report["mistakes"]
    assert mistake["key"] == "bidirectional"
    assert (mistake["have"], mistake["want"]) == (have == "true", want == "true")
    assert mistake["correction"] == f"Set bidirectional to {want}."


@pytest.mark.parametrize("length", ["&seq_len=64", ""])
@pytest.mark.parametrize(("value", "word"), [(0.0, "zero"), (np.nan, "NaN")])
def test_expected_rows_that_are_empty_are_missing(
    client: Client, value: float, word: str, length: str
) -> None:
    url = "/rope?head_dim=16&pack=concat"
    array = np.array(table(client, f"{url}&seq_len=64"))
    array[10:] = value
    npy = {"content": npy_bytes(array), "headers": {"content-type": "application/x-npy"}}

    report = client.post("/diagnose", params={"to": url + length}, **npy).json()

    assert report["verdict"] == "diagnosed"
    rows = f"the 64 rows that are {'expected' if length else 'sent'}"
    assert report["sentence"] == f"Rows from 10 on are {word}: 54 of {rows} are missing."
    assert report["mistakes"][0]["from"] == 10
    assert report["correct"]["url"] == f"{url}&seq_len=64"


def test_empty_rows_after_those_that_are_expected_are_no_mistake(client: Client) -> None:
    to = "/rope?head_dim=16&pack=concat&seq_len=10"
    array = np.vstack([table(client, to), np.zeros((54, 16))])

    report = diagnose(client, to=to, have=array)

    assert (report["verdict"], report["mistakes"]) == ("equal", [])
    assert report["findings"][0]["from"] == 10


@pytest.mark.parametrize("to", [ENCODING, ROPE.replace("half", "concat"), T5, ALIBI])
def test_zeros_are_called_zeros_and_nothing_else(client: Client, to: str) -> None:
    shape = np.array(client.get(to).json()["data"]).shape

    report = diagnose(client, to=to, have=np.zeros(shape))

    assert (report["verdict"], report["sentence"]) == ("none", "All numbers are zero.")
    assert [each["name"] for each in report["findings"]] == ["zero"]


def test_wrong_numbers_in_a_few_places_are_counted(client: Client) -> None:
    array = np.array(table(client, ENCODING))
    array[[3, 5, 9], [1, 2, 7]] += 0.5

    report = diagnose(client, to=ENCODING, have=array)

    assert report["sentence"] == "Right but for pairs 0, 1 and 3 in rows 3, 5 and 9: 3 numbers."


def test_places_have_the_names_of_the_axes(client: Client) -> None:
    array = np.array(table(client, ALIBI))
    array[3, 4, 2] += 0.5
    one = diagnose(client, to=ALIBI, have=array)
    array[3, 5] += 0.5
    several = diagnose(client, to=ALIBI, have=array)

    assert one["sentence"] == "Right but for head 3, query 4, key 2."
    assert one["findings"][0]["index"] == [3, 4, 2]
    assert several["sentence"] == ("Right but for 7 of 144 numbers, in head 3, queries from 4 on.")


@pytest.mark.parametrize(("have", "want"), [("pair", "concat"), ("concat", "pair")])
def test_pairs_along_an_axis_of_their_own_are_no_wrong_order(
    client: Client, have: str, want: str
) -> None:
    url = "/rope?head_dim=16&seq_len=16&pack="

    report = diagnose(client, to=url + want, have=table(client, url + have))

    assert report["verdict"] == "equal"
    assert "cosines, then sines" in report["sentence"]


def test_order_of_cosines_and_sines_is_said_in_words(client: Client) -> None:
    url = "/rope?head_dim=16&seq_len=16&pack="

    (mistake,) = diagnose(client, to=f"{url}concat", have=table(client, f"{url}flat"))["mistakes"]

    assert mistake["sentence"] == (
        "Cosines and sines are packed as flat (each cosine before its sine); they should be packed "
        "as concat (cosines, then sines)."
    )


@pytest.mark.parametrize("masked", [False, True])
def test_causal_mask_of_a_bias_is_compared_where_the_table_may_have_one(
    client: Client, masked: bool
) -> None:
    array = load_npy(client.get(ALIBI.replace("?", ".npy?masked=true&")))
    npy = {"content": npy_bytes(array), "headers": {"content-type": "application/x-npy"}}

    to = f"{ALIBI}&masked=true" if masked else ALIBI
    report = client.post("/diagnose", params={"to": to}, **npy).json()

    assert report["sentence"] == (
        "This is the table." if masked else "masked is true; it should be false."
    )


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [(1, "Right but for head 1, query 3, key 2."), (2, "All numbers are multiplied by 2 once")],
)
def test_numbers_beside_a_causal_mask_are_diagnosed(
    client: Client, factor: int, sentence: str
) -> None:
    to = "/relative/alibi?num_heads=4&query_len=6&key_len=6&masked=true&convention=original"
    array = load_npy(client.get(to.replace("?", ".npy?"))) * factor
    array[1, 3, 2] += 9 * (factor == 1)
    npy = {"content": npy_bytes(array), "headers": {"content-type": "application/x-npy"}}

    report = client.post("/diagnose", params={"to": to}, **npy).json()

    assert report["sentence"].startswith(sentence)


def test_first_infinity_and_a_causal_mask_are_named_in_a_refusal() -> None:
    mask = np.where(np.tri(4), 1.0, -np.inf)
    with pytest.raises(InvalidBody, match=r"first is -inf at \[0, 1\]. This is a causal mask"):
        finite_sample("x", StoredTable(mask, FLOAT64))

    mask[2, 0] = np.nan
    with pytest.raises(InvalidBody, match=r"the first is -inf at \[0, 1\]$"):
        finite_sample("x", StoredTable(mask, FLOAT64))


@pytest.mark.parametrize("prefix", ["rotary_emb.", "model.rotary_emb."])
def test_arrays_of_a_module_go_by_their_own_names(client: Client, prefix: str) -> None:
    pair = load(client.get(ROPE.replace("?", ".safetensors?")).content)
    frequencies = load_npy(client.get("/rope/frequencies.npy?head_dim=16&part=inv_freq"))
    named = {
        f"{prefix}cos_cached": pair["cos"],
        f"{prefix}sin_cached": pair["sin"],
        f"{prefix}inv_freq": frequencies.astype(np.float32),
    }

    answer = client.post(
        "/diagnose",
        params={"to": ROPE},
        content=save(named),
        headers={"content-type": "application/vnd.safetensors"},
    )

    assert answer.status_code == 200, answer.text
    assert answer.json()["verdict"] == "equal"


def test_frequencies_beside_a_table_are_refused_with_the_url_they_go_with(client: Client) -> None:
    frequencies = (10000.0 ** (-np.arange(8) / 8)).tolist()

    text = refused(client, to=f"{ROPE}&rope_theta=500000", have=frequencies)

    assert "(16, 16)" in text
    (fault,) = json.loads(text)["errors"]
    assert fault["url"] == "/rope/frequencies?head_dim=16&rope_theta=500000&part=inv_freq"
    assert f"frequencies go with {fault['url']}" in fault["detail"]


def test_missing_rows_of_a_grid_are_a_mistake(client: Client) -> None:
    to = "/rope/axial?convention=qwen2_vl&head_dim=32&grid=4,4&pack=concat"

    report = diagnose(client, to=to, have=table(client, to)[:8])

    assert names(report) == ["truncated"]
    assert (report["mistakes"][0]["have"], report["mistakes"][0]["want"]) == (8, 16)


@pytest.mark.parametrize("have", ["&rope_type=linear&factor=4", "&rope_theta=500000"])
def test_frequencies_are_not_called_cosines(client: Client, have: str) -> None:
    to = "/rope/frequencies?head_dim=32&part=inv_freq"

    report = diagnose(client, to=to, have=client.get(f"{to}{have}").json()["data"])

    assert report["verdict"] == "diagnosed"
    assert "osines" not in report["sentence"]


def test_flipped_cosines_of_timesteps_are_a_mistake(client: Client) -> None:
    to = "/encoding/timesteps?timesteps=0,5,9&d_model=16"

    report = diagnose(client, to=to, have=np.roll(table(client, to), 8, axis=1))

    assert names(report) == ["halves-swapped"]


def sent(client: Client, to: str, have: Array) -> Any:
    """POST one array as npy, and return the report."""
    headers = {"Content-Type": "application/x-npy"}
    content = npy_bytes(np.ascontiguousarray(have))
    answer = client.post("/diagnose", params={"to": to}, content=content, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def array(client: Client, url: str) -> Array:
    """Return the table of a URL."""
    path, _, query = url.partition("?")
    return load_npy(client.get(f"{path}.npy?{query}"))


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("/encoding?seq_len=64&d_model=16", 15),
        ("/encoding?seq_len=64&d_model=16&layout=concatenated", 15),
        ("/encoding?seq_len=64&d_model=15", 14),
        ("/encoding?seq_len=64&d_model=15&convention=tensor2tensor", 14),
        ("/rope?head_dim=16&seq_len=64&pack=concat", 15),
        ("/rope?head_dim=16&seq_len=64&pack=flat", 15),
        ("/relative/conformer?d_model=16&seq_len=64", 15),
    ],
)
def test_a_missing_last_channel_is_counted(client: Client, url: str, kept: int) -> None:
    whole = array(client, url)

    report = sent(client, url, whole[:, :kept])

    assert names(report) == ["truncated"]
    assert report["sentence"] == (f"There are {kept} channels; there should be {whole.shape[1]}.")


@pytest.mark.parametrize("pack", ["half", "compact", "interleaved"])
@pytest.mark.parametrize(("part", "other"), [("cos", "sin"), ("sin", "cos")])
def test_the_other_part_in_the_place_of_the_expected_one_is_a_mistake(
    client: Client, pack: str, part: str, other: str
) -> None:
    url = "/rope?head_dim=16&seq_len=64&part="
    for own in (pack, "half"):
        report = sent(client, f"{url}{part}&pack={pack}", array(client, f"{url}{other}&pack={own}"))

        assert names(report) == ["halves-swapped"]


def test_cosines_and_sines_in_the_place_of_cosines_are_a_mistake(client: Client) -> None:
    url = "/rope?head_dim=16&seq_len=64"

    report = sent(client, f"{url}&pack=half&part=cos", array(client, f"{url}&pack=concat"))

    assert names(report) == ["layout-swapped"]


def test_another_packing_is_named_beside_another_mistake(client: Client) -> None:
    url = "/rope?head_dim=16&seq_len=64&part=cos&pack="
    have = array(client, f"{url}interleaved&rope_theta=500000")

    report = sent(client, f"{url}half", have)

    assert names(report) == ["wrong-base", "layout-swapped"]


@pytest.mark.parametrize("pack", ["concat", "flat"])
@pytest.mark.parametrize("part", ["cos", "sin"])
def test_one_part_twice_is_no_table_of_both(client: Client, pack: str, part: str) -> None:
    url = "/rope?head_dim=16&seq_len=64"
    have = array(client, f"{url}&pack=half&part={part}")

    report = sent(client, f"{url}&pack={pack}", have)

    assert names(report) == ["missing-part"]
    assert report["yours"]["url"] == f"{url}&pack=half&part={part}"


@pytest.mark.parametrize(
    ("want", "order"),
    [("concat", "cosines, then sines"), ("flat", "each cosine before its sine")],
)
@pytest.mark.parametrize("pack", ["half", "interleaved"])
@pytest.mark.parametrize("part", ["cos", "sin"])
def test_missing_part_is_to_be_added_in_the_order_of_the_table(
    client: Client, want: str, order: str, pack: str, part: str
) -> None:
    url = "/rope?head_dim=16&seq_len=64"
    have = array(client, f"{url}&pack={pack}&part={part}")

    (mistake,) = sent(client, f"{url}&pack={want}", have)["mistakes"]
    assert mistake["correction"] == f"Keep one copy, and add the {mistake['want']}: {order}."


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    "url",
    [
        "/rope?head_dim=16&seq_len=2048&pack=concat",
        "/rope?head_dim=16&seq_len=2048&pack=half",
        "/encoding?convention=vaswani&d_model=16&seq_len=2048",
    ],
)
def test_rounded_angles_have_no_arithmetic_and_the_packing_of_angles(
    client: Client, url: str, copies: int
) -> None:
    angles = np.outer(np.arange(2048), 10000.0 ** (-np.arange(8) / 8)).astype(np.float32)

    report = sent(client, url, np.tile(angles, copies))

    assert report["sentence"] == (
        "These are the angles of the table: take their cosines and sines."
    )
    assert "arithmetic" not in report
    assert report["wrapper"]["pack"] == "angle"


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(4096),
        np.arange(5, 21, dtype=np.float32),
        np.tile(np.arange(16), (3, 1)),
        np.array([0, 1, 2, 0, 1, 2, 3], dtype=np.int32),
    ],
    ids=["int64", "float32", "three axes", "documents"],
)
def test_ids_of_positions_are_refused_as_such(client: Client, ids: Any) -> None:
    to = "/rope?head_dim=16%26seq_len=16%26pack=concat"
    headers = {"Content-Type": "application/x-npy"}
    answer = client.post(f"/diagnose?to={to}", content=npy_bytes(ids), headers=headers)

    assert answer.status_code == 422
    numbers = f"{ids.min():g} to {ids.max():g}, as ids of positions do"
    assert numbers in answer.json()["detail"]


def test_an_equal_part_alone_is_called_a_part_alone(client: Client) -> None:
    report = sent(client, ENCODING, array(client, ENCODING)[:, ::2])

    assert report["sentence"].startswith("These are the sines of the table alone")


@pytest.mark.parametrize("pack", ["", "&pack=pair", "&pack=concat", "&pack=complex"])
def test_exchanged_cosines_and_sines_are_a_mistake_in_every_packing(
    client: Client, pack: str
) -> None:
    url = f"/rope?head_dim=8&seq_len=5{pack}"
    have = array(client, url)
    if have.dtype.kind == "c":
        exchanged = have.imag + 1j * have.real
    else:
        exchanged = have[..., ::-1] if have.ndim == 3 else np.roll(have, 4, axis=-1)

    assert names(sent(client, url, exchanged.astype(have.dtype))) == ["halves-swapped"]


PACKED = [f"/rope?head_dim=8&seq_len=4{each}" for each in ("", "&pack=concat", "&pack=flat")]


@pytest.mark.parametrize("url", [*PACKED, ENCODING, "/rope?head_dim=64&seq_len=64"])
def test_zeros_are_called_zeros(client: Client, url: str) -> None:
    report = sent(client, url, 0 * array(client, url))

    assert (report["verdict"], report["sentence"]) == ("none", "All numbers are zero.")


def test_one_row_of_zeros_is_not_a_narrow_arithmetic(client: Client) -> None:
    report = sent(client, PACKED[1], np.zeros((1, 8), dtype="<f4"))

    assert report["sentence"] == "All numbers are zero."


@pytest.mark.parametrize("url", [*PACKED, ENCODING])
def test_ones_are_not_the_values_of_position_0(client: Client, url: str) -> None:
    report = sent(client, url, np.ones_like(array(client, url)))

    assert (report["verdict"], report["mistakes"]) == ("none", [])
    assert not report["sentence"].startswith("Right but")


def test_one_row_of_exchanged_numbers_is_not_called_right_but_for_some(client: Client) -> None:
    url = "/rope?head_dim=8&positions=7"

    assert "Right but" not in sent(client, url, array(client, url)[..., ::-1])["sentence"]


@pytest.mark.parametrize(
    ("value", "text"), [(np.inf, "infinite"), (np.nan, "NaN"), (0.0, "zero")], ids=str
)
def test_the_last_rows_are_called_what_they_are(client: Client, value: float, text: str) -> None:
    have = array(client, ENCODING).copy()
    have[9:] = value

    assert sent(client, ENCODING, have)["sentence"].startswith(f"Rows from 9 on are {text}:")


def test_mistakes_that_cancel_each_other_explain_no_noise(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=6&pack=concat"
    noise = np.random.default_rng(1)
    for _ in range(12):
        whole = array(client, url)
        have = (whole * (1 + noise.normal(0, 3e-7, whole.shape))).astype("<f4")

        assert "exponent" not in sent(client, url, have)["sentence"]


def test_rows_of_a_table_that_counts_down_are_in_its_reverse_order(client: Client) -> None:
    url = "/relative/transformer-xl?d_model=64&key_len=6"

    (wrong,) = sent(client, url, array(client, url)[::-1])["mistakes"]

    assert (wrong["name"], "upwards" in wrong["correction"]) == ("positions-reversed", False)


@pytest.mark.parametrize(
    ("url", "rows", "sentence"),
    [
        ("/relative/dynamic?seq_len=64&dtype=float32", 126, "There are 126 distances; "),
        ("/relative/alibi/slopes?num_heads=12", 8, "There are 8 heads; there should be 12."),
        (ENCODING, 1, "This is the table, made exactly, and rounded once: its first row of 16."),
    ],
)
def test_counts_have_the_name_of_their_axis(
    client: Client, url: str, rows: int, sentence: str
) -> None:
    assert sent(client, url, array(client, url)[:rows])["sentence"].startswith(sentence)


def test_one_channel_is_called_one(client: Client) -> None:
    report = sent(client, ENCODING, np.ones((1, 1), dtype="<f4"))

    assert report["sentence"] == "There is one of 8 channels."


def test_a_tiny_number_of_many_rows_is_not_unwritten_memory(client: Client) -> None:
    url = "/rope/axial?head_dim=64&grid=4,6&convention="
    have = array(client, f"{url}rotary_embedding_torch_pixel")

    assert "memory" not in sent(client, f"{url}cogview4", have)["sentence"]


@pytest.mark.parametrize("offset", [-0.5, 0.5, 1])
@pytest.mark.parametrize("grid", ["4,6", "7,8"])
def test_a_grid_whose_tokens_are_moved_along_all_axes_is_named(
    client: Client, grid: str, offset: float
) -> None:
    to = f"/rope/axial?convention=dinov3&head_dim=32&grid={grid}&pack=concat"
    moved = f"{to}&grid_offset={offset}"

    report = sent(client, to, array(client, moved))

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["rows"]) == ("position-offset", offset)
    assert "Along every axis" in mistake["sentence"]
    assert report["yours"]["url"] == moved


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("/relative/swin?window_size={0},{1}", "window_size"),
        ("/rope/axial?convention=qwen2_vl&head_dim=32&grid={0},{1}&pack=concat", "grid"),
    ],
)
def test_exchanged_sides_are_named_by_their_parameter(client: Client, url: str, key: str) -> None:
    report = sent(client, url.format(3, 5), array(client, url.format(5, 3)))

    (mistake,) = report["mistakes"]
    assert (mistake["key"], mistake["have"], mistake["want"]) == (key, [5, 3], [3, 5])
    assert report["yours"]["url"] == url.format(5, 3)


@pytest.mark.parametrize("width", [14, 18, 30])
@pytest.mark.parametrize(
    ("to", "rows"),
    [
        ("/rope?head_dim=32&pack=concat", "&seq_len=64"),
        ("/rope?head_dim=32&pack=concat&seq_len=64", ""),
        (f"{ENCODING}&base=7", ""),
    ],
)
def test_first_channels_of_a_table_are_named(
    client: Client, to: str, rows: str, width: int
) -> None:
    have = array(client, to + rows)
    width = width * have.shape[1] // 32

    (mistake,) = sent(client, to, have[:, :width])["mistakes"]

    assert (mistake["name"], mistake["axis"]) == ("truncated", "channels")
    assert (mistake["have"], mistake["want"]) == (width, have.shape[1])


@pytest.mark.parametrize(("start", "how"), [(0, "not at all"), (18, "twice")])
def test_the_offset_of_text_before_an_image_is_that_of_a_cache(
    client: Client, start: int, how: str
) -> None:
    def url(start: int) -> str:
        ids = {"t": (0, 0, 0, 0), "h": (0, 0, 1, 1), "w": (0, 1, 0, 1)}
        rows = (f"&positions_{axis}={','.join(str(start + n) for n in ids[axis])}" for axis in ids)
        return f"/rope?head_dim=64&mrope_section=8,12,12&pack=concat{''.join(rows)}"

    (mistake,) = sent(client, url(9), array(client, url(start)))["mistakes"]

    assert (mistake["name"], mistake["how"]) == ("cache-offset", how)


def test_numbers_that_are_not_finite_are_not_near_the_expected_ones(client: Client) -> None:
    have = array(client, ROPE.replace("half", "concat"))
    have += np.random.default_rng(5).normal(scale=0.02, size=have.shape)
    some = have.copy()
    some[::3, ::3] = np.nan

    near, far = (sent(client, ROPE.replace("half", "concat"), each) for each in (have, some))

    assert "near" in {each["name"] for each in near["findings"]}
    assert "near" not in {each["name"] for each in far["findings"]}


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize(("base", "slip"), [(7000**0.5, "k/d"), (7000 ** (16 / 15), "k/(n − 1)")])
def test_table_of_a_wrong_exponent_is_linked_in_the_order_that_it_has(
    client: Client, base: float, slip: str, layout: str
) -> None:
    url = "/encoding?seq_len=64&d_model=32&base="
    have = array(client, f"{url}{base}&layout={layout}")

    report = sent(client, f"{url}7000", have)

    assert (names(report)[0], report["mistakes"][0]["exponent"]) == ("tutorial-slip", slip)
    np.testing.assert_allclose(array(client, report["yours"]["url"]), have, atol=1e-6)


@pytest.mark.parametrize("shape", [(2**20 + 1,), (2**19 + 1, 2), (1025, 1024)])
def test_a_large_array_of_another_shape_is_refused_unread(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr("service.routes.diagnose.explain", None)
    have = {"x": StoredTable(np.zeros(shape, np.float32), FLOAT32)}
    expected = expected_at("/rope?head_dim=64&pack=concat", max(shape))

    with pytest.raises(InvalidBody, match="nothing in common"):
        against(have, expected, default_settings())


def test_names_of_arrays_in_json_are_listed_where_another_is_sent(client: Client) -> None:
    text = refused(client, to=ROPE, cos_cached=[[1.0]], sin_cached=[[0.0]])

    assert "x, or cos and sin, and want, or want_cos and want_sin, in JSON" in text


def test_frequencies_that_rise_by_their_exponent_are_named(client: Client) -> None:
    angles = np.outer(np.arange(64), 10000.0 ** (np.arange(16) / 16))
    have = np.hstack([np.cos(angles), np.sin(angles)]).astype(np.float32)

    (mistake,) = sent(client, "/rope?head_dim=32&seq_len=64&pack=concat", have)["mistakes"]

    assert (mistake["name"], mistake["exponent"]) == ("tutorial-slip", "−2k/d")


@pytest.mark.parametrize("factor", [32**0.5, 1 / 128**0.5])
def test_a_factor_without_a_short_decimal_is_named(client: Client, factor: float) -> None:
    have = array(client, f"{ENCODING}&dtype=float64") * factor

    (mistake,) = sent(client, ENCODING, have.astype(np.float32))["mistakes"]

    assert (mistake["name"], mistake["ratio"]) == ("extra-factor", pytest.approx(factor, rel=1e-6))


def test_a_row_whose_expected_exponents_are_tiny_is_another_table(client: Client) -> None:
    to = "/rope?head_dim=512&rope_type=proportional&partial_rotary_factor=0.25&positions=1,4095"
    still = table(client, "/rope?head_dim=64&inv_freq=1,0.5&seq_len=1")
    report = diagnose(client, x=still, to=f"{to}&max_position_embeddings=131072")
    assert [each["name"] for each in report["mistakes"]] == ["another-table"]
