"""Every packing holds the same cosines and sines, where its consumers look for them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.tables.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, DType
from service.tables.packs import CONSUMERS, PACKS, AnglePack, ComplexTable, Pack, pack_of
from service.tables.positions import Positions
from service.tables.rope_rules import Default, Proportional, Yarn
from service.tables.rotary_rule import RotaryRule
from service.tables.table import Table, size, work
from service.tables.turns import AlongSequence, Turns

TURNS = AlongSequence(Default(8, 10000.0), Positions.contiguous(3, 5))
SCALED = AlongSequence(Yarn(8, 10000.0, 8.0, 4096, 1.25), Positions.contiguous(4095, 3))
ROUNDED = AlongSequence(Proportional(12, 1e6, 0.5), Positions.contiguous(-2, 6), "float32")
EVERY_TURNS = pytest.mark.parametrize("turns", [TURNS, SCALED, ROUNDED])
EVERY_PACK = pytest.mark.parametrize("pack", PACKS)


def read(table: Table) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def arrays(
    pack: str, turns: Turns, dtype: DType = FLOAT64, leading: tuple[int, ...] = ()
) -> dict[str, NDArray[Any]]:
    tables = PACKS[pack].tables(turns, dtype, leading)
    return {name: read(table) for name, table in tables.items()}


def doubled(values: NDArray[Any]) -> NDArray[Any]:
    return np.tile(values, 2)


def repeated(values: NDArray[Any]) -> NDArray[Any]:
    return np.repeat(values, 2, axis=1)


def expected_packs(cos: NDArray[Any], sin: NDArray[Any]) -> dict[str, dict[str, NDArray[Any]]]:
    """Make what each packing should be the way that NumPy users would."""
    pairs = np.stack([cos, sin], axis=-1)
    rows = len(cos)
    return {
        "pair": {"rope": pairs},
        "complex": {"rope": cos + 1j * sin},
        "flat": {"rope": pairs.reshape(rows, -1)},
        "concat": {"rope": np.hstack([cos, sin])},
        "sin_concat": {"rope": np.hstack([sin, cos])},
        "compact": {"cos": cos, "sin": sin},
        "half": {"cos": doubled(cos), "sin": doubled(sin)},
        "interleaved": {"cos": repeated(cos), "sin": repeated(sin)},
        "half_concat": {"rope": np.hstack([doubled(cos), doubled(sin)])},
        "sin_half_concat": {"rope": np.hstack([doubled(sin), doubled(cos)])},
        "sin_interleaved_concat": {"rope": np.hstack([repeated(sin), repeated(cos)])},
    }


@EVERY_TURNS
def test_every_packing_holds_the_same_numbers(turns: Turns) -> None:
    compact = arrays("compact", turns)
    packed = expected_packs(compact["cos"], compact["sin"])

    assert {*packed, "angle"} == set(PACKS)
    for pack, expected in packed.items():
        got = arrays(pack, turns)
        assert list(expected) == list(got)
        for name, values in expected.items():
            assert values.shape == got[name].shape, pack
            assert (values == got[name]).all(), pack


@EVERY_TURNS
def test_the_angles_are_those_of_the_sines(turns: Turns) -> None:
    (angles,) = arrays("angle", turns).values()
    compact = arrays("compact", turns)

    scale = 1.25 if turns is SCALED else 1.0
    assert angles.shape == compact["cos"].shape
    assert np.abs(scale * np.cos(angles) - compact["cos"]).max() < 1e-11
    assert np.abs(scale * np.sin(angles) - compact["sin"]).max() < 1e-11


@EVERY_PACK
@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_a_packing_is_rounded_once_whatever_it_is(pack: str, dtype: str) -> None:
    """Narrow numbers are those of the narrow compact arrays, bit by bit."""
    if pack == "complex" and dtype not in {"float32", "float64"}:
        return
    chosen = REAL_DTYPES[dtype]

    together = np.concatenate([v.reshape(-1) for v in arrays(pack, SCALED, chosen).values()])

    source = "angle" if pack == "angle" else "compact"
    narrow = np.concatenate([v.reshape(-1) for v in arrays(source, SCALED, chosen).values()])
    parts = together.view(narrow.dtype)
    assert set(parts.tolist()) == set(narrow.tolist())


@EVERY_PACK
def test_a_leading_axis_changes_the_shape_alone(pack: str) -> None:
    plain, batch = arrays(pack, TURNS), arrays(pack, TURNS, leading=(1,))

    for name, values in plain.items():
        assert batch[name].shape == (1, *values.shape)
        assert batch[name].tobytes() == values.tobytes()


@EVERY_PACK
def test_any_part_of_a_packing_is_that_part_of_the_whole(pack: str) -> None:
    for table in PACKS[pack].tables(SCALED, FLOAT32).values():
        whole = table.read(0, size(table))
        for start, stop in [(0, 1), (3, 5), (2, size(table)), (size(table) - 1, size(table))]:
            assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "<c8"), ("float64", "<c16")])
def test_complex_numbers_are_of_two_such_parts(dtype: str, expected: str) -> None:
    (table,) = PACKS["complex"].tables(TURNS, REAL_DTYPES[dtype]).values()

    assert isinstance(table, ComplexTable)
    assert table.dtype.storage == expected == read(table).dtype.str
    assert work(table) == 2 * size(table)


@pytest.mark.parametrize("rule", [Default(2, 10000.0), Default(6, 10000.0)])
def test_the_description_of_a_packing_begins_with_its_shape(rule: RotaryRule) -> None:
    turns = AlongSequence(rule, Positions.contiguous(0, 7))
    lengths = {"S": 7, "r/2": rule.count, "r": 2 * rule.count, "2r": 4 * rule.count, "2": 2}
    for name, pack in PACKS.items():
        assert isinstance(pack, Pack | AnglePack)
        axes = pack.description.partition("(")[2].partition(")")[0].split(", ")
        for table in pack.tables(turns, FLOAT32).values():
            assert table.shape == tuple(lengths[axis] for axis in axes), name


def test_consumers_name_packings_that_exist() -> None:
    assert set(CONSUMERS.values()) <= set(PACKS)
    assert not set(CONSUMERS) & set(PACKS)


def test_a_packing_is_found_by_its_name_and_by_that_of_its_consumer() -> None:
    assert {pack_of(name) for name in PACKS} == set(PACKS)
    assert {name: pack_of(name) for name in CONSUMERS} == dict(CONSUMERS)
    assert (pack_of("transformers"), pack_of("vllm"), pack_of("gptj")) == (
        "half",
        "concat",
        "sin_concat",
    )
