"""Pictures drawn by Pillow, with the font that it brings: no setting of a machine changes them."""

import io
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil, cos, floor, isfinite, log10, radians, sin, sqrt, ulp
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from service.formats.png import Numbers, Picture, number_text
from service.numerics.phase import Float64s

WIDTH, HEIGHT = 1000, 600
"""Pixels of every picture."""

Ticks: TypeAlias = Sequence[tuple[float, str]]
"""Places on an axis, as shares of its length, and what is written there."""

Box: TypeAlias = tuple[int, int, int, int]
Colour: TypeAlias = tuple[int, int, int]

_SMALL, _MEDIUM = 11, 13
_INK, _GRID = 40, 228
_MARGIN, _TOP, _BOTTOM = 12, 74, 542
_LABEL = 20
_TICK, _GAP = 4, 3
_MOST_TICKS = 11
_TITLE_LETTERS, _TITLE_LINES, _TITLE_LINE = 140, 3, 18

# The palette of heat maps: greys for letters, the colour of what is not finite, a ramp.
_GREYS, _NOT_FINITE = 32, (140, 140, 140)
_RAMP_START = _GREYS + 1
_RAMP = 256 - _RAMP_START
_BAR, _PANEL_GAP = (872, _TOP, 892, _BOTTOM), 16
_SHARP_PIXELS = 3

# The width of curves in pixels, and the columns that a pixel is divided into.
_LINE, _COLUMNS = 1.4, 4
# The steps in which a column of a pixel is covered, and a whole pixel.
_STEPS = 64
_WHOLE = _COLUMNS * _STEPS
# Points of so few have dots of this radius.
_MOST_MARKED, _DOT = 256, 2.5
_DOT_REACH = ceil(_DOT) + 1
_LEGEND_ROWS, _LEGEND_ROW, _SAMPLE, _LEAST_RIGHT = 30, 15.6, 20, 520


def oklch(lightness: float, chroma: float, hue: float) -> Colour:
    """Return the sRGB colour of a lightness, chroma and hue as they are seen (Ottosson, 2020)."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _encoded(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _encoded(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _encoded(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _encoded(light: float) -> int:
    share = min(max(light, 0.0), 1.0)
    return round(
        255 * (12.92 * share if share <= 0.0031308 else 1.055 * share ** (1 / 2.4) - 0.055)
    )


def diverging(share: float) -> Colour:
    """Return the colour of a number with a sign: 0 is the darkest red, 1/2 white, 1 blue."""
    size = abs(2 * share - 1)
    return oklch(0.975 - 0.575 * size, 0.155 * min(1.0, 1.25 * size), 255 if share > 0.5 else 32)


def sequential(share: float) -> Colour:
    """Return the colour of a number without a sign, from dark violet over green to yellow."""
    return oklch(0.27 + 0.66 * share, 0.11 + 0.06 * abs(2 * share - 1), 295 - 190 * share)


DISTINCT = tuple(
    oklch(lightness / 100, chroma / 100, hue)
    for lightness, chroma, hue in zip(
        (56, 70, 60, 56, 55, 48, 70, 55, 68, 68),
        (16, 17, 15, 19, 16, 7, 16, 0, 14, 11),
        (255, 55, 145, 27, 300, 50, 345, 0, 110, 210),
        strict=True,
    )
)
"""Colours of a few curves."""


def draw(picture: Picture) -> bytes:
    """Draw a picture as PNG."""
    image = _heat_map(picture) if picture.curves is None else _curves(picture)
    file = io.BytesIO()
    # The usual compression of true colours takes twice the time, and saves a tenth.
    compression = {} if image.mode == "P" else {"compress_type": zlib.Z_RLE}
    image.save(file, "PNG", **compression)
    return file.getvalue()


@lru_cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font


def _length(text: str, size: int = _SMALL) -> int:
    return ceil(_font(size).getlength(text))


class _Sheet:
    """The letters and lines of a picture, in grey."""

    def __init__(self, title: str) -> None:
        self.image = Image.new("L", (WIDTH, HEIGHT), 255)
        self.pen = ImageDraw.Draw(self.image)
        lines = textwrap.wrap(title, _TITLE_LETTERS, max_lines=_TITLE_LINES, placeholder=" ...")
        for row, line in enumerate(lines):
            self.write((_MARGIN, _MARGIN + _TITLE_LINE * row), line, "la", _MEDIUM)

    def write(self, at: tuple[float, float], text: str, anchor: str, size: int = _SMALL) -> None:
        """Write a text so that the anchor of it, in the terms of Pillow, is at a place."""
        self.pen.text(at, text, _INK, _font(size), anchor)

    def write_upwards(self, left: int, text: str) -> None:
        """Write a text from the bottom to the top, beside the middle of the plot."""
        written = Image.new("L", (_length(text, _MEDIUM), _LABEL), 255)
        ImageDraw.Draw(written).text((0, 2), text, _INK, _font(_MEDIUM))
        turned = written.transpose(Image.Transpose.ROTATE_90)
        self.image.paste(turned, (left, max(0, (_TOP + _BOTTOM - turned.height) // 2)))

    def frame(self, box: Box) -> None:
        """Draw a line around a box."""
        left, top, right, bottom = box
        self.pen.rectangle((left - 1, top - 1, right, bottom), outline=_INK)

    def number_across(self, box: Box, ticks: Ticks, name: str) -> None:
        """Write numbers and a name below a box."""
        left, _, right, bottom = box
        for share, text in ticks:
            place = left + floor(share * (right - left))
            self.pen.line((place, bottom, place, bottom + _TICK), _INK)
            self.write((place, bottom + _TICK + _GAP), text, "ma")
        self.write(((left + right) // 2, bottom + 24), name, "ma", _MEDIUM)

    def number_down(self, box: Box, ticks: Ticks, *, is_right: bool = False) -> None:
        """Write numbers beside a box, at its left or right; their shares are from the top."""
        left, top, right, bottom = box
        edge, way, anchor = (right, 1, "lm") if is_right else (left - 1, -1, "rm")
        for share, text in ticks:
            place = top + floor(share * (bottom - top))
            self.pen.line((edge, place, edge + way * _TICK, place), _INK)
            self.write((edge + way * (_TICK + _GAP), place), text, anchor)


def _heat_map(picture: Picture) -> Image.Image:
    """Draw a rectangle for each element, in the colours of numbers with signs or without."""
    sheet = _Sheet(picture.title)
    down = _place_ticks(picture.down.numbers, _MOST_TICKS)
    plot = _left_of(down), _TOP, _BAR[0] - 2 * _MARGIN, _BOTTOM
    low, high = _limits(picture.values)
    drawn: dict[Box, NDArray[Any]] = {
        _BAR: np.linspace(255, _RAMP_START, _BOTTOM - _TOP).round()[:, np.newaxis]
    }
    numbers, names = picture.across.numbers, picture.headings or (picture.across.name,)
    for panel, (name, box) in enumerate(zip(names, _boxes(plot, len(names)), strict=True)):
        drawn[box] = _indices(picture, panel, low, high, box)
        sheet.number_across(box, _place_ticks(numbers, _room(numbers, box)), name)
    sheet.number_down(plot, down)
    sheet.write_upwards(_MARGIN, picture.down.name)
    values = [(1 - share, text) for share, text in _range_ticks(low, high)]
    sheet.number_down(_BAR, values, is_right=True)
    label = _BAR[2] + _TICK + 3 * _GAP + max(_length(text) for _, text in values)
    others = "" if np.isfinite(picture.values).all() else ", grey: not finite"
    sheet.write_upwards(label, picture.label + others)
    for box in drawn:
        sheet.frame(box)
    indices = np.asarray(sheet.image) // (256 // _GREYS)
    for (left, top, right, bottom), each in drawn.items():
        indices[top:bottom, left:right] = each
    image = Image.fromarray(indices).convert("P")
    image.putpalette(_palette(is_diverging=low < 0 < high))
    return image


@lru_cache
def _palette(*, is_diverging: bool) -> bytes:
    greys = [(255 * level // (_GREYS - 1),) * 3 for level in range(_GREYS)]
    colour = diverging if is_diverging else sequential
    colours = [colour(step / (_RAMP - 1)) for step in range(_RAMP)]
    return bytes(part for each in (*greys, _NOT_FINITE, *colours) for part in each)


def _left_of(ticks: Ticks) -> int:
    """Return where a plot starts that has numbers and a label at its left."""
    return _MARGIN + _LABEL + 3 * _GAP + _TICK + max(_length(text) for _, text in ticks)


def _boxes(plot: Box, count: int) -> list[Box]:
    """Divide a plot into boxes side by side."""
    left, top, right, bottom = plot
    width = (right - left - _PANEL_GAP * (count - 1)) // count
    starts = [left + index * (width + _PANEL_GAP) for index in range(count)]
    return [(start, top, start + width, bottom) for start in starts]


def _ends(values: Float64s) -> tuple[float, float]:
    """Return the least and the greatest finite value; 0 and 1 where there is none."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _limits(values: Float64s) -> tuple[float, float]:
    """Return the ends of the colours: as far from 0 as each other if there are both signs."""
    low, high = _ends(values)
    if low < 0 < high:
        farthest = max(-low, high)
        # The scale of sines ends at 1, although none of them may be 1.
        farthest = max(farthest, float(f"{farthest:.2g}"))
        return -farthest, farthest
    if low == high:
        return (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)
    return low, high


def _indices(picture: Picture, panel: int, low: float, high: float, box: Box) -> NDArray[np.uint8]:
    """Return the place in the palette of each pixel of a box: of the mean of the values there."""
    left, top, right, bottom = box
    values = picture.values[..., panel]
    is_finite = np.isfinite(values)
    # The last part of an axis may be shorter.
    lengths = (
        len(axis.numbers) / part
        for axis, part in zip((picture.across, picture.down), picture.parts[::-1], strict=True)
    )
    sizes = tuple(zip((1, 0), lengths, (right - left, bottom - top), strict=True))
    shown = _resized((np.where(is_finite, values, low) - low) / (high - low), sizes)
    if is_finite.all():
        return _in_ramp(shown)
    finite = _resized(is_finite.astype(np.float64), sizes)
    return np.where(finite >= 0.5, _in_ramp(shown / np.maximum(finite, 0.5)), np.uint8(_GREYS))


def _resized(values: Float64s, sizes: Iterable[tuple[int, float, int]]) -> Float64s:
    """Return the mean of the values over each pixel, which may have parts of several of them.

    Where each value has several pixels, they have sharp edges.

    Args:
        values: a matrix.
        sizes: axes, the length of each in values, and its number of pixels.
    """
    for axis, length, pixels in sizes:
        if pixels >= _SHARP_PIXELS * length:
            middles = (np.arange(pixels) + 0.5) * (length / pixels)
            values = values.take(middles.astype(np.int64), axis)
            continue
        most = values.shape[axis] - 1
        edges = np.linspace(0.0, length, pixels + 1)
        whole = np.minimum(edges.astype(np.int64), most)
        sums = np.cumsum(values, axis=axis) - values
        until = values.take(whole, axis)
        until *= np.expand_dims(edges - whole, 1 - axis)
        until += sums.take(whole, axis)
        values = np.diff(until, axis=axis)
        values *= pixels / length
    return values


def _in_ramp(shares: Float64s) -> NDArray[np.uint8]:
    places = (_RAMP - 1) * shares
    places += _RAMP_START + 0.5
    return places.clip(_RAMP_START, 255, out=places).astype(np.uint8)


def _curves(picture: Picture) -> Image.Image:
    """Draw a line for each row or column, over the numbers of the other axis."""
    is_by_row = picture.curves == "rows"
    each, along = (picture.down, picture.across)[:: 1 if is_by_row else -1]
    curves = picture.values[..., 0] if is_by_row else picture.values[..., 0].T
    names = [f"{each.name} {number_text(number)}" for number in each.numbers.tolist()]
    names = names if each.name else []
    column = _SAMPLE + _MARGIN + max(map(_length, names), default=0)
    right = max(_LEAST_RIGHT, WIDTH - 2 * _MARGIN - -(-len(names) // _LEGEND_ROWS) * column)
    least, most = _ends(curves)
    # Wavelengths and the like.
    is_spread = not names and 0 < 1000 * least < most
    curves = np.log10(curves) if is_spread else curves
    low, high = _reach(curves)
    ticks = _power_ticks(low, high) if is_spread else _range_ticks(low, high)
    down = [(1 - share, text) for share, text in ticks]
    plot = _left_of(down), _TOP, right, _BOTTOM
    distances = _distances(along.numbers)
    across = [(_inner(share), text) for share, text in _distance_ticks(along.numbers, plot)]
    sheet = _Sheet(picture.title)
    sheet.number_across(plot, across, along.name)
    sheet.number_down(plot, down)
    gaps = "" if np.isfinite(curves).all() else ", gaps: not finite"
    sheet.write_upwards(_MARGIN, picture.label + gaps)
    sheet.frame(plot)
    colours = _colours(len(curves))
    width, height = right - plot[0], _BOTTOM - _TOP
    # Down a column the pixels are next to each other, and two that are not shown.
    pixels = np.full((width, height + 2, 3), 255, np.uint8)
    pixels[[floor(share * width) for share, _ in across]] = _GRID
    pixels[:, [floor(share * height) for share, _ in down]] = _GRID
    flat = pixels.reshape(-1, 3)
    order = np.argsort(distances, kind="stable")
    places = _inner(distances[order] / (distances.max() or 1.0)) * width
    heights = (1 - (curves[:, order] - low) / (high - low)) * height
    for covered, colour in zip(_strokes(places, heights, width, height), colours, strict=True):
        at = covered.nonzero()
        before = flat[at].astype(np.int64)
        flat[at] = before + ((colour - before) * covered[at][:, np.newaxis] + _WHOLE // 2) // _WHOLE
    page = sheet.image.convert("RGB")
    turned = Image.fromarray(pixels).transpose(Image.Transpose.TRANSPOSE)
    page.paste(turned.crop((0, 0, width, height)), plot[:2])
    pen = ImageDraw.Draw(page)
    for index, (name, colour) in enumerate(zip(names, colours, strict=False)):
        place = right + _MARGIN + index // _LEGEND_ROWS * column
        if place >= WIDTH:
            break
        middle = _TOP + 7 + floor(index % _LEGEND_ROWS * _LEGEND_ROW)
        pen.line((place, middle, place + _SAMPLE - 6, middle), colour, 2)
        pen.text((place + _SAMPLE, middle), name, (_INK,) * 3, _font(_SMALL), "lm")
    return page


def _strokes(
    places: Float64s, heights: Float64s, width: int, height: int
) -> Iterator[NDArray[np.int16]]:
    """Draw curves: for each, how much it covers of every pixel, up to _WHOLE.

    A pixel is divided into columns. A curve with round ends and joints covers of each of them one
    interval, from the top to the bottom of the circles around its points nearby.

    Args:
        places: the distance of points from the left, ascending.
        heights: for each curve, that of its points from the top; not finite where it has a gap.
        width: the pixels from the left to the right.
        height: the pixels from the top to the bottom; two more have a place.
    """
    edges = np.arange(width * _COLUMNS + 1) / _COLUMNS
    after = np.searchsorted(places, edges).clip(1, max(1, len(places) - 1)) % len(places)
    between = places[after] - places[after - 1]
    shares = (edges - places[after - 1]) / np.where(between, between, np.nan)
    shares[(edges < places[0]) | (edges > places[-1])] = np.nan
    columns = (places * _COLUMNS).astype(np.int64)
    reach = floor(_LINE / 2 * _COLUMNS)
    for curve in np.where(np.isfinite(heights), heights, np.nan):
        crossing = curve[after - 1] + shares * (curve[after] - curve[after - 1])
        upper, lower = (least(crossing[1:], crossing[:-1]) for least in (np.fmin, np.fmax))
        np.fmin.at(upper, columns, curve)
        np.fmax.at(lower, columns, curve)
        tops, bottoms = (np.pad(each, reach, constant_values=np.nan) for each in (upper, lower))
        for step in range(2 * reach + 1):
            rise = _rise(_LINE / 2, step - reach)
            upper = np.fmin(upper, tops[step : step + len(upper)] - rise)
            lower = np.fmax(lower, bottoms[step : step + len(lower)] + rise)
        covered = _covered(upper, lower, width, height)
        if heights.size <= _MOST_MARKED:
            for place, middle in zip(places.tolist(), curve.tolist(), strict=True):
                _mark(covered.reshape(width, height + 2), place, middle)
        yield covered


def _mark(covered: NDArray[np.int16], place: float, middle: float) -> None:
    """Cover the pixels of a dot, also beside a steep line and where it touches other dots."""
    if not isfinite(middle):
        return
    first, top = max(0, floor(place) - _DOT_REACH), max(0, floor(middle) - _DOT_REACH)
    part = covered[first : floor(place) + _DOT_REACH + 1, top : floor(middle) + _DOT_REACH + 1]
    across = np.arange(first, first + part.shape[0])[:, np.newaxis] + 0.5 - place
    down = np.arange(top, top + part.shape[1]) + 0.5 - middle
    inside = (_DOT + 0.5 - np.sqrt(across * across + down * down)).clip(0, 1)
    np.maximum(part, np.rint(inside * _WHOLE).astype(np.int16), out=part)


def _rise(radius: float, columns: int) -> float:
    """Return the height of a circle above its middle, so many columns away."""
    return sqrt(radius**2 - (columns / _COLUMNS) ** 2)


def _covered(upper: Float64s, lower: Float64s, width: int, height: int) -> NDArray[np.int16]:
    """Return how much of each pixel the intervals of its columns cover."""
    (column,) = np.isfinite(upper).nonzero()
    ends = np.stack([upper[column], lower[column]]).clip(0, height) * _STEPS
    rows, steps = np.divmod(np.rint(ends).astype(np.int64), _STEPS)
    places = column // _COLUMNS * (height + 2) + rows
    signs = np.array([[1], [-1]])
    changes = np.zeros(width * (height + 2), dtype=np.int16)
    # A change in the row of an end, and the rest of it in the next.
    np.add.at(changes, places, (signs * (_STEPS - steps)).astype(np.int16))
    np.add.at(changes, places + 1, (signs * steps).astype(np.int16))
    return np.cumsum(changes, dtype=np.int16)


def _colours(count: int) -> Sequence[Colour]:
    """Return distinct colours, or for many curves a sequence that shows their order."""
    if count <= len(DISTINCT):
        return DISTINCT[:count]
    return [sequential(0.88 * index / (count - 1)) for index in range(count)]


def _reach(values: Float64s) -> tuple[float, float]:
    """Return the ends of the axis of curves, with a margin."""
    low, high = _ends(values)
    margin = 0.05 * (high - low) or abs(low) / 2 or 0.5
    return low - margin, high + margin


def _inner(shares: Any) -> Any:
    """Return shares of an axis that has margins."""
    return 0.02 + 0.96 * shares


def _distances(numbers: Numbers) -> Float64s:
    """Return the distance of each number from the least: float64 cannot distinguish far numbers."""
    if numbers.dtype.kind == "f":
        return np.asarray(numbers - numbers.min())
    distances = numbers.view(np.uint64) - numbers.min().view(np.uint64)
    return np.asarray(distances, dtype=np.float64)


def _room(numbers: Numbers, box: Box) -> int:
    """Return how many numbers there is room for below a box."""
    longest = max(_length(number_text(number)) for number in numbers[[0, -1]].tolist())
    return max(2, min(_MOST_TICKS, int(0.7 * (box[2] - box[0]) / longest)))


def _step(span: float, most: int) -> float:
    """Return the least 1, 2 or 5 times a power of ten that divides a span in at most so many."""
    unit = 10.0 ** floor(log10(span / most))
    return next(unit * times for times in (1, 2, 5, 10) if span <= most * unit * times)


def _whole_ticks(low: int, high: int, most: int) -> range:
    """Return the multiples of 1, 2 or 5 times a power of ten from low to high."""
    step = round(_step(high - low, most)) if high - low > most else 1
    ticks = range(-(-low // step) * step, high + 1, step)
    return ticks or range(low, low + 1)


def _place_ticks(numbers: Numbers, most: int) -> Ticks:
    """Number the middles of the elements along an axis: at round numbers if each is the next."""
    count, first = len(numbers), numbers[0].item()
    is_consecutive = numbers.dtype.kind != "f" and bool((np.diff(numbers) == 1).all())
    start = first if is_consecutive else 0
    places = [place - start for place in _whole_ticks(start, start + count - 1, most)]
    return [((place + 0.5) / count, number_text(numbers[place].item())) for place in places]


def _distance_ticks(numbers: Numbers, box: Box) -> Ticks:
    """Number an axis of curves, from its least number to its greatest."""
    low, high, most = numbers.min().item(), numbers.max().item(), _room(numbers, box)
    if low == high:
        return [(0.0, number_text(low))]
    if isinstance(low, float):
        return _range_ticks(low, high, most)
    ticks = _whole_ticks(low, high, most)
    return [((tick - low) / (high - low), number_text(tick)) for tick in ticks]


def _range_ticks(low: float, high: float, most: int = _MOST_TICKS) -> Ticks:
    """Number the multiples of 1, 2 or 5 times a power of ten from low to high."""
    if high - low < 1e-300:
        return [(0.0, number_text(low)), (1.0, number_text(high))]
    # Below the distance of the numbers of float64, several multiples would be the same.
    step = max(_step(high - low, most), ulp(max(-low, high)))
    digits = floor(log10(max(-low, high) / step)) + 2
    multiples = [step * index for index in range(ceil(low / step), floor(high / step) + 1)]
    return [((each - low) / (high - low), f"{each:.{max(6, digits)}g}") for each in multiples]


def _power_ticks(low: float, high: float) -> Ticks:
    """Number the powers of ten between two exponents."""
    ticks = _whole_ticks(ceil(low), floor(high), _MOST_TICKS)
    return [((each - low) / (high - low), f"{10.0**each:g}") for each in ticks]
