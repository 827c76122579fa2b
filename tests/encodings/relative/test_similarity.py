"""The similarity of sinusoidal encodings: its bound, and proposals that never decide a byte."""

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.__main__ import find_body
from service.encodings.relative import similarity as proposals
from service.encodings.relative.similarity import (
    BlockPhasors,
    Similarity,
    checked_sums,
    error_bound,
    exact_sums,
)
from service.numerics.dtypes import REAL_DTYPES, round_into, to_float64
from service.numerics.phase import Float64s, Int64s, geometric
from service.numerics.tables import Table, size
from tests.client import Client
from tests.exact import UNIT, frequency

FAR = st.integers(-(2**60), 2**60)
NARROW = sorted(set(REAL_DTYPES) - {"float64"})


def whole(table: Table) -> NDArray[np.float64]:
    return to_float64(table.read(0, size(table)), table.dtype).reshape(table.shape)


def similarity(d_model: int, offset: int) -> float:
    family = Similarity.model_validate(
        {"d_model": d_model, "offsets": [offset], "dtype": "float64"}
    )
    return float(whole(family.table())[0])


@settings(max_examples=40)
@given(st.integers(1, 60), FAR)
def test_similarity_is_the_sum_of_cosines_within_its_bound(half: int, offset: int) -> None:
    value = similarity(2 * half, offset)

    exact = sum(mpmath.cos(offset * frequency(10000.0, 2 * half, pair)) for pair in range(half))
    assert abs(value - exact) <= half * (5 + 2 * (half - 1).bit_length()) * UNIT


def test_similarity_is_largest_at_0_and_symmetric() -> None:
    family = Similarity.model_validate({"d_model": 10, "offsets": "-50:51", "dtype": "float64"})

    values = whole(family.table())

    assert values[50] == 5.0 == values.max()
    assert (values == values[::-1]).all()


def test_sums_of_many_cosines_are_sent_in_small_blocks(client: Client) -> None:
    builds = client.app.state.delivery.cache.builds
    body = find_body("/relative/similarity.npy?d_model=65536&offsets=0:1000000")

    blocks = body.blocks()
    header, first = next(blocks), next(blocks)

    assert len(header) + len(first) < 300
    answer = client.get("/relative/similarity.npy?d_model=65536&offsets=0:600")
    assert answer.status_code == 200
    assert client.app.state.delivery.cache.builds == builds


def rounded(sums: Float64s, name: str) -> bytes:
    elements = np.empty(len(sums), dtype=REAL_DTYPES[name].storage)
    round_into(sums, elements, REAL_DTYPES[name])
    return elements.tobytes()


def proposed_bytes_are_exact(name: str, d_model: int, base: float, offsets: Int64s) -> None:
    rule = geometric(d_model, base)
    found = checked_sums(BlockPhasors(rule), offsets, REAL_DTYPES[name])

    assert rounded(found, name) == rounded(exact_sums(rule, offsets), name)


@settings(max_examples=20)
@given(
    st.sampled_from(NARROW),
    st.integers(1, 150),
    st.floats(1.0001, 1e12),
    st.integers(-(2**61), 2**61) | st.integers(-5000, 5000),
    st.integers(1, 2000),
)
def test_proposed_sums_round_to_the_bytes_of_exact_ones(
    name: str, half: int, base: float, first: int, count: int
) -> None:
    proposed_bytes_are_exact(name, 2 * half, base, np.arange(first, first + count))


def test_proposals_and_exact_sums_are_within_the_bound() -> None:
    for half in (1, 3, 64, 700):
        rule, offsets = geometric(2 * half, 500.0), np.arange(10**12, 10**12 + 3000)
        distance = np.abs(BlockPhasors(rule).propose(offsets) - exact_sums(rule, offsets))

        assert distance.max() <= error_bound(half) / 4


# As far from the sum as the bound allows, up and down by turns.
def _worst(propose: Callable[..., Float64s]) -> Callable[..., Float64s]:
    def perturbed(blocks: BlockPhasors, offsets: Int64s) -> Float64s:
        distance = 0.9 * error_bound(blocks.rule.count)
        return propose(blocks, offsets) + distance * np.where(offsets % 2, 1.0, -1.0)

    return perturbed


def test_the_worst_proposals_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPhasors, "propose", _worst(BlockPhasors.propose))

    for name in NARROW:
        proposed_bytes_are_exact(name, 512, 10000.0, np.arange(200_000))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_smaller_bound_is_caught_by_the_worst_proposals(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(BlockPhasors, "propose", _worst(BlockPhasors.propose))
    monkeypatch.setattr(proposals, "error_bound", lambda count: share * error_bound(count))

    with pytest.raises(AssertionError):
        proposed_bytes_are_exact("float32", 512, 10000.0, np.arange(200_000))


@pytest.mark.parametrize("name", sorted(REAL_DTYPES))
@pytest.mark.parametrize("offsets", ["-700:900", "0:63", f"{2**62 - 300}:{2**62 + 1}", "5:900:2"])
def test_a_table_has_the_same_bytes_read_whole_or_one_by_one(name: str, offsets: str) -> None:
    family = Similarity.model_validate({"d_model": 34, "offsets": offsets, "dtype": name})
    table = family.table()

    elements = table.read(0, size(table))

    some = range(0, size(table), 7)
    assert [elements[k].tobytes() for k in some] == [table.read(k, k + 1).tobytes() for k in some]
    expected = exact_sums(geometric(34, 10000.0), family.offsets.at(0, size(table)))
    assert elements.tobytes() == rounded(expected, name)
