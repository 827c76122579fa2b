"""An array that somebody has, against a table of this server.

One array of a comparison.

What is said of a comparison.

The schema of comparisons.
"""

import io
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import jsonschema
import ml_dtypes
import numpy as np
import orjson
import pytest
import safetensors.numpy

from service.analysis.comparison import Overlay, Tolerance, alignments, compare
from service.delivery.endpoints import RESOURCES
from service.delivery.handler import table_document
from service.delivery.openapi.components import report_schema
from service.delivery.parameters import parse_query, read_parameters
from service.errors import InvalidBody
from service.formats.format import Input
from service.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64, Elements
from service.numerics.tables import StoredTable, size
from service.routes.compare import (
    MOST_RANGES,
    MOST_RUNS,
    ArrayAndTable,
    ArrayType,
    CompareParameters,
    CompareReport,
    ReportWriter,
    compare_arrays,
)
from service.routes.table_urls import document_of
from tests.client import Client

SCHEMA = report_schema(CompareReport)
ROPE = "/rope?head_dim=128&seq_len=600"
NPY = {"Content-Type": "application/x-npy"}
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}


def table(url: str, name: str = "") -> Elements:
    arrays = document_of(url).arrays
    found = arrays[name] if name else next(iter(arrays.values()))
    return found.read(0, size(found)).reshape(found.shape)


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def compare_compared(client: Client, to: str, array: Any, extra: str = "") -> Any:
    answer = client.post(
        f"/compare?to={quote(to, safe='')}{extra}", content=npy(array), headers=NPY
    )
    assert answer.status_code == 200, answer.text
    jsonschema.validate(answer.json(), SCHEMA)
    return answer.json()


def refused(client: Client, url: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
    answer = client.post(url, content=body, headers=headers or NPY)
    assert answer.status_code == 422, answer.text
    return answer.json()


@pytest.mark.full
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda known: known.path)
def test_every_table_equals_itself_in_every_format(client: Client, resource: Any) -> None:
    url = f"{resource.path}?{resource.example}"
    document = table_document(
        resource, read_parameters(resource.parameters, parse_query(resource.example.encode()))
    )
    arrays = {
        name: each.read(0, size(each)).reshape(each.shape or (1,))
        for name, each in document.arrays.items()
    }
    file = safetensors.numpy.save(arrays)

    answer = client.post(f"/compare?to={quote(url, safe='')}", content=file, headers=SAFETENSORS)
    report = answer.json()

    jsonschema.validate(report, SCHEMA)
    assert (report["equal"], report["within"]) == (True, True)
    assert report["equal_bytes"] == all(each.shape for each in document.arrays.values())
    for name, array in arrays.items():
        alone = {"x" if len(arrays) == 1 else name: array.tolist()}
        if None not in array.ravel().tolist() and np.isfinite(array).all():
            sent = client.post("/compare", json={"to": url, **alone}).json()
            assert sent["equal"], sent


def test_a_wrong_number_is_found_with_its_position_and_channel(client: Client) -> None:
    array = table(f"{ROPE}&start=1000")
    array[300, 3, 1] += 0.001

    said = compare_compared(client, f"{ROPE}&start=1000", array)

    spot = said["largest"]["absolute"]
    assert (spot["index"], spot["position"], spot["channel"]) == ([300, 3, 1], 1300, 3)
    assert spot["error"] == pytest.approx(0.001, rel=1e-3)
    assert said["good_to"] == 1299
    assert (said["equal"], said["within"]) == (False, False)


def test_positions_in_bfloat16_are_good_to_256(client: Client) -> None:
    positions = np.arange(600, dtype="<f4").astype(ml_dtypes.bfloat16).astype(np.float64)
    omega = 10000.0 ** (-np.arange(64) / 64)
    angles = positions[:, None] * omega
    array = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype("<f4")

    said = compare_compared(client, ROPE, array)

    assert said["good_to"] == 256
    assert said["good_positions"]["runs"][0] == {"first": 0, "last": 256}
    assert {each["epsilon"]: each["good_to"] for each in said["within_epsilon"]}[0.1] == 256


def test_float32_arithmetic_is_good_for_fewer_positions_the_smaller_epsilon(client: Client) -> None:
    positions = np.arange(600, dtype="<f4")[:, None]
    omega = np.float32(10000.0) ** (-np.arange(64, dtype="<f4") / np.float32(64))
    array = np.stack([np.cos(positions * omega), np.sin(positions * omega)], axis=-1)

    said = compare_compared(client, ROPE, array)

    reached = [each["good_to"] for each in said["within_epsilon"]]
    assert reached == sorted(reached)
    assert reached[0] < 599 == reached[-1]
    assert said["largest"]["absolute"]["error"] < 1e-3


@pytest.mark.parametrize(
    ("changed", "name", "said"),
    [
        (lambda a: a[None], "removed", {"yours": [0], "theirs": []}),
        (lambda a: a.transpose(1, 0, 2), "order", [1, 0, 2]),
        (lambda a: a[:256], "prefix", ("position", 256, 600, 256)),
        (lambda a: a[:, :32], "prefix", ("pair", 32, 64, 32)),
        (lambda a: a[0], "prefix", ("position", 1, 600, 1)),
        (lambda a: a[:1], "prefix", ("position", 1, 600, 1)),
    ],
)
def test_shapes_that_differ_are_compared_and_said(
    client: Client, changed: Any, name: str, said: Any
) -> None:
    report = compare_compared(client, ROPE, np.ascontiguousarray(changed(table(ROPE))))

    assert report["equal"]
    assert not report["equal_bytes"]
    assert set(report["axes"]) == {"position", "channel", name}
    found = report["axes"][name]
    assert (tuple(found.values()) if name == "prefix" else found) == said


def test_a_longer_array_is_compared_as_far_as_the_table_goes(client: Client) -> None:
    report = compare_compared(client, "/rope?head_dim=128&seq_len=512", table(ROPE))

    assert report["equal"]
    assert report["axes"]["prefix"]["compared"] == 512
    assert report["good_to"] == 511


def test_the_better_order_of_a_square_is_chosen(client: Client) -> None:
    url = "/encoding?seq_len=64&d_model=64"

    assert compare_compared(client, url, table(url).T.copy())["axes"]["order"] == [1, 0]
    assert "order" not in compare_compared(client, url, table(url))["axes"]


def test_a_prefix_of_an_endless_table_is_all_that_is_computed(client: Client) -> None:
    report = compare_compared(client, "/rope?head_dim=128&seq_len=9000000000", table(ROPE))

    assert report["equal"]


@pytest.mark.parametrize("dtype", ["<f2", "<f8"])
def test_numbers_of_another_type_are_compared_as_numbers(client: Client, dtype: str) -> None:
    report = compare_compared(client, ROPE, table(f"{ROPE}&dtype=float64").astype(dtype))

    assert report["within"]
    assert not report["equal"]
    assert report["tolerance"]["of"] == ("float16" if dtype == "<f2" else "float32")


def test_bfloat16_is_compared_in_its_own_ulp(client: Client) -> None:
    bits = table(f"{ROPE}&dtype=bfloat16")
    file = safetensors.numpy.save({"x": bits.view(ml_dtypes.bfloat16)})
    url = f"/compare?to={quote(ROPE, safe='')}"

    report = client.post(url, content=file, headers=SAFETENSORS).json()

    assert report["within"]
    assert report["tolerance"]["of"] == BFLOAT16.name
    own = client.post(f"{url}%26dtype=bfloat16", content=file, headers=SAFETENSORS).json()
    assert own["equal_bytes"]


def test_a_zero_of_the_other_sign_has_other_bytes_and_is_equal(client: Client) -> None:
    array = table(ROPE)
    array[0, 0, 1] = -0.0

    report = compare_compared(client, ROPE, array)

    assert (report["equal"], report["equal_bytes"]) == (True, False)


@pytest.mark.parametrize(("dtype", "is_same"), [("<i4", True), ("<i8", False), ("<f4", False)])
def test_integers_are_equal_whatever_their_type(client: Client, dtype: str, is_same: bool) -> None:
    url = "/relative/t5?query_len=9&key_len=9"

    report = compare_compared(client, url, table(url).astype(dtype))

    assert (report["equal"], report["equal_bytes"]) == (True, is_same)
    assert report["array"]["yours"]["dtype"] == np.dtype(dtype).name


def test_complex_error_reports_the_real_or_imaginary_part(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=5&pack=complex"
    array = table(url)
    assert compare_compared(client, url, array)["equal_bytes"]
    array[3, 2] += 0.5j

    spot = compare_compared(client, url, array)["largest"]["absolute"]

    assert (spot["index"], spot["part"]) == ([3, 2], "imaginary")


def test_nan_and_infinity_are_found_first_of_all(client: Client) -> None:
    array = table(ROPE)
    array[7, 5, 0] = np.nan

    report = compare_compared(client, ROPE, array)

    assert report["first_not_finite"]["yours"] == "NaN"
    assert (report["good_to"], report["largest"]["absolute"]) == (6, None)


def test_a_tolerance_may_be_asked_for(client: Client) -> None:
    array = table(ROPE) + np.float32(1e-4)

    assert compare_compared(client, ROPE, array, "&atol=0.001")["within"]
    assert not compare_compared(client, ROPE, array, "&rtol=1e-6")["within"]
    assert compare_compared(client, ROPE, array, "&epsilon=0.5")["within_epsilon"] == [
        {"epsilon": 0.5, "good_to": 599}
    ]


def test_several_arrays_go_by_their_names(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=5&pack=compact"
    cos, sin = table(url, "cos"), table(url, "sin")
    file = safetensors.numpy.save({"cos": cos, "sin": -sin})

    to = f"/compare?to={quote(url, safe='')}"
    report = client.post(to, content=file, headers=SAFETENSORS).json()

    jsonschema.validate(report, SCHEMA)
    assert report["arrays"]["cos"]["equal_bytes"]
    assert not report["arrays"]["sin"]["within"]
    assert not report["within"]
    only = client.post("/compare", json={"to": url, "sin": sin.tolist()}).json()
    assert (only["equal"], only["not_sent"]) == (True, ["cos"])


def test_names_that_the_table_has_not_are_refused_with_those_that_it_has(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=5&pack=compact"
    to, array = f"/compare?to={quote(url, safe='')}", table(url)

    unnamed = refused(client, to, npy(array))
    other = refused(client, to, safetensors.numpy.save({"emb": array}), SAFETENSORS)

    assert "part=cos" in unnamed["detail"]
    assert "emb is no array here: the table of to has cos and sin" in other["detail"]
    assert compare_compared(client, f"{url}&part=cos", array)["equal_bytes"]


def test_an_ampersand_that_was_not_encoded_is_explained(client: Client) -> None:
    problem = refused(client, f"/compare?to={ROPE}", npy(table(ROPE)))

    assert "write the & before it as %26" in problem["detail"]
    assert problem["errors"][0]["parameter"] == "seq_len"


@pytest.mark.parametrize(
    ("to", "rule"),
    [
        ("", "to is required"),
        ("?to=/rop", "did you mean /rope?"),
        ("?to=/compare", "/compare is made of what is POSTed"),
        ("?to=/rope/apply", "made of what is POSTed"),
        ("?to=/rope?head_dm=8", "did you mean head_dim?"),
        ("?to=http://[", "is no URL"),
        (f"?to={quote(ROPE, safe='')}&atol=-1", "atol must be at least 0"),
        (f"?to={quote(ROPE, safe='')}&epsilon=a", "epsilon must be a list of numbers"),
        (f"?to={quote(ROPE, safe='')}&tolerance=1", "is not a parameter here"),
    ],
)
def test_what_is_wrong_is_named(client: Client, to: str, rule: str) -> None:
    problem = refused(client, f"/compare{to}", npy(np.zeros(3)))

    assert problem["type"] == "urn:posref:problem:invalid-parameters"
    assert rule in problem["detail"]


@pytest.mark.parametrize(
    ("to", "array", "rule"),
    [
        (ROPE, np.zeros((5, 7)), r"the array has the shape (5, 7), and the table (600, 64, 2)"),
        ("/rope?head_dim=8&seq_len=9000000000&pack=flat", np.zeros((4, 4)), "9000000000"),
        (ROPE, np.zeros((600, 64), "<c8"), "pack=complex"),
    ],
)
def test_arrays_that_cannot_be_compared_are_refused_at_once(
    client: Client, to: str, array: Any, rule: str
) -> None:
    problem = refused(client, f"/compare?to={quote(to, safe='')}", npy(array))

    assert problem["type"] == "urn:posref:problem:invalid-body"
    assert rule in problem["detail"]


def test_what_would_take_too_long_is_refused(client: Client) -> None:
    to = quote("/encoding?seq_len=1000000&d_model=4096", safe="")

    problem = refused(client, f"/compare?to={to}", npy(np.zeros((1_000_000, 1), "<f2")))

    assert "to is too large a table" in problem["detail"]


def test_the_url_that_is_said_names_the_same_table(client: Client) -> None:
    said = compare_compared(
        client, "https://other.example/rope.npy?seq_len=600&head_dim=128", table(ROPE)
    )

    assert said["to"] == ROPE


def test_cosines_and_sines_against_one_array_are_told_which_packs_have_both(client: Client) -> None:
    body = {"to": "/rope?head_dim=4&seq_len=2", "cos": [[1.0, 1.0]] * 2, "sin": [[0.0, 0.0]] * 2}

    for path, sent in (("/compare", body), ("/diagnose", body)):
        answer = client.post(path, json=sent)
        assert answer.status_code == 422
        assert "with pack=half, interleaved or compact it has cos and sin" in answer.text


def test_a_lone_array_in_json_is_told_its_name(client: Client) -> None:
    answer = client.post("/compare", json={"to": "/encoding?seq_len=1&d_model=2", "data": [[0, 1]]})

    assert answer.status_code == 422
    assert "an array goes by the name of x" in answer.text


def compared(url: str, array: StoredTable, *, is_text: bool = False) -> Any:
    content = Input({"x": array}, is_text=is_text)
    return compare_arrays(CompareParameters(to=url), content).content()


def elements_of(url: str) -> Elements:
    return table(url).copy()


def test_text_is_rounded_to_the_type_of_the_table() -> None:
    url = "/encoding?seq_len=9&d_model=8"
    array = StoredTable(elements_of(f"{url}&dtype=float64"), FLOAT64)

    assert compared(url, array, is_text=True)["equal"]
    assert not compared(url, array)["equal"]


@pytest.mark.parametrize(
    ("url", "floor"),
    [
        ("/encoding?seq_len=99&d_model=8&dtype=float64", 1.0),
        ("/rope/frequencies?head_dim=64&part=inv_freq", 0.0),
        ("/relative/alibi/slopes?num_heads=8&dtype=float64", 0.0),
    ],
)
def test_numbers_of_vectors_are_compared_each_in_its_own_ulp(url: str, floor: float) -> None:
    report = compared(url, StoredTable(elements_of(url), FLOAT64))

    assert report["tolerance"]["at_least_of"] == pytest.approx(floor, abs=1e-3)
    assert report["equal_bytes"]


def test_an_error_of_the_smallest_frequency_is_found() -> None:
    url = "/rope/frequencies?head_dim=64&part=inv_freq"
    values = elements_of(url)
    values[31] *= 1 + 1e-9

    assert not compared(url, StoredTable(values, FLOAT64))["within"]


@pytest.mark.parametrize("value", [2.0**63, -(2.0**64), 1e30])
def test_integers_beyond_those_of_json_are_compared(value: float) -> None:
    url = "/relative/t5?query_len=2"
    values = elements_of(url).astype(np.float64)
    values[0, 0] = value

    content = Input({"x": StoredTable(values, FLOAT64)}, is_text=False)

    report = orjson.loads(compare_arrays(CompareParameters(to=url), content).json_bytes())

    assert report["first_beyond"]["yours"] == value


def test_positions_of_a_bias_with_heads_are_its_queries() -> None:
    url = "/relative/alibi?num_heads=2&query_len=3&key_len=5&query_start=2"
    values = elements_of(url)
    values[1, 2, 4] += 1

    report = compared(url, StoredTable(values, FLOAT32))

    assert (report["axes"]["position"], report["axes"]["channel"]) == ("query", "key")
    assert report["first_beyond"]["position"] == 4
    assert report["good_to"] == 3


def test_complex_and_real_numbers_are_not_compared() -> None:
    with pytest.raises(InvalidBody, match="pack=complex"):
        compared("/rope?head_dim=8&seq_len=5&pack=complex", StoredTable(np.zeros((5, 4)), FLOAT64))


@pytest.mark.parametrize(
    ("spoil", "order"),
    [
        (lambda table: table.T.copy(), [1, 0]),
        (lambda table: (table.T + 1e-3).copy(), [1, 0]),
        (lambda table: table + 1e-3, None),
        (lambda table: np.roll(table, 1, axis=0), None),
        (lambda table: np.random.default_rng(3).uniform(-1, 1, table.shape), None),
        (lambda table: np.random.default_rng(4).uniform(-1, 1, table.shape), None),
        (lambda table: np.full_like(table, np.nan), None),
    ],
)
def test_axes_of_equal_length_are_exchanged_only_where_that_fits_clearly_better(
    spoil: Callable[[Elements], Elements], order: list[int] | None
) -> None:
    url = "/encoding?seq_len=32&d_model=32&dtype=float64"

    report = compared(url, StoredTable(spoil(elements_of(url)), FLOAT64))

    assert report["axes"].get("order") == order


def reported(yours: Elements, theirs: Elements, first: int = 0, **tolerances: float) -> Any:
    alignment = alignments(yours.shape, theirs.shape)[0]
    overlay = Overlay(StoredTable(yours, FLOAT64), StoredTable(theirs, FLOAT64), alignment)
    tolerance = Tolerance(tolerances.get("atol"), tolerances.get("rtol"), FLOAT64, 1.0)
    positions = first + np.arange(alignment.region[0])
    axes = ("position", "channel")
    writer = ReportWriter(compare(overlay, tolerance, 0, 1), alignment, axes, positions, False)
    kind = ArrayType(shape=[], dtype="float64")
    types = ArrayAndTable[ArrayType](yours=kind, theirs=kind)
    return writer.report(types, (0.5, 3.0, 100.0), is_equal_bytes=False).content()


def bad_at(*rows: int, count: int = 1000) -> Any:
    yours = np.zeros((count, 4))
    yours[list(rows), 2] = 0.5
    return reported(yours, np.zeros((count, 4)), first=100)


def test_rows_before_the_first_error_are_good_and_counted_by_position() -> None:
    said = bad_at(257, 600)

    assert said["good_to"] == 356
    assert said["good_positions"] == {
        "count": 998,
        "of": 1000,
        "runs": [
            {"first": 100, "last": 356},
            {"first": 358, "last": 699},
            {"first": 701, "last": 1099},
        ],
        "further_runs": 0,
    }
    assert said["first_beyond"]["position"] == 357
    assert said["first_beyond"]["channel"] == 2


def test_nothing_is_good_where_the_first_row_is_not() -> None:
    assert bad_at(0)["good_to"] is None
    assert bad_at()["good_to"] == 1099
    assert bad_at(*range(1000))["good_positions"]["runs"] == []


def test_many_runs_and_rows_are_short_profiles() -> None:
    said = bad_at(*range(0, 1000, 2))

    assert len(said["good_positions"]["runs"]) == MOST_RUNS
    assert said["good_positions"]["further_runs"] == 500 - MOST_RUNS
    ranges = said["errors_by_position"]
    assert len(ranges) <= MOST_RANGES
    assert (ranges[0]["first"], ranges[-1]["last"]) == (100, 1099)
    assert all(ranges[i]["last"] + 1 == ranges[i + 1]["first"] for i in range(len(ranges) - 1))


def test_each_channel_has_its_largest_error() -> None:
    assert [each["largest"] for each in bad_at(5)["errors_by_channel"]] == [0.0, 0.0, 0.5, 0.0]


def test_errors_that_grow_are_within_each_epsilon_up_to_another_position() -> None:
    yours = np.repeat(np.arange(10.0)[:, None], 2, axis=1)
    report = reported(yours, np.zeros((10, 2)))

    assert report["within_epsilon"] == [
        {"epsilon": 0.5, "good_to": 0},
        {"epsilon": 3.0, "good_to": 3},
        {"epsilon": 100.0, "good_to": 9},
    ]


def test_what_is_no_number_is_a_word_and_its_error_null() -> None:
    yours = np.array([[np.nan, np.inf], [-np.inf, 1.0]])

    said = reported(yours, np.ones((2, 2)))

    assert said["first_not_finite"]["yours"] == "NaN"
    assert said["first_not_finite"]["error"] is None
    assert [each["largest"] for each in said["errors_by_position"]] == [None, None]
    assert said["largest"]["absolute"] is None


def test_an_index_is_that_of_the_array_which_was_sent() -> None:
    theirs = np.zeros((3, 5))
    yours = np.zeros((5, 1, 3))
    yours[4, 0, 2] = 1.0

    said = reported(yours, theirs)

    assert said["largest"]["absolute"]["index"] == [4, 0, 2]
    assert (said["largest"]["absolute"]["position"], said["largest"]["absolute"]["channel"]) == (
        2,
        4,
    )
    assert said["axes"]["order"] == [2, 0]
    assert said["axes"]["removed"] == {"yours": [1], "theirs": []}


def test_a_prefix_is_said_from_either_side() -> None:
    for mine, other, axis in (((2, 5), (3, 5), "position"), ((3, 7), (3, 5), "channel")):
        prefix = reported(np.zeros(mine), np.zeros(other))["axes"]["prefix"]
        assert (prefix["axis"], prefix["compared"]) == (
            axis,
            min(prefix["yours"], prefix["theirs"]),
        )
    one_row = reported(np.zeros((4, 5)), np.zeros((1, 5)))["axes"]["prefix"]
    assert one_row == {"axis": None, "yours": 4, "theirs": 1, "compared": 1}


def test_the_tolerance_that_was_applied_is_said() -> None:
    asked = reported(np.ones((2, 2)), np.zeros((2, 2)), atol=2.0)

    assert asked["tolerance"] == {"atol": 2.0, "rtol": 0.0}
    assert asked["first_beyond"] is None
    assert bad_at()["tolerance"] == {"ulp": 4, "of": "float64", "at_least_of": 1.0}
