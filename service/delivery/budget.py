"""The memory of a process as one budget: grants to each kind of use, and refusals.

Memory is granted before it is allocated. Every kind of use draws on the same budget; when it is
spent, the cache gives way first, and then requests are refused.
"""

from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Literal, Self, TypeAlias, get_args

from service.errors import Overloaded, Refusals, RequestTooLarge
from service.settings import MIB, Settings

GrantKind: TypeAlias = Literal["cache", "bodies", "results", "children", "connections", "streams"]
GRANT_KINDS: tuple[GrantKind, ...] = get_args(GrantKind)

FLOOR_BYTES = 184 * MIB
"""The memory of a process with nothing granted, with its forkserver and two spare children."""

CONNECTION_BYTES = 24 * 1024
"""The memory of a connection: protocol, transport, request head, and a small response."""

# The setups that computations share are not granted one by one: they have a fixed part.
_SETUPS_SHARE = 1 / 8
_MOST_SETUPS_BYTES = 128 * MIB

_RESERVE_BYTES = 16 * MIB
_SMALL_BYTES = MIB

_MAX_RETRY_SECONDS = 60

SHARES: Mapping[str, float] = {"children": 0.3, "bodies": 0.1, "streams": 0.1}
"""The part of the limit that each kind can have whatever the others take."""

# The weight of the newest grant in the moving mean of the times for which grants are held.
_NEWEST_SHARE = 1 / 8


class Budget:
    """The memory that a process may grant; belongs to one event loop.

    The sum of all grants never exceeds the limit. The cache holds at most half of the limit, and
    is shrunk to a sixteenth before anything is refused. A reserve is for small grants only.
    Children, bodies and streams have a share each that is left to them, except by a grant that is
    the only one of its kind: the largest may take all that is free.

    Args:
        limit_bytes: the most memory that all grants together may have.
        memory_bytes: the value of POSREF_MEMORY_BYTES for errors; by default the limit with the
            floor.
        max_held_body_bytes: the most memory of all request bodies together, a single body
            excepted; by default the limit.
        refusals: counts the refusals, for the reasons "bodies" and "memory".

    Attributes:
        reserve_bytes: the part of the limit that only grants ``from_reserve`` may use.
        most_cache_bytes: the most memory of the cache.
        least_cache_bytes: the memory to which the cache is shrunk.
        shrink_cache: evicts at least so many bytes from the cache, if it has them; none if
            negative.
    """

    def __init__(
        self,
        limit_bytes: int,
        memory_bytes: int | None = None,
        max_held_body_bytes: int | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.reserve_bytes = min(_RESERVE_BYTES, limit_bytes // 3)
        self.most_cache_bytes = limit_bytes // 2
        self.least_cache_bytes = limit_bytes // 16
        self.shrink_cache: Callable[[int], None] = lambda _: None
        self.refusals = refusals or Refusals()
        self._memory_bytes = memory_bytes or limit_bytes + FLOOR_BYTES
        self._max_held_body_bytes = max_held_body_bytes or limit_bytes
        self._granted: dict[str, int] = dict.fromkeys(GRANT_KINDS, 0)
        self._peak_bytes = self._last_bytes = 0
        self._held_seconds = dict.fromkeys(GRANT_KINDS, 0.0)
        self._returned: deque[tuple[Grant, float]] = deque()

    @classmethod
    def of(cls, settings: Settings, refusals: Refusals | None = None) -> "Budget":
        """Return the budget of one of the processes: its memory without floor and setups."""
        limit_bytes = _above_floor_bytes(settings) - setups_bytes(settings)
        return cls(limit_bytes, settings.memory_bytes, settings.max_held_body_bytes, refusals)

    def grant(self, kind: GrantKind, size_bytes: int, *, from_reserve: bool = False) -> "Grant":
        """Return a grant of memory.

        Args:
            kind: what the memory is for.
            size_bytes: its size; ``Grant.resize`` changes it.
            from_reserve: whether a grant of at most 1 MiB may use the reserve.

        Raises:
            Overloaded: the memory is granted to others now.
            RequestTooLarge: the grant exceeds the memory that is ever free.
        """
        grant = Grant(self, kind, from_reserve=from_reserve)
        grant.resize(size_bytes)
        return grant

    @property
    def granted_bytes(self) -> int:
        """The sum of all grants."""
        return sum(self.granted().values())

    def granted(self) -> Mapping[str, int]:
        """Return the sum of all grants of each kind."""
        self._settle()
        return self._granted

    @property
    def is_tight(self) -> bool:
        """True if less than an eighth of the limit is free or can be taken from the cache."""
        granted = self.granted()
        spare_cache_bytes = max(0, granted["cache"] - self.least_cache_bytes)
        fixed_bytes = sum(granted.values()) - spare_cache_bytes + self.reserve_bytes
        return self.limit_bytes - fixed_bytes < self.limit_bytes // 8

    def take_fall(self, least_bytes: int) -> bool:
        """Return whether the sum of grants has fallen from its peak; if so, the peak is the sum.

        A fall has ``least_bytes``, or a sixteenth of that if the sum has not changed since the last
        call: then nothing more is about to fall.
        """
        granted_bytes = self.granted_bytes
        is_over, self._last_bytes = granted_bytes == self._last_bytes, granted_bytes
        fallen_bytes = self._peak_bytes - granted_bytes
        if fallen_bytes < (least_bytes // 16 if is_over else least_bytes):
            return False
        self._peak_bytes = granted_bytes
        return True

    def change(self, grant: "Grant", kind: GrantKind, size_bytes: int) -> None:
        """Change the kind and the size of a grant; a refusal leaves both unchanged."""
        self._settle()
        growth_bytes = size_bytes - grant.size_bytes
        if growth_bytes > 0:
            self._check(kind, size_bytes, growth_bytes)
            if not self.make_room(grant, kind, size_bytes):
                detail = (
                    f"{growth_bytes} more bytes of memory are not free "
                    f"(POSREF_MEMORY_BYTES={self._memory_bytes})"
                )
                raise self._overloaded("memory", detail, kind)
        if kind != grant.kind or not grant.size_bytes:
            grant.since = monotonic()
        self._granted[grant.kind] -= grant.size_bytes
        self._granted[kind] += size_bytes
        grant.kind, grant.size_bytes = kind, size_bytes
        self._peak_bytes = max(self._peak_bytes, sum(self._granted.values()))

    def make_room(self, grant: "Grant", kind: GrantKind, size_bytes: int) -> bool:
        """Shrink the cache until a grant can have this kind and size; return whether it can."""
        growth_bytes = size_bytes - grant.size_bytes
        is_small = grant.from_reserve and size_bytes <= _SMALL_BYTES
        left_bytes = self.reserve_bytes + self._left_bytes(kind, grant.size_bytes)
        most_bytes = self.limit_bytes - (0 if is_small else left_bytes) - growth_bytes
        while (excess_bytes := self.granted_bytes - most_bytes) > 0:
            cache_bytes = self._granted["cache"]
            self.shrink_cache(min(excess_bytes, cache_bytes - self.least_cache_bytes))
            if self.granted()["cache"] == cache_bytes:
                return False
        return True

    def take_back(self, grant: "Grant") -> None:
        """End a grant; any thread and any finalizer may call this, at any time.

        The event loop subtracts the grant later: a lock could be held already by the code that a
        finalizer interrupts.
        """
        self._returned.append((grant, monotonic()))

    def _settle(self) -> None:
        """Subtract all grants that have been taken back."""
        while self._returned:
            grant, ended_at = self._returned.popleft()
            if grant.size_bytes:
                self._granted[grant.kind] -= grant.size_bytes
                mean, held_seconds = self._held_seconds[grant.kind], ended_at - grant.since
                share = _NEWEST_SHARE if mean else 1
                self._held_seconds[grant.kind] += (held_seconds - mean) * share
                grant.size_bytes = 0

    def _check(self, kind: GrantKind, size_bytes: int, growth_bytes: int) -> None:
        """Raise if a grant never fits, or exceeds the limit of its kind."""
        most_bytes = self.limit_bytes - self.reserve_bytes - self.least_cache_bytes
        if size_bytes > most_bytes:
            raise RequestTooLarge(
                f"this takes {size_bytes} bytes of memory, and at most {most_bytes} are ever free "
                f"(POSREF_MEMORY_BYTES={self._memory_bytes})"
            )
        limit = self._max_held_body_bytes
        others_bytes = self._granted["bodies"] + growth_bytes - size_bytes
        if kind == "bodies" and others_bytes and others_bytes + size_bytes > limit:
            detail = f"request bodies take up {limit} bytes already (POSREF_MAX_HELD_BODY_BYTES)"
            raise self._overloaded("bodies", detail, kind)

    def _left_bytes(self, kind: GrantKind, size_bytes: int) -> int:
        """Return what a grant of this kind and size leaves to the other kinds that have a share."""
        if kind not in SHARES or self._granted[kind] == size_bytes:
            return 0
        others = (
            int(share * self.limit_bytes) - self._granted[other]
            for other, share in SHARES.items()
            if other != kind
        )
        return sum(max(0, unused_bytes) for unused_bytes in others)

    def _overloaded(self, reason: str, detail: str, kind: GrantKind) -> Overloaded:
        seconds = min(self._held_seconds[kind], _MAX_RETRY_SECONDS)
        return self.refusals.overloaded(reason, detail, seconds)


def setups_bytes(settings: Settings) -> int:
    """Return the memory of a process for the setups that computations share."""
    return min(_MOST_SETUPS_BYTES, int(_above_floor_bytes(settings) * _SETUPS_SHARE))


def _above_floor_bytes(settings: Settings) -> int:
    return settings.process_bytes - FLOOR_BYTES


class Grant:
    """Memory that a budget has granted, until ``release`` or until nothing refers to the grant.

    Attributes:
        kind: what the memory is for.
        size_bytes: its size; 0 after the release.
        from_reserve: whether it may use the reserve while it is small.
        since: the monotonic time from which it has been of this kind and not empty.
    """

    __slots__ = ("_budget", "from_reserve", "kind", "since", "size_bytes")

    def __init__(self, budget: Budget, kind: GrantKind, *, from_reserve: bool) -> None:
        self._budget = budget
        self.kind = kind
        self.from_reserve = from_reserve
        self.size_bytes = 0
        self.since = 0.0

    def resize(self, size_bytes: int) -> None:
        """Change the size, from the event loop; raises as ``Budget.grant``."""
        self._budget.change(self, self.kind, size_bytes)

    def grow_if_free(self, size_bytes: int) -> None:
        """Increase the size if the memory is free, from the event loop; counts no refusal."""
        if self._budget.make_room(self, self.kind, size_bytes):
            self.resize(size_bytes)

    def move(self, kind: GrantKind) -> None:
        """Count the memory as another kind from now on, from the event loop."""
        self._budget.change(self, kind, self.size_bytes)

    def release(self) -> None:
        """End the grant; any thread may call this, also twice."""
        if self.size_bytes:
            self._budget.take_back(self)

    def __del__(self) -> None:
        self.release()


class GrantedBytes(bytes):
    """Bytes that stay granted while a cache, a response or a transport refers to them."""

    grant: Grant

    @classmethod
    def of(cls, content: bytes, grant: Grant) -> Self:
        """Return a copy of the content that holds the grant."""
        copy = cls(content)
        copy.grant = grant
        return copy
