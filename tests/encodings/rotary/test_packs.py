"""Packings of rotary tables: the same cosines and sines, where each consumer expects them."""

import io
from typing import Any, get_args
from urllib.parse import urlencode

import mpmath
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.rotary.angles import (
    CONSUMERS,
    PACKS,
    AnglePack,
    ComplexTable,
    Pack,
    PackedTable,
    PackName,
    RotaryAngles,
    SequenceAngles,
    packed,
)
from service.encodings.rotary.rules import (
    Default,
    GivenFrequencies,
    RotaryFrequencies,
    Yarn,
)
from service.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, DType, to_float64
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions, Run
from service.numerics.tables import Table, seconds, size
from tests.client import Client
from tests.exact import UNIT, frequency

ANGLES = SequenceAngles(Default(8, 10000.0), Positions.contiguous(3, 5))
SCALED = SequenceAngles(Yarn(8, 10000.0, 8.0, 4096, 1.25), Positions.contiguous(4095, 3))
EVERY_PACK = pytest.mark.parametrize("pack", PACKS)


def read(table: Table) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def arrays(
    pack: str, angles: RotaryAngles, dtype: DType = FLOAT64, leading: tuple[int, ...] = ()
) -> dict[str, NDArray[Any]]:
    tables = PACKS[pack].tables(angles, dtype, leading)
    return {name: read(table) for name, table in tables.items()}


@EVERY_PACK
def test_the_layout_of_a_packing_has_both_channels_of_a_pair_at_one_angle(pack: str) -> None:
    """Any layout goes with a packing that has each cosine and each sine once."""
    row = np.concatenate([array[1].ravel() for array in arrays(pack, ANGLES).values()])
    numbers = row.view(np.float64)
    blocks = numbers.reshape(-1, ANGLES.count)
    layouts = {
        "half": np.array_equal(blocks[::2], blocks[1::2]),
        "interleaved": np.array_equal(numbers[::2], numbers[1::2]),
        "any": len({*numbers}) == numbers.size,
    }

    assert {PACKS[pack].layout.removesuffix("_by_axis")} == {
        name for name, fits in layouts.items() if fits
    }
    assert packed(ANGLES, pack, FLOAT64).layout == PACKS[pack].layout


@EVERY_PACK
@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_every_packing_rounds_once_to_its_element_type(pack: str, dtype: str) -> None:
    """Narrow numbers are those of the narrow compact arrays, bit by bit."""
    if pack == "complex" and dtype not in {"float32", "float64"}:
        return
    chosen = REAL_DTYPES[dtype]

    together = np.concatenate([v.reshape(-1) for v in arrays(pack, SCALED, chosen).values()])

    source = "angle" if pack == "angle" else "compact"
    narrow = np.concatenate([v.reshape(-1) for v in arrays(source, SCALED, chosen).values()])
    parts = together.view(narrow.dtype)
    assert set(parts.tolist()) == set(narrow.tolist())


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "<c8"), ("float64", "<c16")])
def test_complex_elements_have_two_parts_of_the_dtype(dtype: str, expected: str) -> None:
    (table,) = PACKS["complex"].tables(ANGLES, REAL_DTYPES[dtype]).values()

    assert isinstance(table, ComplexTable)
    assert table.dtype.storage == expected == read(table).dtype.str
    (pairs,) = PACKS["pair"].tables(ANGLES, REAL_DTYPES[dtype]).values()
    assert seconds(table) == pytest.approx(seconds(pairs))


@pytest.mark.parametrize("rule", [Default(2, 10000.0), Default(6, 10000.0)])
def test_the_description_of_a_packing_begins_with_its_shape(rule: RotaryFrequencies) -> None:
    angles = SequenceAngles(rule, Positions.contiguous(0, 7))
    lengths = {"S": 7, "r/2": rule.count, "r": 2 * rule.count, "2r": 4 * rule.count, "2": 2}
    for name, pack in PACKS.items():
        assert isinstance(pack, Pack | AnglePack)
        axes = pack.description.partition("(")[2].partition(")")[0].split(", ")
        for table in pack.tables(angles, FLOAT32).values():
            assert table.shape == tuple(lengths[axis] for axis in axes), name


RULE = Default(8, 10000.0)


def rotary_arrays(
    pack: str, positions: Positions, dtype: str = "float64"
) -> dict[str, NDArray[np.generic]]:
    document = packed(angles=SequenceAngles(RULE, positions), pack=pack, dtype=REAL_DTYPES[dtype])
    return {
        name: table.read(0, size(table)).reshape(table.shape)
        for name, table in document.arrays.items()
    }


def compact(positions: Positions) -> tuple[NDArray[Any], NDArray[Any]]:
    both = rotary_arrays("compact", positions)
    return both["cos"], both["sin"]


@given(st.lists(st.integers(-MAX_POSITION, MAX_POSITION), min_size=1, max_size=4))
def test_cosines_and_sines_are_within_six_units(positions: list[int]) -> None:
    cos, sin = compact(Positions.of_runs(Run(position, 1, 1) for position in positions))

    for row, position in enumerate(positions):
        for pair in range(4):
            angle = position * frequency(10000.0, 8, pair)
            assert abs(cos[row, pair] - mpmath.cos(angle)) <= 6 * UNIT
            assert abs(sin[row, pair] - mpmath.sin(angle)) <= 6 * UNIT


def test_batch_is_a_canonical_parameter() -> None:
    angles = SequenceAngles(RULE, Positions.contiguous(0, 3))

    plain = packed(angles=angles, pack="half", dtype=FLOAT32)
    batch = packed(angles=angles, pack="half", dtype=FLOAT32, batch=True)

    assert (plain.shape, batch.shape) == ((3, 8), (1, 3, 8))
    assert batch.parameters == {**plain.parameters, "batch": True}
    assert "batch" not in plain.parameters
    assert batch.has_parts
    for name, table in batch.arrays.items():
        assert table.read(0, 24).tobytes() == plain.arrays[name].read(0, 24).tobytes()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@pytest.mark.parametrize(
    "rule", [RULE, GivenFrequencies((1.0, 0.001), 1e-6), GivenFrequencies((0.3,), 1e4)]
)
def test_the_error_bound_includes_the_rounding_to_the_element_type(
    dtype: str, rule: RotaryFrequencies
) -> None:
    """Rounding to the element type is within it, not only that of the angles."""
    chosen = REAL_DTYPES[dtype]
    for start in (0, 1, 4095, 131071):
        positions = Positions.contiguous(start, 2)
        document = packed(
            angles=SequenceAngles(rule, positions, "float32"), pack="concat", dtype=chosen
        )
        assert document.error_bound is not None
        table = document.arrays["rope"]
        got = to_float64(table.read(0, size(table)), chosen).reshape(2, 2, rule.count)
        for row, position in enumerate((start, start + 1)):
            for pair, frequency_ in enumerate(rule.exact()):
                angle, scale = position * mpmath.mpf(str(frequency_)), mpmath.mpf(rule.scale)
                for value, exact in zip(
                    got[row, :, pair], (mpmath.cos(angle), mpmath.sin(angle)), strict=True
                ):
                    assert abs(value - scale * exact) <= document.error_bound


TABLES = pytest.mark.parametrize(
    "url", ["/rope?head_dim=8&seq_len=6", "/rope/axial?convention=qwen2_vl&head_dim=8&grid=2,3"]
)


def served_arrays(client: Client, url: str, **parameters: str) -> dict[str, NDArray[Any]]:
    response = client.get(url.replace("?", ".safetensors?") + "&" + urlencode(parameters))
    assert response.status_code == 200, response.text
    return dict(safetensors.numpy.load(response.content))


def test_every_pack_and_consumer_is_described() -> None:
    description = PackedTable.model_fields["pack"].description or ""

    assert list(get_args(PackName)) == [*PACKS, *CONSUMERS]
    assert not {*CONSUMERS} & {*PACKS}
    for name, pack in PACKS.items():
        assert f"{name} {pack.description}" in description
    for consumer, pack_name in CONSUMERS.items():
        assert f"{consumer} ({pack_name})" in description


@TABLES
def test_every_pack_is_served_with_the_same_cosines_and_sines(client: Client, url: str) -> None:
    both = served_arrays(client, url, pack="compact")
    cos, sin = both["cos"], both["sin"]
    cos2, sin2 = np.tile(cos, 2), np.tile(sin, 2)
    pairs = np.stack([cos, sin], axis=-1)
    by_axis = [0, 1, 4, 5, 2, 3, 6, 7] if "axial" in url else list(range(8))
    expected = {
        "pair": {"rope": pairs},
        "flat": {"rope": pairs.reshape(6, 8)},
        "concat": {"rope": np.hstack([cos, sin])},
        "sin_concat": {"rope": np.hstack([sin, cos])},
        "compact": both,
        "half": {"cos": cos2, "sin": sin2},
        "interleaved": {"cos": np.repeat(cos, 2, axis=1), "sin": np.repeat(sin, 2, axis=1)},
        "half_by_axis": {"cos": cos2[:, by_axis], "sin": sin2[:, by_axis]},
        "half_concat": {"rope": np.hstack([cos2, sin2])},
        "sin_half_concat": {"rope": np.hstack([sin2, cos2])},
        "sin_interleaved_concat": {"rope": np.repeat(np.hstack([sin, cos]), 2, axis=1)},
    }

    assert {*expected, "complex", "angle"} == set(PACKS)
    for pack, named in expected.items():
        found = served_arrays(client, url, pack=pack)
        assert {name: array.tolist() for name, array in found.items()} == {
            name: array.tolist() for name, array in named.items()
        }


@TABLES
def test_complex_numbers_and_angles_are_those_of_the_cosines(client: Client, url: str) -> None:
    both = served_arrays(client, url, pack="compact", dtype="float64")
    angles = served_arrays(client, url, pack="angle", dtype="float64")["rope"]
    answer = client.get(url.replace("?", ".npy?") + "&pack=complex&dtype=float64")
    complexes = np.load(io.BytesIO(answer.content), allow_pickle=False)

    assert complexes.tolist() == (both["cos"] + 1j * both["sin"]).tolist()
    assert np.abs(np.cos(angles) - both["cos"]).max() < 1e-15
    assert np.abs(np.sin(angles) - both["sin"]).max() < 1e-15


@TABLES
@pytest.mark.parametrize(("consumer", "pack"), CONSUMERS.items())
def test_a_consumer_is_an_alias_of_its_pack(
    client: Client, url: str, consumer: str, pack: str
) -> None:
    """Both return the same document with the same ETag."""
    extension = ".npy?" if pack == "complex" else ".safetensors?"
    by_consumer = client.get(url.replace("?", extension) + f"&pack={consumer}")
    by_pack = client.get(url.replace("?", extension) + f"&pack={pack}")

    assert by_consumer.status_code == 200
    assert by_consumer.content == by_pack.content
    assert by_consumer.headers["ETag"] == by_pack.headers["ETag"]


@TABLES
def test_a_batch_has_a_leading_axis_of_one(client: Client, url: str) -> None:
    for pack in PACKS:
        extension = ".npy?" if pack == "complex" else ".safetensors?"
        target = url.replace("?", extension) + f"&pack={pack}"
        plain, batch = client.head(target), client.head(f"{target}&batch=true")
        assert batch.headers["Array-Shape"] == f"1, {plain.headers['Array-Shape']}"


@TABLES
@pytest.mark.parametrize("pack", ["compact", "half", "interleaved"])
def test_part_picks_one_of_two_arrays(client: Client, url: str, pack: str) -> None:
    both = served_arrays(client, url, pack=pack)

    for part in ("cos", "sin"):
        (single,) = served_arrays(client, url, pack=pack, part=part).values()
        assert single.tolist() == both[part].tolist()


def test_the_refusal_of_an_unknown_pack_suggests_one(client: Client) -> None:
    answer = client.get("/rope?head_dim=8&seq_len=6&pack=interleave")

    assert "did you mean pack=interleaved?" in answer.json()["detail"]
