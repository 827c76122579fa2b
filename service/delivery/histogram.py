"""How long things took, in buckets."""

from bisect import bisect_left

BUCKET_SECONDS = (
    *(0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0),
)
"""The longest time of each bucket but the last, which has no end."""

ROW_LENGTH = len(BUCKET_SECONDS) + 2

_SHORTEST_SECONDS = BUCKET_SECONDS[0]


class Histogram:
    """Count durations by bucket, on one event loop.

    What is shorter than all bounds is what is left of the number of all: most things are.

    Attributes:
        number: how many there were.
        sum_seconds: how long they were together.
    """

    __slots__ = ("_longer", "number", "sum_seconds")

    def __init__(self) -> None:
        self.number = 0
        self.sum_seconds = 0.0
        self._longer = [0] * (len(BUCKET_SECONDS) + 1)

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.number += 1
        self.sum_seconds += seconds
        if seconds > _SHORTEST_SECONDS:
            self._longer[bisect_left(BUCKET_SECONDS, seconds)] += 1

    @property
    def row(self) -> list[float]:
        """How many there were in each bucket, and at its end the sum of all in seconds."""
        shortest = self.number - sum(self._longer)
        return [shortest, *self._longer[1:], self.sum_seconds]
