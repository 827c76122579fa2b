"""``/compare`` reports where an array, or another table, differs from a table of the service."""

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from service.analysis.array import TableRequest
from service.delivery.endpoints import RESOURCES, Endpoint
from service.numerics.dtypes import FLOAT32
from service.numerics.tables import Document, StoredTable, size
from service.routes.compare import (
    MOST_RANGES,
    MOST_RUNS,
    CompareReport,
    ExaminedArray,
    ToleranceParameters,
    report_of,
)
from service.routes.table_urls import read_url
from service.settings import default_settings
from tests.client import Client, load_npy, npy_bytes
from tests.openapi import report_schema

Array = NDArray[Any]

SCHEMA = jsonschema.Draft202012Validator(report_schema(CompareReport))
ROPE = "/rope?head_dim=128&seq_len=600"
ENCODING = "/encoding?seq_len=1000&start=100&d_model=4&dtype=float64"
COMPACT = "/rope?head_dim=8&seq_len=5&pack=compact"
NPY = "application/x-npy"
SAFETENSORS = "application/vnd.safetensors"


def tables(url: str) -> dict[str, Array]:
    return {
        name: each.read(0, size(each)).reshape(each.shape or (1,)).copy()
        for name, each in read_url(url).document.arrays.items()
    }


def table(url: str) -> Array:
    (array,) = tables(url).values()
    return array


def post(client: Client, to: str, sent: Array | Mapping[str, Array], **parameters: str) -> Any:
    """POST one array as npy, or several as safetensors."""
    is_npy = isinstance(sent, np.ndarray)
    body = npy_bytes(sent) if isinstance(sent, np.ndarray) else save(dict(sent))
    headers = {"Content-Type": NPY if is_npy else SAFETENSORS}
    return client.post("/compare", params={"to": to} | parameters, content=body, headers=headers)


def compare(client: Client, to: str, sent: Array | Mapping[str, Array], **parameters: str) -> Any:
    """Return the report, which follows its schema."""
    answer = post(client, to, sent, **parameters)
    assert answer.status_code == 200, answer.text
    SCHEMA.validate(answer.json())
    return answer.json()


@pytest.mark.full
@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: resource.path)
def test_every_table_equals_itself_in_every_format(client: Client, resource: Endpoint) -> None:
    url = f"{resource.path}?{resource.example}"
    arrays = tables(url)

    report = compare(client, url, arrays)

    assert (report["equal"], report["within"]) == (True, True)
    sizes = [each.shape for each in read_url(url).document.arrays.values()]
    assert report["equal_bytes"] == all(sizes)
    for name, array in arrays.items():
        single = {"x" if len(arrays) == 1 else name: array.tolist()}
        if np.isfinite(array).all():
            assert client.post("/compare", json={"to": url, **single}).json()["equal"]


def test_a_wrong_number_is_found_with_its_position_and_channel(client: Client) -> None:
    array = table(f"{ROPE}&start=1000")
    array[300, 3, 1] += 0.001

    report = compare(client, f"{ROPE}&start=1000", array)

    largest = report["largest"]["absolute"]
    assert (largest["index"], largest["position"], largest["channel"]) == ([300, 3, 1], 1300, 3)
    assert largest["error"] == pytest.approx(0.001, rel=1e-3)
    assert (report["good_to"], report["equal"], report["within"]) == (1299, False, False)


def test_positions_in_bfloat16_are_good_to_256(client: Client) -> None:
    positions = np.arange(600, dtype="<f4").astype(ml_dtypes.bfloat16).astype(np.float64)
    angles = positions[:, None] * 10000.0 ** (-np.arange(64) / 64)
    array = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype("<f4")

    report = compare(client, ROPE, array)

    assert report["good_to"] == 256
    assert report["good_positions"]["runs"][0] == {"first": 0, "last": 256}
    assert {each["epsilon"]: each["good_to"] for each in report["within_epsilon"]}[0.1] == 256


def test_float32_angles_are_good_for_fewer_positions_with_a_smaller_epsilon(client: Client) -> None:
    positions = np.arange(600, dtype="<f4")[:, None]
    omega = np.float32(10000.0) ** (-np.arange(64, dtype="<f4") / np.float32(64))
    array = np.stack([np.cos(positions * omega), np.sin(positions * omega)], axis=-1)

    report = compare(client, ROPE, array)

    good_to = [each["good_to"] for each in report["within_epsilon"]]
    assert good_to == sorted(good_to)
    assert good_to[0] < 599 == good_to[-1]
    assert report["largest"]["absolute"]["error"] < 1e-3


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        (lambda array: array[None], "removed", {"yours": [0], "theirs": []}),
        (lambda array: array.transpose(1, 0, 2), "order", [1, 0, 2]),
        (lambda array: array[:256], "prefix", ("position", 256, 600, 256)),
        (lambda array: array[:, :32], "prefix", ("pair", 32, 64, 32)),
        (lambda array: array[0], "prefix", ("position", 1, 600, 1)),
        (lambda array: array[:1], "prefix", ("position", 1, 600, 1)),
        (lambda array: np.tile(array, (2, 1, 1)), "prefix", ("position", 1200, 600, 600)),
        (lambda array: np.stack([array, array]), "prefix", (None, 2, 1, 1)),
    ],
)
def test_other_shapes_are_compared_and_reported(
    client: Client, change: Callable[[Array], Array], name: str, expected: object
) -> None:
    report = compare(client, ROPE, np.ascontiguousarray(change(table(ROPE))))

    assert (report["equal"], report["equal_bytes"]) == (True, False)
    assert set(report["axes"]) == {"position", "channel", name}
    found = report["axes"][name]
    assert (tuple(found.values()) if name == "prefix" else found) == expected


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (lambda table: table.T, [1, 0]),
        (lambda table: table.T + 1e-3, [1, 0]),
        (lambda table: table, None),
        (lambda table: table + 1e-3, None),
        (lambda table: np.roll(table, 1, axis=0), None),
        (lambda table: np.random.default_rng(3).uniform(-1, 1, table.shape), None),
        (lambda table: np.full_like(table, np.nan), None),
    ],
)
def test_axes_of_equal_length_are_exchanged_only_where_that_fits_clearly_better(
    client: Client, change: Callable[[Array], Array], order: list[int] | None
) -> None:
    url = "/encoding?seq_len=32&d_model=32&dtype=float64"

    report = compare(client, url, change(table(url)).copy())

    assert report["axes"].get("order") == order
    assert ("another order" in report["summary"]) == (order is not None)


def test_bytes_with_axes_in_another_order_are_not_equal(client: Client) -> None:
    url = "/encoding?seq_len=32&d_model=32"

    report = compare(client, url, table(url).T.copy())

    assert (report["equal"], report["equal_bytes"]) == (True, False)


def test_a_batch_of_one_is_no_axis_of_positions(client: Client) -> None:
    url = "/encoding?seq_len=8&d_model=8&batch=true"

    report = get(client, f"{url}&base=100", url)

    assert (report["axes"]["position"], report["good_to"]) == ("position", 0)


def test_index_is_that_of_the_array_in_the_request(client: Client) -> None:
    url = "/encoding?seq_len=3&d_model=6"
    array = table(url).T[:, None].copy()
    array[4, 0, 2] += 1

    report = compare(client, url, array)

    largest = report["largest"]["absolute"]
    assert (largest["index"], largest["position"], largest["channel"]) == ([4, 0, 2], 2, 4)
    assert report["axes"]["order"] == [2, 0]
    assert report["axes"]["removed"] == {"yours": [1], "theirs": []}


def test_a_prefix_of_an_endless_table_is_all_that_is_computed(client: Client) -> None:
    assert compare(client, "/rope?head_dim=128&seq_len=9000000000", table(ROPE))["equal"]


@pytest.mark.parametrize(("dtype", "narrower"), [("<f2", "float16"), ("<f8", "float32")])
def test_tolerance_is_in_the_ulp_of_the_narrower_type(
    client: Client, dtype: str, narrower: str
) -> None:
    report = compare(client, ROPE, table(f"{ROPE}&dtype=float64").astype(dtype))

    assert (report["equal"], report["within"]) == (False, True)
    assert report["tolerance"]["of"] == narrower


def test_bfloat16_is_compared_in_its_own_ulp(client: Client) -> None:
    array = {"x": table(f"{ROPE}&dtype=bfloat16").view(ml_dtypes.bfloat16)}

    report = compare(client, ROPE, array)

    assert report["within"]
    assert report["tolerance"]["of"] == "bfloat16"
    assert compare(client, f"{ROPE}&dtype=bfloat16", array)["equal_bytes"]


@pytest.mark.parametrize(
    ("url", "floor"),
    [
        ("/encoding?seq_len=99&d_model=8&dtype=float64", 1.0),
        ("/rope/frequencies?head_dim=64&part=inv_freq", 0.0),
        ("/relative/alibi/slopes?num_heads=8&dtype=float64", 0.0),
    ],
)
def test_only_sinusoids_have_a_least_ulp(client: Client, url: str, floor: float) -> None:
    report = compare(client, url, table(url))

    assert report["tolerance"]["at_least_of"] == pytest.approx(floor, abs=1e-3)


@pytest.mark.parametrize(
    "rows", ["grid=1,4,6", "positions_t=0,0,0&positions_h=0,1,2&positions_w=0,1,2"]
)
def test_no_row_with_a_position_along_each_axis_is_called_one_position(
    client: Client, rows: str
) -> None:
    url = f"/rope?head_dim=12&mrope_section=2,2,2&{rows}&pack=concat"

    report = compare(client, url, -table(url))

    assert report["axes"]["position"] == "token"
    assert report["summary"] == "beyond the tolerance, good at no token"


def test_each_axis_of_many_has_a_name_of_its_own() -> None:
    table = StoredTable(np.ones((2, 2, 2, 2, 2), "<f4"), FLOAT32)
    document = Document("encoding", {}, {"encoding": table})
    sent = {"encoding": ExaminedArray(table, "float32")}

    report = report_of(
        ToleranceParameters(), TableRequest("encoding", {}), document, sent, default_settings()
    )

    assert (report.equal, report.axes.position, report.axes.channel) == (True, "row", "axis 4")


def test_small_error_of_the_smallest_frequency_is_found(client: Client) -> None:
    url = "/rope/frequencies?head_dim=64&part=inv_freq"
    frequencies = table(url)
    frequencies[31] *= 1 + 1e-9

    assert not compare(client, url, frequencies)["within"]


def test_zeros_of_different_signs_are_equal_with_different_bytes(client: Client) -> None:
    array = table(ROPE)
    array[0, 0, 1] = -0.0

    report = compare(client, ROPE, array)

    assert (report["equal"], report["equal_bytes"]) == (True, False)


@pytest.mark.parametrize(("dtype", "is_same"), [("<i4", True), ("<i8", False), ("<f4", False)])
def test_integers_of_another_type_are_equal(client: Client, dtype: str, is_same: bool) -> None:
    url = "/relative/t5?query_len=9&key_len=9"

    report = compare(client, url, table(url).astype(dtype))

    assert (report["equal"], report["equal_bytes"]) == (True, is_same)
    assert report["array"]["yours"]["dtype"] == np.dtype(dtype).name


@pytest.mark.parametrize("value", [2.0**63, -(2.0**64), 1e30])
def test_integers_beyond_those_of_json_are_compared(client: Client, value: float) -> None:
    url = "/relative/t5?query_len=2"
    array = table(url).astype(np.float64)
    array[0, 0] = value

    assert compare(client, url, array)["first_beyond"]["yours"] == value


def test_complex_error_reports_the_real_or_imaginary_part(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=5&pack=complex"
    array = table(url)
    assert compare(client, url, array)["equal_bytes"]
    array[3, 2] += 0.5j

    largest = compare(client, url, array)["largest"]["absolute"]

    assert (largest["index"], largest["part"]) == ([3, 2], "imaginary")


def test_nan_and_infinity_are_strings_with_an_error_of_null(client: Client) -> None:
    array = table(ENCODING)
    array[7:9] = [[1.0, np.nan, np.inf, -np.inf]]

    report = compare(client, ENCODING, array[:9])

    first = report["first_not_finite"]
    assert (first["index"], first["yours"], first["error"]) == ([7, 1], "NaN", None)
    assert report["good_to"] == 106
    assert [each["largest"] for each in report["errors_by_position"]] == [0.0] * 7 + [None] * 2


def test_tolerances_of_the_request_are_applied(client: Client) -> None:
    array = table(ROPE) + np.float32(1e-4)

    report = compare(client, ROPE, array, atol="0.001", epsilon="0.5")

    assert report["within"]
    assert report["tolerance"] == {"atol": 0.001, "rtol": 0.0}
    assert report["within_epsilon"] == [{"epsilon": 0.5, "good_to": 599}]
    assert not compare(client, ROPE, array, rtol="1e-6")["within"]


def test_positions_of_a_bias_with_heads_are_its_queries(client: Client) -> None:
    url = "/relative/alibi?num_heads=2&query_len=3&key_len=5&query_start=2"
    array = table(url)
    array[1, 2, 4] += 1

    report = compare(client, url, array)

    assert (report["axes"]["position"], report["axes"]["channel"]) == ("query", "key")
    assert (report["first_beyond"]["position"], report["good_to"]) == (4, 3)


def with_errors_at(client: Client, *rows: int) -> Any:
    """Compare 1000 rows from position 100 on, some of which have an error in channel 2."""
    array = table(ENCODING)
    array[list(rows), 2] += 0.5
    return compare(client, ENCODING, array)


def test_good_positions_are_runs_between_errors(client: Client) -> None:
    report = with_errors_at(client, 257, 600)

    runs = [(each["first"], each["last"]) for each in report["good_positions"]["runs"]]
    assert runs == [(100, 356), (358, 699), (701, 1099)]
    assert (report["good_positions"]["count"], report["good_positions"]["of"]) == (998, 1000)
    assert report["good_positions"]["further_runs"] == 0
    assert report["good_to"] == 356
    assert (report["first_beyond"]["position"], report["first_beyond"]["channel"]) == (357, 2)
    by_channel = [each["largest"] for each in report["errors_by_channel"]]
    assert by_channel == pytest.approx([0.0, 0.0, 0.5, 0.0])


def test_no_position_is_good_where_the_first_is_not(client: Client) -> None:
    assert with_errors_at(client, 0)["good_to"] is None
    assert with_errors_at(client)["good_to"] == 1099
    assert with_errors_at(client, *range(1000))["good_positions"]["runs"] == []


def test_numbers_of_runs_and_ranges_are_limited(client: Client) -> None:
    report = with_errors_at(client, *range(0, 1000, 2))

    assert len(report["good_positions"]["runs"]) == MOST_RUNS
    assert report["good_positions"]["further_runs"] == 500 - MOST_RUNS
    ranges = report["errors_by_position"]
    assert len(ranges) <= MOST_RANGES
    assert (ranges[0]["first"], ranges[-1]["last"]) == (100, 1099)
    assert all(ranges[i]["last"] + 1 == ranges[i + 1]["first"] for i in range(len(ranges) - 1))


def test_growing_errors_are_within_a_larger_epsilon_for_more_positions(client: Client) -> None:
    array = table(ENCODING)[:10] + np.arange(10.0)[:, None]

    report = compare(client, ENCODING, array, epsilon="0.5,3.1,100")

    assert [each["good_to"] for each in report["within_epsilon"]] == [100, 103, 109]


def test_arrays_are_compared_by_name(client: Client) -> None:
    arrays = tables(COMPACT)

    report = compare(client, COMPACT, arrays | {"sin": -arrays["sin"]})

    assert report["arrays"]["cos"]["equal_bytes"]
    assert not report["arrays"]["sin"]["within"]
    assert not report["within"]
    only = client.post("/compare", json={"to": COMPACT, "sin": arrays["sin"].tolist()}).json()
    assert (only["equal"], only["not_sent"]) == (True, ["cos"])


def test_text_is_rounded_to_the_type_of_the_table(client: Client) -> None:
    url = "/encoding?seq_len=9&d_model=8"
    array = table(f"{url}&dtype=float64")

    assert client.post("/compare", json={"to": url, "x": array.tolist()}).json()["equal"]
    assert not compare(client, url, array)["equal"]


def test_report_has_the_canonical_url_without_host_and_format(client: Client) -> None:
    url = "https://other.example/rope.npy?seq_len=600&head_dim=128"

    assert compare(client, url, table(ROPE))["to"] == ROPE


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"to": ""}, "There is no table at /"),
        ({"to": "/rop"}, "did you mean /rope?"),
        ({"to": "/compare"}, "/compare is a report, which is no table"),
        ({"to": "/rope?head_dm=8"}, "did you mean head_dim?"),
        ({"to": ROPE, "atol": "-1"}, "atol must be at least 0"),
        ({"to": ROPE, "epsilon": "0.5,-1"}, "epsilon must be at least 0"),
        ({"to": ROPE, "epsilon": "a"}, "epsilon must be a list of numbers"),
        ({"to": ROPE, "tolerance": "1"}, "is not a parameter here"),
        ({"to": "/rope?head_dim=128", "seq_len": "600"}, "write the & before it as %26"),
    ],
)
def test_what_is_wrong_is_named(client: Client, parameters: dict[str, str], rule: str) -> None:
    answer = post(client, sent=np.zeros(3), **parameters)

    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:posref:problem:invalid-parameters"
    assert rule in answer.json()["detail"]


@pytest.mark.parametrize(
    ("to", "sent", "rule"),
    [
        (ROPE, np.zeros((5, 7)), "the array has the shape (5, 7), and the table (600, 64, 2)"),
        ("/rope?head_dim=8&seq_len=9000000000&pack=flat", np.zeros((4, 4)), "9000000000"),
        (ROPE, np.zeros((600, 64), "<c8"), "pack=complex"),
        ("/rope?head_dim=8&seq_len=5&pack=complex", np.zeros((5, 4)), "pack=complex"),
        (COMPACT, np.zeros((5, 4)), "part=cos"),
        (COMPACT, {"emb": np.zeros((5, 4))}, "the table of to has cos and sin"),
        (COMPACT, {name: np.zeros((5, 8)) for name in ("x", "rotated")}, "to /diagnose"),
        (
            "/encoding?seq_len=1000000&d_model=4096",
            np.zeros((10**6, 1), "<f2"),
            "too large to compare",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_compared_is_refused_at_once(
    client: Client, to: str, sent: Array | dict[str, Array], rule: str
) -> None:
    answer = post(client, to, sent)

    assert answer.status_code == 422
    assert rule in answer.json()["detail"]


def test_packs_with_cosines_and_sines_are_named_where_the_table_has_one_array(
    client: Client,
) -> None:
    body = {"to": "/rope?head_dim=4&seq_len=2", "cos": [[1.0, 1.0]] * 2, "sin": [[0.0, 0.0]] * 2}

    answer = client.post("/compare", json=body)

    assert answer.status_code == 422
    assert "with pack=half, interleaved or compact it has cos and sin" in answer.text


ROTATED = "POST x and what it was rotated to, as rotated, to /diagnose, with the same to"


@pytest.mark.parametrize(
    "body", [{"to": ROPE, "x": [[1]], "rotated": [[1]]}, {"to": "/rope/apply", "x": [[1]]}]
)
def test_a_rotation_is_sent_to_diagnose(client: Client, body: dict[str, Any]) -> None:
    answer = client.post("/compare", json=body)

    assert answer.status_code == 422
    assert ROTATED in answer.json()["detail"]


@pytest.mark.parametrize("media_type", ["application/x-npy", "application/octet-stream"])
def test_an_array_without_a_name_is_sent_with_the_url_of_its_part(
    client: Client, media_type: str
) -> None:
    cosines = load_npy(client.get("/rope.npy?head_dim=4&seq_len=3&pack=half&part=cos"))
    is_raw = media_type == "application/octet-stream"
    content = cosines.tobytes() if is_raw else npy_bytes(cosines)
    raw = "shape=3,4&dtype=float32&" * is_raw
    to, headers = "to=/rope?head_dim=4%26seq_len=3%26pack=half", {"Content-Type": media_type}

    refused = client.post(f"/compare?{raw}{to}", content=content, headers=headers)
    part = client.post(f"/compare?{raw}{to}%26part=cos", content=content, headers=headers)

    assert refused.status_code == 422
    assert f"add part=cos to the URL in to ({to}%26part=cos)" in refused.json()["detail"]
    assert part.status_code == 200
    assert "equal" in part.text


def test_to_is_required(client: Client) -> None:
    answer = client.post("/compare", json={"x": [[0, 1]]})

    assert answer.status_code == 422
    assert "to is required" in answer.json()["detail"]


def get(client: Client, have: str, to: str, **parameters: str) -> Any:
    """Return the report about the table of a URL, which follows its schema."""
    answer = client.request("GET", "/compare", params={"have": have, "to": to} | parameters)
    assert answer.status_code == 200, answer.text
    SCHEMA.validate(answer.json())
    return answer.json()


BOTH = ("true", "false")
STRIDED = "/encoding?seq_len=300&d_model=64&channels=0:64:9"
TABLES_OF_URLS = [
    (ROPE, f"{ROPE}&angle=float32", {}),
    (f"{ROPE}&rope_type=linear&factor=4", ROPE, {"atol": "0.5", "epsilon": "0.1,1"}),
    (ENCODING, ENCODING, {}),
    (f"{ENCODING}&dtype=float32".replace("&dtype=float64", ""), ENCODING, {"rtol": "1e-7"}),
    (f"{COMPACT}&start=1", COMPACT, {}),
    (f"{ROPE}&pack=half&part=cos", f"{ROPE}&pack=interleaved&part=cos", {}),
    ("/rope?head_dim=128&seq_len=40", "/rope?head_dim=128&seq_len=4611686018427387904", {}),
    (f"{STRIDED}&start=1", STRIDED, {}),
    ("/relative/t5?query_len=40", "/relative/t5?query_len=40&max_distance=64", {}),
    (
        "/rope/frequencies?head_dim=64&part=inv_freq",
        "/rope/frequencies?head_dim=64&part=inv_freq&rope_theta=9999",
        {},
    ),
    (
        "/encoding/grid?convention=detr&height=4&width=6&d_model=8",
        "/encoding/grid?convention=detr&height=4&width=6&d_model=8&channels_first=false",
        {},
    ),
]


@pytest.mark.parametrize(("have", "to", "parameters"), TABLES_OF_URLS)
def test_the_report_about_a_url_is_that_about_its_arrays(
    client: Client, have: str, to: str, parameters: Mapping[str, str]
) -> None:
    expected = compare(client, to, tables(have), **parameters)

    assert get(client, have, to, **parameters) == expected


def test_axes_of_two_urls_are_paired_by_their_names(client: Client) -> None:
    table = "/relative/t5?query_len=96&key_len=96&bidirectional="
    one, other = (load_npy(client.get(table.replace("?", ".npy?") + each)) for each in BOTH)

    report = get(client, *(f"{table}{each}" for each in BOTH))

    largest = report["largest"]["absolute"]
    assert largest["error"] == abs(one - other).max()
    assert (largest["yours"], largest["theirs"]) == (
        one[*largest["index"]],
        other[*largest["index"]],
    )


@pytest.mark.parametrize(
    "url",
    [
        "/relative/alibi?num_heads=4&query_len=4",
        "/relative/kerple?a=1,0.5&p=2,1&query_len=4",
        "/relative/sandwich?num_heads=4&head_dim=16&query_len=4",
    ],
)
def test_a_head_of_a_url_is_not_compared_with_another_one(client: Client, url: str) -> None:
    first, other = f"{url}&head=0", f"{url}&head=1"

    for have, to in ((other, url), (url, other)):
        answer = client.request("GET", "/compare", params={"have": have, "to": to})
        assert answer.status_code == 422
        assert "selects head 1, and the other has all: add head=1 to both" in answer.text
    assert get(client, first, url)["equal"]
    whole = get(client, url, first)
    assert whole["equal"]
    assert whole["axes"]["prefix"] == {
        "axis": "head",
        "yours": len(table(url)),
        "theirs": 1,
        "compared": 1,
    }
    assert "in the first 1 along axis head, where yours has" in whole["summary"]
    assert not get(client, first, other)["equal"]


@pytest.mark.parametrize("channels", ["5:6", "3:6", "0:8:2"])
@pytest.mark.parametrize("others", ["", "&channels=0:3"])
def test_other_channels_of_two_urls_are_not_compared(
    client: Client, channels: str, others: str
) -> None:
    url = "/encoding?seq_len=4&d_model=8"
    query = {"have": f"{url}&channels={channels}", "to": f"{url}{others}"}

    answer = client.request("GET", "/compare", params=query)

    assert answer.status_code == 422
    assert "the same channels= to both" in answer.json()["detail"]


DETR = "/encoding/grid?convention=detr"


@pytest.mark.parametrize(
    ("have", "to", "axis"),
    [
        ("&height=2&width=3&d_model=8", "&height=4&width=3&d_model=8", "height"),
        ("&height=2&width=4&d_model=8", "&height=4&width=4&d_model=8", "height"),
        ("&height=3&width=2&d_model=12&channels=0:3", "&height=3&width=2&d_model=12", "channel"),
    ],
)
def test_axes_of_other_sizes_are_paired_by_their_names(
    client: Client, have: str, to: str, axis: str
) -> None:
    report = get(client, DETR + have, DETR + to)

    assert "order" not in report["axes"]
    assert report["summary"].startswith("equal, every number, in the first ")
    assert f"along axis {axis}, where the table has" in report["summary"]


@pytest.mark.parametrize(
    ("have", "to"),
    [
        ("&height=2&width=4&d_model=8", "&height=4&width=2&d_model=8"),
        ("&height=2&width=3&d_model=4", "&height=4&width=3&d_model=8&channels=0:2"),
    ],
)
def test_axes_that_fit_under_other_names_are_not_paired(client: Client, have: str, to: str) -> None:
    answer = client.request("GET", "/compare", params={"have": DETR + have, "to": DETR + to})

    assert answer.status_code == 422
    assert "axes of the same name are paired" in answer.json()["detail"]


def test_channels_that_come_first_are_not_counted_as_positions(client: Client) -> None:
    url = f"{DETR}&height=4&width=3&d_model=8"
    array = table(url)
    array[5, 2, 1] += 1

    report = compare(client, url, array)

    assert report["axes"]["position"] == "height"
    assert [report["first_beyond"][name] for name in ("position", "channel")] == [2, 5]
    assert report["summary"] == "beyond the tolerance, good up to height 1"


def test_the_report_about_a_url_has_a_tag_and_is_text_where_that_is_asked_for(
    client: Client,
) -> None:
    query = {"have": f"{ROPE}&angle=float32", "to": ROPE}
    answer = client.request("GET", "/compare", params=query)
    text = client.request("GET", "/compare", params=query, headers={"Accept": "text/plain"})
    known = client.request(
        "GET", "/compare", params=query, headers={"If-None-Match": answer.headers["etag"]}
    )
    other = client.request("GET", "/compare", params=query, headers={"If-Match": '"other"'})
    head = client.request("HEAD", "/compare", params=query)

    assert answer.headers["cache-control"] == "private, max-age=86400"
    assert text.text.splitlines()[0] == answer.json()["summary"]
    assert (known.status_code, known.content) == (304, b"")
    assert known.headers["etag"] == answer.headers["etag"]
    assert (head.status_code, head.content) == (200, b"")
    assert other.status_code == 412


@pytest.mark.parametrize(
    ("have", "to", "parameter", "rule"),
    [
        ("/nowhere", ROPE, "have", "have names no table: "),
        (ROPE, "/nowhere", "to", "to names no table: "),
        ("/rope?head_dim=7&seq_len=2", ROPE, "have", "have names no table: "),
        ("/rope?head_dim=8&seq_len=2&channels=0", ROPE, "have", "pack=flat"),
        ("/rope/apply?start=3", ROPE, "have", "is made of what is POSTed"),
        ("", ROPE, "have", "There is no table at /"),
        (COMPACT, ROPE, "have", "have has the arrays cos, sin, and to rope: add part="),
        (f"{ROPE}&pack=complex", ROPE, "have", "the array is complex64 and the table float32"),
        ("/encoding?seq_len=3&d_model=7", ENCODING, "have", "the array has the shape (3, 7)"),
    ],
)
def test_a_url_that_cannot_be_compared_is_named(
    client: Client, have: str, to: str, parameter: str, rule: str
) -> None:
    answer = client.request("GET", "/compare", params={"have": have, "to": to})

    assert answer.status_code == 422
    assert {fault["parameter"] for fault in answer.json()["errors"]} == {parameter}
    assert rule in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("have", "ways"),
    [
        ("/encoding?seq_len=4611686018427387904&d_model=64", "positions= or channels=, in have"),
        ("/relative/t5?query_len=100000", "query_positions=, in have"),
        ("/rope?seq_len=131073&head_dim=128", "positions= or channels=, in have"),
    ],
)
def test_a_table_that_is_too_long_is_refused_with_the_selections_that_shorten_it(
    client: Client, have: str, ways: str
) -> None:
    answer = client.request("GET", "/compare", params={"have": have, "to": have})

    assert answer.status_code == 413
    assert ways in answer.json()["detail"]


def test_parameters_of_a_get_are_those_of_two_tables(client: Client) -> None:
    missing = client.request("GET", "/compare", params={"to": ROPE})
    unknown = client.request("GET", "/compare", params={"have": ROPE, "to": ROPE, "layer": "1"})
    cut = client.get(f"/compare?have={ROPE}&to={ROPE}")

    assert missing.status_code == unknown.status_code == cut.status_code == 422
    assert [fault["parameter"] for fault in missing.json()["errors"]] == ["have"]
    assert [fault["parameter"] for fault in unknown.json()["errors"]] == ["layer"]
