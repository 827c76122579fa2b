"""What a URL says that somebody should have."""

import numpy as np
import pytest

from service.errors import InvalidParameters
from service.routes.diagnose_wanted import call_of, others_of, positions_of, wanted_of
from service.tables.dtypes import BFLOAT16, FLOAT32, FLOAT64


def test_a_url_is_a_call() -> None:
    call = call_of("https://host/relative/alibi.npy?num_heads=4&query_len=2")

    assert call.resource == "relative/alibi"
    assert call.parameters == {"num_heads": "4", "query_len": "2"}


def test_a_table_is_read_more_exactly_than_it_is_rounded() -> None:
    _, wanted = wanted_of("/encoding?seq_len=4&d_model=4&dtype=bfloat16", 16)

    assert wanted.dtype is BFLOAT16
    assert wanted.table[1, 0] == np.sin(1.0)


def test_complex_numbers_and_integers_are_read() -> None:
    _, rotary = wanted_of("/rope?head_dim=4&seq_len=3&pack=complex", 16)
    _, buckets = wanted_of("/relative/t5?query_len=3&key_len=3", 16)

    assert (rotary.dtype, rotary.table.shape) == (FLOAT32, (3, 4))
    assert (buckets.dtype, buckets.table.shape) == (FLOAT64, (3, 3))


def test_listed_positions_are_known() -> None:
    assert positions_of(call_of("/encoding?positions=0,5,9:13:2")) is not None
    _, wanted = wanted_of("/encoding?positions=0,5,9:13:2&d_model=8", 16)

    assert wanted.waves is not None
    assert wanted.waves.positions.tolist() == [0, 5, 9, 11]
    assert positions_of(call_of("/encoding?seq_len=3")) is None
    assert positions_of(call_of("/encoding?positions=0.5,1.5")).tolist() == [0.5, 1.5]  # type: ignore[union-attr]


def test_height_and_width_are_known() -> None:
    grid = "/encoding/grid?convention=mae&d_model=8&height=2&width=3"

    assert wanted_of(grid, 48)[1].grid == (2, 3)


def test_a_table_that_is_far_too_large_is_not_read() -> None:
    with pytest.raises(InvalidParameters, match="seq_len"):
        wanted_of("/encoding?seq_len=1000000&d_model=512", 512)


def test_variants_that_there_are_not_are_passed_over() -> None:
    url = (
        "/rope?head_dim=8&seq_len=4&pack=half&rope_type=llama3&factor=8&low_freq_factor=1"
        "&high_freq_factor=4&original_max_position_embeddings=32"
    )

    names = [mistake.name for mistake, _, _ in others_of(call_of(url))]

    assert names[0] == "config-key-ignored"
    assert "wrong-base" in names


def test_a_start_far_out_is_known_though_every_angle_has_gone_round() -> None:
    positions = positions_of(call_of("/encoding?d_model=4&seq_len=4&start=100000"))

    assert positions is not None
    assert positions.tolist() == [100000, 100001, 100002, 100003]
