"""Plain numbers: those that somebody may have written down, near one that was measured."""

from collections.abc import Iterator
from math import isfinite, log2

_MOST_DIGITS = 17
_MOST = 3


def plain_numbers(measured: float, error: float, most: int = _MOST) -> Iterator[float]:
    """Give numbers within an error of a measured one, those with the fewest digits first.

    Args:
        measured: a number above 0.
        error: how far what is meant may be from it, as a share of it.
        most: how many to give at most.
    """
    if not (isfinite(measured) and measured > 0):
        return
    given: list[float] = []
    power = 2.0 ** round(log2(measured)) if -64 < log2(measured) < 64 else measured
    rounded = [float(f"{measured:.{digits}e}") for digits in range(_MOST_DIGITS)]
    for number in [*rounded[:2], power, *rounded[2:]]:
        if number not in given and abs(number - measured) <= error * measured:
            given.append(number)
            yield number
        if len(given) == most:
            return
