"""What is evaluated once: shared by all tables, or kept for the next read of one."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest

from service.tables import factors
from service.tables.angle import Int64s
from service.tables.axes import AxesTable, Axis
from service.tables.channels import Channels
from service.tables.dtypes import FLOAT32, FLOAT64
from service.tables.factors import CoarseRuns, Pair, Setup, setup_of
from service.tables.frequencies import Geometric
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions
from service.tables.real_positions import RealPhasorTable, RealPositions

RULE = Geometric(10000.0, 512, 256)
CHANNELS = Channels(("sin", "cos"), interleaved=True, width=512)


def table(rows: int) -> PhasorTable:
    return PhasorTable(RULE, CHANNELS, Positions.contiguous(0, rows), FLOAT32, (rows, 512))


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the coarse phasors of each evaluation."""
    counts: list[int] = []
    coarse = Setup.coarse

    def counting(setup: Setup, positions: Int64s) -> Pair:
        counts.append(len(positions))
        return coarse(setup, positions)

    monkeypatch.setattr(Setup, "coarse", counting)
    return counts


def test_setups_are_shared_and_bounded() -> None:
    table(2).read(0, 1024)
    known = factors._setups.get((RULE, CHANNELS))

    assert known is not None
    assert known is setup_of(RULE, CHANNELS)
    assert factors._setups.size_bytes <= factors.SETUP_CACHE_BYTES
    assert known.all_fine is not None
    assert known.all_fine[0].nbytes == FLOAT64.itemsize_bytes * 127 * 512


def test_the_fine_phasors_of_rows_too_wide_for_a_setup_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Setup.of(RULE, CHANNELS)
    monkeypatch.setattr(factors, "_MAX_FINE_BYTES", 0)
    bare = Setup.of(RULE, CHANNELS)

    assert bare.all_fine is None
    for ours, theirs in zip(kept.fine(range(-5, 7)), bare.fine(range(-5, 7)), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_a_reader_in_order_has_phasors_computed_in_batches(evaluated: list[int]) -> None:
    large = table(512 * 32)
    for block in range(32):
        large.read(block * 2**18, (block + 1) * 2**18)

    assert sum(evaluated) == 512 * 32 // 64
    assert len(evaluated) <= 1 + -(-32 // 4)


def test_reads_at_random_compute_what_they_need(evaluated: list[int]) -> None:
    large = table(10**6)
    for row in (500_000, 10, 700_000, 64_000):
        large.read(row * 512, (row + 1) * 512)

    assert evaluated == [1, 1, 1, 1]


def test_what_a_table_keeps_is_bounded() -> None:
    large = table(2**15)
    large.read(0, 2**15 * 512)
    kept = large._coarse._kept

    assert kept is not None
    assert sum(part.nbytes for part in kept[1]) <= 300 * 1024


def test_runs_known_in_part_are_computed_again() -> None:
    setup, coarse = setup_of(RULE, CHANNELS), CoarseRuns()
    coarse.of(setup, range(4, 6), range(4, 6))

    for runs in (range(4, 5), range(3, 5), range(5, 9), range(-2, 2)):
        expected = setup.coarse(np.arange(runs.start, runs.stop) * 64)
        for ours, exact in zip(coarse.of(setup, runs, runs), expected, strict=True):
            assert exact.tobytes() == ours.tobytes()


def test_frequencies_are_evaluated_once_whatever_channels_they_are_in() -> None:
    evaluated: list[int] = []

    @dataclass(frozen=True)
    class Counted:
        count: int

        def exact(self) -> list[Decimal]:
            evaluated.append(self.count)
            return [Decimal(1) / (k + 3) for k in range(self.count)]

    rule = Counted(3)
    for names in (("sin",), ("cos",), ("sin", "cos")):
        setup_of(rule, Channels(names, interleaved=False, width=3 * len(names)))
    positions = Positions.contiguous(0, 4)
    axis, channels = Axis(rule, positions, (0, 1, 2)), Channels(("sin", "cos"), True, 6)
    AxesTable((axis,), "exact", channels, FLOAT64, (4, 6)).read(0, 24)
    RealPhasorTable(rule, channels, RealPositions((1.0, 2.0)), FLOAT64, (2, 6)).read(0, 12)

    assert evaluated == [3]
