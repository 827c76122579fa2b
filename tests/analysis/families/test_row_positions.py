"""Packs, rules and positions of rotary rows."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Sample
from service.analysis.families.row_positions import (
    component_channels,
    evenly_located,
    first_copies,
    has_real_numbers,
    has_rising_positions,
    packings,
    rows_of,
    rules_of_first_rows,
    scattered,
    unit_of,
)
from service.analysis.measure import Complexes
from service.encodings.rotary.angles import PACKS
from service.numerics.dtypes import BFLOAT16, FLOAT32, INT64, DType
from service.numerics.tables import StoredTable
from tests.analysis.samples import input_of

_UNIT = 2.0**-24
_OMEGA = 10000.0 ** (-np.arange(32) / 32)


def _turns(positions: list[int]) -> Complexes:
    exact = np.exp(1j * np.outer(positions, _OMEGA))
    rounded: Complexes = exact.astype(np.complex64).astype(np.complex128)
    return rounded


@pytest.mark.parametrize(
    ("positions", "is_known"),
    [
        (list(range(7, 107)), False),
        (list(range(0, 300, 3)), False),
        ([0, 1, 2, 255, 1023], True),
        ([100], True),
    ],
)
def test_even_rows_and_known_positions_give_the_rule(positions: list[int], is_known: bool) -> None:
    known = np.array(positions, dtype=np.float64) if is_known else None

    first = next(evenly_located(_turns(positions), _UNIT, known))

    assert first.match.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == positions


def test_distant_rows_in_float16_give_base_and_start() -> None:
    omega = 500000.0 ** (-np.arange(32) / 32)
    angles = np.outer(np.arange(100000, 100040), omega)
    turns = np.cos(angles).astype(np.float16) + 1j * np.sin(angles).astype(np.float16)

    first = next(evenly_located(turns.astype(np.complex128), 2.0**-11))

    # The slowest pairs have one and the same numbers in all rows, which says nothing of their rate.
    assert first.match.parameters == {"rope_theta": 500000.0}
    assert first.positions.tolist() == list(range(100000, 100040))


def test_contiguous_first_rows_give_the_rule() -> None:
    found = list(rules_of_first_rows(_turns([4, 5, 6, 7, 8, 8, 8, 30, 2]), _UNIT))

    assert found[0].parameters == {"rope_theta": 10000.0}


@pytest.mark.parametrize(
    "positions", [[4095], [0, 1, 2, 255, 1023, 4095], list(range(5, 200, 3)), [9, 3, 1000]]
)
def test_positions_of_scattered_rows_are_found(positions: list[int]) -> None:
    first = next(scattered(_turns(positions), _UNIT))

    assert first.match.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == positions


def test_noise_has_no_positions() -> None:
    angles = np.random.default_rng(5).uniform(-3, 3, (40, 16))

    assert not list(evenly_located(np.exp(1j * angles), _UNIT))
    assert not list(scattered(np.exp(1j * angles), _UNIT))


@pytest.mark.parametrize("pack", [pack for pack in PACKS if pack != "angle"])
def test_every_pack_is_read_as_itself(pack: str) -> None:
    question = input_of(f"/rope?head_dim=8&seq_len=5&start=2&pack={pack}")
    expected = np.exp(1j * np.outer(np.arange(2, 7), 10.0 ** -np.arange(4.0)))

    read = {each.pack: each.turns for each in packings(question, _UNIT)}

    assert np.abs(read[pack] - expected).max() < 1e-6


def test_packs_with_copies_are_read_first() -> None:
    first = next(packings(input_of("/rope?head_dim=8&seq_len=5&pack=half_concat"), _UNIT))

    assert first.turns.shape == (5, 4)


def test_one_row_keeps_its_channels() -> None:
    row = Sample.of(StoredTable(np.ones((1, 6), dtype=np.float32), FLOAT32))
    column = Sample.of(StoredTable(np.ones((6, 1), dtype=np.float32), FLOAT32))

    assert rows_of(row).shape == (1, 6)
    assert rows_of(column).shape == (6, 1)


def test_the_first_copy_of_channels_is_taken() -> None:
    rows = np.array([[1.0, 1.0, 2.0, 2.0]])

    laid_out = dict(component_channels(rows, _UNIT))

    assert laid_out.keys() == {"interleaved", "compact"}
    assert first_copies(rows, laid_out["interleaved"]).tolist() == [[1.0, 2.0]]


def _sample(dtype: DType, number: float = 1) -> Sample:
    return Sample.of(StoredTable(np.full(2, number).astype(dtype.storage), dtype))


def test_cosines_and_sines_are_rounded_by_half_a_step_below_1() -> None:
    assert unit_of(_sample(FLOAT32)) == pytest.approx(2.0**-24)
    assert unit_of(_sample(BFLOAT16)) == pytest.approx(2.0**-9)


def test_positions_must_be_whole_and_rise_and_be_as_many_as_rows() -> None:
    def fits(*positions: float) -> bool:
        known = np.array(positions) if positions else None
        return has_rising_positions(IdentifyInput({"array": _sample(FLOAT32)}, positions=known), 2)

    assert fits()
    assert fits(3, 9)
    assert not fits(3, 9.5)
    assert not fits(9, 3)
    assert not fits(1, 2, 3)


def test_integers_zeros_and_infinities_are_not_real_numbers_of_waves() -> None:
    assert has_real_numbers(_sample(FLOAT32))
    assert not has_real_numbers(_sample(FLOAT32, 0))
    assert not has_real_numbers(_sample(FLOAT32, np.inf))
    assert not has_real_numbers(_sample(INT64))
