"""Documents made of arrays that are sent: what each array may be, and what is said otherwise."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.delivery.composition import Choice, Composition, InputArray
from service.delivery.parameters import NoParameters, Parameters
from service.errors import InvalidBody, InvalidParameters
from service.formats.received import Input
from service.tables.document import Document
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from service.tables.table import StoredTable

BIAS = InputArray("bias", "the bias of each bucket, (buckets, heads)", (1, 2), [[0.5]])
BUCKETS = InputArray("buckets", "a bucket for each pair", (2,), [[0]], is_integer=True)
MASK = replace(BUCKETS, name="mask", description="1 where there is padding", is_required=False)


def stored(elements: object, dtype: DType = FLOAT64) -> StoredTable:
    return StoredTable(np.array(elements, dtype=dtype.storage), dtype)


def made(_: Parameters, arrays: Mapping[str, StoredTable]) -> Document:
    return Document("relative-t5-bias", {}, arrays)


COMPOSITION = Composition(
    path="/none",
    operation="None",
    summary="",
    parameters=NoParameters,
    inputs=(BIAS, BUCKETS, MASK),
    document=made,
    example="",
)
RIGHT = {"bias": stored([[0.5]]), "buckets": stored([[0]], INT64)}


def resolved(
    composition: Composition = COMPOSITION,
    parameters: Parameters | None = None,
    is_named: bool = True,
    /,
    **arrays: StoredTable,
) -> Document:
    content = Input(arrays, is_named=is_named)
    composition.check(content)
    return composition.resolve(parameters or NoParameters(), content)


def refused(
    composition: Composition = COMPOSITION,
    is_named: bool = True,
    /,
    **arrays: StoredTable,
) -> InvalidBody:
    with pytest.raises(InvalidBody) as caught:
        resolved(composition, None, is_named, **arrays)
    return caught.value


ONE = stored([[0.5]])


def test_an_array_without_a_name_is_the_one_that_is_required() -> None:
    weighed = replace(COMPOSITION, inputs=(MASK, BIAS))
    single = replace(COMPOSITION, inputs=(replace(BIAS, is_required=False),))

    for composition in (weighed, single):
        assert resolved(composition, None, False, array=ONE).arrays == {"bias": ONE}


def test_an_array_without_a_name_that_could_be_several_is_refused() -> None:
    optional = replace(COMPOSITION, inputs=(replace(BIAS, is_required=False), MASK))

    assert refused(COMPOSITION, False, array=ONE).detail == (
        "a body in npy is one array without a name, and there are bias, buckets, mask: "
        "send safetensors or JSON, which name them"
    )
    assert "there are bias, mask:" in refused(optional, False, array=ONE).detail


class KindParameters(NoParameters):
    """Parameters that say what an array is."""

    kind: str | None = None


CHOSEN = replace(
    COMPOSITION,
    parameters=KindParameters,
    inputs=(replace(BIAS, is_required=False), MASK),
    choice=Choice("kind", {"numbers": "bias", "truth": "mask"}),
)


def test_a_parameter_may_say_what_an_array_without_a_name_is() -> None:
    mask = stored([[1]], INT64)
    numbers, truth = KindParameters(kind="numbers"), KindParameters(kind="truth")

    assert resolved(CHOSEN, numbers, False, array=ONE).arrays == {"bias": ONE}
    assert resolved(CHOSEN, truth, False, array=mask).arrays == {"mask": mask}
    assert resolved(CHOSEN, truth, mask=mask).arrays == {"mask": mask}
    assert resolved(CHOSEN, KindParameters(), mask=mask).arrays == {"mask": mask}
    with pytest.raises(InvalidParameters, match=r"needs kind=numbers \(bias\) or kind=truth"):
        resolved(CHOSEN, KindParameters(), False, array=ONE)
    with pytest.raises(InvalidParameters, match="kind=numbers goes with bias, and that is not"):
        resolved(CHOSEN, numbers, mask=mask)


def test_where_there_is_one_array_its_name_is_of_no_matter() -> None:
    single = replace(COMPOSITION, inputs=(BIAS,))

    assert resolved(single, **{"decoder.block.0.weight": ONE}).arrays == {"bias": ONE}
    assert [fault.detail for fault in refused(single, one=ONE, two=ONE).faults] == [
        "one is no array here; rename it to bias",
        "two is no array here; rename it to bias",
        "bias is missing: the bias of each bucket, (buckets, heads)",
    ]


def test_names_that_others_have_are_understood_and_not_taken() -> None:
    inputs = (replace(BIAS, is_required=False), replace(MASK, aliases=("padding", "bias_mask")))
    composition = replace(COMPOSITION, inputs=inputs)

    assert composition.names == ("bias", "mask", "padding", "bias_mask")
    for alias in inputs[1].aliases:
        error = refused(composition, **{alias: stored([[1]], INT64)})
        assert error.detail == f"{alias} is no array here; did you mean mask?"


def test_what_could_be_either_is_never_guessed() -> None:
    composition = replace(COMPOSITION, inputs=(replace(BIAS, is_required=False), MASK))
    described = (
        "an array is missing: send bias: the bias of each bucket, (buckets, heads); "
        "or mask: 1 where there is padding"
    )

    assert refused(composition).detail == described
    assert refused(composition, bass_mask=ONE).detail == (
        f"bass_mask is no array here; rename it to bias or mask; {described}"
    )


def test_arrays_reach_the_document_by_name_and_what_is_optional_may_be_left_out() -> None:
    mask = stored([[1]], INT64)

    assert list(resolved(**RIGHT).arrays) == ["bias", "buckets"]
    assert resolved(mask=mask, **RIGHT).arrays == {**RIGHT, "mask": mask}


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16])
def test_real_numbers_arrive_in_the_type_they_were_sent_in(dtype: DType) -> None:
    sent = stored([1.5, -0.0], dtype)

    assert BIAS.taken(sent) is sent


def test_integers_arrive_as_int64_whatever_they_were_sent_in() -> None:
    sent = [stored([[3, -2]], dtype) for dtype in (INT64, FLOAT64, FLOAT32, FLOAT16)]
    sent.append(StoredTable(np.array([[0x4040, 0xC000]], dtype="<u2"), BFLOAT16))

    for table in sent:
        taken = BUCKETS.taken(table)
        assert taken.dtype is INT64
        assert taken.elements.dtype == np.dtype("<i8")
        assert taken.elements.tolist() == [[3, -2]]


@pytest.mark.parametrize(
    "value",
    [0.5, -1e-300, 1 - 2.0**-53, np.nan, np.inf, -np.inf, 2.0**53, -(2.0**53), 2.0**63, 1e308],
)
def test_what_is_no_integer_for_certain_is_none(value: float) -> None:
    error = refused(bias=RIGHT["bias"], buckets=stored([[0.0, value]]))

    assert error.detail.startswith("buckets must hold integers")
    assert error.faults[0].where == "/buckets"


def test_a_signalling_nan_is_no_integer_and_no_warning() -> None:
    for bits, storage, dtype in (
        (0x7FF0000000000001, "<f8", FLOAT64),
        (0x7F800001, "<f4", FLOAT32),
    ):
        elements = np.array([[bits]], dtype=storage.replace("f", "u")).view(storage)
        with pytest.raises(InvalidBody, match="must hold integers"):
            BUCKETS.taken(StoredTable(elements, dtype))


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_every_integer_below_2_to_53_is_read_of_a_float(value: int) -> None:
    assert BUCKETS.taken(stored([[float(value)]])).elements.tolist() == [[value]]


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_float_is_read_as_the_integer_it_is_or_not_at_all(value: float) -> None:
    try:
        taken = BUCKETS.taken(stored([[value]])).elements.item()
    except InvalidBody:
        assert not abs(value) < 2**53 or value != int(value)
    else:
        assert taken == value


def test_integers_where_real_numbers_are_wanted_are_refused() -> None:
    error = refused(bias=stored([[1]], INT64), buckets=RIGHT["buckets"])

    assert error.detail == (
        "bias holds integers or booleans, and must hold floating-point numbers: it is the bias of "
        "each bucket, (buckets, heads)"
    )
    assert error.faults[0].where == "/bias"


@pytest.mark.parametrize(
    ("arrays", "detail"),
    [
        ({"bias": stored([[[0.5]]])}, "bias has 3 axes, and must have 1 or 2: "),
        ({"buckets": stored([0], INT64)}, "buckets has 1 axes, and must have 2: "),
        ({"mask": stored([1], INT64)}, "mask has 1 axes, and must have 2: "),
    ],
)
def test_a_rank_that_is_not_possible_is_refused_where_it_is(
    arrays: dict[str, StoredTable], detail: str
) -> None:
    error = refused(**{**RIGHT, **arrays})

    assert error.detail.startswith(detail)
    (name,) = arrays
    assert error.faults[0].where == f"/{name}"


def test_what_is_unknown_and_what_is_missing_is_said_at_once() -> None:
    error = refused(buckts=RIGHT["buckets"], zzz=RIGHT["bias"])

    assert [(fault.where, fault.value, fault.detail) for fault in error.faults] == [
        ("", "buckts", "buckts is no array here; did you mean buckets?"),
        ("", "zzz", "zzz is no array here; rename it to bias or buckets or mask"),
        ("", None, "bias is missing: the bias of each bucket, (buckets, heads)"),
        ("", None, "buckets is missing: a bucket for each pair"),
    ]
    assert all(fault.in_body for fault in error.faults)


def test_many_unknown_arrays_and_long_names_make_no_long_error() -> None:
    error = refused(**{f"{index}" * 500: RIGHT["bias"] for index in range(100)})

    assert len(error.faults) == 10
    assert "and 92 more" in error.detail
    assert len(error.detail) < 3000


def test_the_document_is_only_made_of_what_was_taken() -> None:
    seen: list[Mapping[str, Any]] = []

    def kept(_: Parameters, arrays: Mapping[str, StoredTable]) -> Document:
        seen.append(arrays)
        return made(_, arrays)

    composition = replace(COMPOSITION, document=kept)
    with pytest.raises(InvalidBody):
        resolved(composition, **{**RIGHT, "buckets": stored([[0.5]])})
    resolved(composition, **{**RIGHT, "buckets": stored([[2.0]])})

    (arrays,) = seen
    assert arrays["buckets"].elements.tolist() == [[2]]


class PartParameters(NoParameters):
    """Parameters of several arrays, of which one may be asked for."""

    part: str | None = None

    def chosen_part(self) -> str | None:
        return self.part


def test_one_of_several_arrays_that_are_made_may_be_asked_for_alone() -> None:
    parts = replace(
        COMPOSITION,
        document=lambda known, arrays: replace(made(known, arrays), has_parts=True),
    )

    assert list(resolved(parts, PartParameters(), **RIGHT).arrays) == ["bias", "buckets"]
    alone = resolved(parts, PartParameters(part="buckets"), **RIGHT)
    assert (list(alone.arrays), alone.parameters) == (["buckets"], {"part": "buckets"})
    with pytest.raises(InvalidParameters, match="part is one of bias, buckets"):
        resolved(parts, PartParameters(part="mask"), **RIGHT)
