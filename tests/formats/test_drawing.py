"""Pictures by matplotlib: their content, and the same bytes under any settings."""

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

from service.formats.drawing import HEIGHT, WIDTH, draw
from service.formats.png import AxisLabels, Picture
from service.numerics.tables import Curves


def pictured(
    values: NDArray[np.float64], curves: Curves | None = None, first: int = 0, title: str = "kind"
) -> Picture:
    rows, columns = (np.arange(length, dtype=np.int64) for length in values.shape)
    return Picture(
        title,
        AxisLabels("row", first + rows),
        AxisLabels("column", columns),
        values,
        "x",
        (1, 1),
        curves,
    )


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
    picture = Picture(
        "", AxisLabels("a", numbers[:1]), AxisLabels("b", numbers), values, "x", (1, 2)
    )

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

    orange = (both[..., 0] > 240) & (both[..., 2] < 60)
    assert orange[:, :850].any()
    assert orange[:, 850:].any()
    assert not ((first[..., 0] > 240) & (first[..., 2] < 60)).any()


def test_curves_at_far_positions_keep_their_points() -> None:
    """Float64 cannot distinguish positions next to 2^62."""
    values = np.sin(np.arange(20.0))[:, np.newaxis]

    near = dots(pictured(values, "columns"))
    far = dots(pictured(values, "columns", first=2**62 - 19))

    assert (is_blue(near[:535, :600]) == is_blue(far[:535, :600])).all()
    assert (near[535:560] != far[535:560]).any()


def is_blue(shown: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find the dots of the middle of a line of the first colour."""
    return (shown[..., 0] < 60) & (shown[..., 2] > 150)


@pytest.mark.full
def test_sixty_four_curves_leave_room_for_their_names() -> None:
    shown = dots(pictured(np.random.default_rng(0).standard_normal((64, 30)), "rows"))

    assert (shown[:, -10:] == 255).all()


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
import hashlib, sys
import numpy as np
from service.formats.drawing import draw
from service.formats.png import AxisLabels, Picture
numbers = np.arange(4)
values = np.sin(np.arange(16.0)).reshape(4, 4)
axes = AxisLabels("a", numbers), AxisLabels("b", numbers)
for curves in (None, "rows"):
    body = draw(Picture("title", *axes, values, "x", (1, 1), curves))
    print(hashlib.sha256(body).hexdigest())
assert "matplotlib.pyplot" not in sys.modules
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
    """HOME, DISPLAY and a matplotlibrc have no effect."""
    plain, set_up = tmp_path / "plain", tmp_path / "set_up"
    for folder in (plain, set_up):
        folder.mkdir()
    (set_up / "matplotlibrc").write_text("font.size: 30\nimage.cmap: jet\nlines.linewidth: 9\n")
    nowhere = str(tmp_path / "file" / "home")
    (tmp_path / "file").write_text("a file where a folder would have to be")

    homeless = hashes(plain, HOME=nowhere)

    assert len(homeless.split()) == 2
    assert hashes(set_up, HOME=str(tmp_path), DISPLAY=":9") == homeless
    assert not list(plain.iterdir())


def test_a_png_has_no_metadata() -> None:
    body = draw(pictured(np.eye(3)))

    names, place = [], 8
    while place < len(body):
        length = int.from_bytes(body[place : place + 4], "big")
        names.append(body[place + 4 : place + 8])
        place += length + 12
    assert set(names) == {b"IHDR", b"IDAT", b"IEND"}


def test_wide_elements_have_sharp_edges_in_tables_of_many_rows() -> None:
    stripes = np.tile([[1.0, -1.0, 1.0, -1.0]], (300, 1))

    shown = dots(pictured(stripes))[300, 120:840]

    edges = sum(coloured(dot) == "neither" for dot in shown)
    assert edges <= 9


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (2, 2)])
def test_a_short_axis_has_a_tick_for_each_index(shape: tuple[int, int]) -> None:
    shown = dots(pictured(np.ones(shape)))
    is_dark = shown.sum(axis=2) < 60

    left = int(is_dark[:, :200].sum(axis=0).argmax())
    bottom = 300 + int(is_dark[300:].sum(axis=1).argmax())
    down = is_dark[70:bottom, left - 2].sum()
    across = is_dark[bottom + 3, left : left + 800].sum()

    assert (down, across) == shape
