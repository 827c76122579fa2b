"""The gate: how much may wait for threads, for how long, and what of request bodies is held.

Only what has not begun waits in line. A stream that has begun is never refused, and holds no
place: its number is bounded by that of connections.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from time import monotonic

from service.errors import Overloaded
from service.settings import Settings

REASONS = ("waiting", "wait_time", "bodies", "connections")
"""Why requests are refused though nothing is wrong with them."""

_MIN_RETRY_SECONDS = 1
_MAX_RETRY_SECONDS = 60

# How much of a mean the newest number is.
_NEWEST_SHARE = 1 / 8


class Recent:
    """The mean of a time, in which the newest ones count the most."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Take one more into account."""
        self.seconds += (seconds - self.seconds) * (_NEWEST_SHARE if self.seconds else 1)


class Gate:
    """The limits that all requests of a process share; belongs to one event loop.

    Attributes:
        max_waiting: how many may wait in each line.
        wait_seconds: how long each may.
        max_held_body_bytes: the memory that request bodies may take at once.
        held_body_bytes: what they take.
        held_for: how long bodies were held of late.
        refusals: how many requests were refused, by reason.
    """

    def __init__(self, settings: Settings) -> None:
        self.max_waiting = settings.max_waiting
        self.wait_seconds = settings.wait_seconds
        self.max_held_body_bytes = settings.max_held_body_bytes
        self.held_body_bytes = 0
        self.held_for = Recent()
        self.refusals = dict.fromkeys(REASONS, 0)

    def refused(self, reason: str) -> None:
        """Count a request that is refused for one of the reasons."""
        self.refusals[reason] += 1

    def overloaded(self, reason: str, detail: str, seconds: float) -> Overloaded:
        """Count a refusal, and make the error of it.

        Args:
            reason: one of the reasons.
            detail: what there is too much of, and the setting that says so.
            seconds: when it may be less, as far as one can tell.
        """
        self.refused(reason)
        retry_seconds = min(max(ceil(seconds), _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)
        return Overloaded(detail, retry_seconds)


class Line:
    """Those who wait for threads of one kind, in order."""

    def __init__(self, gate: Gate, name: str, threads: int) -> None:
        self.gate = gate
        self.name = name
        self.served_for = Recent()
        self._threads = threads
        self._waiting: set[Place] = set()

    def __len__(self) -> int:
        """Count who waits."""
        return len(self._waiting)

    @property
    def wait_seconds(self) -> float:
        """How long whoever comes now will wait, as far as one can tell."""
        return len(self) * self.served_for.seconds / self._threads

    @contextmanager
    def place(self) -> Iterator["Place"]:
        """Wait in line, until served or away; raises Overloaded where too many wait."""
        if len(self) >= self.gate.max_waiting:
            detail = f"{len(self)} requests wait already for {self.name} work (POSREF_MAX_WAITING)"
            raise self.gate.overloaded("waiting", detail, self.wait_seconds)
        place = Place(self)
        self._waiting.add(place)
        try:
            yield place
        finally:
            self._waiting.discard(place)
            if place.served_at is not None:
                self.served_for.add(monotonic() - place.served_at)

    def leave(self, place: "Place") -> None:
        """Take somebody out; in any thread."""
        self._waiting.discard(place)


class Place:
    """A place in a line, to be left before a deadline.

    Attributes:
        served_at: when the wait was over.
    """

    def __init__(self, line: Line) -> None:
        self.served_at: float | None = None
        self._line = line
        self._deadline = asyncio.get_running_loop().time() + line.gate.wait_seconds
        self._is_late = False

    def serve(self) -> None:
        """End the wait; to be called by the thread that begins the work."""
        self.served_at = monotonic()
        self._line.leave(self)

    async def turn(self, turns: asyncio.Semaphore) -> None:
        """Wait for one of several turns; raises Overloaded at the deadline."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await turns.acquire()
        except TimeoutError:
            raise self._late() from None

    @contextmanager
    def limited(self, withdraw: Callable[[], bool]) -> Iterator[None]:
        """Hold to its deadline what waits for a thread; raises Overloaded.

        Args:
            withdraw: cancels the work, and tells whether it had not begun.
        """
        timer = asyncio.get_running_loop().call_at(self._deadline, self._expire, withdraw)
        try:
            yield
        except asyncio.CancelledError:
            if self._is_late:
                raise self._late() from None
            raise
        finally:
            timer.cancel()

    def _expire(self, withdraw: Callable[[], bool]) -> None:
        self._is_late = withdraw()

    def _late(self) -> Overloaded:
        line, limit = self._line, self._line.gate.wait_seconds
        detail = f"{line.name} work did not begin within {limit} seconds (POSREF_WAIT_SECONDS)"
        return line.gate.overloaded("wait_time", detail, line.wait_seconds)


class Held:
    """The memory that one request body takes, from when it comes until its answer has gone."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._bytes = 0
        self._since = monotonic()

    def grow(self, held_bytes: int) -> None:
        """Hold so much in all, or more; raises Overloaded where others leave no room for it.

        Where nothing else is held any body has room: each is bounded by limits of its own.
        """
        if held_bytes <= self._bytes:
            return
        gate = self._gate
        others_bytes = gate.held_body_bytes - self._bytes
        if others_bytes and others_bytes + held_bytes > gate.max_held_body_bytes:
            limit = gate.max_held_body_bytes
            detail = f"request bodies take up {limit} bytes already (POSREF_MAX_HELD_BODY_BYTES)"
            raise gate.overloaded("bodies", detail, gate.held_for.seconds)
        gate.held_body_bytes = others_bytes + held_bytes
        self._bytes = held_bytes

    def release(self) -> None:
        """Hold nothing any more."""
        if self._bytes:
            self._gate.held_body_bytes -= self._bytes
            self._bytes = 0
            self._gate.held_for.add(monotonic() - self._since)
