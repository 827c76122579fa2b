"""Sinusoids of relative positions: rows as the libraries order them, exact to the last one."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import relative_sines
from service.tables.document import Document
from service.tables.dtypes import FLOAT32, FLOAT64
from service.tables.frequencies import Geometric
from service.tables.phasor import component
from service.tables.positions import Positions
from service.tables.relative_sines import AttentionType, MirroredTable
from service.tables.sinusoidal import geometric
from service.tables.table import size
from tests.exact import UNIT, frequency


def whole(document: Document) -> NDArray[Any]:
    (table,) = document.arrays.values()
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


def of_transformer_xl(key_len: int, clamp_len: int = -1, d_model: int = 4) -> Document:
    return relative_sines.transformer_xl(
        d_model=d_model, base=10000.0, key_len=key_len, clamp_len=clamp_len, dtype=FLOAT64
    )


def of_xlnet(
    query_len: int,
    key_len: int,
    *,
    attn_type: AttentionType = "bi",
    bi_data: bool = False,
    clamp_len: int = -1,
) -> Document:
    return relative_sines.xlnet(
        d_model=4,
        base=10000.0,
        query_len=query_len,
        key_len=key_len,
        attn_type=attn_type,
        bi_data=bi_data,
        clamp_len=clamp_len,
        dtype=FLOAT64,
    )


def halves(positions: list[int], d_model: int = 4) -> NDArray[np.float64]:
    """Give sines and cosines by way of the kernel, which has tests of its own."""
    rule, at = geometric(d_model, 10000.0), np.array(positions, dtype=np.int64)
    return np.concatenate([component(rule, "sin", at), component(rule, "cos", at)], axis=1)


def test_transformer_xl_starts_with_the_farthest_key() -> None:
    assert (whole(of_transformer_xl(4)) == halves([3, 2, 1, 0])).all()


def test_transformer_xl_takes_far_distances_for_the_clamp() -> None:
    assert (whole(of_transformer_xl(5, 2)) == halves([2, 2, 2, 1, 0])).all()
    for unclamped in (0, -1, 4, 100):
        assert (whole(of_transformer_xl(5, unclamped)) == halves([4, 3, 2, 1, 0])).all()


@pytest.mark.parametrize("d_model", [1, 3, 7])
def test_an_odd_d_model_has_one_channel_more(d_model: int) -> None:
    found = whole(of_transformer_xl(3, d_model=d_model))

    assert found.shape == (3, d_model + 1)
    pairs = (d_model + 1) // 2
    for row, distance in enumerate((2, 1, 0)):
        for k in range(pairs):
            angle = distance * frequency(10000.0, d_model, k)
            assert abs(found[row, k] - mpmath.sin(angle)) <= 5 * UNIT
            assert abs(found[row, k + pairs] - mpmath.cos(angle)) <= 5 * UNIT


def test_xlnet_ends_with_the_last_key_to_the_right_or_with_itself() -> None:
    assert (whole(of_xlnet(3, 4)) == halves([4, 3, 2, 1, 0, -1, -2])).all()
    assert (whole(of_xlnet(3, 4, attn_type="uni")) == halves([4, 3, 2, 1, 0])).all()


def test_xlnet_clamps_to_both_sides() -> None:
    assert (whole(of_xlnet(4, 3, clamp_len=2)) == halves([2, 2, 1, 0, -1, -2, -2])).all()
    assert (whole(of_xlnet(1, 3, clamp_len=2)) == halves([2, 2, 1, 0])).all()


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
@pytest.mark.parametrize("clamp_len", [-1, 2])
def test_xlnets_second_direction_is_that_of_opposite_positions(
    attn_type: AttentionType, clamp_len: int
) -> None:
    alone = of_xlnet(3, 4, attn_type=attn_type, clamp_len=clamp_len)
    both = of_xlnet(3, 4, attn_type=attn_type, clamp_len=clamp_len, bi_data=True)

    forward, backward = whole(both).swapaxes(0, 1)

    assert both.axes == ("position", "direction", "channel")
    assert forward.tobytes() == whole(alone).tobytes()
    positions = {"bi": [4, 3, 2, 1, 0, -1, -2], "uni": [4, 3, 2, 1, 0]}[attn_type]
    limit = clamp_len if clamp_len > 0 else 9
    opposite = [-max(-limit, min(position, limit)) for position in positions]
    assert backward.tobytes() == halves(opposite).tobytes()


def test_the_number_of_queries_is_of_no_matter_to_xlnets_left_side() -> None:
    one, other = of_xlnet(3, 4, attn_type="uni"), of_xlnet(9, 4, attn_type="uni")

    assert one.parameters == other.parameters
    assert "query_len" not in one.parameters


def test_conformer_alternates_and_runs_from_left_to_right() -> None:
    document = relative_sines.conformer(d_model=4, base=10000.0, seq_len=3, dtype=FLOAT64)

    found = whole(document)

    expected = halves([2, 1, 0, -1, -2])
    assert (found[:, 0::2] == expected[:, :2]).all()
    assert (found[:, 1::2] == expected[:, 2:]).all()


def test_a_clamp_that_is_none_is_not_said() -> None:
    assert of_transformer_xl(3, 0).parameters == of_transformer_xl(3, -1).parameters
    assert of_transformer_xl(3, 2).parameters["clamp_len"] == 2


def test_2_to_the_62_keys_take_no_room() -> None:
    document = of_xlnet(2**62, 2**62, clamp_len=2**61)
    table = document.arrays["xlnet"]

    assert table.shape == (2**63, 4)
    assert (table.read(0, 4) == halves([2**61])[0]).all()
    assert (table.read(2**62 * 4, 2**62 * 4 + 8).reshape(2, 4) == halves([0, -1])).all()


@given(st.data())
def test_any_range_of_both_directions_has_the_bytes_of_the_whole(data: st.DataObject) -> None:
    table = MirroredTable(Geometric(100.0, 6, 3), Positions.contiguous(-20, 40), FLOAT32)
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start + 1, size(table)))

    assert table.read(0, size(table))[start:stop].tobytes() == table.read(start, stop).tobytes()


def test_steps_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MirroredTable(Geometric(100.0, 6, 3), Positions.contiguous(-20, 40), FLOAT32)
    at_once = table.read(0, size(table)).tobytes()
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", 100)

    assert table.read(0, size(table)).tobytes() == at_once
    assert not np.signbit(table.read(20 * 12, 21 * 12)).any()
