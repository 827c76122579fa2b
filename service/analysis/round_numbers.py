"""Round numbers near a measured value: configs usually have numbers with few decimal digits."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import isfinite, log2, pi

_FLOAT64_DIGITS = 17
_MAX_SIGNED_DIGITS = 6
# People write a base or a factor with so many digits at most.
_MOST_DIGITS = 4

# A generous bound of the relative rounding errors of a float64 fit with logarithms and powers.
_LEAST_ERROR = 2.0**-40


def round_numbers(measured: float, error: float, most: int = 3) -> Iterator[float]:
    """Yield numbers within a relative error of a measured value, those with fewest digits first.

    The nearest power of 2 comes third, after the numbers with one and with two digits.

    Args:
        measured: the measured value; yields nothing unless it is finite and above 0.
        error: the largest relative difference from it.
        most: the largest count of results.
    """
    if not (isfinite(measured) and measured > 0):
        return
    power = 2.0 ** round(log2(measured)) if -64 < log2(measured) < 64 else measured
    decimals = (float(f"{measured:.{digits}e}") for digits in range(_FLOAT64_DIGITS))
    found: set[float] = set()
    for each in chain(islice(decimals, 2), (power,), decimals):
        if abs(each - measured) <= error * measured and each not in found:
            found.add(each)
            yield each
            if len(found) == most:
                return


def round_number(measured: float, error: float) -> float:
    """Return the number with the fewest digits within a relative error of a measured value.

    Return the measured value itself if there is none.
    """
    return next(round_numbers(measured, error, 1), measured)


def round_integers(low: int, high: int, preferred: int, most: int) -> Iterator[int]:
    """Yield integers from low to high: the preferred one, powers of 2, multiples of powers of 10.

    Args:
        low: the smallest integer, at least 1.
        high: the largest integer.
        preferred: the integer to yield first, if it is in the range.
        most: the largest count of results.
    """
    powers = (1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length()))
    tens = (10**exponent for exponent in range(len(str(high)) - 1, -1, -1))
    # The first multiples of each power of 10 that are not below low.
    multiples = (ten * (-(-low // ten) + more) for ten in tens for more in range(most))
    candidates = dict.fromkeys(chain((preferred,), powers, multiples))
    yield from islice((each for each in candidates if low <= each <= high), most)


def significant_digits(number: float) -> int:
    """Return the count of significant decimal digits of a number rounded to 15 digits."""
    return len(f"{number:.14e}".partition("e")[0].replace(".", "").strip("-").rstrip("0"))


def is_unround(number: float) -> bool:
    """Return True for a number of many digits that is no power of 2, nor 2π or 1/2π."""
    is_usual = number in {2 * pi, 1 / (2 * pi)} or (number > 0 and log2(number) % 1 == 0)
    return not is_usual and significant_digits(number) > _MOST_DIGITS


def signed_round_numbers(measured: float, error: float, most: int = 3) -> list[float]:
    """Return round numbers within an absolute error of a measured value of either sign.

    If 0 is within the error, it is the only result.
    """
    if abs(measured) <= error:
        return [0.0]
    sign = 1.0 if measured > 0 else -1.0
    numbers = [sign * each for each in round_numbers(abs(measured), error / abs(measured), most)]
    # Ratios of two lengths, such as 30/16 = 1.875, are multiples of 1/8 with more decimal digits.
    eighths = round(8 * measured) / 8
    if abs(eighths - measured) <= error:
        numbers.append(eighths)
    # Numbers with more digits fit by chance.
    digits = _MAX_SIGNED_DIGITS - 1
    return [each for each in dict.fromkeys(numbers) if each == float(f"{each:.{digits}e}")]


def common_value(measured: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the most exact of several measurements of one quantity, and its relative error.

    Return None if the measurements contradict each other, or if there are none.

    Args:
        measured: (value, relative error) of each measurement.
    """
    values = list(measured)
    if not values:
        return None
    best, best_error = min(values, key=lambda each: each[1])
    for value, error in values:
        if abs(value / best - 1) > 2 * (error + best_error) + _LEAST_ERROR:
            return None
    return best, max(best_error, _LEAST_ERROR)
