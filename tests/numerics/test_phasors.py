"""Products of phasors: bounds, bytes independent of the rows read, caches, channels."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.rotary.rules import GivenFrequencies
from service.lru import ByteBoundedLRU
from service.numerics import phasors as factors
from service.numerics import phasors as phasor
from service.numerics.axes import AxesTable, Axis
from service.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from service.numerics.phase import MAX_POSITION, Geometric, Int64s
from service.numerics.phasors import (
    BLOCK_LENGTH,
    Channels,
    CoarsePhasorCache,
    Pair,
    Phasors,
    PhasorSetup,
    PhasorTable,
    RealPhasorTable,
    block_of,
    block_spans,
    component,
)
from service.numerics.positions import Positions, Run
from service.numerics.tables import size


def table(width: int, positions: Positions, dtype: str = "float64") -> PhasorTable:
    rule = Geometric(10000.0, width, -(-width // 2))
    channels = Channels(("sin", "cos"), interleaved=True, width=width)
    return PhasorTable(rule, channels, positions, REAL_DTYPES[dtype], (positions.count, width))


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40), st.sampled_from([4, 512]))
def test_a_row_does_not_depend_on_the_other_rows(positions: list[int], width: int) -> None:
    together = table(width, Positions.of_runs(Run(position, 1, 1) for position in positions))

    rows = together.read(0, size(together)).reshape(-1, width)

    for row, position in zip(rows, positions, strict=True):
        alone = table(width, Positions.contiguous(position, 1)).read(0, width)
        in_a_run = table(width, Positions.contiguous(position - 70, 140)).read(
            70 * width, 71 * width
        )
        assert row.tobytes() == alone.tobytes() == in_a_run.tobytes()


def test_rows_do_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(512, Positions.contiguous(-1000, 5000))
    expected = whole.read(0, size(whole)).tobytes()
    monkeypatch.setattr(phasor, "_BATCH_ELEMENTS", 100 * 512)
    monkeypatch.setattr(phasor, "_STEP_ELEMENTS", 3000)

    assert expected == whole.read(0, size(whole)).tobytes()


def test_a_scale_multiplies_before_the_one_rounding() -> None:
    plain = table(64, Positions.contiguous(0, 100))
    scaled = PhasorTable(
        plain.rule, plain.channels, plain.positions, FLOAT32, plain.shape, scale=1.2079441541679836
    )

    expected = (plain.read(0, 6400) * 1.2079441541679836).astype(np.float32)

    assert expected.tobytes() == scaled.read(0, 6400).tobytes()


def test_the_last_positions_are_reached() -> None:
    ends = table(8, Positions.of_runs([Run(MAX_POSITION, 1, 1), Run(-MAX_POSITION, 1, 1)]))

    high, low = ends.read(0, 16).reshape(2, 8)

    assert (high[0::2] == -low[0::2]).all()
    assert (high[1::2] == low[1::2]).all()


def test_a_frequency_of_zero_gives_sine_0_and_cosine_1() -> None:
    positions = np.array([-3, 0, 2**60], dtype=np.int64)

    assert component(GivenFrequencies((0.0,)), "cos", positions).tolist() == [[1.0], [1.0], [1.0]]
    assert not np.signbit(component(GivenFrequencies((0.0,)), "sin", positions)).any()


@pytest.mark.parametrize("start", [-100, 0, 2**40 + 3])
def test_rows_too_wide_for_a_setup_have_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    whole = table(600, Positions.contiguous(start, 150))
    strided = table(600, Positions.of_runs([Run(start, 7, 20)]))
    expected = whole.read(0, size(whole)).tobytes(), strided.read(0, size(strided)).tobytes()
    monkeypatch.setattr(factors, "MAX_FINE_WIDTH", 0)
    monkeypatch.setattr(factors.Phasors, "cache", ByteBoundedLRU(2**20))

    assert whole.read(0, size(whole)).tobytes() == expected[0]
    assert strided.read(0, size(strided)).tobytes() == expected[1]


@pytest.mark.full
@pytest.mark.parametrize("width", [4, 63, 64, 512])
@pytest.mark.parametrize("start", [-20000, 0])
def test_sequential_reads_equal_one_read(width: int, start: int) -> None:
    whole = table(width, Positions.contiguous(start, 40000), "float32")
    expected = whole.read(0, size(whole)).tobytes()
    step = size(whole) // 37 + 1

    in_order = [
        whole.read(first, min(first + step, size(whole))) for first in range(0, size(whole), step)
    ]

    assert expected == np.concatenate(in_order).tobytes()


def test_a_table_may_be_read_from_several_threads_at_once() -> None:
    positions = Positions.contiguous(-3000, 12000)
    shared = table(512, positions, "float32")
    starts = [*range(0, size(shared), 2**18), *reversed(range(0, size(shared), 2**18))]

    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda first: shared.read(first, first + 2**16).tobytes(), starts))

    alone = [
        table(512, positions, "float32").read(first, first + 2**16).tobytes() for first in starts
    ]
    assert alone == read


RULE = Geometric(10000.0, 512, 256)
CHANNELS = Channels(("sin", "cos"), interleaved=True, width=512)


def factors_table(rows: int) -> PhasorTable:
    return PhasorTable(RULE, CHANNELS, Positions.contiguous(0, rows), FLOAT32, (rows, 512))


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the coarse phasors of each evaluation."""
    counts: list[int] = []
    coarse = PhasorSetup.coarse

    def counting(setup: PhasorSetup, positions: Int64s) -> Pair:
        counts.append(len(positions))
        return coarse(setup, positions)

    monkeypatch.setattr(PhasorSetup, "coarse", counting)
    return counts


def test_setups_are_shared_and_bounded() -> None:
    factors_table(2).read(0, 1024)
    known = Phasors.cache.get(Phasors(RULE, CHANNELS))

    assert known is not None
    assert known is Phasors(RULE, CHANNELS).get()
    assert Phasors.cache.size_bytes <= factors.SETUP_CACHE_BYTES
    assert known.all_fine is not None
    assert known.all_fine[0].nbytes == FLOAT64.itemsize_bytes * 127 * 512


def test_sequential_reads_compute_phasors_in_batches(evaluated: list[int]) -> None:
    large = factors_table(512 * 32)
    for block in range(32):
        large.read(block * 2**18, (block + 1) * 2**18)

    assert sum(evaluated) == 512 * 32 // 64
    assert len(evaluated) <= 1 + -(-32 // 4)


def test_random_reads_compute_only_their_blocks(evaluated: list[int]) -> None:
    large = factors_table(10**6)
    for row in (500_000, 10, 700_000, 64_000):
        large.read(row * 512, (row + 1) * 512)

    assert evaluated == [1, 1, 1, 1]


def test_the_phasors_a_table_keeps_are_bounded() -> None:
    large = factors_table(2**15)
    large.read(0, 2**15 * 512)
    kept = phasor._batches.get(large._coarse)

    assert kept is not None
    assert sum(part.nbytes for part in kept[1]) <= 300 * 1024


def test_the_phasors_that_all_tables_keep_are_bounded() -> None:
    tables = [factors_table(10**6) for _ in range(100)]
    for table in tables:
        table.read(0, 512)
        table.read(512, 1024 * 512)

    assert phasor._batches.size_bytes <= phasor._batches.capacity_bytes == 2**24
    assert phasor._batches.get(tables[0]._coarse) is None


def test_cached_and_uncached_blocks_have_the_same_bytes() -> None:
    setup, coarse = Phasors(RULE, CHANNELS).get(), CoarsePhasorCache()
    coarse.of(setup, range(4, 6), range(4, 6))

    for runs in (range(4, 5), range(3, 5), range(5, 9), range(-2, 2)):
        expected = setup.coarse(np.arange(runs.start, runs.stop) * 64)
        for found, exact in zip(coarse.of(setup, runs, runs), expected, strict=True):
            assert exact.tobytes() == found.tobytes()


def test_frequencies_are_evaluated_once_for_all_channels() -> None:
    evaluated: list[int] = []

    @dataclass(frozen=True)
    class Counted:
        count: int

        def exact(self) -> Iterator[Decimal]:
            evaluated.append(self.count)
            return (Decimal(1) / (k + 3) for k in range(self.count))

    rule = Counted(3)
    for names in (("sin",), ("cos",), ("sin", "cos")):
        Phasors(rule, Channels(names, interleaved=False, width=3 * len(names))).get()
    positions = Positions.contiguous(0, 4)
    axis, channels = Axis(rule, positions, (0, 1, 2)), Channels(("sin", "cos"), True, 6)
    AxesTable((axis,), "exact", channels, FLOAT64, (4, 6)).read(0, 24)
    RealPhasorTable(rule, channels, np.array([1.0, 2.0]), FLOAT64, (2, 6)).read(0, 12)

    assert evaluated == [3]


@given(
    st.integers(-400, 400) | st.integers(-MAX_POSITION, MAX_POSITION - 1000),
    st.integers(1, 1000),
)
def test_block_spans_cover_all_positions_in_order(start: int, count: int) -> None:
    positions = range(start, start + count)

    split = [
        block * BLOCK_LENGTH + offset
        for span in block_spans(positions)
        for block in range(span.first, span.first + span.blocks)
        for offset in span.offsets
    ]

    assert list(positions) == split


@given(st.integers(-400, 400) | st.integers(-MAX_POSITION, MAX_POSITION))
def test_block_and_offset_have_the_sign_of_the_position(position: int) -> None:
    (span,) = block_spans(range(position, position + 1))

    assert span.first == block_of(position)
    assert position - block_of(position) * BLOCK_LENGTH == np.fmod(
        np.int64(position), np.int64(BLOCK_LENGTH)
    )


def test_consecutive_positions_are_few_block_spans() -> None:
    assert len(list(block_spans(range(-(10**15), 10**15)))) <= 7


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (Channels(("sin", "cos"), True, 4), [(0, True), (0, False), (1, True), (1, False)]),
        (Channels(("sin", "cos"), True, 3), [(0, True), (0, False), (1, True)]),
        (Channels(("sin", "cos"), False, 4), [(0, True), (1, True), (0, False), (1, False)]),
        (Channels(("sin", "cos"), False, 3), [(0, True), (1, True), (0, False)]),
        (Channels(("cos", "sin"), False, 2), [(0, False), (0, True)]),
        (Channels(("cos", "cos"), True, 4), [(0, False), (0, False), (1, False), (1, False)]),
    ],
)
def test_channels_name_component_and_frequency(
    channels: Channels, expected: list[tuple[int, bool]]
) -> None:
    frequency, is_sine = channels.indices()

    assert expected == list(zip(frequency.tolist(), is_sine.tolist(), strict=True))


ZEROS = [
    (Channels(("sin", "cos"), False, 5, zeros=1), [(0, True), (1, True), (0, False), (1, False)]),
    (Channels(("sin", "cos"), True, 4, zeros=2), [(0, True), (0, False)]),
    (Channels(("cos", "sin"), False, 3, zeros=1), [(0, False), (0, True)]),
    (Channels(("sin", "cos"), False, 1, zeros=1), []),
]


@pytest.mark.parametrize(("channels", "before"), ZEROS)
def test_zeros_come_last_and_do_not_move_other_channels(
    channels: Channels, before: list[tuple[int, bool]]
) -> None:
    frequency, is_sine = channels.indices()
    found = list(zip(frequency.tolist(), is_sine.tolist(), strict=True))

    assert len(found) == channels.width
    assert found[: -channels.zeros] == before
    # A sine of the first frequency is there for every rule.
    assert found[-channels.zeros :] == [(0, True)] * channels.zeros


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "uint16"])
def test_blank_sets_the_padding_channels_to_zero(dtype: str) -> None:
    rows = np.ones((3, 5), dtype=dtype)

    Channels(("sin", "cos"), False, 5, zeros=2).blank(rows)

    assert rows.tolist() == [[1, 1, 1, 0, 0]] * 3
