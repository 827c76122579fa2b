"""Round numbers within the error of a measurement, fewest digits first, as configs have them."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import isfinite, log2

_FLOAT64_DIGITS = 17
_MAX_SIGNED_DIGITS = 6

# What float64 loses in the logarithms and powers of a fit, with room to spare.
_LEAST_ERROR = 2.0**-40


def round_numbers(measured: float, error: float, most: int = 3) -> Iterator[float]:
    """Yield numbers within a relative error of a measured one, those with the fewest digits first.

    The nearest power of 2 comes third, after the numbers of one and of two digits.

    Args:
        measured: nothing is near it unless it is finite and above 0.
        error: relative to it.
        most: the largest number of results.
    """
    if not (isfinite(measured) and measured > 0):
        return
    power = 2.0 ** round(log2(measured)) if -64 < log2(measured) < 64 else measured
    decimals = [float(f"{measured:.{digits}e}") for digits in range(_FLOAT64_DIGITS)]
    candidates = dict.fromkeys([*decimals[:2], power, *decimals[2:]])
    near = (each for each in candidates if abs(each - measured) <= error * measured)
    yield from islice(near, most)


def round_number(measured: float, error: float) -> float:
    """Return the number of fewest digits within a relative error, or the measured one itself."""
    return next(round_numbers(measured, error, 1), measured)


def round_integers(low: int, high: int, preferred: int, most: int) -> Iterator[int]:
    """Yield integers of a closed range: the preferred one, powers of 2, multiples of powers of 10.

    Args:
        low: at least 1.
        high: the largest.
        preferred: comes first, if it is in the range.
        most: the largest number of results.
    """
    powers = (1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length()))
    tens = (10**exponent for exponent in range(len(str(high)) - 1, -1, -1))
    # The first few multiples of each power of 10 from the lower end on.
    multiples = (ten * (-(-low // ten) + more) for ten in tens for more in range(most))
    candidates = dict.fromkeys(chain((preferred,), powers, multiples))
    yield from islice((each for each in candidates if low <= each <= high), most)


def significant_digits(number: float) -> int:
    """Count the digits of a number, of the 15 that every float64 has."""
    return len(f"{number:.14e}".partition("e")[0].replace(".", "").strip("-").rstrip("0"))


def signed_round_numbers(measured: float, error: float, most: int = 3) -> list[float]:
    """Return 0, or round numbers of either sign, within an absolute error of a measured number."""
    if abs(measured) <= error:
        return [0.0]
    sign = 1.0 if measured > 0 else -1.0
    numbers = [sign * each for each in round_numbers(abs(measured), error / abs(measured), most)]
    # Such as 1.875 = 30/16: the ratio of two lengths, which few digits of a measurement miss.
    eighths = round(8 * measured) / 8
    if abs(eighths - measured) <= error:
        numbers.append(eighths)
    # Numbers of more digits fit by chance.
    digits = _MAX_SIGNED_DIGITS - 1
    return [each for each in dict.fromkeys(numbers) if each == float(f"{each:.{digits}e}")]


def common_value(measured: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the most exact of several measurements of a number; None if they differ.

    Args:
        measured: values and their relative errors.
    """
    values = list(measured)
    if not values:
        return None
    best, best_error = min(values, key=lambda each: each[1])
    for value, error in values:
        if abs(value / best - 1) > 2 * (error + best_error) + _LEAST_ERROR:
            return None
    return best, max(best_error, _LEAST_ERROR)
