"""Plain integers: those that somebody may have chosen, out of a range."""

from collections.abc import Iterator
from itertools import chain


def plain_integers(low: int, high: int, preferred: int, most: int) -> Iterator[int]:
    """Give integers of a range, both ends included: the preferred one, powers of 2, round ones.

    Args:
        low: the least, at least 1.
        high: the largest.
        preferred: comes first, if it is in the range.
        most: how many to give at most.
    """
    given: set[int] = set()
    powers = (1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length()))
    tens = (10**exponent for exponent in range(len(str(high)) - 1, -1, -1))
    # The first few multiples of each power of 10 from the lower end on.
    rounds = (ten * (-(-low // ten) + more) for ten in tens for more in range(most))
    for number in chain((preferred,), powers, rounds):
        if low <= number <= high and number not in given:
            given.add(number)
            yield number
        if len(given) == most:
            return
