"""Pictures: their content, and the same bytes under any settings."""

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from service.formats.drawing import DISTINCT, HEIGHT, WIDTH, _place_ticks, _range_ticks, draw
from service.formats.png import AxisLabels, Picture
from service.numerics.tables import Curves


def pictured(
    values: NDArray[np.float64],
    curves: Curves | None = None,
    first: int = 0,
    title: str = "kind",
    names: tuple[str, str] = ("row", "column"),
) -> Picture:
    """Return the picture of a matrix, or of one for each place of a third axis."""
    rows, columns = (np.arange(length, dtype=np.int64) for length in values.shape[:2])
    down, across = AxisLabels(names[0], first + rows), AxisLabels(names[1], columns)
    panels = values.reshape(*values.shape[:2], -1)
    headings = tuple(map(str, range(panels.shape[2]))) if panels.shape[2] > 1 else ()
    return Picture(title, down, across, panels, "x", (1, 1), curves, headings)


def dots(picture: Picture) -> NDArray[np.int64]:
    image = Image.open(io.BytesIO(draw(picture)))
    assert image.size == (WIDTH, HEIGHT)
    return np.asarray(image.convert("RGB")).astype(np.int64)


def coloured(dot: NDArray[np.int64]) -> str:
    red, _, blue = (int(part) for part in dot)
    return "red" if red > blue + 50 else "blue" if blue > red + 50 else "neither"


def test_negative_and_positive_values_differ_in_colour() -> None:
    shown = dots(pictured(np.array([[-1.0, 0.0, 0.5]])))

    left, middle, right = (shown[300, place] for place in (150, 450, 780))
    assert coloured(left) == "red"
    assert (middle > 240).all()
    assert middle.max() - middle.min() < 3
    assert coloured(right) == "blue"
    # The ends of the colours are as far from 0 as each other: a half is paler than one.
    assert left.sum() < right.sum()


def test_values_without_signs_use_a_sequential_colour_map() -> None:
    shown = dots(pictured(np.array([[0.0, 1.0, 2.0]])))

    sums = [int(shown[300, place].sum()) for place in (150, 450, 780)]
    assert sums == sorted(sums)
    assert len(set(sums)) == 3


@pytest.mark.full
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_grey_and_named(value: float) -> None:
    plain = dots(pictured(np.array([[1.0, 2.0]])))
    shown = dots(pictured(np.array([[value, 1.0]])))

    assert len(set(shown[300, 200].tolist())) == 1
    assert 100 < shown[300, 200, 0] < 200
    assert (shown[:, 930:] != plain[:, 930:]).any()


def test_what_is_not_finite_does_not_change_its_neighbours() -> None:
    values = np.tile([1.0, 2.0, 3.0], (300, 1))
    some = values.copy()
    some[150:, 1] = np.nan

    plain, shown = dots(pictured(values)), dots(pictured(some))

    assert (shown[80:300, 100:840] == plain[80:300, 100:840]).all()
    assert (shown[80:540, [150, 780]] == plain[80:540, [150, 780]]).all()
    assert len(set(shown[400, 450].tolist())) == 1


EXTREMES = [
    np.zeros((1, 1)),
    np.full((2, 3), 7.0),
    np.full((2, 2), np.nan),
    np.array([[1e300, -1e300]]),
    np.array([[5e-324, -5e-324]]),
    np.array([[np.inf, 1.0], [-np.inf, np.nan]]),
    np.zeros((1, 1520)),
]


@pytest.mark.full
@pytest.mark.parametrize("values", [*EXTREMES, np.zeros((912, 1))])
def test_any_values_can_be_drawn_as_a_heat_map(values: NDArray[np.float64]) -> None:
    assert dots(pictured(values)).std() > 1


@pytest.mark.parametrize("values", EXTREMES)
def test_any_values_can_be_drawn_as_curves(values: NDArray[np.float64]) -> None:
    assert dots(pictured(values, "rows")).std() > 1


def test_a_shorter_last_part_is_drawn_narrower() -> None:
    numbers = np.arange(5, dtype=np.int64)
    values = np.array([[0.0, 0.0, 1.0]])
    down, across = AxisLabels("a", numbers[:1]), AxisLabels("b", numbers)
    picture = Picture("", down, across, values[..., np.newaxis], "x", (1, 2))

    shown = dots(picture)[300]

    # Two columns, two columns, one column: light from four fifths on.
    light = [place for place in range(120, 840) if shown[place].sum() > 400]
    assert 680 < light[0] < 710


@pytest.mark.parametrize("curves", ["rows", "columns"])
def test_each_curve_has_a_line_and_a_name(curves: Curves) -> None:
    one, two = np.zeros((1, 9)), np.concatenate([np.zeros((1, 9)), np.ones((1, 9))])
    if curves == "columns":
        one, two = one.T, two.T

    first, both = dots(pictured(one, curves)), dots(pictured(two, curves))

    assert has_colour(both, 1)[:, :900].any()
    assert has_colour(both, 1)[:, 900:].any()
    assert not has_colour(first, 1).any()


def test_curves_at_far_positions_keep_their_points() -> None:
    """Float64 cannot distinguish positions next to 2^62."""
    values = np.sin(np.arange(20.0))[:, np.newaxis]

    near = dots(pictured(values, "columns"))
    far = dots(pictured(values, "columns", first=2**62 - 19))

    assert (has_colour(near[:540, :900], 0) == has_colour(far[:540, :900], 0)).all()
    assert (near[542:560] != far[542:560]).any()


def has_colour(shown: NDArray[np.int64], curve: int) -> NDArray[np.bool_]:
    """Find the dots in the middle of the line of a curve."""
    return np.asarray((shown == DISTINCT[curve]).all(axis=-1))


def test_a_curve_has_a_gap_where_a_number_is_not_finite() -> None:
    values = np.zeros((1, 400))
    values[0, 100:300] = np.nan

    shown = dots(pictured(values, "rows", names=("", "x")))[74:542]

    (places,) = np.nonzero((np.ptp(shown, axis=2) > 50).any(axis=0))
    assert np.diff(places).max() == pytest.approx(np.ptp(places) * 201 / 399, abs=3)
    assert (np.diff(places) > 1).sum() == 1


@pytest.mark.parametrize("ratio", [0.6, 1.4])
def test_powers_are_a_straight_line(ratio: float) -> None:
    """One curve without a name, of numbers that are far apart, has an axis of powers."""
    values = ratio ** np.arange(40.0)[np.newaxis]

    shown = has_colour(dots(pictured(values, "rows", names=("", "x"))), 0)

    rows, columns = shown.nonzero()
    assert abs(np.corrcoef(rows, columns)[0, 1]) > 0.9999


def test_dots_on_a_steep_line_cover_only_their_circles() -> None:
    values = np.where(np.arange(60) % 2, 1.0, -1.0)[np.newaxis]
    shown = dots(pictured(values, curves="rows"))[:, 80:900]

    is_coloured = shown.max(axis=2) - shown.min(axis=2) > 60
    highest = int(np.flatnonzero(is_coloured.any(axis=1))[0])
    # Each of the thirty dots on top is five pixels wide; below it there is only the line.
    assert 30 * 4 <= is_coloured[highest + 2].sum() <= 30 * 6
    assert 30 <= is_coloured[highest + 10].sum() <= 30 * 3


def test_a_curve_with_gaps_says_why() -> None:
    plain = dots(pictured(np.array([[1.0, 2.0, 3.0]]), curves="rows"))
    shown = dots(pictured(np.array([[1.0, np.nan, 3.0]]), curves="rows"))

    assert (shown[:, :30] != plain[:, :30]).any()


def test_many_points_of_a_curve_reach_as_far_as_few() -> None:
    values = np.where(np.arange(60_000) % 2, 1.0, -1.0)[np.newaxis]

    shown = has_colour(dots(pictured(values, "rows")), 0)[:, :900]

    (filled,) = (shown.sum(axis=0) > 400).nonzero()
    assert np.ptp(filled) == len(filled) - 1 > 700


def test_each_component_has_a_panel() -> None:
    values = np.stack([np.full((2, 2), 1.0), np.full((2, 2), -1.0)], axis=2)

    shown = dots(pictured(values))[300]

    assert [coloured(shown[place]) for place in (150, 400, 500, 780)] == ["blue"] * 2 + ["red"] * 2
    assert any((dot == 255).all() for dot in shown[400:500])


@pytest.mark.full
def test_sixty_four_curves_leave_room_for_their_names() -> None:
    shown = dots(pictured(np.random.default_rng(0).standard_normal((64, 30)), "rows"))

    assert (shown[:, -10:] == 255).all()
    assert (shown[74:542, 700:990] < 255).any()


@pytest.mark.full
def test_dollar_signs_are_not_mathtext() -> None:
    draw(pictured(np.zeros((2, 2)), title=r"kind: x=$\frac{1$ " * 40))


@pytest.mark.full
def test_threads_draw_the_same_pictures() -> None:
    values = [np.sin(np.arange(40.0) * number).reshape(5, 8) for number in range(1, 5)]
    expected = [draw(pictured(each)) for each in values]

    with ThreadPoolExecutor(2) as threads:
        drawn = list(threads.map(draw, [pictured(each) for each in values * 2]))

    assert drawn == expected * 2


SCRIPT = """
import hashlib
import numpy as np
from service.formats.drawing import draw
from service.formats.png import AxisLabels, Picture
numbers = np.arange(4)
values = np.sin(np.arange(16.0)).reshape(4, 4, 1)
axes = AxisLabels("a", numbers), AxisLabels("b", numbers)
for curves in (None, "rows"):
    body = draw(Picture("title", *axes, values, "x", (1, 1), curves))
    print(hashlib.sha256(body).hexdigest())
"""


def hashes(folder: Path, **environment: str) -> str:
    drawn = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
    return drawn.stdout


@pytest.mark.full
def test_a_process_with_other_settings_draws_the_same_bytes(tmp_path: Path) -> None:
    plain, set_up = tmp_path / "plain", tmp_path / "set_up"
    for folder in (plain, set_up):
        folder.mkdir()
    nowhere = str(tmp_path / "file" / "home")
    (tmp_path / "file").write_text("a file where a folder would have to be")

    homeless = hashes(plain, HOME=nowhere)

    assert len(homeless.split()) == 2
    assert hashes(set_up, HOME=str(tmp_path), DISPLAY=":9", LC_ALL="C") == homeless
    assert not list(plain.iterdir())


def test_a_png_has_no_metadata() -> None:
    body = draw(pictured(np.eye(3)))

    names, place = [], 8
    while place < len(body):
        length = int.from_bytes(body[place : place + 4], "big")
        names.append(body[place + 4 : place + 8])
        place += length + 12
    assert set(names) == {b"IHDR", b"PLTE", b"IDAT", b"IEND"}


def test_wide_elements_have_sharp_edges_in_tables_of_many_rows() -> None:
    stripes = np.tile([[1.0, -1.0, 1.0, -1.0]], (300, 1))

    shown = dots(pictured(stripes))[300, 120:840]

    assert not any(coloured(dot) == "neither" for dot in shown)


def test_narrow_elements_make_no_stripes() -> None:
    """Columns that do not divide the width are as wide as each other: their parts are mixed."""
    shown = dots(pictured(np.tile([[0.0, 1.0]], (300, 250))))[300, 100:800].sum(axis=1)

    means = shown[: len(shown) // 50 * 50].reshape(-1, 50).mean(axis=1)
    assert np.ptp(means) < 0.05 * means.mean()


def test_places_have_round_numbers_where_each_is_the_next() -> None:
    start = 2**60 + 3
    consecutive = _place_ticks(start + np.arange(50), 11)
    listed = _place_ticks(np.array([5, 1, 9, 11]), 11)

    assert [text for _, text in consecutive] == [
        str(start - start % 5 + 5 * k) for k in range(1, 11)
    ]
    assert [text for _, text in listed] == ["5", "1", "9", "11"]
    assert [share for share, _ in listed] == [0.125, 0.375, 0.625, 0.875]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, "0 0.2 0.4 0.6 0.8 1"),
        (-1.0, 1.0, "-1 -0.5 0 0.5 1"),
        (1000000.1, 1000000.2, "1000000.1 1000000.12 1000000.14 1000000.16 1000000.18 1000000.2"),
        (0.0, 4e-7, "0 1e-07 2e-07 3e-07 4e-07"),
        (-1e300, 1e300, "-1e+300 -5e+299 0 5e+299 1e+300"),
        (-5e-324, 5e-324, "-4.94066e-324 4.94066e-324"),
        (1e16, 1e16 + 10, " ".join(str(10**16 + each) for each in range(0, 11, 2))),
    ],
)
def test_a_scale_has_multiples_of_1_2_or_5_times_a_power_of_ten(
    low: float, high: float, expected: str
) -> None:
    assert " ".join(text for _, text in _range_ticks(low, high, 6)) == expected


@pytest.mark.parametrize("low", [1e15, 1e16, -1e16, 123456789e9])
@pytest.mark.parametrize("steps", range(1, 40))
def test_no_number_of_a_scale_is_repeated(low: float, steps: int) -> None:
    ticks = _range_ticks(low, low + steps * np.spacing(abs(low)))

    for each in zip(*ticks, strict=True):
        assert len(set(each)) == len(ticks) > 0


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (2, 2)])
def test_a_short_axis_has_a_tick_for_each_index(shape: tuple[int, int]) -> None:
    shown = dots(pictured(np.ones(shape)))
    is_dark = shown.sum(axis=2) < 150

    left = int(is_dark[:, :200].sum(axis=0).argmax())
    bottom = 300 + int(is_dark[300:].sum(axis=1).argmax())
    down = is_dark[70:bottom, left - 2].sum()
    across = is_dark[bottom + 3, left : left + 800].sum()

    assert (down, across) == shape
