"""How numbers that were measured may have been written down, and which way of several is meant."""

from collections.abc import Sequence

from service.analysis.plain import plain_numbers

_MOST_DIGITS = 6
_MOST_WAYS = 3

# As near as engines come in float32: among what is so near the plainest goes first.
_GOOD = 2.0**-20

# Structure is judged loosely: how near a table is, whoever verifies a proposal measures.
_NEAR = 2.0**-10


def written(measured: float, error: float, most: int = 3) -> list[float]:
    """Give plain numbers of either sign within an absolute error of a measured one, or 0."""
    if abs(measured) <= error:
        return [0.0]
    sign = 1.0 if measured > 0 else -1.0
    plain = [sign * each for each in plain_numbers(abs(measured), error / abs(measured), most)]
    # Such as 1.875 = 30/16: the ratio of two lengths, which few digits of a measurement miss.
    eighths = round(8 * measured) / 8
    near = [eighths] if abs(eighths - measured) <= error else []
    numbers = dict.fromkeys((*plain, *near))
    # What nobody would write down is what another convention comes to by accident.
    return [each for each in numbers if each == float(f"{each:.{_MOST_DIGITS - 1}e}")]


def nearest(apart: Sequence[float], said: Sequence[str], rounding: float) -> list[int]:
    """Choose among ways to say what was measured: one where it is good, else a few that are near.

    Args:
        apart: how far each is from what was sent.
        said: each in words: the fewest are the plainest.
        rounding: half a unit in the last place at 1.
    """
    good, near = 2 * rounding + _GOOD, 8 * rounding + _NEAR
    order = sorted(range(len(apart)), key=lambda way: (max(apart[way], good), len(said[way])))
    order = [way for way in order if apart[way] <= near]
    if not order or apart[order[0]] > good:
        return order[:_MOST_WAYS]
    best = min(order, key=lambda way: apart[way])
    return [order[0]] if apart[best] > apart[order[0]] / 2 else [order[0], best]
