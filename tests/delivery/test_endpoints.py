"""Inputs of endpoints: arrays by name and role, refusals, and reports about arrays."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import orjson
import pytest
import safetensors.numpy
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from service.app import create_app
from service.delivery.endpoints import Endpoint, EveryArray, NamedArrays, Report, ReportedArrays
from service.delivery.handler import add_endpoint
from service.delivery.parameters import NoParameters
from service.encodings.family import Choice, InputArray, Parameters
from service.encodings.transforms import TransformFamily, Vectors
from service.errors import InvalidBody, InvalidParameters
from service.formats.format import Input
from service.formats.json_text import JSON
from service.lazily import MadeOnDemand
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from service.numerics.tables import StoredTable
from service.settings import Settings, default_settings
from tests.client import Client, client_of, npy_bytes


class Identity(TransformFamily):
    path: ClassVar[str] = "/identity"

    def apply(self, x: Vectors) -> tuple[StoredTable, Mapping[str, Any]]:
        return x, {"start": 0, "seq_len": x.rows}


def test_transform_reports_the_common_parameters_of_its_arrays() -> None:
    shapes = {"q": (1, 2), "k": (3, 2)}
    arrays = {name: StoredTable(np.zeros(shape), FLOAT64) for name, shape in shapes.items()}

    document = Identity().resolve(arrays)

    assert document.parameters == {"start": 0, "axes": "seq,channel"}
    assert {name: table.shape for name, table in document.arrays.items()} == shapes


def test_unnamed_array_of_a_transform_is_x() -> None:
    array = StoredTable(np.ones((2, 2)), FLOAT64)

    content = Input({"the array": array}, is_named=False)

    assert EveryArray().arguments(NoParameters(), content) == ({"x": array},)


def test_body_without_arrays_is_refused() -> None:
    EveryArray().check(Input({"q": StoredTable(np.ones((2, 2)), FLOAT64)}))
    with pytest.raises(InvalidBody, match=r'send \{"x": \[…\]\}') as caught:
        EveryArray().check(Input({}))
    assert caught.value.faults[0].where == "/x"


BIAS = InputArray("bias", "the bias of each bucket, (buckets, heads)", (1, 2), [[0.5]])
BUCKETS = InputArray("buckets", "a bucket for each pair", (2,), [[0]], is_integer=True)
MASK = replace(BUCKETS, name="mask", description="1 where there is padding", is_required=False)


def stored(elements: object, dtype: DType = FLOAT64) -> StoredTable:
    return StoredTable(np.array(elements, dtype=dtype.storage), dtype)


ARRAYS = NamedArrays((BIAS, BUCKETS, MASK))
RIGHT = {"bias": stored([[0.5]]), "buckets": stored([[0]], INT64)}


def resolved(
    inputs: NamedArrays = ARRAYS,
    parameters: Parameters | None = None,
    is_named: bool = True,
    /,
    **arrays: StoredTable,
) -> Mapping[str, StoredTable]:
    content = Input(arrays, is_named=is_named)
    inputs.check(content)
    checked: Mapping[str, StoredTable]
    (checked,) = inputs.arguments(parameters or NoParameters(), content)
    return checked


def refused(
    inputs: NamedArrays = ARRAYS, is_named: bool = True, /, **arrays: StoredTable
) -> InvalidBody:
    with pytest.raises(InvalidBody) as caught:
        resolved(inputs, None, is_named, **arrays)
    return caught.value


ONE = stored([[0.5]])


def test_unnamed_array_is_the_required_one() -> None:
    weighed = replace(ARRAYS, inputs=(MASK, BIAS))
    single = replace(ARRAYS, inputs=(replace(BIAS, is_required=False),))

    for inputs in (weighed, single):
        assert resolved(inputs, None, False, array=ONE) == {"bias": ONE}


def test_ambiguous_unnamed_array_is_refused() -> None:
    optional = replace(ARRAYS, inputs=(replace(BIAS, is_required=False), MASK))

    assert refused(ARRAYS, False, array=ONE).detail == (
        "array may be bias or buckets or mask: send it under its name, in safetensors or JSON"
    )
    assert refused(optional, True, x=ONE).detail.startswith("x may be bias or mask: ")


def test_a_single_array_may_be_x() -> None:
    single = replace(ARRAYS, inputs=(BIAS,))
    weighed = replace(ARRAYS, inputs=(MASK, BIAS))
    own = replace(ARRAYS, inputs=(replace(BIAS, name="x"), BUCKETS))

    for inputs in (single, weighed):
        assert "x" in inputs.names
        assert resolved(inputs, x=ONE) == {"bias": ONE}
    assert resolved(CHOSEN, KindParameters(kind="numbers"), x=ONE) == {"bias": ONE}
    assert refused(own, x=ONE).detail.startswith("buckets is missing")
    assert refused(weighed, x=ONE, mask=stored([[1]], INT64)).faults[0].value == "x"


class KindParameters(NoParameters):
    """Parameters that say what an array is."""

    kind: str | None = None


CHOSEN = replace(
    ARRAYS,
    inputs=(replace(BIAS, is_required=False), MASK),
    choice=Choice("kind", {"numbers": "bias", "truth": "mask"}),
)


def test_parameter_chooses_the_unnamed_array() -> None:
    mask = stored([[1]], INT64)
    numbers, truth = KindParameters(kind="numbers"), KindParameters(kind="truth")

    assert resolved(CHOSEN, numbers, False, array=ONE) == {"bias": ONE}
    assert resolved(CHOSEN, truth, False, array=mask) == {"mask": mask}
    assert resolved(CHOSEN, truth, mask=mask) == {"mask": mask}
    assert resolved(CHOSEN, KindParameters(), mask=mask) == {"mask": mask}
    with pytest.raises(InvalidParameters, match=r"needs kind=numbers \(bias\) or kind=truth"):
        resolved(CHOSEN, KindParameters(), False, array=ONE)
    with pytest.raises(InvalidParameters, match="kind=numbers goes with bias, and that is not"):
        resolved(CHOSEN, numbers, mask=mask)


def test_single_possible_array_may_have_any_name() -> None:
    single = replace(ARRAYS, inputs=(BIAS,))

    assert resolved(single, **{"decoder.block.0.weight": ONE}) == {"bias": ONE}
    assert [fault.detail for fault in refused(single, one=ONE, two=ONE).faults] == [
        "one is no array here; rename it to bias",
        "two is no array here; rename it to bias",
        "bias is missing: the bias of each bucket, (buckets, heads)",
    ]


def test_array_may_have_its_name_in_another_library() -> None:
    aliased = replace(MASK, aliases=("padding", "bias_mask"))
    inputs = NamedArrays((replace(BIAS, is_required=False), aliased))

    assert inputs.names == ("bias", "mask", "padding", "bias_mask", "x")
    for alias in aliased.aliases:
        _, content = inputs.read(JSON, orjson.dumps({"bias": [[1.5]], alias: [[1]]}))
        assert list(content.arrays) == ["bias", "mask"]
    with pytest.raises(InvalidBody, match="padding is another name of mask: send one of them"):
        inputs.read(JSON, orjson.dumps({"mask": [[1]], "padding": [[1]]}))


def test_ambiguous_name_is_not_guessed() -> None:
    inputs = replace(ARRAYS, inputs=(replace(BIAS, is_required=False), MASK))
    described = (
        "an array is missing: send bias: the bias of each bucket, (buckets, heads); "
        "or mask: 1 where there is padding"
    )

    assert refused(inputs).detail == described
    assert refused(inputs, bass_mask=ONE).detail == (
        f"bass_mask is no array here; rename it to bias or mask; {described}"
    )


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16])
def test_real_arrays_keep_their_type(dtype: DType) -> None:
    sent = stored([1.5, -0.0], dtype)

    assert BIAS.checked(sent) is sent


def test_integers_of_any_type_become_int64() -> None:
    sent = [stored([[3, -2]], dtype) for dtype in (INT64, FLOAT64, FLOAT32, FLOAT16)]
    sent.append(StoredTable(np.array([[0x4040, 0xC000]], dtype="<u2"), BFLOAT16))

    for table in sent:
        integers = BUCKETS.checked(table)
        assert integers.dtype is INT64
        assert integers.elements.dtype == np.dtype("<i8")
        assert integers.elements.tolist() == [[3, -2]]


@pytest.mark.parametrize("value", [0.5, np.nan, -np.inf, 2.0**53])
def test_inexact_integers_are_refused(value: float) -> None:
    error = refused(bias=RIGHT["bias"], buckets=stored([[0.0, value]]))

    assert error.detail.startswith("buckets must hold integers")
    assert error.faults[0].where == "/buckets"


def test_signalling_nan_is_refused_without_a_warning() -> None:
    for bits, storage, dtype in (
        (0x7FF0000000000001, "<f8", FLOAT64),
        (0x7F800001, "<f4", FLOAT32),
    ):
        elements = np.array([[bits]], dtype=storage.replace("f", "u")).view(storage)
        with pytest.raises(InvalidBody, match="must hold integers"):
            BUCKETS.checked(StoredTable(elements, dtype))


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_float_is_read_as_its_exact_integer_or_refused(value: float) -> None:
    try:
        integers = BUCKETS.checked(stored([[value]])).elements.item()
    except InvalidBody:
        assert not abs(value) < 2**53 or value != int(value)
    else:
        assert integers == value


def test_unknown_and_missing_arrays_are_reported_together() -> None:
    error = refused(buckts=RIGHT["buckets"], zzz=RIGHT["bias"])

    assert [(fault.where, fault.value, fault.detail) for fault in error.faults] == [
        ("/buckts", "buckts", "buckts is no array here; did you mean buckets?"),
        ("/zzz", "zzz", "zzz is no array here; rename it to bias or buckets or mask"),
        ("", None, "bias is missing: the bias of each bucket, (buckets, heads)"),
        ("", None, "buckets is missing: a bucket for each pair"),
    ]
    assert all(fault.in_body for fault in error.faults)


def test_many_unknown_arrays_are_shortened_in_the_problem() -> None:
    error = refused(**{f"{index}" * 500: RIGHT["bias"] for index in range(100)})

    assert len(error.faults) == 10
    assert "and 92 more" in error.detail
    assert len(error.detail) < 3000


class TimesParameters(Parameters):
    times: int = Field(default=1, description="What sums are multiplied by.")


class SumsReport(Report):
    """The sums of the arrays."""

    sums: dict[str, float]
    named: bool
    types: list[str]


def _examine(parameters: TimesParameters, content: Input, _: Settings) -> SumsReport:
    sums = {
        name: parameters.times * float(np.abs(array.elements).sum())
        for name, array in content.arrays.items()
    }
    return SumsReport(sums=sums, named=content.is_named, types=sorted(content.integer_types))


SUMS = Endpoint(
    path="/sums",
    operation="Sums",
    summary="Sums of arrays",
    parameters=TimesParameters,
    inputs=ReportedArrays(("x", "y"), {"x": [1.0]}, copies=1, base_seconds=0.0, root_seconds=0.0),
    answer=_examine,
    example="times=2",
    report=SumsReport,
)


@pytest.fixture(scope="module")
def sums() -> Iterator[Client]:
    app: FastAPI = create_app(default_settings())
    own = MadeOnDemand([SUMS.path], lambda _: SUMS)
    methods = {"has_get": False, "has_post": True}
    add_endpoint(app, SUMS.path, own, app.state.delivery, **methods, is_report=True)
    with client_of(app) as client:
        yield client


def test_reports_read_arrays_of_every_format(sums: Client) -> None:
    array = np.array([1.5, -2.0], "<f4")
    binary = {"application/x-npy": npy_bytes(array)}
    binary["application/vnd.safetensors"] = safetensors.numpy.save({"x": array})
    binary["application/octet-stream"] = array.tobytes()
    for media_type, body in binary.items():
        described = "&shape=2&dtype=float32" * (media_type == "application/octet-stream")
        url, headers = f"/sums?times=2{described}", {"Content-Type": media_type}
        answer = sums.post(url, content=body, headers=headers)
        assert list(answer.json()["sums"].values()) == [7.0]
        assert answer.json()["named"] == (media_type == "application/vnd.safetensors")
    answer = sums.post("/sums", json={"x": [1.5, -2], "y": [[1]], "times": 2})

    assert answer.json()["sums"] == {"x": 7.0, "y": 2.0}


def test_reports_read_complex_numbers(sums: Client) -> None:
    for dtype in ("<c8", "<c16"):
        body = npy_bytes(np.array([3 + 4j], dtype))
        answer = sums.post("/sums", content=body, headers={"Content-Type": "application/x-npy"})
        assert list(answer.json()["sums"].values()) == [5.0]


def test_reports_are_not_cached(sums: Client) -> None:
    answer = sums.post("/sums", json={"x": [1.0]})

    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "content", "name", "rule"),
    [
        ("", {"times": 2}, "invalid-body", "an array is missing: send x or y"),
        ("?times=2", {"x": [1.0], "times": 2}, "invalid-parameters", "given twice"),
        ("?time=2", {"x": [1.0]}, "invalid-parameters", "did you mean times?"),
        ("", {"x": [1.0], "z": 2}, "invalid-parameters", "z is not a parameter here"),
        ("", {"x": [[1.0], 2]}, "invalid-body", "of one length"),
    ],
)
def test_faults_of_a_report_are_named(
    sums: Client, query: str, content: Any, name: str, rule: str
) -> None:
    answer = sums.post(f"/sums{query}", json=content)

    assert answer.status_code == 422
    assert answer.json()["type"].endswith(name)
    assert rule in answer.json()["detail"]


def test_no_body_stays_counted_after_a_report(sums: Client) -> None:
    sums.post("/sums", json={"x": [1.0] * 1000})

    assert sums.app.state.delivery.budget.granted()["bodies"] == 0
