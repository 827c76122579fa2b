"""Pictures drawn by matplotlib, which takes more than half a second to import.

The result does not depend on the machine or on its matplotlib settings: default style, bundled
fonts, no display, no date. pyplot is not used: its state would be shared by threads.
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

from service.formats.png import AxisLabels, Numbers, Picture, number_text
from service.numerics.phase import Float64s

# Otherwise it warns on stderr while it builds its font list.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

import matplotlib as mpl  # noqa: E402
from matplotlib.axis import XAxis, YAxis  # noqa: E402
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator  # noqa: E402
from PIL import Image  # noqa: E402

mpl.rcdefaults()
# Agg cannot draw a line of very many points unless it is split.
mpl.rcParams["agg.path.chunksize"] = 10_000

Masked: TypeAlias = "np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]"

WIDTH, HEIGHT = 1000, 600
"""Pixels of every picture."""

_DPI = 100
_SMALL, _MEDIUM = 7, 9
_BOTTOM, _TOP = 0.11, 0.87
# The share of the width that a small digit takes.
_DIGIT = 0.0068
_TITLE_LETTERS, _TITLE_LINES = 125, 3
_NO_COLOUR = "0.55"
# Pixels of the plot, down and across, and those of an element that is not smoothed.
_PLOT_PIXELS, _SHARP_PIXELS = (456, 780), 3
_MAX_TICKS = 11
_MAX_LEGEND_ROWS = 30
_MAX_DISTINCT_COLOURS = 10
_MAX_MARKED_POINTS = 256

_lock = Lock()


def draw(picture: Picture) -> bytes:
    """Draw a picture as PNG; a lock, since matplotlib is not thread-safe."""
    with _lock:
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
    """Encode the pixels as PNG without metadata.

    Without an alpha channel, and with run-length encoding as the only compression, it takes a third
    of the time and fewer bytes.
    """
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_type=zlib.Z_RLE)
    return file.getvalue()


def _draw_colours(figure: Figure, picture: Picture) -> None:
    """Draw a cell for each element, in a diverging colour map where there are negative values."""
    left = 0.05 + _DIGIT * max(len(number_text(end)) for end in picture.down.ends)
    axes = figure.add_axes((left, _BOTTOM, 0.85 - left, _TOP - _BOTTOM))
    values = np.ma.masked_invalid(picture.values)
    low, high = _limits(values)
    colours = mpl.colormaps["RdBu" if low < 0 else "viridis"].with_extremes(bad=_NO_COLOUR)
    # The last part of an axis may be shorter: the limits below cut off the rest.
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
    """Repeat elements along an axis that has room for it, where the other has none.

    matplotlib smooths both axes if an element has fewer than three pixels along either.
    """
    rows, columns = (
        max(1, pixels // count) for pixels, count in zip(_PLOT_PIXELS, values.shape, strict=True)
    )
    if min(rows, columns) >= _SHARP_PIXELS:
        return values
    repeated: Masked = values.repeat(rows, axis=0).repeat(columns, axis=1)
    return repeated


def _number_of_place(numbers: Numbers, place: float) -> float | None:
    is_there = place.is_integer() and 0 <= place < len(numbers)
    return numbers[int(place)].item() if is_there else None


def _limits(values: Masked) -> tuple[float, float]:
    """Return the ends of the colour map, symmetric if there are negative values."""
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
    names = [f"{each.name} {number_text(number)}" for number in each.numbers.tolist()]
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
    """Return distinct colours, or for many curves a sequence that shows their order."""
    if count <= _MAX_DISTINCT_COLOURS:
        return [f"C{index}" for index in range(count)]
    return [tuple(colour) for colour in mpl.colormaps["viridis"](np.linspace(0.0, 0.95, count))]


def _places(numbers: Numbers) -> Float64s:
    """Return the distance of each number from the least: float64 cannot distinguish far numbers."""
    if numbers.dtype.kind == "f":
        return np.asarray(numbers - numbers.min())
    distances = numbers.view(np.uint64) - numbers.min().view(np.uint64)
    return np.asarray(distances, dtype=np.float64)


def _number(
    side: XAxis | YAxis,
    axis: AxisLabels,
    places: Float64s,
    number_at: Callable[[float], float | None],
    *,
    whole: bool,
) -> None:
    """Label an axis, and write the numbers of some of its places, or between them as well.

    Args:
        side: the axis of the figure.
        axis: its name and numbers.
        places: the place of each number along the side.
        number_at: returns the number at a place, or None for none.
        whole: whether only whole places have numbers.
    """

    def written(place: float, _: int | None) -> str:
        number = number_at(place)
        return "" if number is None else number_text(number)

    longest = max(len(number_text(end)) for end in axis.ends)
    room = int(0.8 / _DIGIT / longest) if side.axis_name == "x" else _MAX_TICKS
    ticks = max(2, min(_MAX_TICKS, room))
    if places.min() == places.max():
        side.set_major_locator(FixedLocator(places[:1].tolist()))
    else:
        side.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10], integer=whole))
    side.set_major_formatter(FuncFormatter(written))
    side.set_tick_params(labelsize=_SMALL)
    side.set_label_text(axis.name, fontsize=_MEDIUM, parse_math=False)
