"""An array that somebody has, against a table of this server."""

import io
from typing import Any
from urllib.parse import quote

import jsonschema
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from service.delivery.parameters import parse_query, read_parameters
from service.routes.asked import document_of
from service.routes.compare_schema import COMPARE_SCHEMA
from service.routes.resources import RESOURCES
from service.tables.dtypes import BFLOAT16, Elements
from service.tables.table import size
from tests.client import Client

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


def compared(client: Client, to: str, array: Any, extra: str = "") -> Any:
    answer = client.post(
        f"/compare?to={quote(to, safe='')}{extra}", content=npy(array), headers=NPY
    )
    assert answer.status_code == 200, answer.text
    jsonschema.validate(answer.json(), COMPARE_SCHEMA)
    return answer.json()


def refused(client: Client, url: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
    answer = client.post(url, content=body, headers=headers or NPY)
    assert answer.status_code == 422, answer.text
    return answer.json()


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda known: known.path)
def test_every_table_equals_itself_in_every_format(client: Client, resource: Any) -> None:
    url = f"{resource.path}?{resource.example}"
    document = resource.resolve(
        read_parameters(resource.parameters, parse_query(resource.example.encode()))
    )
    arrays = {
        name: each.read(0, size(each)).reshape(each.shape or (1,))
        for name, each in document.arrays.items()
    }
    file = safetensors.numpy.save(arrays)

    answer = client.post(f"/compare?to={quote(url, safe='')}", content=file, headers=SAFETENSORS)
    report = answer.json()

    jsonschema.validate(report, COMPARE_SCHEMA)
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

    said = compared(client, f"{ROPE}&start=1000", array)

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

    said = compared(client, ROPE, array)

    assert said["good_to"] == 256
    assert said["good_positions"]["runs"][0] == {"first": 0, "last": 256}
    assert {each["epsilon"]: each["good_to"] for each in said["within_epsilon"]}[0.1] == 256


def test_float32_arithmetic_is_good_for_fewer_positions_the_smaller_epsilon(client: Client) -> None:
    positions = np.arange(600, dtype="<f4")[:, None]
    omega = np.float32(10000.0) ** (-np.arange(64, dtype="<f4") / np.float32(64))
    array = np.stack([np.cos(positions * omega), np.sin(positions * omega)], axis=-1)

    said = compared(client, ROPE, array)

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
    report = compared(client, ROPE, np.ascontiguousarray(changed(table(ROPE))))

    assert report["equal"]
    assert not report["equal_bytes"]
    assert set(report["axes"]) == {"position", "channel", name}
    found = report["axes"][name]
    assert (tuple(found.values()) if name == "prefix" else found) == said


def test_a_longer_array_is_compared_as_far_as_the_table_goes(client: Client) -> None:
    report = compared(client, "/rope?head_dim=128&seq_len=512", table(ROPE))

    assert report["equal"]
    assert report["axes"]["prefix"]["compared"] == 512
    assert report["good_to"] == 511


def test_the_better_order_of_a_square_is_chosen(client: Client) -> None:
    url = "/encoding?seq_len=64&d_model=64"

    assert compared(client, url, table(url).T.copy())["axes"]["order"] == [1, 0]
    assert "order" not in compared(client, url, table(url))["axes"]


def test_a_prefix_of_an_endless_table_is_all_that_is_computed(client: Client) -> None:
    report = compared(client, "/rope?head_dim=128&seq_len=9000000000", table(ROPE))

    assert report["equal"]


@pytest.mark.parametrize("dtype", ["<f2", "<f8"])
def test_numbers_of_another_type_are_compared_as_numbers(client: Client, dtype: str) -> None:
    report = compared(client, ROPE, table(f"{ROPE}&dtype=float64").astype(dtype))

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

    report = compared(client, ROPE, array)

    assert (report["equal"], report["equal_bytes"]) == (True, False)


@pytest.mark.parametrize(("dtype", "is_same"), [("<i4", True), ("<i8", False), ("<f4", False)])
def test_integers_are_equal_whatever_their_type(client: Client, dtype: str, is_same: bool) -> None:
    url = "/relative/t5?query_len=9&key_len=9"

    report = compared(client, url, table(url).astype(dtype))

    assert (report["equal"], report["equal_bytes"]) == (True, is_same)
    assert report["array"]["yours"]["dtype"] == np.dtype(dtype).name


def test_complex_numbers_are_compared_and_their_part_is_said(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=5&pack=complex"
    array = table(url)
    assert compared(client, url, array)["equal_bytes"]
    array[3, 2] += 0.5j

    spot = compared(client, url, array)["largest"]["absolute"]

    assert (spot["index"], spot["part"]) == ([3, 2], "imaginary")


def test_nan_and_infinity_are_found_first_of_all(client: Client) -> None:
    array = table(ROPE)
    array[7, 5, 0] = np.nan

    report = compared(client, ROPE, array)

    assert report["first_not_finite"]["yours"] == "NaN"
    assert (report["good_to"], report["largest"]["absolute"]) == (6, None)


def test_a_tolerance_may_be_asked_for(client: Client) -> None:
    array = table(ROPE) + np.float32(1e-4)

    assert compared(client, ROPE, array, "&atol=0.001")["within"]
    assert not compared(client, ROPE, array, "&rtol=1e-6")["within"]
    assert compared(client, ROPE, array, "&epsilon=0.5")["within_epsilon"] == [
        {"epsilon": 0.5, "good_to": 599}
    ]


def test_several_arrays_go_by_their_names(client: Client) -> None:
    url = "/rope?head_dim=8&seq_len=5&pack=compact"
    cos, sin = table(url, "cos"), table(url, "sin")
    file = safetensors.numpy.save({"cos": cos, "sin": -sin})

    to = f"/compare?to={quote(url, safe='')}"
    report = client.post(to, content=file, headers=SAFETENSORS).json()

    jsonschema.validate(report, COMPARE_SCHEMA)
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
    assert compared(client, f"{url}&part=cos", array)["equal_bytes"]


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
    said = compared(client, "https://other.example/rope.npy?seq_len=600&head_dim=128", table(ROPE))

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
