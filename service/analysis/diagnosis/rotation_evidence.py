"""How an application of rotations connects channels: which are pairs, and what becomes of them.

The cosines and sines that an application used, told by how they differ from those wanted.

An array before and after somebody turned it, and whether an application explains it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.measure import measure
from service.numerics.dtypes import DType, round_into, to_float64
from service.numerics.phase import Float64s

Layout: TypeAlias = Literal["interleaved", "half"]
Form: TypeAlias = Literal["rotation", "no-minus", "both-minus", "own-minus-last", "own-minus-first"]
Indices: TypeAlias = NDArray[np.intp]

LAYOUTS: tuple[Layout, Layout] = ("interleaved", "half")

# Signs of the sine in the first and in the second channel of a pair, and whether it multiplies
# the other channel of the pair or the channel itself.
_FORMS: dict[Form, tuple[float, float, bool]] = {
    "rotation": (-1.0, 1.0, True),
    "no-minus": (1.0, 1.0, True),
    "both-minus": (-1.0, -1.0, True),
    "own-minus-last": (1.0, -1.0, False),
    "own-minus-first": (-1.0, 1.0, False),
}


@dataclass(frozen=True)
class Wiring:
    """Say what an application makes of the channels of a head, whatever the angles.

    With the cosines c and the sines n of a pair, "RoFormer" (Su et al. 2021) §3.2.2 turns (x0, x1)
    into (x0·c − x1·n, x1·c + x0·n).

    Attributes:
        head_dim: channels of a head.
        width: channels that turn.
        offset: channels before the first that turns.
        read: where the two channels of a pair come from.
        written: where they go to.
        form: ``rotation``, or what comes out with other signs of the sines, or where the sine
            multiplies the channel itself in place of its partner (halves in the wrong order).
        is_tiled_otherwise: whether cosines and sines lie along the channels as for the other
            layout: f0,f0,f1,f1… for f0,f1,…,f0,f1,… or the reverse.
        is_exchanged: whether the two channels of a pair are written in each other's place.
        is_rest_zero: whether channels that do not turn are zero, in place of passing through.
    """

    head_dim: int
    width: int
    offset: int = 0
    read: Layout = "half"
    written: Layout = "half"
    form: Form = "rotation"
    is_tiled_otherwise: bool = False
    is_exchanged: bool = False
    is_rest_zero: bool = False

    @property
    def count(self) -> int:
        """Pairs that turn."""
        return self.width // 2

    @property
    def turning(self) -> slice:
        """The channels that turn."""
        return slice(self.offset, self.offset + self.width)

    def apply(self, x: Float64s, cosine: Float64s, sine: Float64s) -> Float64s:
        """Turn x of shape (H, S, head_dim) by cosines and sines (S, count)."""
        links = self.links
        y = np.zeros_like(x) if self.is_rest_zero else x.copy()
        y[..., links.place] = (
            x[..., links.own] * cosine[:, links.frequency]
            + x[..., links.other] * links.sign * sine[:, links.frequency]
        )
        return y

    def sizes(self, x: Float64s) -> Float64s:
        """Give |x0| + |x1| for each channel, of the two that it is made of; |x| elsewhere."""
        links, size = self.links, np.abs(x)
        sums = size.copy()
        sums[..., links.place] = size[..., links.own] + size[..., links.other]
        return sums

    def measure(self, x: Float64s, y: Float64s) -> tuple[NDArray[np.complex128], Float64s]:
        """Find the cosines and sines that make y of x best, by least squares over heads.

        Returns:
            cosine + i·sine, (S, count), and the weight of each: the sum of the squares of what it
            multiplied, 0 where nothing can be said.
        """
        links = self.links
        with_cosine = _by_pair(x[..., links.own], links.frequency)
        with_sine = _by_pair(x[..., links.other] * links.sign, links.frequency)
        made = _by_pair(y[..., links.place], links.frequency)
        a, d = (with_cosine**2).sum(axis=(0, 3)), (with_sine**2).sum(axis=(0, 3))
        b = (with_cosine * with_sine).sum(axis=(0, 3))
        p, q = (with_cosine * made).sum(axis=(0, 3)), (with_sine * made).sum(axis=(0, 3))
        determinant = a * d - b * b
        is_known = determinant > 1e-9 * a * d
        divisor = np.where(is_known, determinant, 1.0)
        turns = ((p * d - q * b) + 1j * (q * a - p * b)) / divisor
        return np.where(is_known, turns, 0.0), np.where(is_known, divisor / (a + d + ~is_known), 0)

    @cached_property
    def links(self) -> "Links":
        """Say which channels and which frequency each turned channel is made of."""
        first, second = _places(self.read, self.count, self.offset)
        to_first, to_second = _places(self.written, self.count, self.offset)
        first_sign, second_sign, is_crossed = _FORMS[self.form]
        own = np.concatenate([first, second])
        other = np.concatenate([second, first]) if is_crossed else own
        straight = np.concatenate([to_first, to_second])
        place = np.concatenate([to_second, to_first]) if self.is_exchanged else straight
        sign = np.repeat([first_sign, second_sign], self.count)
        return Links(own, other, sign, place, self._frequencies(straight - self.offset))

    def _frequencies(self, channel: Indices) -> Indices:
        is_half = (self.written == "half") is not self.is_tiled_otherwise
        return channel % self.count if is_half else channel // 2


@dataclass(frozen=True, eq=False)
class Links:
    """What each turned channel is made of: own·cosine + other·sign·sine of a frequency."""

    own: Indices
    other: Indices
    sign: Float64s
    place: Indices
    frequency: Indices


def _places(layout: Layout, count: int, offset: int) -> tuple[Indices, Indices]:
    pair = np.arange(count)
    if layout == "half":
        return offset + pair, offset + pair + count
    return offset + 2 * pair, offset + 2 * pair + 1


def _by_pair(values: Float64s, frequency: Indices) -> Float64s:
    """Arrange channels as (H, S, frequency, two)."""
    order = np.argsort(frequency, kind="stable")
    return values[..., order].reshape(*values.shape[:2], -1, 2)


Complexes = NDArray[np.complex128]
ChannelIndices = NDArray[np.intp]

# Angles of rows that one step apart are measured to: less than this is a straight line.
_STRAIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class Target:
    """The cosines and sines that should have been used.

    Attributes:
        unit: e^(i·angle), (S, K).
        size: what it is multiplied by, (S, K).
        positions: of the rows, (S,).
        omega: radians per position, (K,); None where angles are not positions times frequencies.
        omega_error: how far each may be from what is meant, (K,).
    """

    unit: Complexes
    size: Float64s
    positions: Float64s
    omega: Float64s | None
    omega_error: Float64s

    @classmethod
    def of(
        cls,
        cosine: Float64s,
        sine: Float64s,
        positions: Float64s | None = None,
        omega: Float64s | None = None,
    ) -> "Target":
        """Read cosines and sines (S, K); positions and frequencies are measured unless known."""
        turns = cosine + 1j * sine
        size = np.abs(turns)
        unit = np.divide(turns, size, out=np.ones_like(turns), where=size > 0)
        where = np.arange(len(unit), dtype=np.float64) if positions is None else positions
        if omega is not None:
            return cls(unit, size, where, omega, np.zeros(len(omega)))
        if len(unit) < 2 or not (np.diff(where) > 0).all():
            return cls(unit, size, where, None, np.zeros(unit.shape[1]))
        waves = measure(unit, where)
        error = (waves.angle_error + 2.0**-52) / max(1.0, float(where[-1] - where[0]))
        is_straight = bool((waves.angle_error < _STRAIGHT * max(1.0, len(unit) / 64)).all())
        start = 0.0
        if is_straight and positions is None:
            start = ahead_of(np.exp(1j * waves.phase), np.ones(unit.shape[1]), waves.omega) or 0.0
        return cls(unit, size, where + start, waves.omega if is_straight else None, error)

    @property
    def rows(self) -> int:
        """Rows that there are."""
        return len(self.unit)

    def position(self, row: int) -> float | None:
        """Give the position of a row, where it is known."""
        return None if self.omega is None else float(self.positions[row])


def ahead_of(turns: Complexes, weights: Float64s, omega: Float64s) -> float | None:
    """Find the whole number k whose turns e^(ikω) these are, from the slowest to the fastest.

    Each frequency makes k as exact as its own angle is; None where there is no such number, as far
    as the slowest, which must not have turned by more than half, can say.
    """
    usable = (omega != 0) & (weights > 0)
    if not usable.any():
        return None
    steps = 0.0
    for k in sorted(np.flatnonzero(usable), key=lambda k: abs(float(omega[k]))):
        steps += float(np.angle(turns[k] * np.exp(-1j * steps * omega[k]))) / float(omega[k])
    return float(np.round(steps))


@dataclass(frozen=True, eq=False)
class Spin:
    """Say how the cosines and sines that were used differ from those wanted; by nothing unless set.

    Attributes:
        rows: the row of the wanted that each row used.
        ahead: positions that are added to those of the wanted, for all rows or for each.
        omega: the frequencies that were used.
        times: how often the angle was turned by.
        is_inverse: whether it was the other way.
        is_exchanged: whether cosines stood for sines and sines for cosines.
        powers: how often cosines, and sines, were multiplied by the size of the wanted.
        factor: what else they were multiplied by.
        dtype: the type that they were rounded to.
        beyond: the first row that was not treated like those before, and whether it and those
            after it are ``unrotated`` or ``zero``.
    """

    rows: ChannelIndices | None = None
    ahead: float | Float64s = 0.0
    omega: Float64s | None = None
    times: int = 1
    is_inverse: bool = False
    is_exchanged: bool = False
    powers: tuple[int, int] = (1, 1)
    factor: float = 1.0
    dtype: DType | None = None
    beyond: tuple[int, str] | None = None

    def positions(self, target: Target, rows: ChannelIndices) -> Float64s:
        """Give the positions that rows were taken to be at."""
        source = rows if self.rows is None else self.rows[rows]
        ahead = self.ahead if isinstance(self.ahead, float) else self.ahead[rows]
        places: Float64s = target.positions[source] + ahead
        return places

    def frequencies(self, target: Target) -> Float64s | None:
        """Give the frequencies that were used, as far as angles are made of any."""
        return target.omega if self.omega is None else self.omega

    def unit(self, target: Target, rows: ChannelIndices) -> Complexes:
        """Give e^(i·angle) of rows, once, in the right direction."""
        source = rows if self.rows is None else self.rows[rows]
        if self.omega is not None:
            turned: Complexes = np.exp(1j * np.outer(self.positions(target, rows), self.omega))
            return turned
        turns = target.unit[source]
        if target.omega is None or (isinstance(self.ahead, float) and self.ahead == 0):
            return turns
        ahead = self.ahead if isinstance(self.ahead, float) else self.ahead[rows]
        moved = np.outer(np.broadcast_to(ahead, len(rows)), target.omega)
        return turns * np.exp(1j * moved)

    def cosines_and_sines(self, target: Target, rows: ChannelIndices) -> tuple[Float64s, Float64s]:
        """Give what was multiplied with, (rows, K)."""
        turns = self.unit(target, rows) ** self.times
        if self.is_inverse:
            turns = turns.conj()
        if self.is_exchanged:
            turns = 1j * turns.conj()
        size = self._size(target, rows, turns.shape[1])
        cosine = turns.real * self.factor * size ** self.powers[0]
        sine = turns.imag * self.factor * size ** self.powers[1]
        if self.dtype is not None:
            cosine, sine = rounded(cosine, self.dtype), rounded(sine, self.dtype)
        return cosine, sine

    def undone(self, turns: Complexes, target: Target, rows: ChannelIndices) -> Complexes:
        """Give the turns that this made others of, but for their multiple."""
        size = self._size(target, rows, turns.shape[1])
        cosine, sine = (
            part / size**power
            for part, power in zip((turns.real, turns.imag), self.powers, strict=True)
        )
        turns = cosine + 1j * sine
        if self.is_exchanged:
            turns = 1j * turns.conj()
        return turns.conj() if self.is_inverse else turns

    def _size(self, target: Target, rows: ChannelIndices, count: int) -> Float64s:
        source = rows if self.rows is None else self.rows[rows]
        size = target.size[source]
        return size if size.shape[1] == count else size[:, :1]


def rounded(values: Float64s, dtype: DType) -> Float64s:
    """Round numbers to a real type; what is too large for it becomes infinite."""
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values, elements, dtype)
    return to_float64(elements, dtype)


Flags = NDArray[np.bool_]

# Roundings of cosine, sine, two products and their sum, each by half an ulp at most, of numbers
# that |x0| + |x1| bounds: 2 for a product with its factor, 1 for the sum, and one to spare.
_ROUNDINGS = 4
# A frequency of float32 is some ulp off (a power, a division), and so is its product.
_FLOAT32 = 2.0**-24
_ANGLE_ROUNDINGS = 4

_CHUNK_ELEMENTS = 2**20


@dataclass(frozen=True, eq=False)
class Application:
    """One way to turn an array, and what is wrong with it.

    Attributes:
        wiring: what becomes of channels.
        spin: by which cosines and sines.
        mistakes: how it differs from what is wanted.
        aspects: what of it they changed.
    """

    wiring: Wiring
    spin: Spin = field(default_factory=Spin)
    mistakes: tuple[Mistake, ...] = ()
    aspects: tuple[str, ...] = ()

    def with_mistake(
        self,
        aspect: str,
        mistake: Mistake,
        *,
        wiring: Wiring | None = None,
        spin: Spin | None = None,
    ) -> "Application":
        """Make one mistake more."""
        return Application(
            wiring or self.wiring,
            spin or self.spin,
            (*self.mistakes, mistake),
            (*self.aspects, aspect),
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """An array before and after.

    Attributes:
        x: before, (H, S, head_dim).
        y: after, in the same shape.
        target: the cosines and sines that should have turned it.
        roundoff: half an ulp of 1 in the type of the arrays.
        least: what may be lost where numbers are too small for it.
    """

    x: Float64s
    y: Float64s
    target: Target
    roundoff: float
    least: float = 0.0

    def errors(
        self, application: Application, heads: slice, rows: ChannelIndices
    ) -> tuple[Float64s, Float64s, Float64s]:
        """Give what an application makes of rows, how far it is off, and by how much it may be."""
        wiring, spin, target = application.wiring, application.spin, self.target
        x, y = self.x[heads][:, rows], self.y[heads][:, rows]
        cosine, sine = spin.cosines_and_sines(target, rows)
        made = wiring.apply(x, cosine, sine)
        share = np.full((len(rows), wiring.head_dim), self.roundoff)
        size = np.hypot(cosine, sine)
        links = wiring.links
        bound = size * self._share(spin, rows)
        if spin.dtype is not None:
            bound += self._doubt(spin, rows, bound)
        share[:, links.place] = bound[:, links.frequency]
        if spin.beyond is not None:
            is_beyond = rows >= spin.beyond[0]
            made[:, is_beyond] = x[:, is_beyond] if spin.beyond[1] == "unrotated" else 0.0
        allowed = wiring.sizes(x) * share + self.least
        with np.errstate(invalid="ignore"):
            return made, np.abs(y - made), allowed

    def share_within(
        self, application: Application, heads: slice, rows: ChannelIndices
    ) -> Float64s:
        """Give the share of elements that an application explains, for each row."""
        _, error, allowed = self.errors(application, heads, rows)
        share: Float64s = (error <= allowed).mean(axis=(0, 2))
        return share

    def chunks(self) -> Iterator[ChannelIndices]:
        """Give all rows, so many at a time as take little memory."""
        size = max(1, _CHUNK_ELEMENTS // (self.x.shape[0] * self.x.shape[2]))
        for start in range(0, self.target.rows, size):
            yield np.arange(start, min(start + size, self.target.rows))

    def _doubt(self, spin: Spin, rows: ChannelIndices, bound: Float64s) -> Float64s:
        """Bound what rounding to a narrow type makes of an error: a whole step, or nothing."""
        assert spin.dtype is not None
        parts = replace(spin, dtype=None).cosines_and_sines(self.target, rows)
        doubts = [
            rounded(part + bound, spin.dtype) - rounded(part - bound, spin.dtype) for part in parts
        ]
        return np.maximum(*doubts)

    @cached_property
    def untouched(self) -> tuple[Flags, Flags]:
        """Tell which channels are the same after as before, and which are 0."""
        is_kept = np.ones(self.x.shape[2], dtype=bool)
        is_zero = is_kept.copy()
        for rows in self.chunks():
            x, y = self.x[:, rows], self.y[:, rows]
            is_still = np.abs(y - x) <= 2 * self.roundoff * np.abs(x)
            # Rows of zeros say nothing of what passes through.
            is_kept &= (is_still | (y == 0).all(axis=2, keepdims=True)).all(axis=(0, 1))
            is_zero &= (y == 0).all(axis=(0, 1))
        return is_kept, is_zero

    def _share(self, spin: Spin, rows: ChannelIndices) -> Float64s:
        """Bound the error of a turned channel as a share of what it is made of, (rows, K)."""
        target, omega = self.target, spin.frequencies(self.target)
        places = np.abs(spin.positions(target, rows))
        pairs = target.unit.shape[1] if omega is None else len(omega)
        pace = np.ones(pairs) if omega is None else np.abs(omega)
        angles = places[:, None] * pace
        # Angles of half types are made in float32.
        moved = _ANGLE_ROUNDINGS * min(self.roundoff, _FLOAT32) * angles
        if len(target.omega_error) == pairs:
            # What is not in the table is made from its nearest row with frequencies so exact.
            away = places + np.abs(spin.positions(target, rows) - target.positions[rows])
            moved = moved + away[:, None] * (target.omega_error + 2.0**-50 * pace)
        times = max(1, spin.times)
        share: Float64s = times * (_ROUNDINGS * self.roundoff + np.minimum(moved, 2.0))
        return share
