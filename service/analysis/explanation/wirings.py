"""Wirings: the pairs of channels of a rotation, where results go, what multiplies them.

With cosine c and sine s of a pair, "RoFormer" (Su et al. 2021) §3.2.2 rotates (x0, x1) to
(x0·c − x1·s, x1·c + x0·s). A ``Wiring`` does this, or what code does instead of it, for any cosines
and sines; ``measured`` inverts it. ``variants`` yields wirings with up to two mistakes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.arithmetic import Waves
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.places import Finding, placed, span_of
from service.analysis.explanation.views import HALF_STEP, evenly
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

Mask: TypeAlias = NDArray[np.bool_]
Layout: TypeAlias = Literal["half", "interleaved"]
LAYOUTS: tuple[Layout, Layout] = ("interleaved", "half")

# Two products and their sum may each lose half of the smallest number.
_LEAST = {FLOAT16: 2.0**-23, BFLOAT16: 2.0**-132, FLOAT32: 2.0**-148}
_PAIRS = {"half": "(k, k + r/2)", "interleaved": "(2k, 2k + 1)"}


class WiringForm(NamedTuple):
    """The signs of the sines in the first and the second channel of a pair, and what they multiply.

    ``is_crossed``: the other channel of the pair, as in a rotation, and not the channel itself.
    """

    first: float
    second: float
    is_crossed: bool


ROTATION = WiringForm(-1.0, 1.0, is_crossed=True)
_WRONG_FORMS: dict[WiringForm, tuple[str, str]] = {
    WiringForm(1.0, 1.0, is_crossed=True): (
        "sine-sign",
        "no sine has a minus: rotate_half gives (x2, x1) for (-x2, x1)",
    ),
    WiringForm(-1.0, -1.0, is_crossed=True): (
        "sine-sign",
        "both sines have a minus: rotate_half gives (-x2, -x1) for (-x2, x1)",
    ),
    WiringForm(1.0, -1.0, is_crossed=False): (
        "halves-swapped",
        "rotate_half gives (x1, -x2) for (-x2, x1)",
    ),
    WiringForm(-1.0, 1.0, is_crossed=False): (
        "halves-swapped",
        "rotate_half gives (-x1, x2) for (-x2, x1)",
    ),
}


@dataclass(frozen=True)
class Wiring:
    """The effect of a rotation on the channels of a head, for any cosines and sines.

    Attributes:
        head_dim: the number of channels of a head.
        width: the number of channels that rotate.
        offset: the number of channels before them.
        read, written: the layout of the pairs before and after.
        form: a rotation, or one of its wrong forms.
        is_tiled_otherwise: whether cosines and sines are laid out for the other layout.
        is_reversed: whether the two channels of a pair are written in the other order.
        is_exchanged: whether sines stand for cosines and cosines for sines.
        is_rest_zero: whether the other channels become 0 instead of being copied.
        gains: what multiplies cosines, and sines; −1 for sines rotates by minus the angle.
        tables: the type to which cosines and sines were rounded; None if to none.
    """

    head_dim: int
    width: int
    offset: int = 0
    read: Layout = "half"
    written: Layout = "half"
    form: WiringForm = ROTATION
    is_tiled_otherwise: bool = False
    is_reversed: bool = False
    is_exchanged: bool = False
    is_rest_zero: bool = False
    gains: tuple[float, float] = (1.0, 1.0)
    tables: DType | None = None

    @property
    def count(self) -> int:
        """The number of pairs."""
        return self.width // 2

    def components(self, cosine: Float64s, sine: Float64s) -> tuple[Float64s, Float64s]:
        """Return what multiplies the channels, before it is rounded to ``tables``."""
        pair = cosine * self.gains[0], sine * self.gains[1]
        return (pair[1], pair[0]) if self.is_exchanged else pair

    def apply(self, x: Float64s, cosine: Float64s, sine: Float64s) -> Float64s:
        """Return x, (H, S, head_dim), rotated by ``components``, (S, count) each."""
        links = self.links
        y = np.zeros_like(x) if self.is_rest_zero else x.copy()
        y[..., links.place] = (
            x[..., links.own] * cosine[:, links.frequency]
            + x[..., links.other] * links.sign * sine[:, links.frequency]
        )
        return y

    def allowed(self, x: Float64s, bound: Float64s, share: float, dtype: DType) -> Float64s:
        """Return the error allowed of each channel, of the shape of x.

        Args:
            x: the array before the rotation, (H, S, head_dim).
            bound: a bound of the error of each cosine and sine, (S, count).
            share: a bound of the relative error of a copied channel.
            dtype: the type, whose smallest number may be lost.
        """
        links, size = self.links, np.abs(x)
        errors = size * share + _LEAST.get(dtype, 0.0)
        sums = size[..., links.own] + size[..., links.other]
        errors[..., links.place] += (
            sums * bound[:, links.frequency] - size[..., links.place] * share
        )
        return errors

    def measured(self, x: Float64s, y: Float64s) -> tuple[Float64s, Float64s, Float64s]:
        """Fit the cosines and sines that take x to y, by least squares over heads and channels.

        Args:
            x: the array before the rotation, (H, S, head_dim).
            y: the array after it.

        Returns:
            cosines, sines, (S, count) each, and the weight of each; 0 where x does not determine
            them: about the sum of the squares of the channels that the cosine multiplies.
        """
        links = self.links
        with_cosine = _by_pair(x[..., links.own], links.frequency)
        with_sine = _by_pair(x[..., links.other] * links.sign, links.frequency)
        result = _by_pair(y[..., links.place], links.frequency)
        a, d = ((each * each).sum(axis=(0, 3)) for each in (with_cosine, with_sine))
        b = (with_cosine * with_sine).sum(axis=(0, 3))
        p, q = ((each * result).sum(axis=(0, 3)) for each in (with_cosine, with_sine))
        determinant = a * d - b * b
        is_known = determinant > 1e-9 * a * d
        divisor = np.where(is_known, determinant, 1.0)
        weights: Float64s = np.where(is_known, divisor / (a + d + ~is_known), 0)
        pair = [np.where(is_known, each / divisor, 0.0) for each in (p * d - q * b, q * a - p * b)]
        cosine, sine = pair[::-1] if self.is_exchanged else pair
        return cosine / self.gains[0], sine / self.gains[1], weights

    @cached_property
    def links(self) -> "Links":
        """The source channels of each rotated channel."""
        first, second = _pair_channels(self.read, self.count, self.offset)
        straight = np.concatenate(_pair_channels(self.written, self.count, self.offset))
        own, other = np.concatenate([first, second]), np.concatenate([second, first])
        channel = straight - self.offset
        is_half = (self.written == "half") is not self.is_tiled_otherwise
        return Links(
            own,
            other if self.form.is_crossed else own,
            np.repeat([self.form.first, self.form.second], self.count),
            np.roll(straight, self.count) if self.is_reversed else straight,
            channel % self.count if is_half else channel // 2,
        )


@dataclass(frozen=True, eq=False)
class Links:
    """y[place] = x[own]·cosine[frequency] + x[other]·sign·sine[frequency], of ``width`` places."""

    own: Indices
    other: Indices
    sign: Float64s
    place: Indices
    frequency: Indices


def _pair_channels(layout: Layout, count: int, offset: int) -> tuple[Indices, Indices]:
    pair = np.arange(count)
    if layout == "half":
        return offset + pair, offset + pair + count
    return offset + 2 * pair, offset + 2 * pair + 1


def _by_pair(values: Float64s, frequency: Indices) -> Float64s:
    """Return channels (H, S, 2K) grouped by frequency, (H, S, K, 2)."""
    order = np.argsort(frequency, kind="stable")
    return values[..., order].reshape(*values.shape[:2], -1, 2)


@dataclass(frozen=True, eq=False)
class Variant:
    """A wiring, and the mistakes that lead from the expected one to it."""

    wiring: Wiring
    mistakes: tuple[Mistake, ...] = ()
    last: int = -1

    @property
    def bits(self) -> float:
        return sum(each.bits for each in self.mistakes)


@dataclass(frozen=True, eq=False)
class ReadChannels:
    """The channels that arrays show to be read, over all heads and rows, and their type.

    Attributes:
        kept: channels that are the same after the rotation, (head_dim,).
        zero: channels that are 0 after it, (head_dim,).
        factor: the expected factor of cosines and sines.
        dtype: the type of the arithmetic.
    """

    kept: Mask
    zero: Mask
    factor: float
    dtype: DType

    @classmethod
    def of(
        cls, x: Float64s, y: Float64s, factor: float, dtype: DType, slack: float
    ) -> "ReadChannels":
        kept = np.abs(y - x) <= 2 * HALF_STEP[dtype] * np.abs(x) + slack
        is_kept, is_zero = (np.asarray(each.all(axis=(0, 1))) for each in (kept, y == 0))
        return cls(is_kept, is_zero, factor, dtype)

    def fit(self, wiring: Wiring) -> bool:
        """Return whether the channels that do not rotate are as they must be."""
        rest = np.ones(wiring.head_dim, dtype=np.bool_)
        rest[wiring.offset : wiring.offset + wiring.width] = False
        return bool((self.zero if wiring.is_rest_zero else self.kept)[rest].all())


def variants(starts: list[Wiring], channels: ReadChannels) -> list[Variant]:
    """Return the wirings with up to two mistakes whose other channels fit, by their bits."""
    aspects: tuple[Callable[[Wiring], Iterator[Changed]], ...] = (
        *(_layouts, _forms, _orders, _tilings, _rests, partial(_widths, channels), _signs),
        *(partial(_factors, channels.factor), partial(_tables, channels.dtype)),
    )
    level = [Variant(each) for each in starts]
    found = {each.wiring: each for each in level}
    for _ in range(2):
        following = []
        for variant in level:
            for number, aspect in enumerate(aspects[variant.last + 1 :], variant.last + 1):
                for wiring, more in aspect(variant.wiring):
                    if wiring not in found:
                        found[wiring] = Variant(wiring, (*variant.mistakes, more), number)
                        following.append(found[wiring])
        level = following
    fitting = [each for each in found.values() if channels.fit(each.wiring)]
    return sorted(fitting, key=lambda each: each.bits)


Changed: TypeAlias = tuple[Wiring, Mistake]


def _layouts(wiring: Wiring) -> Iterator[Changed]:
    if wiring.count < 2:
        return
    for read, written in product(LAYOUTS, repeat=2):
        if (read, written) == (wiring.read, wiring.written):
            continue
        wrong = mistake("layout-mixed", None, {"read": read, "written": written})
        if read == written and wiring.read == wiring.written:
            values = {"have": read, "want": wiring.read}
            pairs = {f"{side}_pairs": _PAIRS[layout] for side, layout in values.items()}
            wrong = mistake("layout-swapped", None, {**values, **pairs}, variant="rotation")
        yield replace(wiring, read=read, written=written), wrong


def _forms(wiring: Wiring) -> Iterator[Changed]:
    for form, (name, how) in _WRONG_FORMS.items():
        yield replace(wiring, form=form), mistake(name, None, {"how": how}, variant="rotation")


def _orders(wiring: Wiring) -> Iterator[Changed]:
    for changed, how in (
        (replace(wiring, is_reversed=True), "the result is (y2, y1) for (y1, y2)"),
        (replace(wiring, is_exchanged=True), "sines stand for cosines and cosines for sines"),
    ):
        yield changed, mistake("halves-swapped", None, {"how": how}, variant="rotation")


def _tilings(wiring: Wiring) -> Iterator[Changed]:
    if wiring.read == wiring.written and wiring.count > 1:
        other = LAYOUTS[wiring.written == LAYOUTS[0]]
        values = {"have": other, "want": wiring.written}
        wrong = mistake("table-layout-swapped", None, values)
        yield replace(wiring, is_tiled_otherwise=True), wrong


def _rests(wiring: Wiring) -> Iterator[Changed]:
    if wiring.width < wiring.head_dim:
        yield replace(wiring, is_rest_zero=True), mistake("rest-zeroed")


def _signs(wiring: Wiring) -> Iterator[Changed]:
    cosine, sine = wiring.gains
    yield replace(wiring, gains=(cosine, -sine)), mistake("inverse")


def _factors(factor: float, wiring: Wiring) -> Iterator[Changed]:
    cosine, sine = wiring.gains
    if factor == 1:
        return
    for gains, have, want in (
        ((cosine, sine / factor), "cosines", "sines"),
        ((cosine / factor, sine), "sines", "cosines"),
    ):
        values = {"factor": factor, "have": have, "want": want}
        yield replace(wiring, gains=gains), mistake("one-sided-factor", None, values)


# Cosines as coarse as the array are no mistake: those that are shall be much coarser.
_LEAST_RATIO = 16


def _tables(kind: DType, wiring: Wiring) -> Iterator[Changed]:
    for dtype in (BFLOAT16, FLOAT16):
        if HALF_STEP[dtype] >= _LEAST_RATIO * HALF_STEP[kind]:
            narrow = mistake("narrow-tables", None, {"dtype": dtype.name})
            yield replace(wiring, tables=dtype), narrow


def _widths(channels: ReadChannels, wiring: Wiring) -> Iterator[Changed]:
    """Yield other numbers of channels that rotate, and other first ones."""
    is_constant = channels.kept | channels.zero
    for width, offset in _ranges(wiring, np.flatnonzero(~is_constant)):
        rest = np.ones(wiring.head_dim, dtype=np.bool_)
        rest[offset : offset + width] = False
        if not is_constant[rest].all():
            continue
        is_zero = bool(rest.any() and channels.zero[rest].all() and not channels.kept[rest].all())
        if width == wiring.width:
            wrong = mistake("rotary-offset", None, {"have": offset, "want": wiring.offset})
        else:
            values = {"have": width, "want": wiring.width, "offset": offset}
            wrong = mistake("partial-width", None, values, {"rotary_dim": width})
        yield replace(wiring, width=width, offset=offset, is_rest_zero=is_zero), wrong


def _ranges(wiring: Wiring, changed: Indices) -> list[tuple[int, int]]:
    """Return widths and first channels: common ones, and the range of the changed channels."""
    head_dim = wiring.head_dim
    first, last = (int(changed[0]), int(changed[-1])) if len(changed) else (0, -1)
    widths = {head_dim, head_dim // 2, head_dim // 4, 3 * head_dim // 4, wiring.width}
    widths |= {2 * wiring.width, wiring.width // 2}
    widths |= {last + 1 - first, last + 1 - wiring.offset, last + 2 - first}
    # In the layout half the last pairs of both halves may turn too little to change x.
    widths |= {2 * (len(changed) // 2), 2 * ((len(changed) + 1) // 2)}
    return [
        (width, offset)
        for width in sorted(width for width in widths if width >= 2 and width % 2 == 0)
        for offset in dict.fromkeys((wiring.offset, 0, first, head_dim - width))
        if 0 <= offset <= head_dim - width and (width, offset) != (wiring.width, wiring.offset)
    ]


# A search looks at this many heads, and first at a few rows.
_MOST_HEADS, FIRST_ROWS = 8, 16


@dataclass(frozen=True, eq=False)
class Sides:
    """Arrays before and after, (H, S, head_dim), and the position of each row, (S, 1) or (S, K)."""

    x: Float64s
    y: Float64s
    places: Float64s

    def at(self, rows: Indices | slice, heads: Indices | slice = slice(None)) -> "Sides":
        return Sides(self.x[heads][:, rows], self.y[heads][:, rows], self.places[rows])

    @property
    def rows(self) -> int:
        return len(self.places)

    @property
    def few(self) -> "Sides":
        """A few rows of all of these."""
        return self.at(np.array(evenly(self.rows, FIRST_ROWS)))

    @property
    def heads(self) -> "Sides":
        """All rows of some heads."""
        return self.at(slice(None), np.array(evenly(len(self.x), _MOST_HEADS)))

    def bad(
        self,
        wiring: Wiring,
        waves: Waves,
        kind: DType,
        slack: float = 0.0,
        level: int = 2,
        *,
        halves: float = 4.5,
    ) -> Mask:
        """Return where numbers are not those that waves give by a wiring, (H, S, head_dim).

        ``slack`` is a further error of each number, ``level`` that of ``_loss``, and ``halves`` how
        many half steps of the type a kernel may lose.
        """
        half = HALF_STEP[kind]
        noise = halves * half + 4 * (half if kind is FLOAT64 else UNIT)
        narrow = waves.narrowing
        if narrow is not None and narrow.part == "throughout":
            noise += 2 * HALF_STEP[narrow.dtype]
        loss = _loss(waves, kind, level)
        bound = (
            max(map(abs, wiring.gains)) * abs(waves.scale) * (noise + np.where(loss < 1, loss, 0))
        )
        values = wiring.components(*waves.values)
        if wiring.tables is not None:
            values, steps = _steps_of_tables(wiring.tables, values, bound)
            bound = bound + steps
        bad: Mask = ~(
            np.abs(self.y - wiring.apply(self.x, *values))
            <= wiring.allowed(self.x, bound, half, kind) + slack
        )
        return bad

    def misfit(
        self, wiring: Wiring, cosine: Float64s, sine: Float64s, noise: float, kind: DType
    ) -> Float64s:
        """Return by how much more than a share of noise numbers are off, (H, S, head_dim)."""
        predicted = wiring.apply(self.x, *wiring.components(cosine, sine))
        bound = np.full(cosine.shape, noise)
        off: Float64s = np.abs(self.y - predicted)
        return off - wiring.allowed(self.x, bound, noise, kind)


def _loss(waves: Waves, kind: DType, level: int) -> Float64s:
    """Return the error of angles that an arithmetic causes: 0 exact, 1 float32, 2 by products."""
    narrow = waves.narrowing
    if narrow is not None and narrow.part in {"positions", "frequencies"}:
        products = 2 * np.arange(len(waves.omega)) + 6
        loose: Float64s = waves.far * UNIT * (products + waves.stiffness)
        return loose
    if narrow is not None or level == 0:
        return np.zeros(waves.far.shape)
    if kind is FLOAT64:
        return waves.far * 32 * HALF_STEP[FLOAT64]
    more = (2 * np.arange(len(waves.omega)) + 2) * UNIT * (level > 1)
    return waves.far * (waves.share + more)


def _steps_of_tables(
    dtype: DType, values: tuple[Float64s, Float64s], bound: Float64s
) -> tuple[tuple[Float64s, Float64s], Float64s]:
    """Return components rounded to a narrow type, and the error that an error ``bound`` causes.

    An error within the bound changes a rounded value by a whole step, or not at all.
    """
    near = tuple(rounded(each, dtype) for each in values)
    steps = [
        np.abs(rounded(each + side * bound, dtype) - middle)
        for each, middle in zip(values, near, strict=True)
        for side in (-1, 1)
    ]
    most: Float64s = np.maximum.reduce(steps)
    return (near[0], near[1]), most


def place_of(bad: Mask, wiring: Wiring, mistakes: Sequence[Mistake]) -> Finding:
    """Return in which heads, rows or pairs numbers, (H, S, D), are not what was found."""
    links, in_rows = wiring.links, np.asarray(bad.any(axis=0))
    order = np.argsort(links.frequency, kind="stable")
    pairs = np.asarray(in_rows[:, links.place[order]].reshape(len(in_rows), -1, 2).any(axis=2))
    if pairs.any():
        found = placed(pairs)
    else:
        span = span_of(np.flatnonzero(in_rows.any(axis=0)), in_rows.shape[1], "channel")
        found = Finding("channels", f"{span.text}, which should pass through", span.values)
    names, values, where = ", ".join(each.name for each in mistakes), dict(found.values), ""
    heads = np.flatnonzero(bad.any(axis=(1, 2)))
    if len(heads) < len(bad):
        span = span_of(heads, len(bad), "head")
        values["heads"], where = span.values, f", in {span.text}"
    return Finding(found.name, f"{names or 'right'} but for {found.text}{where}", values)
