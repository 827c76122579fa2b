"""Bodies without a header, application/octet-stream: the query describes the array."""

from typing import Any

import numpy as np
import pytest
from httpx import Response
from numpy.typing import NDArray
from safetensors.numpy import save

from service.delivery.endpoints import (
    COMPOSITIONS,
    TRANSFORMS,
    ArrayInputs,
    Endpoint,
    NamedArrays,
    PositionInput,
)
from service.formats import FORMATS
from service.numerics.dtypes import BFLOAT16, round_into
from service.routes import ENDPOINTS, REPORTS
from tests.client import Client, npy_bytes

RAW = {"Content-Type": "application/octet-stream"}
ROWS = np.array([[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]], "<f4")


def takes_one(endpoint: Endpoint) -> bool:
    inputs = endpoint.inputs
    if isinstance(inputs, NamedArrays):
        return bool(inputs.unnamed or inputs.choice)
    return isinstance(inputs, ArrayInputs)


ONE = [
    each
    for each in (*TRANSFORMS.values(), *COMPOSITIONS.values(), *REPORTS.values())
    if takes_one(each)
]
TENSOR = '"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}'
EVERY = pytest.mark.parametrize("endpoint", ONE, ids=lambda endpoint: endpoint.path)


def query_of(endpoint: Endpoint) -> str:
    inputs = endpoint.inputs
    has_choice = isinstance(inputs, NamedArrays) and inputs.choice is not None
    return endpoint.example + "&mask=padding" * has_choice


def array_of(endpoint: Endpoint) -> NDArray[Any]:
    if not isinstance(endpoint.inputs, NamedArrays):
        return ROWS
    known = endpoint.inputs.unnamed or endpoint.inputs.inputs[0]
    return np.array(known.example, "<i4" if known.is_integer else "<f4")


def posted(client: Client, endpoint: Endpoint, array: NDArray[Any], **changes: str) -> Response:
    """POST the bytes of an array, described by the query as the endpoint names it."""
    dtype_name = list(endpoint.raw_array)[1]
    described = {"shape": ",".join(map(str, array.shape)), dtype_name: array.dtype.name, **changes}
    query = "&".join(f"{name}={value}" for name, value in described.items() if value)
    url = f"{endpoint.path}?{query_of(endpoint)}&{query}"
    return client.post(url, content=array.tobytes(), headers=RAW)


@EVERY
def test_raw_elements_are_answered_as_the_npy_file_of_them(
    client: Client, endpoint: Endpoint
) -> None:
    array = array_of(endpoint)
    url, npy = f"{endpoint.path}?{query_of(endpoint)}", {"Content-Type": "application/x-npy"}
    accept = {} if endpoint.report else {"Accept": RAW["Content-Type"]}

    answer = posted(client, endpoint, array)
    expected = client.post(url, content=npy_bytes(array), headers=npy | accept)

    assert answer.status_code == expected.status_code == 200, answer.text
    assert answer.content == expected.content
    assert answer.headers == expected.headers
    if endpoint.report is None:
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert {"Array-Shape", "Array-Dtype"} <= {name.title() for name in answer.headers}


@EVERY
@pytest.mark.parametrize("lost", [0, 1])
def test_an_array_that_is_not_described_is_refused_with_what_is_missing(
    client: Client, endpoint: Endpoint, lost: int
) -> None:
    name, example = list(endpoint.raw_array.items())[lost]

    answer = posted(client, endpoint, array_of(endpoint), **{name: ""})

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["parameter"] == name
    assert fault["detail"].startswith(f"{name} is required, as in {name}={example}: ")


def test_more_lengths_than_arrays_have_axes_are_refused(client: Client) -> None:
    for count, status in ((8, 200), (9, 422), (20_000, 422)):
        shape = ",".join(["2", "4", *["1"] * (count - 2)][::-1])
        answer = client.post(
            f"/identify?shape={shape}&dtype=float32", content=bytes(32), headers=RAW
        )

        assert answer.status_code == status
        if status == 422:
            (fault,) = answer.json()["errors"]
            assert fault["detail"] == "shape must be at most 8 lengths, with commas between them"


@EVERY
def test_bytes_that_do_not_fit_are_counted_and_never_guessed(
    client: Client, endpoint: Endpoint
) -> None:
    array = array_of(endpoint)
    dtype_name = list(endpoint.raw_array)[1]

    answer = posted(client, endpoint, array, **{dtype_name: "complex128"})

    assert (answer.status_code, answer.json()["type"]) == (422, "urn:posref:problem:invalid-body")
    assert (
        f"takes {array.size * 16} bytes, and the body has {array.nbytes}: are its elements"
        in (answer.json()["detail"])
    )


@EVERY
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_a_file_that_describes_itself_takes_no_shape(
    client: Client, endpoint: Endpoint, form: str
) -> None:
    headers = {"Content-Type": FORMATS[form].media_type}
    url = f"{endpoint.path}?{query_of(endpoint)}&shape=2,4"

    answer = client.post(url, content=b"", headers=headers)

    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, "shape")
    assert "application/octet-stream" in answer.json()["detail"]


@EVERY
def test_a_single_array_in_json_is_x_flat_or_nested(client: Client, endpoint: Endpoint) -> None:
    array, url = array_of(endpoint), f"{endpoint.path}?{query_of(endpoint)}"
    flat = {"x": array.reshape(-1).tolist(), "shape": list(array.shape)}

    answers = [client.post(url, json=body) for body in ({"x": array.tolist()}, flat)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    in_query = client.post(f"{url}&shape=2,4", json={"x": flat["x"]})
    assert "(the shape of a flat x goes into the JSON)" in in_query.json()["errors"][0]["detail"]


def test_the_type_of_a_file_is_not_said_twice(client: Client) -> None:
    npy = {"Content-Type": "application/x-npy"}

    answer = client.post("/identify?dtype=float32", content=npy_bytes(ROWS), headers=npy)

    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, "dtype")
    assert "the body is NumPy: leave it out" in answer.json()["detail"]


def test_the_type_of_the_answer_is_another_parameter() -> None:
    named = {each.path: set(each.raw_array) for each in ENDPOINTS.values() if each.raw_array}

    assert named["/encoding/mask"] == named["/relative/kerple/bias"] == {"shape", "x_dtype"}
    assert named["/rope/apply"] == named["/identify"] == {"shape", "dtype"}
    assert {
        each.path
        for each in ENDPOINTS.values()
        if isinstance(each.inputs, ArrayInputs | PositionInput)
    } == set(named)


def test_the_answer_has_the_format_that_extension_or_accept_names(client: Client) -> None:
    url, body = "/rope/apply{}?shape=2,4&dtype=float32", ROWS.tobytes()

    by_extension = client.post(url.format(".json"), content=body, headers=RAW)
    by_accept = client.post(
        url.format(""), content=body, headers=RAW | {"Accept": "application/x-npy"}
    )

    assert by_extension.headers["Content-Type"] == "application/json"
    assert by_accept.headers["Content-Type"] == "application/x-npy"


def test_bfloat16_is_sent_as_its_bits(client: Client) -> None:
    bits = np.empty((2, 4), BFLOAT16.storage)
    round_into(ROWS.astype(np.float64), bits, BFLOAT16)
    url = "/rope/apply?shape=2,4&dtype=bfloat16"

    answer = client.post(url, content=bits.tobytes(), headers=RAW)

    assert answer.headers["Array-Dtype"] == "bfloat16"
    assert answer.content[:8] == bits[0].tobytes()


@pytest.mark.parametrize("media_type", [None, "application/x-www-form-urlencoded"])
def test_a_body_without_its_media_type_is_told_which_header_to_send(
    client: Client, media_type: str | None
) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}

    answers = {
        path: client.post(path, content=ROWS.tobytes(), headers=headers).json()["detail"]
        for path in ("/rope/apply", "/encoding/mask", "/identify", "/rope/config")
    }

    start = "missing" if media_type is None else f"{media_type}, which curl, PHP and Ruby send"
    arrays = (
        "send the header Content-Type: application/x-npy or application/vnd.safetensors or "
        "application/json or application/octet-stream (elements alone, little-endian, with "
        "shape=50,512&"
    )
    assert all(detail.startswith(f"Content-Type is {start}") for detail in answers.values())
    assert answers["/rope/apply"].endswith(f"{arrays}dtype=float32 in the query)")
    assert answers["/encoding/mask"].endswith(f"{arrays}x_dtype=float32 in the query)")
    assert answers["/identify"].endswith(f"{arrays}dtype=float32 in the query)")
    forms = "application/json or application/octet-stream or text/plain"
    assert answers["/rope/config"].endswith(f"send the header Content-Type: {forms}")


@pytest.mark.parametrize("extension", ["npy", "safetensors", "bin"])
@pytest.mark.parametrize(
    ("path", "sent", "name"),
    [
        ("/rope/apply", np.ones(4, "<f4"), "x"),
        ("/diagnose?to=/relative/t5?query_len=2", np.full((2, 2), np.nan, "<f4"), "x"),
        ("/diagnose?to=/encoding?seq_len=2%26d_model=4", np.ones((3, 5, 7), "<f4"), "x"),
        ("/compare?to=/encoding?seq_len=2%26d_model=4", np.array([[True]]).view("u1") * 3, "x"),
    ],
)
def test_a_problem_names_the_array_where_a_body_has_no_pointers(
    client: Client, extension: str, path: str, sent: NDArray[Any], name: str
) -> None:
    is_bool = sent.dtype == np.uint8
    array = sent.view(np.bool_) if is_bool else sent
    shape = ",".join(map(str, array.shape))
    bodies = {"npy": npy_bytes(array), "safetensors": save({name: array}), "bin": array.tobytes()}
    sign = "&" if "?" in path else "?"
    url = path + f"{sign}shape={shape}&dtype={array.dtype.name}" * (extension == "bin")

    headers = {"Content-Type": FORMATS[extension].media_type}
    response = client.post(url, content=bodies[extension], headers=headers)

    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["parameter"] == name
    assert not is_bool or error["value"] == "3"


def tensors_answer(client: Client, header: str) -> Any:
    content = len(header).to_bytes(8, "little") + header.encode() + bytes(8)
    headers = {"Content-Type": FORMATS["safetensors"].media_type}
    return client.post("/rope/apply", content=content, headers=headers).json()


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (f"{{{TENSOR},{TENSOR}}}", "x"),
        (f'{{"__metadata__":{{"a":"1","a":"2"}},{TENSOR}}}', "__metadata__/a"),
    ],
)
def test_a_name_that_a_header_has_twice_is_refused_with_its_place(
    client: Client, header: str, name: str
) -> None:
    problem = tensors_answer(client, header)

    fault = {"parameter": name, "value": None, "detail": f"{name} is given twice"}
    assert problem["errors"] == [fault]


def test_a_tensor_named_with_half_a_surrogate_pair_is_refused(client: Client) -> None:
    header = "{" + TENSOR.replace("x", r"\ud800") + "}"

    problem = tensors_answer(client, header)

    assert problem["type"] == "urn:posref:problem:invalid-body"


def test_a_config_that_is_a_list_is_not_told_to_be_an_array(client: Client) -> None:
    problem = client.post("/rope/config", json=[1]).json()

    assert "send the content of its config.json" in problem["detail"]


@pytest.mark.parametrize("shape", ["-8", "0", "2,-1", "2,3"])
def test_a_shape_that_does_not_fit_is_at_fault(client: Client, shape: str) -> None:
    url = f"/rope/apply?shape={shape}&dtype=float32"

    response = client.post(url, content=bytes(32), headers=RAW)

    (error,) = response.json()["errors"]
    assert (error["parameter"], error["value"]) == ("shape", shape)
