"""Coordinates along one axis of a grid, exactly: integers counted in a rational unit.

Libraries place the n tokens of an axis at fractions: between two ends, at the centres of patches,
scaled to another grid. Any of these is first + step·i with rational numbers, so that the position
stays an integer and its unit goes into the frequency.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from service.tables.angle import MAX_POSITION


@dataclass(frozen=True)
class Coordinates:
    """The coordinates first, first + step, … of the tokens along an axis.

    Attributes:
        first: that of token 0.
        step: from one token to the next.
        length: how many tokens there are.
    """

    first: Fraction
    step: Fraction
    length: int

    @property
    def unit(self) -> Fraction:
        """The largest of which every coordinate is a whole number."""
        return Fraction(1, lcm(self.first.denominator, self.step.denominator))

    @property
    def is_countable(self) -> bool:
        """Tell whether those whole numbers, and the step, are within the positions there are."""
        last = self.first + self.step * (self.length - 1)
        return max(abs(self.first), abs(self.step), abs(last)) / self.unit <= MAX_POSITION


def counted(length: int, offset: Fraction, reference: Fraction | None = None) -> Coordinates:
    """Place token i at i + offset, or at (i + offset)·reference/length.

    timm 1.0.31 ``build_fourier_pos_embed``, ref_feat_shape; EVA-02 ``VisionRotaryEmbeddingFast``.
    """
    scale = Fraction(1) if reference is None else reference / length
    return Coordinates(offset * scale, scale, length)


def spread(length: int, start: Fraction, stop: Fraction) -> Coordinates:
    """Place n tokens evenly from start to stop·(n − 1)/n.

    diffusers 0.42.1 ``get_2d_rotary_pos_embed`` and ``get_3d_rotary_pos_embed``: linspace.
    """
    last = stop * (length - 1) / length
    return Coordinates(start, (last - start) / max(length - 1, 1), length)


def pixels(length: int, offset: Fraction) -> Coordinates:
    """Place n tokens evenly from −1 to 1, and move all by the offset.

    rotary-embedding-torch 0.9.1 ``get_axial_freqs``, freqs_for="pixel"; timm 1.0.31, in_pixels.
    """
    return Coordinates(offset - 1, Fraction(2, max(length - 1, 1)), length)


def centred(length: int, offset: Fraction, side: int) -> Coordinates:
    """Place token i at 2·(i + ½ + offset)/side − 1: the centres of patches within ±1.

    DINOv3 ``RopePositionEmbedding``; the offset is that of timm 1.0.31 ``RotaryEmbeddingDinoV3``.
    """
    step = Fraction(2, side)
    return Coordinates(step * (Fraction(1, 2) + offset) - 1, step, length)
