"""How an application of rotations connects channels: which are pairs, and what becomes of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.tables.angle import Float64s

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
