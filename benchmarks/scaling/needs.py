"""The edges, replicas and bandwidth for a number of requests per second, from measured costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.scaling.costs import Cost
from benchmarks.scaling.kinds import (
    APPLY,
    COLD_LARGE,
    COLD_SMALL,
    COLD_TABLE,
    COLD_TEXT,
    RANGE,
    UNCHANGED,
    WARM_LARGE,
    WARM_SMALL,
    WARM_TABLE,
    WARM_TEXT,
    Kind,
)

_BITS = 8


@dataclass(frozen=True)
class Part:
    """A share of all requests.

    Attributes:
        share: fraction of all requests.
        hit: kind of cost if the edge has the answer; None if it cannot be cached.
        miss: kind of cost if the answer must be computed; None if it never is.
        label: its name in reports.
    """

    share: float
    hit: Kind | None
    miss: Kind | None
    label: str


MIX: Sequence[Part] = (
    Part(0.40, WARM_TABLE, COLD_TABLE, "50×512 .npy"),
    Part(0.25, WARM_SMALL, COLD_SMALL, "4×4 .npy"),
    Part(0.15, UNCHANGED, None, "304 to a client that has the table"),
    Part(0.10, WARM_TEXT, COLD_TEXT, "50×512 .json"),
    Part(0.05, WARM_LARGE, COLD_LARGE, "512×512 .npy"),
    # A range that the edge has costs as much as any short file.
    Part(0.04, WARM_TABLE, RANGE, "64 KiB of a huge table"),
    Part(0.01, None, APPLY, "/rope/apply to 1 MiB"),
)
"""An assumption: no measurements of real demand exist."""


@dataclass(frozen=True)
class Needs:
    """The resources for a demand.

    Attributes:
        edge_cores, posref_cores: numbers of busy cores.
        sent_bits: bits per second to clients.
        passed_bits: bits per second from replicas to edges.
    """

    edge_cores: float
    posref_cores: float
    sent_bits: float
    passed_bits: float


def needs(costs: Mapping[str, Cost], rate: float, found: float, mix: Sequence[Part] = MIX) -> Needs:
    """Return the resources for a number of requests.

    Args:
        costs: cost of each kind of request, by name.
        rate: requests per second.
        found: hit rate of the edges among cacheable requests.
        mix: the kinds of requests.
    """
    edge = posref = sent = passed = 0.0
    for part in mix:
        for kind, is_made, share in _split(part, found):
            cost = costs[kind.name]
            edge += share * cost.edge_seconds
            sent += share * cost.body_bytes
            posref += share * cost.behind_seconds * is_made
            passed += share * cost.body_bytes * is_made
    return Needs(rate * edge, rate * posref, rate * sent * _BITS, rate * passed * _BITS)


def _split(part: Part, found: float) -> list[tuple[Kind, bool, float]]:
    """Return the kinds of cost of a share, whether each is computed, and its share of requests."""
    hits = 0.0 if part.hit is None else 1.0 if part.miss is None else found
    kinds = ((part.hit, False, hits), (part.miss, True, 1 - hits))
    return [(kind, is_miss, part.share * share) for kind, is_miss, share in kinds if kind]
