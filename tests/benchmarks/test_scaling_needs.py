"""Resources computed from costs and a request rate."""

import pytest

from benchmarks.scaling.costs import Cost
from benchmarks.scaling.kinds import APPLY, COLD_SMALL, KINDS, WARM_SMALL
from benchmarks.scaling.needs import MIX, Part, needs

COSTS = {
    kind.name: Cost(
        body_bytes=1000.0,
        rate=1.0,
        client_load=0.1,
        posref_seconds=0.0,
        edge_rate=1.0,
        edge_seconds=1e-4,
        behind_seconds=2e-3,
        rounds=[1.0],
    )
    for kind in KINDS
}


def test_shares_of_the_mix_add_up_to_one() -> None:
    assert sum(part.share for part in MIX) == pytest.approx(1)


def test_needs_grow_linearly_with_requests() -> None:
    once, twice = (needs(COSTS, rate, 0.9) for rate in (1e6, 2e6))

    assert twice.edge_cores == pytest.approx(2 * once.edge_cores)
    assert twice.posref_cores == pytest.approx(2 * once.posref_cores)
    assert twice.sent_bits == pytest.approx(2 * once.sent_bits)


def test_posref_gets_the_misses_of_the_edge() -> None:
    mix = [Part(1.0, WARM_SMALL, COLD_SMALL, "tables")]

    taken = needs(COSTS, 1000.0, 0.9, mix)

    assert taken.posref_cores == pytest.approx(1000 * 0.1 * 2e-3)
    assert taken.edge_cores == pytest.approx(1000 * 1e-4)
    assert taken.sent_bits == pytest.approx(8e6)
    assert taken.passed_bits == pytest.approx(0.1 * 8e6)


def test_uncacheable_requests_are_always_computed() -> None:
    taken = needs(COSTS, 1000.0, 1.0, [Part(1.0, None, APPLY, "arrays")])

    assert taken.posref_cores == pytest.approx(2.0)
