"""Cheap requests while costly ones are under way, and what is left of these when they leave."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.starvation.clients import under_way
from benchmarks.starvation.kinds import Kind
from benchmarks.starvation.probes import MOST_SECONDS, Times, measured
from benchmarks.starvation.server import Served

NUMBERS = (1, 4, 16)
_WARM_UP_SECONDS = 0.4
_LEFT_SECONDS = 0.5
_REST_SECONDS = 20.0
MOST_CORES_AFTER = 0.1
_GRANTED = "posref_memory_granted_bytes"


@dataclass(frozen=True)
class Left:
    """What a server does half a second after all clients have left.

    Attributes:
        cores: processor time over the next half second, as a share of a core.
        held_bytes: memory granted beyond that at rest, but for the cache.
    """

    cores: float
    held_bytes: float

    @property
    def is_nothing(self) -> bool:
        return self.cores <= MOST_CORES_AFTER and self.held_bytes <= 0


@dataclass(frozen=True)
class Pair:
    """Cheap requests while so many costly ones of a kind are under way.

    Attributes:
        quiet: the times of cheap requests alone.
        times: their times meanwhile.
        answers: how often the costly requests got each status.
        left: what was left of the costly ones.
    """

    kind: Kind
    number: int
    quiet: Mapping[str, Times]
    times: Mapping[str, Times]
    answers: Counter[str]
    left: Left

    @property
    def broken(self) -> list[str]:
        """The names of the cheap requests whose promise is broken."""
        return [name for name in MOST_SECONDS if not self.times[name].keeps(name, self.quiet[name])]


def quiet_times(server: Served, seconds: float) -> dict[str, Times]:
    """Return the times of cheap requests to a server that has nothing else to do."""
    measured(server.port, _WARM_UP_SECONDS)
    return measured(server.port, 4 * seconds)


def pair(
    server: Served, kind: Kind, number: int, quiet: Mapping[str, Times], seconds: float
) -> Pair:
    """Measure one pair, and wait until the server rests again."""
    at_rest = _held_bytes(server)
    with under_way(server.port, kind, number) as answers:
        time.sleep(_WARM_UP_SECONDS)
        times = measured(server.port, seconds)
    time.sleep(_LEFT_SECONDS)
    left = Left(server.cores(_LEFT_SECONDS), _held_bytes(server) - at_rest)
    if not left.is_nothing:
        server.rests_within(_REST_SECONDS)
    return Pair(kind, number, quiet, times, answers, left)


def _held_bytes(server: Served) -> float:
    """Return the memory granted for other things than the cache and connections."""
    granted = server.metrics(_GRANTED)
    counted = {f"{_GRANTED} {kind}" for kind in ("bodies", "results", "children", "streams")}
    return sum(value for name, value in granted.items() if name in counted)
