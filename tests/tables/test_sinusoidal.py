"""The sinusoidal encoding: the worked numbers, and exact at any position."""

from fractions import Fraction
from math import sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.tables import sinusoidal
from service.tables.angle import MAX_POSITION, Float64s
from service.tables.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, widened
from service.tables.positions import Positions, Run
from service.tables.recipes import recipe
from service.tables.table import StoredTable, size
from tests.exact import NARROW_TYPES, UNIT, frequency, rounded

SPECS = {
    "d_model": st.one_of(st.integers(1, 4096), st.integers(1, 8)),
    "base": st.one_of(st.floats(1.0001, 1e12), st.sampled_from([1.0001, 100.0, 10000.0, 1e12])),
    "positions": st.lists(
        st.one_of(
            st.integers(-MAX_POSITION, MAX_POSITION),
            st.integers(-200, 200),
            st.sampled_from([1, -1, 63, 64, -64, MAX_POSITION, -MAX_POSITION]),
        ),
        min_size=1,
        max_size=4,
    ),
    "layout": st.sampled_from(["interleaved", "concatenated"]),
}


def read(
    d_model: int, base: float, positions: list[int], layout: str, dtype: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    document = sinusoidal.encoding(
        recipe=recipe("vaswani", d_model, {"base": base, "layout": layout}),
        positions=Positions.of_runs(Run(position, 1, 1) for position in positions),
        batch=False,
        dtype=REAL_DTYPES[dtype],
    )
    table = document.arrays["encoding"]
    return widened(table.read(0, size(table)), table.dtype).reshape(table.shape)


def channel_of(d_model: int, layout: str, pair: int, *, sine: bool) -> int:
    if layout == "interleaved":
        return 2 * pair + (not sine)
    return pair if sine else -(-d_model // 2) + pair


def sampled_pairs(d_model: int) -> list[int]:
    last = (d_model - 1) // 2
    return sorted({0, last, last // 2, last // 3, max(last - 1, 0)})


@settings(max_examples=120)
@given(**SPECS)
def test_float64_is_within_six_units_and_small_angles_keep_their_relative_precision(
    d_model: int, base: float, positions: list[int], layout: str
) -> None:
    check_exactness(d_model, base, positions, layout)


def check_exactness(d_model: int, base: float, positions: list[int], layout: str) -> None:
    rows = read(d_model, base, positions, layout, "float64")

    for row, position in zip(rows, positions, strict=True):
        for pair in sampled_pairs(d_model):
            angle = position * frequency(base, d_model, pair)
            for is_sine, exact in ((True, mpmath.sin(angle)), (False, mpmath.cos(angle))):
                if not is_sine and 2 * pair + 1 >= d_model:
                    continue
                error = abs(row[channel_of(d_model, layout, pair, sine=is_sine)] - exact)
                assert error <= 6 * UNIT
                if abs(angle) < 1:
                    assert error <= 8 * UNIT * abs(exact)


@pytest.mark.parametrize("position", [1, -1, 2, -63, 64])
def test_tiny_sines_are_as_good_as_large_ones(position: int) -> None:
    (row,) = read(4096, 1e12, [position], "interleaved", "float64")

    check_tiny_sines(row, position)


def check_tiny_sines(row: Float64s, position: int) -> None:
    for pair in range(0, 2048, 50):
        angle = position * frequency(1e12, 4096, pair)
        if abs(angle) < 1:
            assert abs(row[2 * pair] - mpmath.sin(angle)) <= 8 * UNIT * abs(mpmath.sin(angle))


@pytest.mark.parametrize("dtype", sorted(NARROW_TYPES))
@given(**SPECS)
def test_narrow_types_are_the_float64_value_rounded_once(
    dtype: str, d_model: int, base: float, positions: list[int], layout: str
) -> None:
    wide = read(d_model, base, positions, layout, "float64")
    narrow = read(d_model, base, positions, layout, dtype)

    chosen = sorted({0, 1, d_model // 2, d_model - 1} & set(range(d_model)))
    expected = [[rounded(Fraction(float(row[c])), dtype) for c in chosen] for row in wide]
    assert expected == [[Fraction(float(row[c])) for c in chosen] for row in narrow]


def test_i_am_a_robot() -> None:
    expected = [
        [0, 1, 0, 1],
        [0.84147098, 0.54030231, 0.09983342, 0.99500417],
        [0.90929743, -0.41614684, 0.19866933, 0.98006658],
        [0.14112001, -0.9899925, 0.29552021, 0.95533649],
    ]

    rows = read(4, 100.0, [0, 1, 2, 3], "interleaved", "float64")

    assert expected == rows.round(8).tolist()


def test_i_am_good() -> None:
    rows = read(4, 10000.0, [0, 1], "interleaved", "float64")

    assert rows[1].round(8).tolist() == [0.84147098, 0.54030231, 0.00999983, 0.99995000]


@pytest.mark.parametrize(("rows", "width"), [(50, 512), (100, 512), (512, 768)])
def test_common_shapes_agree_with_the_formula_in_numpy(rows: int, width: int) -> None:
    position = np.arange(rows)[:, np.newaxis]
    angle = position / 10000.0 ** (2 * np.arange(width // 2) / width)

    table = read(width, 10000.0, list(range(rows)), "interleaved", "float64")

    assert np.abs(table[:, 0::2] - np.sin(angle)).max() < 1e-12
    assert np.abs(table[:, 1::2] - np.cos(angle)).max() < 1e-12


def test_layouts_hold_the_same_values() -> None:
    interleaved = read(7, 10000.0, [0, 5, 9], "interleaved", "float64")
    concatenated = read(7, 10000.0, [0, 5, 9], "concatenated", "float64")

    assert (interleaved[:, 0::2] == concatenated[:, :4]).all()
    assert (interleaved[:, 1::2] == concatenated[:, 4:]).all()


def test_an_odd_width_ends_with_a_sine() -> None:
    rows = read(5, 10000.0, [3], "interleaved", "float64")

    assert abs(rows[0, 4] - mpmath.sin(3 * frequency(10000.0, 5, 2))) <= 6 * UNIT


def test_a_batch_is_a_leading_axis_of_one() -> None:
    document = sinusoidal.encoding(
        recipe=recipe("vaswani", 512, {"base": 10000.0, "layout": "interleaved"}),
        positions=Positions.contiguous(0, 100),
        batch=True,
        dtype=FLOAT32,
    )

    assert document.shape == (1, 100, 512)


def test_a_document_of_any_size_is_described_at_once() -> None:
    document = sinusoidal.encoding(
        recipe=recipe("vaswani", 2, {"base": 10000.0, "layout": "interleaved"}),
        positions=Positions.contiguous(0, 2**53),
        batch=False,
        dtype=FLOAT64,
    )

    last = document.arrays["encoding"].read(2**54 - 2, 2**54)

    assert document.shape == (2**53, 2)
    assert abs(last[0] - mpmath.sin(2**53 - 1)) <= 6 * UNIT


@given(st.integers(1, 300), st.floats(1.0, 1e12))
def test_frequencies_and_wavelengths_are_the_nearest_numbers(d_model: int, base: float) -> None:
    arrays = sinusoidal.frequencies(recipe=recipe("vaswani", d_model, {"base": base})).arrays
    count = -(-d_model // 2)

    frequencies = arrays["frequency"].read(0, count)
    wavelengths = arrays["wavelength"].read(0, count)

    for pair in (0, count // 2, count - 1):
        exact = frequency(base, d_model, pair)
        assert float(exact) == frequencies[pair]
        assert float(2 * mpmath.pi / exact) == wavelengths[pair]


def test_wavelengths_run_from_one_turn_to_almost_the_base() -> None:
    wavelengths = sinusoidal.frequencies(recipe=recipe("vaswani", 512, {"base": 10000.0})).arrays[
        "wavelength"
    ]

    first, last = wavelengths.read(0, 1)[0], wavelengths.read(255, 256)[0]

    assert float(2 * mpmath.pi) == first
    assert 0.95 * 2 * np.pi * 10000 < last < 2 * np.pi * 10000


def applied(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    positions: Positions,
    *,
    scale_embeddings: bool = False,
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    sum_ = sinusoidal.Sum(
        recipe=recipe("vaswani", x.shape[-1], {"base": 10000.0, "layout": "interleaved"}),
        positions=positions,
        scale_embeddings=scale_embeddings,
    )
    return sum_.of(StoredTable(x, FLOAT64)).elements


def test_embeddings_get_the_table_added_element_by_element() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    table = read(4, 10000.0, [7, 8, 9], "interleaved", "float64")

    assert (applied(x, Positions.contiguous(7, 3)) == x + table).all()


def test_embeddings_can_be_scaled_first() -> None:
    x = np.arange(15.0).reshape(3, 5)
    table = read(5, 10000.0, [0, 1, 2], "interleaved", "float64")

    result = applied(x, Positions.contiguous(0, 3), scale_embeddings=True)

    assert (result == x * sqrt(5) + table).all()


def test_nan_and_infinity_pass_through_an_addition() -> None:
    x = np.array([[np.nan, np.inf], [-np.inf, 1.0]])

    result = applied(x, Positions.contiguous(0, 2))

    assert np.isnan(result[0, 0])
    assert [np.inf, -np.inf] == [result[0, 1], result[1, 0]]


def test_an_addition_of_many_rows_is_the_same_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(3 * 50 * 8.0).reshape(3, 50, 8)
    whole = applied(x, Positions.contiguous(0, 50))
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", 100)

    assert (whole == applied(x, Positions.contiguous(0, 50))).all()
