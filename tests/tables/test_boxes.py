"""Fourier features of boxes, in the library's order of channels."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import boxes
from service.tables.boxes import BoxFrequencies
from service.tables.document import Document
from service.tables.dtypes import FLOAT32, FLOAT64, DType
from service.tables.table import size
from tests.exact import UNIT

COORDINATES = st.one_of(st.floats(1e-9, 1.0), st.integers(-9, 9).map(float))


def embedded(
    sent: NDArray[np.float64], embed_dim: int, temperature: float = 100.0, dtype: DType = FLOAT64
) -> Document:
    return boxes.embedded(boxes=sent, embed_dim=embed_dim, temperature=temperature, dtype=dtype)


def whole(document: Document) -> NDArray[Any]:
    table = document.arrays["boxes"]
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


@given(
    st.lists(COORDINATES, min_size=4, max_size=4), st.integers(1, 9), st.sampled_from([100.0, 2.5])
)
def test_each_frequency_has_the_sines_of_a_box_and_then_the_cosines(
    box: list[float], embed_dim: int, temperature: float
) -> None:
    found = whole(embedded(np.array(box), embed_dim, temperature)).reshape(embed_dim, 2, 4)

    for k in range(embed_dim):
        rate = mpmath.mpf(temperature) ** (mpmath.mpf(k) / embed_dim)
        for place, coordinate in enumerate(box):
            angle = rate * mpmath.mpf(coordinate)
            assert abs(found[k, 0, place] - mpmath.sin(angle)) <= 5 * UNIT
            assert abs(found[k, 1, place] - mpmath.cos(angle)) <= 5 * UNIT


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4,), ("channel",)),
        ((3, 4), ("box", "channel")),
        ((2, 3, 4), ("batch", "box", "channel")),
    ],
)
def test_axes_before_the_coordinates_stay(shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    sent = np.random.default_rng(0).random(shape)

    document = embedded(sent, 5)

    assert document.axes == axes
    assert whole(document).shape == (*shape[:-1], 40)
    assert whole(document).reshape(-1, 40)[-1].tobytes() == (
        whole(embedded(sent.reshape(-1, 4)[-1], 5)).tobytes()
    )


@given(st.data())
def test_any_range_has_the_bytes_of_the_whole(data: st.DataObject) -> None:
    sent = np.random.default_rng(0).random((5, 4))
    table = embedded(sent, 3, dtype=FLOAT32).arrays["boxes"]
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start + 1, size(table)))

    assert table.read(0, size(table))[start:stop].tobytes() == table.read(start, stop).tobytes()


def test_steps_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    document = embedded(np.random.default_rng(0).random((40, 4)), 3)
    at_once = whole(document).tobytes()
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", 100)

    assert whole(document).tobytes() == at_once


def test_frequencies_grow_towards_the_temperature() -> None:
    found = [float(frequency) for frequency in BoxFrequencies(10000.0, 4).exact()]

    assert found == [1.0, 10.0, 100.0, 1000.0]
