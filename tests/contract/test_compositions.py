"""The contract of every resource that is computed from request arrays."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from httpx import Response
from numpy.typing import NDArray

from service.delivery.endpoints import Endpoint, NamedArrays
from service.encodings.family import InputArray
from service.formats import FORMATS
from service.routes import COMPOSITIONS
from tests.client import Client, npy_bytes

Arrays = Mapping[str, NDArray[Any]]

SENDABLE = ("json", "npy", "safetensors")
EVERY = pytest.mark.parametrize("composition", COMPOSITIONS.values(), ids=lambda known: known.path)


def arrays_of(composition: Endpoint) -> NamedArrays:
    assert isinstance(composition.inputs, NamedArrays)
    return composition.inputs


def array_of(known: InputArray) -> NDArray[Any]:
    return np.array(known.example, dtype=np.int64 if known.is_integer else np.float64)


def example(composition: Endpoint) -> dict[str, NDArray[Any]]:
    """Return the required arrays, or the first if none is required."""
    required = [known for known in arrays_of(composition).inputs if known.is_required]
    return {known.name: array_of(known) for known in required or arrays_of(composition).inputs[:1]}


def sent(
    client: Client, composition: Endpoint, arrays: Arrays, extension: str = "", form: str = ""
) -> Response:
    """POST arrays with the example's parameters, as safetensors by default."""
    url = f"{composition.path}{extension}?{composition.example}"
    if form == "json":
        return client.post(url, json={name: array.tolist() for name, array in arrays.items()})
    body, media_type = safetensors.numpy.save(dict(arrays)), FORMATS["safetensors"].media_type
    if form == "npy":
        ((_, array),) = arrays.items()
        body, media_type = npy_bytes(array), FORMATS["npy"].media_type
    return client.post(url, content=body, headers={"Content-Type": media_type})


def forms(composition: Endpoint) -> list[str]:
    """List the request formats that can hold the required arrays."""
    alone = arrays_of(composition).unnamed
    fits_npy = alone is not None and list(example(composition)) == [alone.name]
    return [form for form in SENDABLE if form != "npy" or fits_npy]


SENT = [(known, form) for known in COMPOSITIONS.values() for form in forms(known)]
EVERY_SENT = pytest.mark.parametrize(
    ("composition", "form"), SENT, ids=[f"{known.path}-{form}" for known, form in SENT]
)
TAKEN = [(known, name) for known in COMPOSITIONS.values() for name in example(known)]
EVERY_TAKEN = pytest.mark.parametrize(
    ("composition", "name"), TAKEN, ids=[f"{known.path}-{name}" for known, name in TAKEN]
)


def problem(answer: Response, status: int, name: str) -> dict[str, Any]:
    """Check the form of a problem document, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers
    content: dict[str, Any] = answer.json()
    assert list(content) == ["type", "title", "status", "detail", "errors"]
    assert (content["type"], content["status"]) == (f"urn:posref:problem:{name}", status)
    for fault in content["errors"]:
        assert set(fault) <= {"parameter", "pointer", "value", "detail", "suggestion"}
        assert fault["detail"]
    return content


def refused_at(answer: Response, pointer: str) -> str:
    """Check the problem of an invalid array, and return its detail.

    A body that is not JSON has no pointers: there the name of the array is a parameter.
    """
    content = problem(answer, 422, "invalid-body")
    (fault,) = content["errors"]
    assert fault.get("pointer", f"/{fault.get('parameter')}") == pointer
    return str(content["detail"])


def known_by(composition: Endpoint, name: str) -> InputArray:
    return next(known for known in arrays_of(composition).inputs if known.name == name)


def read(answer: Response, extension: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return the only array of an answer, with the shape and type of another."""
    if extension == "npy":
        return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))
    if extension == "json":
        return np.array(answer.json()["data"], dtype=like.dtype)
    if extension == "csv":
        text = np.loadtxt(io.StringIO(answer.text), delimiter=",", dtype=like.dtype)
        return np.asarray(text).reshape(like.shape)
    return np.frombuffer(answer.content, like.dtype).reshape(like.shape)


@EVERY
@pytest.mark.parametrize("extension", [name for name in FORMATS if name != "png"])
def test_every_request_format_gives_the_same_answer(
    client: Client, composition: Endpoint, extension: str
) -> None:
    arrays = example(composition)

    answers = [
        sent(client, composition, arrays, f".{extension}", form) for form in forms(composition)
    ]

    if answers[0].status_code != 200:
        assert extension not in {"json", "safetensors"}
        problem(answers[0], 422, "unsupported-by-format")
    assert len({answer.content for answer in answers}) == 1
    assert {answer.status_code for answer in answers} == {answers[0].status_code}


@EVERY
def test_every_response_format_has_the_same_array(client: Client, composition: Endpoint) -> None:
    arrays = example(composition)
    found = safetensors.numpy.load(sent(client, composition, arrays, ".safetensors").content)
    if len(found) > 1:
        as_json = sent(client, composition, arrays, ".json").json()["data"]
        assert as_json.keys() == found.keys()
        for name, array in found.items():
            assert np.array(as_json[name]).astype(array.dtype).tobytes() == array.tobytes()
        return
    (expected,) = found.values()

    for extension in ("npy", "json", "csv", "bin"):
        answer = sent(client, composition, arrays, f".{extension}")
        if extension == "csv" and expected.ndim > 2:
            problem(answer, 422, "unsupported-by-format")
            continue
        array = read(answer, extension, expected)
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
        assert array.tobytes() == expected.tobytes()


@EVERY_SENT
def test_answer_has_the_format_of_the_request_and_is_not_stored(
    client: Client, composition: Endpoint, form: str
) -> None:
    arrays = example(composition)

    answer = sent(client, composition, arrays, form=form)

    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers
    assert answer.headers["Vary"] == "Accept, Accept-Encoding"
    as_sent = sent(client, composition, arrays, f".{form}", form)
    if as_sent.status_code == 200:
        assert answer.headers["Content-Type"] == FORMATS[form].media_type
        assert answer.content == as_sent.content
    else:
        problem(as_sent, 422, "unsupported-by-format")


@EVERY
def test_answer_of_one_array_names_its_axes(client: Client, composition: Endpoint) -> None:
    answer = sent(client, composition, example(composition), ".json")

    content = answer.json()
    if isinstance(content["data"], dict):
        return
    assert answer.headers["Array-Axes"] == ", ".join(content["axes"])
    assert len(content["axes"]) == len(content["shape"])
    assert len(set(content["axes"])) == len(content["axes"])


@EVERY
def test_names_of_arrays_and_parameters_differ(composition: Endpoint) -> None:
    assert not set(arrays_of(composition).names) & set(composition.parameters.model_fields)
    assert len(set(arrays_of(composition).names)) == len(arrays_of(composition).names)


@EVERY_TAKEN
@pytest.mark.parametrize("axes", range(9))
def test_wrong_number_of_axes_is_refused(
    client: Client, composition: Endpoint, name: str, axes: int
) -> None:
    known, arrays = known_by(composition, name), example(composition)
    if axes in known.ranks:
        return
    arrays[name] = np.ones((1,) * axes, dtype=arrays[name].dtype)

    detail = refused_at(sent(client, composition, arrays), f"/{name}")

    assert detail.startswith(f"{name} has {axes} axes")


@EVERY_TAKEN
@pytest.mark.parametrize("dtype", ["<i8", "<i4", "|b1", "<c8"])
def test_wrong_element_type_is_refused(
    client: Client, composition: Endpoint, name: str, dtype: str
) -> None:
    known, arrays = known_by(composition, name), example(composition)
    if known.is_integer and dtype != "<c8":
        return
    arrays[name] = np.ones(arrays[name].shape, dtype=dtype)

    detail = refused_at(sent(client, composition, arrays), f"/{name}")

    assert name in detail


@EVERY_TAKEN
@pytest.mark.parametrize("value", ["1", None, True, [], {}, [[1], 2], [[1, 2], [3]], [[]]])
def test_json_values_that_are_no_arrays_are_refused(
    client: Client, composition: Endpoint, name: str, value: object
) -> None:
    body = {known: array.tolist() for known, array in example(composition).items()}

    answer = client.post(f"{composition.path}?{composition.example}", json={**body, name: value})

    content = problem(answer, 422, "invalid-body")
    assert name in content["detail"]


@EVERY
@pytest.mark.parametrize("media_type", [None, "text/plain", "application/octet-streams", "a;b,c"])
def test_unsupported_media_type_is_refused(
    client: Client, composition: Endpoint, media_type: str | None
) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}

    answer = client.post(composition.path, content=b"1", headers=headers)

    problem(answer, 415, "unsupported-media-type")


@EVERY
@pytest.mark.parametrize("form", SENDABLE)
@pytest.mark.parametrize("body", [b"", b"{", b"\x93NUMPY", b"\0" * 64])
def test_malformed_body_is_refused(
    client: Client, composition: Endpoint, form: str, body: bytes
) -> None:
    headers = {"Content-Type": FORMATS[form].media_type}

    answer = client.post(f"{composition.path}?{composition.example}", content=body, headers=headers)

    problem(answer, 422, "invalid-body")


@EVERY
@pytest.mark.parametrize("form", SENDABLE)
def test_a_body_with_an_unknown_name_is_refused(
    client: Client, composition: Endpoint, form: str
) -> None:
    headers = {"Content-Type": FORMATS[form].media_type}

    url = f"{composition.path}?{composition.example}"
    answer = client.post(url, content=b'{"zzz": 1}', headers=headers)

    # An endpoint that needs no array reads the name as that of a parameter.
    assert answer.status_code == 422
    assert answer.json()["type"].endswith(("invalid-body", "invalid-parameters"))


ENDS = [0.0, -0.0, 5e-324, -1e-310, 1e308, -1e308, np.nan, np.inf, -np.inf, 2.0**62, -1.0]
INTEGER_ENDS = [0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**62 + 1, -(2**63), 2**63 - 1]


@EVERY_TAKEN
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_extreme_numbers_are_answered_or_refused(
    client: Client, composition: Endpoint, name: str, dtype: str
) -> None:
    arrays = example(composition)
    if known_by(composition, name).is_integer:
        some = [np.full(arrays[name].shape, value) for value in INTEGER_ENDS]
    else:
        with np.errstate(over="ignore"):
            some = [np.full(arrays[name].shape, value).astype(dtype) for value in ENDS]
    for array in some:
        for extension in (".npy", ".json", ".safetensors"):
            answer = sent(client, composition, {**arrays, name: array}, extension)

            assert answer.status_code in {200, 422}, (array, answer.text)
            if answer.status_code == 422:
                assert {"detail", "errors"} <= set(answer.json())


@EVERY_TAKEN
def test_any_shape_is_answered_or_refused(client: Client, composition: Endpoint, name: str) -> None:
    arrays = example(composition)
    shape = arrays[name].shape
    for axis in range(len(shape)):
        for length in (1, 2, 3, 4, 5, 7, 64, 4097):
            other = (*shape[:axis], length, *shape[axis + 1 :])
            array = np.resize(arrays[name], other)

            answer = sent(client, composition, {**arrays, name: array}, ".safetensors")

            assert answer.status_code in {200, 422}, (other, answer.text)
            if answer.status_code == 422:
                assert answer.json()["type"] in {
                    "urn:posref:problem:invalid-body",
                    "urn:posref:problem:invalid-parameters",
                }
