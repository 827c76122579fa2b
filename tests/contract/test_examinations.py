"""The contract of every examination of request arrays."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from httpx import Response
from hypothesis import given, settings
from hypothesis import strategies as some
from jsonschema import Draft202012Validator
from numpy.typing import NDArray

from service.delivery.endpoints import Endpoint, ReportedArrays
from service.routes import REPORTS
from tests.client import Client, npy_bytes

pytestmark = pytest.mark.full

EVERY = pytest.mark.parametrize(
    "examination", [*REPORTS.values()][3:], ids=lambda known: known.path
)
FUZZED = settings(max_examples=40, derandomize=True, deadline=None, database=None)

TABLES = (
    "/encoding?seq_len=4&d_model=8",
    "/rope?head_dim=4&seq_len=3&pack=complex",
    "/rope/frequencies?head_dim=8",
    "/relative/t5?query_len=3&key_len=4",
    "/rope/axial?head_dim=8&height=2&width=2",
    "/rope?head_dim=8&seq_len=4",
    "/rope/apply",
)
PARTS = ("/encoding", ".npy", ".sha256", "?", "&", "=", "%", "#", "//", "..", "\0", "\n", " ", "é")
# safetensors holds the first seven.
TYPES = ("<f8", "<f4", "<f2", "<i8", "<u8", "|b1", "<c8", "<c16", ">f4", "<U1")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, 65504.0, 1e30, 1.7e308, np.inf, -np.inf, np.nan)


def names_of(examination: Endpoint) -> tuple[str, ...]:
    assert isinstance(examination.inputs, ReportedArrays)
    return examination.inputs.names


def urls() -> some.SearchStrategy[str]:
    made = some.lists(some.sampled_from((*PARTS, *TABLES)), max_size=5).map("".join)
    return some.sampled_from(TABLES) | made | some.text(max_size=30)


@some.composite
def arrays(draw: some.DrawFn) -> NDArray[Any]:
    shape = draw(
        some.sampled_from([(4, 8), (3, 4), (8, 4), (1,), (4,), (1, 4, 8), (2,) * 5, (0, 3), ()])
    )
    values = draw(some.lists(some.sampled_from(SPECIAL), min_size=1, max_size=8))
    with np.errstate(all="ignore"):
        return np.resize(np.array(values), shape).astype(draw(some.sampled_from(TYPES)))


def tensors(array: NDArray[Any], *names: str) -> bytes:
    is_writable = array.dtype.str in TYPES[:7]
    stored = np.ascontiguousarray(array) if is_writable else np.zeros(0)
    return safetensors.numpy.save(dict.fromkeys(names, stored))


def values() -> some.SearchStrategy[Any]:
    """Generate JSON values: lists of numbers, and invalid ones."""
    leaves = (
        some.none()
        | some.booleans()
        | some.integers(-(2**70), 2**70)
        | some.floats(allow_nan=False, allow_infinity=False)
        | some.sampled_from(["1", "0,1", "0:99999999999", "nan", "-1", "float16", ""])
    )
    rows = some.lists(some.floats(-2, 2), min_size=2, max_size=4)
    return leaves | rows | some.lists(leaves, max_size=3) | some.lists(rows, max_size=3)


def validators(client: Client, examination: Endpoint) -> Mapping[int, Draft202012Validator]:
    document = client.get("/openapi.json").json()
    found = {}
    for status, answer in document["paths"][examination.path]["post"]["responses"].items():
        described = answer
        for part in answer.get("$ref", "#")[2:].split("/") if "$ref" in answer else ():
            described = (document if described is answer else described)[part]
        media, *_ = described["content"].values()
        schema = {**media["schema"], "components": document["components"]}
        found[int(status)] = Draft202012Validator(schema)
    return found


def hold(answer: Response, known: Mapping[int, Draft202012Validator]) -> None:
    """Check an answer against its schema and for NaN."""
    assert answer.status_code < 500, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    content = json.loads(answer.text, parse_constant=pytest.fail)
    known[answer.status_code].validate(content)
    if answer.status_code != 200:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert content["detail"]


@EVERY
def test_any_array_is_answered_by_the_schema(client: Client, examination: Endpoint) -> None:
    known = validators(client, examination)
    has_to = "to" in examination.parameters.model_fields
    names = some.lists(
        some.sampled_from(names_of(examination)), min_size=1, max_size=2, unique=True
    )

    @FUZZED
    @given(array=arrays(), to=some.sampled_from(TABLES), names=names)
    def examined(array: NDArray[Any], to: str, names: list[str]) -> None:
        query = {"to": to} if has_to else {}
        for media_type, body in (
            ("application/x-npy", npy_bytes(array)),
            ("application/vnd.safetensors", tensors(array, *names)),
        ):
            headers = {"Content-Type": media_type}
            answer = client.post(examination.path, params=query, content=body, headers=headers)
            hold(answer, known)

    examined()


@EVERY
def test_any_json_object_is_answered_by_the_schema(client: Client, examination: Endpoint) -> None:
    known = validators(client, examination)
    names = some.sampled_from([*names_of(examination), *examination.parameters.model_fields, "?"])

    @FUZZED
    @given(content=some.dictionaries(names, values(), max_size=4))
    def examined(content: dict[str, Any]) -> None:
        hold(client.post(examination.path, json=content), known)

    examined()


@EVERY
def test_any_table_url_is_answered_by_the_schema(client: Client, examination: Endpoint) -> None:
    if "to" not in examination.parameters.model_fields:
        return
    known = validators(client, examination)
    body, headers = npy_bytes(np.ones((4, 8), np.float32)), {"Content-Type": "application/x-npy"}

    @FUZZED
    @given(to=urls())
    def examined(to: str) -> None:
        answer = client.post(examination.path, params={"to": to}, content=body, headers=headers)
        hold(answer, known)
        content = {"to": to, names_of(examination)[0]: [[1.0, 0.0]]}
        hold(client.post(examination.path, json=content), known)

    examined()


@EVERY
def test_damaged_bodies_are_answered_by_the_schema(client: Client, examination: Endpoint) -> None:
    known = validators(client, examination)
    whole = (
        npy_bytes(np.ones((2, 4), np.float32)),
        tensors(np.ones((2, 4)), "x"),
        b'{"x": [[1, 2]]}',
    )
    media_types = "application/x-npy", "application/vnd.safetensors", "application/json"

    @FUZZED
    @given(
        form=some.integers(0, 2),
        cut=some.integers(0, 200),
        place=some.integers(0, 199),
        byte=some.integers(0, 255),
    )
    def examined(form: int, cut: int, place: int, byte: int) -> None:
        body = bytearray(whole[form])
        body[place % len(body)] = byte
        headers = {"Content-Type": media_types[form]}
        sent = bytes(body[: cut or None])
        hold(client.post(examination.path, content=sent, headers=headers), known)

    examined()
