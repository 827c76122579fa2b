"""Resources and transforms."""

import numpy as np
import pytest

from service.delivery.parameters import NoParameters
from service.delivery.resource import Transform
from service.errors import InvalidBody, InvalidParameters
from service.formats.received import Input
from service.routes.rope import ROPE
from service.tables.dtypes import COMPLEX64, FLOAT64, INT64
from service.tables.table import StoredTable


def test_a_part_becomes_a_parameter() -> None:
    parameters = ROPE.parameters.model_validate(
        {"head_dim": 4, "seq_len": 2, "pack": "half", "part": "sin"}
    )

    document = ROPE.resolve(parameters)

    assert list(document.arrays) == ["sin"]
    assert document.parameters["part"] == "sin"


def test_there_is_no_part_of_one_array() -> None:
    parameters = ROPE.parameters.model_validate({"head_dim": 4, "seq_len": 2, "part": "sin"})

    with pytest.raises(InvalidParameters, match="only one"):
        ROPE.resolve(parameters)


TRANSFORM = Transform(
    path="/none",
    operation="None",
    summary="",
    parameters=NoParameters,
    kind="rope-apply",
    apply=lambda _, x: (x, {"start": 0, "seq_len": x.shape[0]}),
    example="",
)


@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (StoredTable(np.ones((2, 2), "<i8"), INT64), "q: elements are integers"),
        (StoredTable(np.ones((2, 2), "<c8"), COMPLEX64), "q: elements are complex numbers"),
        (StoredTable(np.ones(2), FLOAT64), "q: it has 1 axis, and must have two at least"),
    ],
)
def test_only_real_numbers_in_vectors_are_transformed(array: StoredTable, rule: str) -> None:
    right = StoredTable(np.ones((2, 2)), FLOAT64)

    with pytest.raises(InvalidBody, match=rule):
        TRANSFORM.resolve(NoParameters(), Input({"k": right, "q": array}))


def test_an_answer_is_described_by_what_its_arrays_have_in_common() -> None:
    shapes = {"q": (1, 2), "k": (3, 2)}
    arrays = {name: StoredTable(np.zeros(shape), FLOAT64) for name, shape in shapes.items()}

    document = TRANSFORM.resolve(NoParameters(), Input(arrays))

    assert document.parameters == {"start": 0}
    assert {name: table.shape for name, table in document.arrays.items()} == shapes


def test_an_array_without_a_name_is_x() -> None:
    array = StoredTable(np.ones((2, 2)), FLOAT64)

    document = TRANSFORM.resolve(NoParameters(), Input({"the array": array}, is_named=False))

    assert document.arrays == {"x": array}


def test_a_body_without_an_array_is_refused() -> None:
    TRANSFORM.check(Input({"q": StoredTable(np.ones((2, 2)), FLOAT64)}))
    with pytest.raises(InvalidBody, match=r'send \{"x": \[…\]\}') as caught:
        TRANSFORM.check(Input({}))
    assert caught.value.faults[0].where == "/x"
