"""Model how queries or keys were rotated, correctly or not, and compare the model with the result.

An ``Application`` of a rotation has two parts: the ``Wiring`` says which channels are pairs and
which channels hold the results; ``RotationAngles`` says how the cosines and sines differ from the
expected cosines and sines of the ``Target``. ``Evidence`` has the arrays before and after the
rotation, predicts the result of an application, and bounds the rounding error of every element.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.diagnosis.waves import bounded_errors, error_weights, offset_of
from service.analysis.measure import Complexes, measure
from service.analysis.precision import rounded
from service.numerics.dtypes import FLOAT32, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

Layout: TypeAlias = Literal["interleaved", "half"]
Form: TypeAlias = Literal["rotation", "no-minus", "both-minus", "own-minus-last", "own-minus-first"]

LAYOUTS: tuple[Layout, Layout] = ("interleaved", "half")

# The signs of the sine in the first and in the second channel of a pair, and whether it multiplies
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
    """The effect of a rotation on the channels of a head, for any angles.

    With the cosines c and the sines n of a pair, "RoFormer" (Su et al. 2021) §3.2.2 rotates
    (x0, x1) to (x0·c − x1·n, x1·c + x0·n).

    Attributes:
        head_dim: the number of channels of a head.
        width: the number of channels that are rotated.
        offset: the number of channels before the first rotated channel.
        read: the layout of the pairs in the array before the rotation.
        written: the layout of the pairs in the result.
        form: ``rotation``, or a wrong form: other signs of the sines, or sines that multiply the
            channel itself instead of its partner (halves in the wrong order).
        is_tiled_otherwise: True if cosines and sines are repeated in the other layout: frequencies
            0, 0, 1, 1, … instead of 0, 1, …, 0, 1, … or the reverse.
        is_exchanged: True if the two rotated channels of each pair are written in swapped order.
        is_rest_zero: True if channels outside the rotated ones become 0 instead of being copied.
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
        """The number of rotated channel pairs."""
        return self.width // 2

    def apply(self, x: Float64s, cosine: Float64s, sine: Float64s) -> Float64s:
        """Return x, (H, S, head_dim), rotated by the cosines and sines, (S, count) each."""
        links = self.links
        y = np.zeros_like(x) if self.is_rest_zero else x.copy()
        y[..., links.place] = (
            x[..., links.own] * cosine[:, links.frequency]
            + x[..., links.other] * links.sign * sine[:, links.frequency]
        )
        return y

    def sizes(self, x: Float64s) -> Float64s:
        """Return a factor of the error bound of each channel of the result, of the shape of x.

        The factor is |x0| + |x1| for a channel computed from the pair (x0, x1), and |x| for a
        copied channel.
        """
        links, size = self.links, np.abs(x)
        sums = size.copy()
        sums[..., links.place] = size[..., links.own] + size[..., links.other]
        return sums

    def measure(self, x: Float64s, y: Float64s) -> tuple[Complexes, Float64s]:
        """Fit the cosines and sines that rotate x to y, by least squares over heads and channels.

        Args:
            x: the array before the rotation, (H, S, head_dim).
            y: the array after the rotation, (H, S, head_dim).

        Returns:
            cosine + i·sine, (S, count), and the weight of each fit, about the sum of the squares
            of the elements of x that the cosine multiplies; 0 if x does not determine the angle.
        """
        links = self.links
        with_cosine = _by_pair(x[..., links.own], links.frequency)
        with_sine = _by_pair(x[..., links.other] * links.sign, links.frequency)
        result = _by_pair(y[..., links.place], links.frequency)
        a, d = (with_cosine**2).sum(axis=(0, 3)), (with_sine**2).sum(axis=(0, 3))
        b = (with_cosine * with_sine).sum(axis=(0, 3))
        p, q = (with_cosine * result).sum(axis=(0, 3)), (with_sine * result).sum(axis=(0, 3))
        determinant = a * d - b * b
        is_known = determinant > 1e-9 * a * d
        divisor = np.where(is_known, determinant, 1.0)
        phasors = ((p * d - q * b) + 1j * (q * a - p * b)) / divisor
        weights = np.where(is_known, divisor / (a + d + ~is_known), 0)
        return np.where(is_known, phasors, 0.0), weights

    @cached_property
    def links(self) -> "Links":
        first, second = _pair_channels(self.read, self.count, self.offset)
        to_first, to_second = _pair_channels(self.written, self.count, self.offset)
        first_sign, second_sign, is_crossed = _FORMS[self.form]
        own = np.concatenate([first, second])
        other = np.concatenate([second, first]) if is_crossed else own
        straight = np.concatenate([to_first, to_second])
        place = np.concatenate([to_second, to_first]) if self.is_exchanged else straight
        sign = np.repeat([first_sign, second_sign], self.count)
        channel = straight - self.offset
        is_half = (self.written == "half") is not self.is_tiled_otherwise
        return Links(own, other, sign, place, channel % self.count if is_half else channel // 2)


@dataclass(frozen=True, eq=False)
class Links:
    """The source channels of each rotated channel, r entries each.

    y[place] = x[own]·cosine[frequency] + x[other]·sign·sine[frequency].
    """

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


# Angles whose deviation from a line is below this many radians in 64 rows are linear.
_STRAIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class Target:
    """The expected cosines and sines of S rows and K frequencies.

    Attributes:
        unit: e^(i·angle), (S, K).
        size: the scale that multiplies each cosine and sine, (S, K).
        positions: the positions of the rows, (S,).
        omega: frequencies in radians per position, (K,); None if angles are not linear in
            positions.
        omega_error: a bound on the absolute error of each frequency, (K,).
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
        """Return the target of cosines and sines, (S, K); measure missing positions and omega."""
        phasors = cosine + 1j * sine
        size = np.abs(phasors)
        unit = np.divide(phasors, size, out=np.ones_like(phasors), where=size > 0)
        row_positions = np.arange(len(unit), dtype=np.float64) if positions is None else positions
        if omega is not None:
            return cls(unit, size, row_positions, omega, np.zeros(len(omega)))
        if len(unit) < 2 or not (np.diff(row_positions) > 0).all():
            return cls(unit, size, row_positions, None, np.zeros(unit.shape[1]))
        waves = measure(unit, row_positions)
        error = (waves.angle_error + 2.0**-52) / max(
            1.0, float(row_positions[-1] - row_positions[0])
        )
        is_straight = bool((waves.angle_error < _STRAIGHT * max(1.0, len(unit) / 64)).all())
        start = 0.0
        if is_straight and positions is None:
            start = offset_of(waves.phase, waves.omega, tolerance=np.inf) or 0.0
        return cls(unit, size, row_positions + start, waves.omega if is_straight else None, error)

    @property
    def rows(self) -> int:
        return len(self.unit)

    def position(self, row: int) -> float | None:
        """Return the position of the row with this index; None if frequencies are unknown."""
        return None if self.omega is None else float(self.positions[row])


def steps_of(phasors: Complexes, weights: Float64s, omega: Float64s) -> float | None:
    """Return the integer number of positions k for which phasors (K,) are about e^(i·k·omega).

    The slowest frequency, whose angle must be within ±π, gives an estimate of k; each faster one
    refines it. None if all frequencies are 0 or have the weight 0.
    """
    usable = (omega != 0) & (weights > 0)
    if not usable.any():
        return None
    return offset_of(np.angle(phasors[usable]), omega[usable], tolerance=np.inf)


@dataclass(frozen=True, eq=False)
class RotationAngles:
    """The differences between the cosines and sines that were applied and the expected ones.

    Attributes:
        rows: for each row, the index of the expected row used instead, (S,); None if correct.
        shift: the offset added to the positions: one for all rows, or one per row, (S,).
        omega: the frequencies used instead, radians per position, (K,); None if correct.
        times: the number of times that the angle was applied, 1 if correct.
        is_inverse: True if the rotation has the opposite direction.
        is_exchanged: True if sines were used as cosines and cosines as sines.
        powers: the exponents of the expected scale in cosines and in sines, (1, 1) if correct.
        factor: an additional factor of cosines and sines.
        dtype: the narrow dtype to which cosines and sines were rounded; None if they were not.
        beyond: (row, "unrotated" or "zero"): from this row on, the result is a copy of the input
            or 0; None if every row was rotated.
    """

    rows: Indices | None = None
    shift: float | Float64s = 0.0
    omega: Float64s | None = None
    times: int = 1
    is_inverse: bool = False
    is_exchanged: bool = False
    powers: tuple[int, int] = (1, 1)
    factor: float = 1.0
    dtype: DType | None = None
    beyond: tuple[int, str] | None = None

    def positions(self, target: Target, rows: Indices) -> Float64s:
        """Return the positions, (R,), from which the angles of the given rows were computed."""
        return np.asarray(target.positions[self._source(rows)] + self._shift(rows))

    def frequencies(self, target: Target) -> Float64s | None:
        """Return the frequencies used, in radians per position, (K,); None if unknown."""
        return target.omega if self.omega is None else self.omega

    def unit(self, target: Target, rows: Indices) -> Complexes:
        """Return e^(i·angle) of the given rows, (R, K), for one rotation in positive direction."""
        if self.omega is not None:
            return np.asarray(np.exp(1j * np.outer(self.positions(target, rows), self.omega)))
        unit = target.unit[self._source(rows)]
        if target.omega is None or (isinstance(self.shift, float) and self.shift == 0):
            return unit
        shift = np.outer(np.broadcast_to(self._shift(rows), len(rows)), target.omega)
        return unit * np.exp(1j * shift)

    def cosines_and_sines(self, target: Target, rows: Indices) -> tuple[Float64s, Float64s]:
        """Return the cosines and sines that multiply the channels of the given rows, (R, K)."""
        phasors = self.unit(target, rows) ** self.times
        if self.is_inverse:
            phasors = phasors.conj()
        if self.is_exchanged:
            phasors = 1j * phasors.conj()
        size = self._size(target, rows, phasors.shape[1])
        cosine = phasors.real * self.factor * size ** self.powers[0]
        sine = phasors.imag * self.factor * size ** self.powers[1]
        return rounded(cosine, self.dtype), rounded(sine, self.dtype)

    def undone(self, phasors: Complexes, target: Target, rows: Indices) -> Complexes:
        """Return measured phasors (R, K) without the scale, the exchange and the inversion."""
        size = self._size(target, rows, phasors.shape[1])
        cosine, sine = (
            part / size**power
            for part, power in zip((phasors.real, phasors.imag), self.powers, strict=True)
        )
        phasors = cosine + 1j * sine
        if self.is_exchanged:
            phasors = 1j * phasors.conj()
        return phasors.conj() if self.is_inverse else phasors

    def _source(self, rows: Indices) -> Indices:
        return rows if self.rows is None else self.rows[rows]

    def _shift(self, rows: Indices) -> float | Float64s:
        return self.shift if isinstance(self.shift, float) else self.shift[rows]

    def _size(self, target: Target, rows: Indices, count: int) -> Float64s:
        size = target.size[self._source(rows)]
        return size if size.shape[1] == count else size[:, :1]


@dataclass(frozen=True, eq=False)
class Application:
    """A model of how an array was rotated, with its mistakes and the aspect that each changes."""

    wiring: Wiring
    angles: RotationAngles = field(default_factory=RotationAngles)
    mistakes: tuple[Mistake, ...] = ()
    aspects: tuple[str, ...] = ()

    def with_wiring(self, aspect: str, mistake: Mistake, **changes: Any) -> "Application":
        """Return the application with one more mistake, which changes ``wiring`` attributes."""
        return self._with_mistake(aspect, mistake, wiring=replace(self.wiring, **changes))

    def with_angles(self, aspect: str, mistake: Mistake, **changes: Any) -> "Application":
        """Return the application with one more mistake, which changes ``angles`` attributes."""
        return self._with_mistake(aspect, mistake, angles=replace(self.angles, **changes))

    def _with_mistake(self, aspect: str, mistake: Mistake, **changes: Any) -> "Application":
        mistakes, aspects = (*self.mistakes, mistake), (*self.aspects, aspect)
        return replace(self, mistakes=mistakes, aspects=aspects, **changes)


# Cosine, sine, two products and their sum each have a rounding error of at most half an ulp. In
# half ulps of |x0| + |x1|: 2 for a product and its factor, 1 for the sum, and 1 as a margin.
_ROUNDINGS = 4
# The error of an angle, in half ulps of float32, is at most 4 times its weight: see
# ``error_weights``.
FLOAT32_ROUNDOFF = 2.0**-24
"""Half an ulp of 1 in float32, in which engines compute angles."""

_ANGLE_ROUNDINGS = 4

_CHUNK_ELEMENTS = 2**20


@dataclass(frozen=True, eq=False)
class Evidence:
    """An array before and after its rotation, with the expected cosines and sines.

    Attributes:
        x: the array before the rotation, (H, S, head_dim).
        y: the array after the rotation, (H, S, head_dim).
        target: the expected cosines and sines.
        roundoff: half an ulp of 1 in the dtype of the arrays.
        least: the largest absolute error caused by underflow.
        kind: the dtype of the arithmetic.
    """

    x: Float64s
    y: Float64s
    target: Target
    roundoff: float
    least: float = 0.0
    kind: DType = FLOAT32

    def errors(
        self, application: Application, heads: slice, rows: Indices
    ) -> tuple[Float64s, Float64s, Float64s]:
        """Compare the given heads and rows with the prediction of an application.

        Returns:
            For each element, (H, R, head_dim): the predicted value, the absolute difference from
            it, and the largest difference allowed.
        """
        wiring, angles = application.wiring, application.angles
        x, y = self.x[heads][:, rows], self.y[heads][:, rows]
        cosine, sine = angles.cosines_and_sines(self.target, rows)
        predicted = wiring.apply(x, cosine, sine)
        bound = np.hypot(cosine, sine) * self._relative_error(angles, rows)
        if angles.dtype is not None:
            bound += self._rounding_step(angles, rows, bound)
        relative = np.full((len(rows), wiring.head_dim), self.roundoff)
        relative[:, wiring.links.place] = bound[:, wiring.links.frequency]
        if angles.beyond is not None:
            is_beyond = rows >= angles.beyond[0]
            predicted[:, is_beyond] = x[:, is_beyond] if angles.beyond[1] == "unrotated" else 0.0
        allowed = wiring.sizes(x) * relative + self.least
        with np.errstate(invalid="ignore"):
            return predicted, np.abs(y - predicted), allowed

    def has_angle_errors(self, application: Application, rows: Indices, error: Float64s) -> bool:
        """Return whether errors, (H, R, head_dim), exceed those of exact angles in float32."""
        sizes = application.wiring.sizes(self.x[:, rows]) * max(1.0, float(self.target.size.max()))
        roundoff = max(self.roundoff, FLOAT32_ROUNDOFF)
        return bool((error > _ROUNDINGS * roundoff * sizes + self.least).any())

    def distinguishes(self, application: Application, rows: Indices) -> bool:
        """Return whether the mistakes predict these rows: float32 angles are off by less than 1."""
        angles = application.angles
        return not application.mistakes or bool((self._relative_error(angles, rows) < 1).all())

    def explained_shares(self, application: Application, heads: slice, rows: Indices) -> Float64s:
        """Return for each given row the fraction of its elements within their error bounds."""
        _, error, allowed = self.errors(application, heads, rows)
        return np.asarray((error <= allowed).mean(axis=(0, 2)))

    def row_shares(self, application: Application, heads: slice = slice(None)) -> Float64s:
        """Return for each row of the array the fraction of its elements within error bounds."""
        shares = [self.explained_shares(application, heads, rows) for rows in self.chunks()]
        return np.concatenate(shares)

    def chunks(self) -> Iterator[Indices]:
        """Yield the indices of all rows in chunks of limited memory."""
        size = max(1, _CHUNK_ELEMENTS // (self.x.shape[0] * self.x.shape[2]))
        for start in range(0, self.target.rows, size):
            yield np.arange(start, min(start + size, self.target.rows))

    @cached_property
    def untouched(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return two masks (head_dim,): channels unchanged in all rows, and channels that are 0."""
        is_kept = np.ones(self.x.shape[2], dtype=bool)
        is_zero = is_kept.copy()
        for rows in self.chunks():
            x, y = self.x[:, rows], self.y[:, rows]
            is_equal = np.abs(y - x) <= 2 * self.roundoff * np.abs(x)
            # Rows of zeros do not show which channels are copied.
            is_kept &= (is_equal | (y == 0).all(axis=2, keepdims=True)).all(axis=(0, 1))
            is_zero &= (y == 0).all(axis=(0, 1))
        return is_kept, is_zero

    def _relative_error(self, angles: RotationAngles, rows: Indices) -> Float64s:
        """Return a bound on the relative error of rotated channels, by row and frequency, (R, K).

        It is relative to ``Wiring.sizes``.
        """
        target, omega = self.target, angles.frequencies(self.target)
        positions = angles.positions(target, rows)
        size = np.abs(positions)
        rates = np.ones(target.unit.shape[1]) if omega is None else np.abs(omega)
        # Engines compute angles in float32 for half types.
        angle_error = (
            _ANGLE_ROUNDINGS
            * min(self.roundoff, FLOAT32_ROUNDOFF)
            * error_weights(np.outer(size, rates), rates)
        )
        if len(target.omega_error) == len(rates):
            # The angle at a position without a row in the table comes from the nearest row.
            away = size + np.abs(positions - target.positions[rows])
            angle_error += np.outer(away, target.omega_error + 2.0**-50 * rates)
        error: Float64s = _ROUNDINGS * self.roundoff + bounded_errors(angle_error)
        return max(1, angles.times) * error

    def _rounding_step(self, angles: RotationAngles, rows: Indices, bound: Float64s) -> Float64s:
        """Return the largest change, (R, K), by which rounding to the narrow dtype raises errors.

        An error within ``bound`` changes the rounded value by a whole step, or not at all.
        """
        parts = replace(angles, dtype=None).cosines_and_sines(self.target, rows)
        steps = [
            np.abs(rounded(part + side * bound, angles.dtype) - rounded(part, angles.dtype))
            for part in parts
            for side in (-1, 1)
        ]
        most: Float64s = np.maximum.reduce(steps)
        return most
