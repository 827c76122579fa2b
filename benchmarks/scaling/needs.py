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
        share: how large a part it is.
        found: the kind that costs what an edge takes that has the answer; None where none can.
        made: the kind that costs what it takes where none has; None where that never is.
        said: what it is called in reports.
    """

    share: float
    found: Kind | None
    made: Kind | None
    said: str


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
        edge_cores, posref_cores: cores that are busy all the time.
        sent_bits: per second, to clients.
        passed_bits: per second, from replicas to edges.
    """

    edge_cores: float
    posref_cores: float
    sent_bits: float
    passed_bits: float


def needs(costs: Mapping[str, Cost], rate: float, found: float, mix: Sequence[Part] = MIX) -> Needs:
    """Return the resources for a number of requests.

    Args:
        costs: by the name of the kind.
        rate: requests per second.
        found: the share that edges answer, of what they can have.
        mix: what is asked for.
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
    share_found = 0.0 if part.found is None else 1.0 if part.made is None else found
    kinds = ((part.found, False, share_found), (part.made, True, 1 - share_found))
    return [(kind, made, part.share * share) for kind, made, share in kinds if kind]
