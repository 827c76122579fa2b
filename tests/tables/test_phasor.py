"""The phasor product: exact everywhere, and the same bytes whichever rows are asked for."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.lru import ByteBoundedLRU
from service.tables import factors, phasor
from service.tables.angle import MAX_POSITION
from service.tables.channels import Channels
from service.tables.dtypes import FLOAT32, REAL_DTYPES
from service.tables.frequencies import Geometric
from service.tables.phasor import PhasorTable, component, sines_and_cosines
from service.tables.positions import Positions, Run
from service.tables.rotary_rule import Given
from service.tables.table import size


def table(width: int, positions: Positions, dtype: str = "float64") -> PhasorTable:
    rule = Geometric(10000.0, width, -(-width // 2))
    channels = Channels(("sin", "cos"), interleaved=True, width=width)
    return PhasorTable(rule, channels, positions, REAL_DTYPES[dtype], (positions.count, width))


@settings(max_examples=150)
@given(
    st.sampled_from([1, 2, 3, 8, 130, 512]),
    st.integers(-300, 300),
    st.integers(1, 400),
    st.sampled_from(sorted(REAL_DTYPES)),
    st.data(),
)
def test_any_range_has_the_bytes_of_the_whole(
    width: int, start: int, rows: int, dtype: str, data: st.DataObject
) -> None:
    whole = table(width, Positions.contiguous(start, rows), dtype)
    first = data.draw(st.integers(0, size(whole) - 1))
    last = data.draw(st.integers(first + 1, size(whole)))

    assert whole.read(0, size(whole))[first:last].tobytes() == whole.read(first, last).tobytes()


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40), st.sampled_from([4, 512]))
def test_a_row_has_the_same_bytes_among_whatever_others(positions: list[int], width: int) -> None:
    together = table(width, Positions.of_runs(Run(position, 1, 1) for position in positions))

    rows = together.read(0, size(together)).reshape(-1, width)

    for row, position in zip(rows, positions, strict=True):
        alone = table(width, Positions.contiguous(position, 1)).read(0, width)
        in_a_run = table(width, Positions.contiguous(position - 70, 140)).read(
            70 * width, 71 * width
        )
        assert row.tobytes() == alone.tobytes() == in_a_run.tobytes()


def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_frequency_of_zero_turns_nothing() -> None:
    positions = np.array([-3, 0, 2**60], dtype=np.int64)

    assert component(Given((0.0,)), "cos", positions).tolist() == [[1.0], [1.0], [1.0]]
    assert not np.signbit(component(Given((0.0,)), "sin", positions)).any()


@pytest.mark.parametrize("start", [-100, 0, 2**40 + 3])
def test_rows_too_wide_for_a_setup_have_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    whole = table(600, Positions.contiguous(start, 150))
    strided = table(600, Positions.of_runs([Run(start, 7, 20)]))
    expected = whole.read(0, size(whole)).tobytes(), strided.read(0, size(strided)).tobytes()
    monkeypatch.setattr(factors, "_MAX_FINE_BYTES", 0)
    monkeypatch.setattr(factors, "_setups", ByteBoundedLRU(2**20))

    assert whole.read(0, size(whole)).tobytes() == expected[0]
    assert strided.read(0, size(strided)).tobytes() == expected[1]


@pytest.mark.parametrize("width", [4, 63, 64, 512])
@pytest.mark.parametrize("start", [-20000, 0])
def test_a_table_read_in_order_has_the_bytes_of_one_read_at_once(width: int, start: int) -> None:
    whole = table(width, Positions.contiguous(start, 40000), "float32")
    expected = whole.read(0, size(whole)).tobytes()
    step = size(whole) // 37 + 1

    in_order = [
        whole.read(first, min(first + step, size(whole))) for first in range(0, size(whole), step)
    ]

    assert expected == np.concatenate(in_order).tobytes()


def test_a_table_may_be_read_from_several_threads_at_once() -> None:
    shared = table(512, Positions.contiguous(-3000, 12000), "float32")
    starts = [*range(0, size(shared), 2**18), *reversed(range(0, size(shared), 2**18))]

    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda first: shared.read(first, first + 2**16).tobytes(), starts))

    alone = [
        table(512, shared.positions, "float32").read(first, first + 2**16).tobytes()
        for first in starts
    ]
    assert alone == read


def test_positions_in_several_runs_have_the_bytes_of_each_run() -> None:
    both = table(96, Positions.of_runs([Run(-500, 1, 1000), Run(10**12, 1, 1000)]))
    parts = [table(96, Positions.contiguous(start, 1000)) for start in (-500, 10**12)]

    assert both.read(0, size(both)).tobytes() == b"".join(
        part.read(0, size(part)).tobytes() for part in parts
    )


@pytest.mark.parametrize("positions", [[5, 6, 7], [-1, 2**61, 3]])
def test_sines_and_cosines_together_have_the_bytes_of_each(positions: list[int]) -> None:
    rule, at = Geometric(10000.0, 12, 6), np.array(positions)

    together = sines_and_cosines(rule, at)

    each = [component(rule, "sin", at), component(rule, "cos", at)]
    assert together.tobytes() == np.concatenate(each, axis=1).tobytes()
