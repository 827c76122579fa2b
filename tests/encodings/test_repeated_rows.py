"""Rows that repeat a few distinct ones have the bytes of the table that computes every row."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.delivery.parameters import read_parameters
from service.encodings.grid.sincos import ChannelsFirstTable
from service.encodings.registry import FAMILIES
from service.encodings.rotary.angles import ComplexTable
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.phasors import PhasorTable
from service.numerics.repeated_rows import MAX_KEPT_BYTES, RepeatedRows
from service.numerics.tables import Table, size

T, H, W = "0,0,0,0,0,0,0,0,0,0,0,1", "0,0,0,0,0,0,1,1,0,1,1,1", "3,4,3,4,3,4,4,4,4,3,3,4"
GRIDS = [
    "/rope?grid=2,3,4&head_dim=16&mrope_section=3,3,2",
    "/rope?grid=2,3,4&head_dim=16&mrope_section=3,3,2&mrope_interleaved=true&pack=concat",
    "/rope?grid=4,5&head_dim=12&mrope_section=3,3&mrope_layout=neomme&rope_type=yarn&factor=4&original_max_position_embeddings=64",
    "/rope?grid=4,4,4&head_dim=16&mrope_section=2,2,4&mrope_layout=hunyuan_vl&pack=half&part=cos",
    "/rope/axial?convention=qwen2_vl&grid=4,6&head_dim=20&spatial_merge_size=2&pack=half&part=sin",
    "/rope/axial?convention=qwen2_vl&grid=9,5&head_dim=12&angle=float32",
    "/rope/axial?convention=sam2&grid=7,5&head_dim=8&class_token=first&pack=sin_concat",
    "/rope/axial?convention=allegro&grid=3,4,5&head_dim=12&pack=half_by_axis&part=cos",
    f"/rope?positions_t={T}&positions_h={H}&positions_w={W}&head_dim=16&mrope_section=3,3,2",
    "/encoding?positions=5,6,7,5,6,7,5,6,7,7,5,5&d_model=10&layout=concatenated",
    "/encoding/grid?convention=mae&height=8&width=6&d_model=12&cls_token=true",
    "/encoding/grid?convention=detr&height=4&width=7&d_model=12&normalize=true",
    "/encoding/grid?convention=detr&height=4&width=7&d_model=12&channels_first=false",
    "/encoding/grid?convention=perceiver&height=6&width=5&num_bands=3&max_resolution=6,5",
    "/encoding/grid?convention=diffusers&depth=3&height=4&width=4&d_model=32",
]


def repeated(url: str, **parameters: str) -> tuple[Table, RepeatedRows]:
    """Return the table of a URL, and the repeated rows that it reads."""
    path, _, query = url.partition("?")
    given = dict(each.split("=") for each in query.split("&")) | parameters
    part = given.pop("part", None)
    arrays = read_parameters(FAMILIES[path], given).document().arrays  # type: ignore[attr-defined]
    table: Any = arrays[part] if part else next(iter(arrays.values()))
    rows = table.table if isinstance(table, ChannelsFirstTable | ComplexTable) else table
    assert isinstance(rows, RepeatedRows)
    return table, rows


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@pytest.mark.parametrize("url", GRIDS)
def test_repeated_rows_have_the_bytes_of_rows_that_are_computed(url: str, dtype: str) -> None:
    _, rows = repeated(url, dtype=dtype)

    assert rows.read(0, size(rows)).tobytes() == rows.table.read(0, size(rows)).tobytes()


@given(st.sampled_from(GRIDS), st.sampled_from(sorted(REAL_DTYPES)), st.data())
def test_any_range_of_a_table_of_repeated_rows_has_the_same_bytes(
    url: str, dtype: str, data: st.DataObject
) -> None:
    table, _ = repeated(url, dtype=dtype)
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start + 1, size(table)))

    whole = table.read(0, size(table))
    assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_channels_before_rows_are_those_of_the_rows() -> None:
    url = "/encoding/grid?convention=detr&height=4&width=7&d_model=12"
    first, _ = repeated(url)
    last, _ = repeated(url, channels_first="false")

    rows = last.read(0, size(last)).reshape(-1, 12)
    assert first.read(0, size(first)).tobytes() == np.ascontiguousarray(rows.T).tobytes()


def test_rows_that_take_too_much_memory_are_not_kept() -> None:
    wide = MAX_KEPT_BYTES // (4 * 8)
    with pytest.raises(AssertionError):
        repeated(f"/rope/axial?convention=qwen2_vl&grid={wide},2&head_dim=8")


def test_rows_of_a_text_in_m_rope_are_those_of_one_axis() -> None:
    path, query = "/rope", {"seq_len": "50", "start": "7", "head_dim": "16", "pack": "half"}
    plain = read_parameters(FAMILIES[path], query).document()  # type: ignore[attr-defined]
    for others in ({"mrope_interleaved": "true"}, {}, {"mrope_layout": "hunyuan_vl"}):
        given = {**query, "mrope_section": "3,3,2", **others}
        text = read_parameters(FAMILIES[path], given).document()  # type: ignore[attr-defined]
        for name, expected in plain.arrays.items():
            table = text.arrays[name]
            assert isinstance(table, PhasorTable)
            assert table.read(0, size(table)).tobytes() == expected.read(0, size(table)).tobytes()
