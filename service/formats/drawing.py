"""Pictures drawn by matplotlib, which takes more than half a second to import.

What somebody has set for matplotlib changes nothing, and neither does the machine: its default
style, the fonts it brings along, no display, no date. No pyplot: its state would be shared.
"""

import io
import logging
import textwrap
import zlib
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TypeAlias

import numpy as np

from service.formats.png import Axis, Numbers, Picture, spelled
from service.numerics.phase import Float64s

# It would say on stderr that its list of fonts takes a moment, and where it can be kept.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

import matplotlib as mpl  # noqa: E402
from matplotlib.axis import XAxis, YAxis  # noqa: E402
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator  # noqa: E402
from PIL import Image  # noqa: E402

mpl.rcdefaults()
# A line of very many points is too much for Agg unless it comes in portions.
mpl.rcParams["agg.path.chunksize"] = 10_000

Masked: TypeAlias = "np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]"

WIDTH, HEIGHT = 1000, 600
"""Pixels of every picture."""

_DPI = 100
_SMALL, _MEDIUM = 7, 9
_BOTTOM, _TOP = 0.11, 0.87
# What a digit of small letters takes of the width.
_DIGIT = 0.0068
_TITLE_LETTERS, _TITLE_LINES = 125, 3
_NO_COLOUR = "0.55"
# Dots for elements, down and across, and how many an element takes that is not smoothed.
_ROOM, _SHARP_DOTS = (456, 780), 3
_MAX_TICKS = 11
_MAX_LEGEND_ROWS = 30
_MAX_DISTINCT_COLOURS = 10
_MAX_MARKED_POINTS = 256

_one_at_a_time = Lock()


def draw(picture: Picture) -> bytes:
    """Draw a picture as PNG; matplotlib is not made for several threads at once."""
    with _one_at_a_time:
        figure = Figure(figsize=(WIDTH / _DPI, HEIGHT / _DPI), dpi=_DPI)
        canvas = FigureCanvasAgg(figure)
        lines = textwrap.wrap(
            picture.title, _TITLE_LETTERS, max_lines=_TITLE_LINES, placeholder=" ..."
        )
        figure.text(0.02, 0.97, "\n".join(lines), va="top", fontsize=_MEDIUM, parse_math=False)
        if picture.curves is None:
            _draw_colours(figure, picture)
        else:
            _draw_curves(figure, picture)
        canvas.draw()  # type: ignore[no-untyped-call]
        return _encoded(canvas)


def _encoded(canvas: FigureCanvasAgg) -> bytes:
    """Write PNG with nothing but the dots in it.

    Without the opacity that matplotlib would add, and with runs of dots for all redundancy, it
    takes a third of the time and fewer bytes.
    """
    dots = np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    file = io.BytesIO()
    Image.fromarray(dots).save(file, "PNG", compress_type=zlib.Z_RLE)
    return file.getvalue()


def _draw_colours(figure: Figure, picture: Picture) -> None:
    """Draw a cell for each element, in two colours that are pale at 0 where there are signs."""
    left = 0.05 + _DIGIT * max(len(spelled(end)) for end in picture.down.ends)
    axes = figure.add_axes((left, _BOTTOM, 0.85 - left, _TOP - _BOTTOM))
    values = np.ma.masked_invalid(picture.values)
    low, high = _limits(values)
    colours = mpl.colormaps["RdBu" if low < 0 else "viridis"].with_extremes(bad=_NO_COLOUR)
    # The last part of an axis may be shorter: what is past its end is cut off.
    bottom, right = (
        count * length - 0.5 for count, length in zip(values.shape, picture.parts, strict=True)
    )
    image = axes.imshow(
        _sharpened(values),
        cmap=colours,
        vmin=low,
        vmax=high,
        aspect="auto",
        extent=(-0.5, right, bottom, -0.5),
    )
    axes.set_xlim(-0.5, len(picture.across.numbers) - 0.5)
    axes.set_ylim(len(picture.down.numbers) - 0.5, -0.5)
    bar = figure.add_axes((0.87, _BOTTOM, 0.02, _TOP - _BOTTOM))
    figure.colorbar(image, cax=bar)
    bar.tick_params(labelsize=_SMALL)
    others = ", grey: not finite" if values.count() < values.size else ""
    bar.set_ylabel(picture.label + others, fontsize=_MEDIUM, parse_math=False)
    for side, axis in ((axes.xaxis, picture.across), (axes.yaxis, picture.down)):
        places = np.arange(len(axis.numbers), dtype=np.float64)
        _number(side, axis, places, partial(_number_of_place, axis.numbers), whole=True)


def _sharpened(values: Masked) -> Masked:
    """Repeat elements along an axis with room for them, where the other one has none.

    matplotlib smooths both axes if there are less than three dots to an element of either.
    """
    rows, columns = (max(1, dots // count) for dots, count in zip(_ROOM, values.shape, strict=True))
    if min(rows, columns) >= _SHARP_DOTS:
        return values
    repeated: Masked = values.repeat(rows, axis=0).repeat(columns, axis=1)
    return repeated


def _number_of_place(numbers: Numbers, place: float) -> float | None:
    is_there = place.is_integer() and 0 <= place < len(numbers)
    return numbers[int(place)].item() if is_there else None


def _limits(values: Masked) -> tuple[float, float]:
    """Give the values at the ends of the colours, as far from 0 as each other where signs are."""
    if not values.count():
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    farthest = max(-low, high)
    return (-farthest, farthest) if low < 0 else (low, high)


def _draw_curves(figure: Figure, picture: Picture) -> None:
    """Draw a line for each row or column, over the numbers of the other axis."""
    is_by_row = picture.curves == "rows"
    each, along = (picture.down, picture.across)[:: 1 if is_by_row else -1]
    curves = picture.values if is_by_row else picture.values.T
    names = [f"{each.name} {spelled(number)}" for number in each.numbers.tolist()]
    columns = -(-len(names) // _MAX_LEGEND_ROWS)
    right = max(0.3, 0.97 - columns * (0.04 + _DIGIT * max(map(len, names))))
    axes = figure.add_axes((0.07, _BOTTOM, right - 0.07, _TOP - _BOTTOM))
    places = _places(along.numbers)
    order = np.argsort(places, kind="stable")
    marker = "." if curves.size <= _MAX_MARKED_POINTS else ""
    for curve, name, colour in zip(curves, names, _colours(len(names)), strict=True):
        axes.plot(places[order], curve[order], marker=marker, linewidth=1, color=colour, label=name)
    axes.grid(alpha=0.3)
    axes.set_ylabel(picture.label, fontsize=_MEDIUM, parse_math=False)
    axes.tick_params(axis="y", labelsize=_SMALL)
    origin = along.numbers.min().item()
    is_whole = isinstance(origin, int)
    _number(axes.xaxis, along, places, lambda at: origin + type(origin)(at), whole=is_whole)
    legend = axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.01), fontsize=_SMALL, ncols=columns
    )
    legend.set_frame_on(False)


def _colours(count: int) -> list[tuple[float, ...] | str]:
    """Give colours that are told apart, or for many curves those that show their order."""
    if count <= _MAX_DISTINCT_COLOURS:
        return [f"C{index}" for index in range(count)]
    return [tuple(colour) for colour in mpl.colormaps["viridis"](np.linspace(0.0, 0.95, count))]


def _places(numbers: Numbers) -> Float64s:
    """Give how far each number is from the least: float64 tells far numbers not apart."""
    if numbers.dtype.kind == "f":
        return np.asarray(numbers - numbers.min())
    distances = numbers.view(np.uint64) - numbers.min().view(np.uint64)
    return np.asarray(distances, dtype=np.float64)


def _number(
    side: XAxis | YAxis,
    axis: Axis,
    places: Float64s,
    number_at: Callable[[float], float | None],
    *,
    whole: bool,
) -> None:
    """Write the name of an axis, and the numbers at some of its places, or between them as well.

    Args:
        side: where to write.
        axis: the numbers.
        places: where each of them is along the side.
        number_at: gives the number at a place, or None where none is to be written.
        whole: whether there are numbers at whole places only.
    """

    def written(place: float, _: int | None) -> str:
        number = number_at(place)
        return "" if number is None else spelled(number)

    longest = max(len(spelled(end)) for end in axis.ends)
    room = int(0.8 / _DIGIT / longest) if side.axis_name == "x" else _MAX_TICKS
    ticks = max(2, min(_MAX_TICKS, room))
    if places.min() == places.max():
        side.set_major_locator(FixedLocator(places[:1].tolist()))
    else:
        side.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10], integer=whole))
    side.set_major_formatter(FuncFormatter(written))
    side.set_tick_params(labelsize=_SMALL)
    side.set_label_text(axis.name, fontsize=_MEDIUM, parse_math=False)
