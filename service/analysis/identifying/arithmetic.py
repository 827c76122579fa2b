"""In which arithmetic numbers were made: its name, and how exact what it makes is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Arithmetic:
    """Name what numbers were computed in.

    Attributes:
        name: in a word or two.
        description: what is rounded to what.
        rank: 0 for the most exact; of two that explain the same numbers the lower is named first.
    """

    name: str
    description: str
    rank: int


EXACT = Arithmetic("exact", "every number is the exact value rounded once", 0)
FLOAT64 = Arithmetic("float64", "computed in float64, then rounded to the type of the array", 1)
FLOAT32 = Arithmetic(
    "float32", "frequencies, and their products with positions, rounded to float32", 2
)
REPEATED = Arithmetic(
    "float32 by repeated multiplication",
    "each angle is the one before it times a float32 ratio, as ggml makes them",
    3,
)
FLOAT32_STEPS = Arithmetic(
    "float32 in steps", "angles of several float32 operations each, as of a division", 4
)


def narrow_positions(dtype_name: str) -> Arithmetic:
    """Name float32 arithmetic over positions that were rounded to a narrower type."""
    description = f"positions rounded to {dtype_name}, then float32"
    return Arithmetic(f"{dtype_name} positions", description, 5)


def narrow_frequencies(dtype_name: str) -> Arithmetic:
    """Name float32 arithmetic with frequencies that were rounded to a narrower type."""
    description = f"frequencies rounded to {dtype_name}, then float32"
    return Arithmetic(f"{dtype_name} frequencies", description, 6)


def narrow_angles(dtype_name: str) -> Arithmetic:
    """Name arithmetic whose angles alone are rounded to a narrower type."""
    description = f"products of position and frequency rounded to {dtype_name}"
    return Arithmetic(f"{dtype_name} angles", description, 7)


def narrow_throughout(dtype_name: str) -> Arithmetic:
    """Name arithmetic that is done in a narrower type from positions to sines."""
    description = f"positions, frequencies, their products and sines, each rounded to {dtype_name}"
    return Arithmetic(f"{dtype_name} throughout", description, 8)


EMULATION_LOSS = 32 * 2.0**-53
"""How far float64 arithmetic may be off, per radian and per unit of the result.

A frequency b^(-2k/d) is exp(−(2k/d)·ln b): the exponent, up to 16 in size for b up to 10^7, is
rounded two or three times, by half an ulp of it: 3·16·2^-53/2 of the frequency. The product and
the sine add one rounding each, the double 2^-53 of the emulation as much again.
"""

FLOAT32_FREQUENCY_LOSS = 32 * 2.0**-24
"""How far a float32 frequency may be from the exact one, as a share of it.

As for float64: an exponent of up to 16 in size, rounded two or three times, makes 24·2^-24 of the
frequency; the power itself, and what a scaling rule does to it, are a few roundings more.
"""

FLOAT32_SINE_LOSS = 4 * 2.0**-24
"""How far float32 makes a sine of an angle, as a share of the scale.

Libraries are within 2 ulp, 2·2^-24 below 1 and 4·2^-24 never exceeded; times a scale, half more.
"""

FLOAT32_LOSS = 16 * 2.0**-24
"""How far a handful of float32 operations may be off, as a share of the largest number.

Eight roundings of 2^-24; or, for a sine that is not told apart from others, two of an angle that
is as large as 8.
"""


def plainest(consistent: tuple[Arithmetic, ...]) -> tuple[Arithmetic, ...]:
    """Leave out what is looser than another that explains the same numbers, the exact ones first.

    Whatever is more exact than float32 in steps is within its bounds as well, and says more.
    """
    ordered = sorted(consistent, key=lambda arithmetic: arithmetic.rank)
    looser = ordered[:1] != [FLOAT32_STEPS]
    return tuple(each for each in ordered if not (looser and each is FLOAT32_STEPS))
