"""Setups: what a table computes before its first element, in steps of at most a turn.

Most results are kept in a cache that tables share (``KeptSetup``), others by their table
(``OwnSetup``). A body computes long setups before its first byte; ``read_in_steps`` computes again
what the caches have lost since.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

from service.lru import ByteBoundedLRU, shared

Result = TypeVar("Result")

TURN_SECONDS = 0.004
"""The longest that one block of a body may take, so that other work can run in between."""


Steps: TypeAlias = Generator[None, None, Result]
"""A computation in steps of at most TURN_SECONDS; it returns the result."""


class Unfinished(Exception):
    """A read needs a computation of several steps; the first one is done.

    Attributes:
        key: distinguishes it from the others that the read needs.
        steps: the other steps.
    """

    def __init__(self, key: Hashable, steps: Steps[object]) -> None:
        super().__init__()
        self.key, self.steps = key, steps


# What the steps of a read have computed: the read is repeated after them.
_finished: ContextVar[dict[Hashable, Any] | None] = ContextVar("finished", default=None)


def finish(key: Hashable, steps: Steps[Result]) -> Result:
    """Do all steps of a computation and return its result.

    Inside ``read_in_steps``, raises Unfinished after the first of several steps; when the read is
    repeated, returns their result.
    """
    finished = _finished.get()
    result: Result
    if finished is not None and key in finished:
        result = finished[key]
        return result
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result = stop.value
            return result
        if finished is not None:
            raise Unfinished(key, steps)


def read_in_steps(read: Callable[[], Result]) -> Generator[bytes, None, Result]:
    """Return what a read of a table returns; a setup that the caches have lost is made in steps.

    Yields an empty block after each step. No setup is held between reads: many tables that are read
    by turns may need more memory than the caches have.
    """
    finished: dict[Hashable, Any] = {}
    while True:
        token = _finished.set(finished)
        try:
            return read()
        except Unfinished as unfinished:
            key, steps = unfinished.key, unfinished.steps
        finally:
            _finished.reset(token)
        yield b""
        finished[key] = yield from _with_blanks(steps)


def _with_blanks(steps: Steps[Result]) -> Generator[bytes, None, Result]:
    """Do all steps, with an empty block after each; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        yield b""


class Setup(Protocol):
    """A computation that a table needs once, before its first element.

    It is the attribute ``setup`` of the table; most tables have none.
    """

    @property
    def seconds(self) -> float:
        """The processor seconds that it takes, 0 if it is there already."""

    def steps(self) -> Iterator[None]:
        """Compute it in steps; ``read_in_steps`` does so where it is not there any more."""


@dataclass(frozen=True)
class Setups:
    """Several setups, one after the other."""

    parts: tuple[Setup, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    def steps(self) -> Iterator[None]:
        for part in self.parts:
            if part.seconds:
                yield from part.steps()
                yield


NO_SETUP = Setups()


class HasBytes(Protocol):
    """An array, or several of them."""

    @property
    def nbytes(self) -> int: ...


Kept = TypeVar("Kept", bound=HasBytes)


class KeptSetup(ABC, Generic[Kept]):
    """Base class of the setups whose results are kept in a cache, with the setup as the key.

    A subclass is a frozen dataclass, and states how many bytes its cache may have.
    """

    cache: ClassVar[ByteBoundedLRU[Any, Any]]

    def __init_subclass__(cls, capacity_bytes: int) -> None:
        cls.cache = shared(ByteBoundedLRU(capacity_bytes))

    @property
    @abstractmethod
    def new_seconds(self) -> float:
        """The processor seconds of computing the result."""

    @abstractmethod
    def compute(self) -> Steps[Kept]:
        """Compute the result in steps."""

    @property
    def seconds(self) -> float:
        return 0.0 if self in self.cache else self.new_seconds

    def steps(self) -> Steps[Kept]:
        """Return the result from the cache, or compute it in steps."""
        kept: Kept | None = self.cache.get(self)
        if kept is None:
            kept = yield from self.compute()
            self.cache.put(self, kept, kept.nbytes + 1024)
        return kept

    def get(self) -> Kept:
        """Return the result from the cache, or compute it."""
        return finish(self, self.steps())


@dataclass(frozen=True, eq=False)
class OwnSetup(Generic[Result]):
    """A setup whose result one table keeps.

    Attributes:
        compute: computes the result in steps.
        new_seconds: the processor seconds that it takes.
    """

    compute: Callable[[], Steps[Result]]
    new_seconds: float
    _kept: list[Result] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def checked(cls, compute: Callable[[], Steps[Result]], new_seconds: float) -> Self:
        """Return the setup that checks sent elements; a check of one turn is done now.

        A longer one is done in steps, before the first byte of the body.
        """
        setup = cls(compute, new_seconds)
        if new_seconds <= TURN_SECONDS:
            setup.get()
        return setup

    @property
    def seconds(self) -> float:
        return 0.0 if self._kept else self.new_seconds

    def steps(self) -> Steps[None]:
        """Compute the result in steps, unless it is there."""
        if not self._kept:
            self._kept.append((yield from self.compute()))

    def get(self) -> Result:
        """Return the result, or compute it."""
        finish(self, self.steps())
        return self._kept[0]


def setup_of(table: object) -> Setup:
    """Return the setup of a table; one without the attribute needs none."""
    # Every response needs this: a check of a protocol takes ten times as long.
    setup: Setup = getattr(table, "setup", NO_SETUP)
    return setup


def convert_decimals(
    numbers: Iterable[Decimal],
    convert: Callable[[list[Decimal]], Result],
    number_seconds: float,
) -> Steps[list[Result]]:
    """Compute decimals and convert them in steps, and return the results of all steps.

    Args:
        numbers: the decimals.
        convert: converts the decimals of a step.
        number_seconds: the processor seconds of computing and converting one.
    """
    rest, step = iter(numbers), max(1, int(TURN_SECONDS / number_seconds))
    parts = [convert(list(islice(rest, step)))]
    while part := list(islice(rest, step)):
        yield
        parts.append(convert(part))
    return parts
