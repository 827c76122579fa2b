"""Random Fourier features: exact however many turns a product makes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import random_fourier
from service.tables.dtypes import FLOAT32, FLOAT64, DType
from service.tables.random_fourier import MAX_NUMBER, GaussianTable
from service.tables.real_positions import MIN_REAL_POSITION
from service.tables.table import FREQUENCY_WORK, size
from tests.exact import UNIT

SIZES = st.one_of(
    st.floats(MIN_REAL_POSITION, 1.0),
    st.floats(1.0, 1e6),
    st.floats(1.0, MAX_NUMBER),
    st.just(0.0),
)
NUMBERS = st.tuples(SIZES, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])


def table(
    x: list[float], weight: list[float], *, log: bool, flip: bool = False, dtype: DType = FLOAT64
) -> GaussianTable:
    document = random_fourier.gaussian(
        weight=np.array(weight), x=np.array(x), log=log, flip_sin_to_cos=flip, dtype=dtype
    )
    made = document.arrays["fourier"]
    assert isinstance(made, GaussianTable)
    return made


def whole(made: GaussianTable) -> NDArray[Any]:
    return np.asarray(made.read(0, size(made))).reshape(made.shape)


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


def test_precision_is_the_same_in_a_bare_thread() -> None:
    """The context of the ``decimal`` module belongs to the thread, and has 28 digits."""

    def evaluated() -> bytes:
        return whole(table([-0.3, 17.1], [1e15 + 0.1, -2.5], log=False)).tobytes()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(evaluated).result() == evaluated()


def test_flipped_the_cosines_come_first() -> None:
    plain, flipped = (
        whole(table([0.1, 2.0], [0.3, -0.7], log=True, flip=flip)) for flip in (False, True)
    )

    assert (flipped[:, :2] == plain[:, 2:]).all()
    assert (flipped[:, 2:] == plain[:, :2]).all()


@given(st.data(), st.lists(NUMBERS, min_size=1, max_size=9))
def test_any_range_has_the_bytes_of_the_whole(data: st.DataObject, x: list[float]) -> None:
    made = table([*x, x[0]], [0.1, -7.0, 0.3], log=False, dtype=FLOAT32)
    start = data.draw(st.integers(0, size(made) - 1))
    stop = data.draw(st.integers(start + 1, size(made)))

    assert made.read(0, size(made))[start:stop].tobytes() == made.read(start, stop).tobytes()
    alone = table([x[0]], [0.1, -7.0, 0.3], log=False, dtype=FLOAT32)
    assert whole(made)[-1].tobytes() == whole(alone)[0].tobytes()


def test_steps_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table([index * 0.37 for index in range(50)], [0.1, -7.0, 0.3], log=False)
    at_once = whole(made).tobytes()
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", 100)

    assert whole(made).tobytes() == at_once


def test_nothing_turned_is_a_plain_zero() -> None:
    found = whole(table([0.0, -0.0, 1.0], [-1.0, 0.0], log=False))

    assert found[:2].tolist() == [[0.0, 0.0, 1.0, 1.0]] * 2
    assert not np.signbit(found).any()


def test_many_logarithms_let_other_threads_go_on() -> None:
    made = table(np.linspace(1.0, 2.0, 1000).tolist(), [1.0], log=True)
    turns, end = 0, threading.Event()

    def others() -> None:
        nonlocal turns
        while not end.wait(0.001):
            turns += 1

    thread = threading.Thread(target=others)
    thread.start()
    before = turns
    assert len(made._exact) == 1000
    during = turns - before
    end.set()
    thread.join()
    assert during > 3


def test_nothing_is_evaluated_before_a_number_is_asked_for() -> None:
    made = table([1.0, 2.0, 2.0], [1.0, 0.5], log=True)

    assert "_exact" not in vars(made)
    assert made.setup_work == 2 * (4096 + 2 * FREQUENCY_WORK)
    assert table([1.0, 2.0, 2.0], [1.0, 0.5], log=False).setup_work == 4 * FREQUENCY_WORK
