"""Processor time of this process, in turns of comparable length."""

import time
from collections.abc import Callable
from math import ceil

_TURN_SECONDS = 0.01

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """Return the processor time of a call, with that of any threads that it starts."""
    before = time.process_time()
    work()
    return time.process_time() - before


class Repeated:
    """A function that is called several times a turn, if it is short.

    Attributes:
        first_seconds: the time of the first call, before which nothing is set up.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.first_seconds = seconds(work)
        self._times = ceil(_TURN_SECONDS / max(seconds(work), _TURN_SECONDS / 1000))

    def __call__(self, _number: int) -> float:
        """Return the seconds of a call; before short ones, one is not measured.

        That one sets the heap and the processor's caches to the state that this work leaves, not
        the work before.
        """
        if self._times > 1:
            self._work()
        before = time.process_time()
        for _ in range(self._times):
            self._work()
        return (time.process_time() - before) / self._times
