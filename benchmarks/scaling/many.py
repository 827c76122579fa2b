"""Any number of replicas, simulated from what was measured at one and two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.scaling.demand import Catalogue
from benchmarks.scaling.simulation import HASH, IN_TURN, Scene, Seen, Service, simulate

NUMBERS = (1, 2, 4, 16, 64, 256, 1024)
BUSY = 0.6
"""How busy one replica alone is, at the rate that each one is simulated with."""

REPLICAS_OF_AN_EDGE = 8
REPLICA_BYTES = 15 * 2**24
"""What a posref keeps of bodies by default."""

EDGE_BYTES = 2**32
"""What an edge of deploy/ keeps."""

_ENTRY_BYTES = 546

CATALOGUE = Catalogue(
    urls=200_000,
    exponent=0.9,
    body_bytes=tuple(each + _ENTRY_BYTES for each in (192, 102_528, 1_048_704)),
    size_shares=(0.5, 0.4, 0.1),
)


@dataclass(frozen=True)
class Row:
    """A scene and what came of it."""

    scene: Scene
    seen: Seen


def rows(
    service: Service, numbers: Sequence[int] = NUMBERS, catalogue: Catalogue = CATALOGUE
) -> Iterator[Row]:
    """Simulate every number of replicas, without edges and with them, by hash and in turn."""
    rate = BUSY / simulate(Scene(1, HASH, REPLICA_BYTES), catalogue, service).cores
    for number in numbers:
        for edges in (0, -(-number // REPLICAS_OF_AN_EDGE)):
            for routing in (HASH, IN_TURN) if number > 1 else (HASH,):
                scene = Scene(number, routing, REPLICA_BYTES, edges, EDGE_BYTES)
                scene = replace(scene, rate=number * rate)
                yield Row(scene, simulate(scene, catalogue, service))
