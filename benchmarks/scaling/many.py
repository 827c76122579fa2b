"""Simulation of any number of replicas from measurements of one and two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.scaling.demand import Catalogue
from benchmarks.scaling.simulation import HASH, IN_TURN, Scene, Seen, Service, simulate

NUMBERS = (1, 2, 4, 16, 64, 256, 1024)
BUSY = 0.6
"""Utilization of a single replica at the rate simulated for each."""

REPLICAS_OF_AN_EDGE = 8
REPLICA_BYTES = 15 * 2**24
"""The default size of posref's cache of bodies."""

EDGE_BYTES = 2**32
"""The cache size of an edge of deploy/."""

_ENTRY_BYTES = 546

CATALOGUE = Catalogue(
    urls=200_000,
    exponent=0.9,
    body_bytes=tuple(each + _ENTRY_BYTES for each in (192, 102_528, 1_048_704)),
    size_shares=(0.5, 0.4, 0.1),
)


@dataclass(frozen=True)
class Row:
    """A scene and its result."""

    scene: Scene
    seen: Seen


def rows(
    service: Service, numbers: Sequence[int] = NUMBERS, catalogue: Catalogue = CATALOGUE
) -> Iterator[Row]:
    """Simulate every number of replicas without and with edges, by hash and round-robin."""
    rate = BUSY / simulate(Scene(1, HASH, REPLICA_BYTES), catalogue, service).cores
    for number in numbers:
        for edges in (0, -(-number // REPLICAS_OF_AN_EDGE)):
            for routing in (HASH, IN_TURN) if number > 1 else (HASH,):
                scene = Scene(number, routing, REPLICA_BYTES, edges, EDGE_BYTES)
                scene = replace(scene, rate=number * rate)
                yield Row(scene, simulate(scene, catalogue, service))
