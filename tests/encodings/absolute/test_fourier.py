"""Fourier features: exact products of any size, and boxes in the library's order of channels."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import mpmath
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.fourier import (
    MAX_NUMBER,
    BoxFourierFeatures,
    GaussianTable,
    RandomFourierFeatures,
)
from service.formats.format import BinaryBody
from service.numerics.dtypes import FLOAT64, DType
from service.numerics.phase import FREQUENCY_SECONDS
from service.numerics.positions import MIN_REAL_POSITION
from service.numerics.tables import Document, StoredTable, size
from tests.client import Client
from tests.exact import UNIT

SIZES = st.one_of(
    st.floats(MIN_REAL_POSITION, 1.0), st.floats(1.0, 1e6), st.floats(1.0, MAX_NUMBER), st.just(0.0)
)
NUMBERS = st.tuples(SIZES, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])


def table(
    x: list[float], weight: list[float], *, log: bool, flip: bool = False, dtype: DType = FLOAT64
) -> GaussianTable:
    family = RandomFourierFeatures.model_validate(
        {"log": log, "flip_sin_to_cos": flip, "dtype": dtype.name}
    )
    arrays = {"weight": np.array(weight), "x": np.array(x)}
    sent = {name: StoredTable(array, FLOAT64) for name, array in arrays.items()}
    features = family.document(sent).arrays["fourier"]
    assert isinstance(features, GaussianTable)
    return features


def whole(features: GaussianTable) -> NDArray[Any]:
    return np.asarray(features.read(0, size(features))).reshape(features.shape)


def check(found: float, other: float, angle: Any) -> None:
    sine, cosine = mpmath.sin(angle), mpmath.cos(angle)
    assert abs(found - sine) <= 0.9 * UNIT
    assert abs(other - cosine) <= 0.9 * UNIT
    assert abs(angle) >= mpmath.pi / 4 or abs(found - sine) <= 3.5 * UNIT * abs(sine)


@given(st.lists(NUMBERS, min_size=1, max_size=4), st.lists(NUMBERS, min_size=1, max_size=4))
@example([MAX_NUMBER, -MIN_REAL_POSITION], [MAX_NUMBER, MIN_REAL_POSITION, -1.0 / 3])
def test_products_are_exact(x: list[float], weight: list[float]) -> None:
    found = whole(table(x, weight, log=False))

    for row, number in enumerate(x):
        for k, factor in enumerate(weight):
            angle = 2 * mpmath.pi * mpmath.mpf(number) * mpmath.mpf(factor)
            check(found[row, k], found[row, k + len(weight)], angle)


@given(
    st.lists(st.floats(5e-324, 1.7e308), min_size=1, max_size=4),
    st.lists(NUMBERS, min_size=1, max_size=4),
)
@example([1.0, 1.0000000000000002, 0.9999999999999999], [1.0, -1e15])
@example([0.002, 80.0], [0.3])
def test_products_of_logarithms_are_exact(x: list[float], weight: list[float]) -> None:
    found = whole(table(x, weight, log=True))

    for row, number in enumerate(x):
        for k, factor in enumerate(weight):
            angle = 2 * mpmath.pi * mpmath.log(mpmath.mpf(number)) * mpmath.mpf(factor)
            check(found[row, k], found[row, k + len(weight)], angle)


def test_precision_is_the_same_in_a_new_thread() -> None:
    """The context of the ``decimal`` module belongs to the thread, and has 28 digits."""

    def evaluated() -> bytes:
        return whole(table([-0.3, 17.1], [1e15 + 0.1, -2.5], log=False)).tobytes()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(evaluated).result() == evaluated()


def test_flip_sin_to_cos_puts_the_cosines_first() -> None:
    plain, flipped = (
        whole(table([0.1, 2.0], [0.3, -0.7], log=True, flip=flip)) for flip in (False, True)
    )

    assert (flipped[:, :2] == plain[:, 2:]).all()
    assert (flipped[:, 2:] == plain[:, :2]).all()


def test_a_zero_angle_has_a_positive_zero_sine() -> None:
    found = whole(table([0.0, -0.0, 1.0], [-1.0, 0.0], log=False))

    assert found[:2].tolist() == [[0.0, 0.0, 1.0, 1.0]] * 2
    assert not np.signbit(found).any()


def test_many_logarithms_are_computed_in_steps() -> None:
    numbers = np.linspace(1.0, 2.0, 1000).tolist()
    prepared, other = table(numbers, [1.0], log=True), table(numbers, [1.0], log=True)

    assert len(list(prepared.setup.steps())) > 3
    assert list(prepared.setup.steps()) == []
    assert prepared.read(0, 2000).tobytes() == other.read(0, 2000).tobytes()


def test_nothing_is_evaluated_before_the_first_read() -> None:
    features = table([1.0, 2.0, 2.0], [1.0, 0.5], log=True)

    assert features.setup.seconds > 4 * FREQUENCY_SECONDS
    assert table([1.0, 2.0, 2.0], [1.0, 0.5], log=False).setup.seconds == 4 * FREQUENCY_SECONDS


COORDINATES = st.one_of(st.floats(1e-9, 1.0), st.integers(-9, 9).map(float))


def embedded(
    sent: NDArray[np.float64], embed_dim: int, temperature: float = 100.0, dtype: DType = FLOAT64
) -> Document:
    family = BoxFourierFeatures.model_validate(
        {"embed_dim": embed_dim, "temperature": temperature, "dtype": dtype.name}
    )
    return family.document({"boxes": StoredTable(sent, FLOAT64)})


def boxes_whole(document: Document) -> NDArray[Any]:
    table = document.arrays["boxes"]
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


@given(
    st.lists(COORDINATES, min_size=4, max_size=4), st.integers(1, 9), st.sampled_from([100.0, 2.5])
)
def test_each_frequency_has_the_sines_of_a_box_and_then_the_cosines(
    box: list[float], embed_dim: int, temperature: float
) -> None:
    found = boxes_whole(embedded(np.array(box), embed_dim, temperature)).reshape(embed_dim, 2, 4)

    for k in range(embed_dim):
        rate = mpmath.mpf(temperature) ** (mpmath.mpf(k) / embed_dim)
        for place, coordinate in enumerate(box):
            angle = rate * mpmath.mpf(coordinate)
            assert abs(found[k, 0, place] - mpmath.sin(angle)) <= 5 * UNIT
            assert abs(found[k, 1, place] - mpmath.cos(angle)) <= 5 * UNIT


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((4,), ("channel",)), ((3, 4), ("box", "channel")), ((2, 3, 4), ("batch", "box", "channel"))],
)
def test_leading_axes_of_boxes_are_kept(shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    sent = np.random.default_rng(0).random(shape)

    document = embedded(sent, 5)

    assert document.axes == axes
    assert boxes_whole(document).shape == (*shape[:-1], 40)
    assert boxes_whole(document).reshape(-1, 40)[-1].tobytes() == (
        boxes_whole(embedded(sent.reshape(-1, 4)[-1], 5)).tobytes()
    )


FOURIER, BOXES = "/encoding/fourier", "/encoding/boxes"


def test_multiples_of_a_right_angle_are_exact(client: Client) -> None:
    sent = {"x": [0.5, -1.0, 0.0], "weight": [0.5, 2.0], "log": False}

    found = client.post(f"{FOURIER}?dtype=float64", json=sent).json()

    assert found["data"] == [[1, 0, 0, 1], [0, 0, -1, 1], [0, 0, 1, 1]]
    assert found["parameters"] == {"log": False, "flip_sin_to_cos": False}
    assert found["axes"] == ["row", "channel"]


@pytest.mark.parametrize(
    ("path", "sent", "pointer"),
    [
        (BOXES, {"boxes": [[1.0, 2.0, 3.0]], "embed_dim": 2}, "/boxes"),
        (BOXES, {"boxes": [[1.0, 2.0, 3.0, 1e30]], "embed_dim": 2}, "/boxes"),
        (FOURIER, {"x": [1.0, 0.0], "weight": [1.0]}, "/x"),
        (FOURIER, {"x": [-1.0], "weight": [1.0]}, "/x"),
        (FOURIER, {"x": [1e18], "weight": [1.0], "log": False}, "/x"),
        (FOURIER, {"x": [1e-31], "weight": [1.0], "log": False}, "/x"),
        (FOURIER, {"x": [1.0], "weight": [1e19]}, "/weight"),
        (FOURIER, {"x": [1.0], "weight": [-1e-40]}, "/weight"),
        (FOURIER, {"x": [[1.0]], "weight": [1.0]}, "/x"),
        (FOURIER, {"x": [1.0], "weight": [0.0] * 32769}, "/weight"),
        (FOURIER, {"x": [1.0 + index for index in range(4097)], "weight": [1.0]}, "/x"),
        (FOURIER, {"x": [1.0]}, ""),
    ],
)
def test_numbers_without_exact_products_are_refused(
    client: Client, path: str, sent: dict[str, Any], pointer: str
) -> None:
    answer = client.post(path, json=sent)

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("name", ["x", "weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("log", ["true", "false"])
def test_nan_and_infinity_are_refused(client: Client, name: str, value: float, log: str) -> None:
    arrays = {"x": np.ones(3), "weight": np.ones(3)}
    arrays[name][1] = value
    headers = {"Content-Type": "application/vnd.safetensors"}

    answer = client.post(
        f"{FOURIER}?log={log}", content=safetensors.numpy.save(arrays), headers=headers
    )

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [name]


MANY = 2**21


@pytest.mark.parametrize(
    ("query", "name", "wrong", "shape"),
    [
        (f"{FOURIER}?log=true", "x", -1.0, (MANY,)),
        (f"{FOURIER}?log=false", "x", 1e18, (MANY,)),
        (f"{BOXES}?embed_dim=1", "boxes", 1e-31, (MANY // 4, 4)),
    ],
)
@pytest.mark.parametrize("extension", ["", ".json", ".csv"])
def test_many_numbers_are_refused_like_few(
    client: Client, query: str, name: str, wrong: float, shape: tuple[int, ...], extension: str
) -> None:
    """They are checked in several turns, but before the first byte of the answer."""
    problems = []
    for leading in (1, shape[0]):
        sent = np.ones((leading, *shape[1:]), dtype=np.float32)
        sent.flat[-1] = wrong
        arrays = {name: sent} | ({"weight": np.ones(1)} if name == "x" else {})
        answer = client.post(
            query.replace("?", f"{extension}?"),
            content=safetensors.numpy.save(arrays),
            headers={"Content-Type": "application/vnd.safetensors"},
        )
        problems.append((answer.status_code, answer.json()["errors"], answer.json()["detail"]))

    assert problems[0][0] == 422
    assert problems[0] == problems[1]


def test_many_numbers_are_checked_in_steps() -> None:
    numbers = StoredTable(np.ones(2**21), FLOAT64)
    sent = {"x": numbers, "weight": StoredTable(np.ones(1), FLOAT64)}
    boxes = StoredTable(np.ones((2**21, 4)), FLOAT64)

    features = RandomFourierFeatures().document(sent)
    for document in (features, BoxFourierFeatures(embed_dim=1).document({"boxes": boxes})):
        blocks = BinaryBody(tuple(document.arrays.values())).blocks()
        assert not any(islice(blocks, 10))
        assert any(blocks)


def test_many_rows_of_few_numbers_are_answered(client: Client) -> None:
    sent = {"x": [1.0, 2.0] * 5000, "weight": [0.1]}

    assert client.post(FOURIER, json=sent).json()["shape"] == [10000, 2]


def test_the_first_frequency_of_a_box_is_its_coordinates(client: Client) -> None:
    sent = {"boxes": [[[0.0, 0.25, 0.5, 1.0]]], "embed_dim": 2}

    found = client.post(f"{BOXES}?dtype=float64", json=sent).json()

    assert found["axes"] == ["batch", "box", "channel"]
    (row,) = found["data"][0]
    assert len(row) == 16
    assert np.abs(np.array(row[:4]) - np.sin([0.0, 0.25, 0.5, 1.0])).max() < 1e-15
    assert np.abs(np.array(row[4:8]) - np.cos([0.0, 0.25, 0.5, 1.0])).max() < 1e-15
    assert np.abs(np.array(row[8:12]) - np.sin([0.0, 2.5, 5.0, 10.0])).max() < 1e-15
    assert found["parameters"] == {"embed_dim": 2, "temperature": 100.0}
