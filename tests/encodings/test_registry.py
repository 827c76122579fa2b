"""Promises of every family of the registry."""

import sys
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from service.encodings.family import ComposedFamily, TableFamily
from service.encodings.registry import FAMILIES
from service.numerics.dtypes import FLOAT64, INT64
from service.numerics.tables import StoredTable, Table, size
from service.routes import ENDPOINTS

READ = {
    family.path: family
    for family in FAMILIES.values()
    if issubclass(family, TableFamily | ComposedFamily)
}
STEPS = ("STEP_ELEMENTS", "_STEP_ELEMENTS", "_GATHERED_STEP_ELEMENTS", "_BATCH_ELEMENTS")
# Tables with more axes, gaps or directions than the examples have.
FURTHER_URLS = [
    "/attention/temperature?floor_scale=3&positions=8,0:30:7,2&dtype=float64",
    "/attention/temperature?convention=beam&positions=8,0:30:7,2&dtype=bfloat16",
    "/encoding?d_model=6&positions=0.5,3,-1e-9,7&scale=0.7&convention=x-transformers",
    "/encoding?d_model=6&positions=-3,1,1099511627776,0,1&convention=fairseq",
    "/encoding?d_model=6&positions=2,-2,2,0&convention=m2m100&padding_idx=2&dtype=bfloat16",
    "/encoding?d_model=9&seq_len=11&convention=perceiver&max_resolution=7&dtype=bfloat16",
    "/encoding/curves?positions=0.5,3&d_model=9&dimensions=4,0:2,8",
    "/encoding/grid?convention=detr&height=3&width=5&d_model=8&normalize=true",
    "/encoding/grid?convention=mae&height=3&width=4&d_model=8&cls_token=true&channels_first=true",
    "/encoding/mask?d_model=12&normalize=true&dtype=float16",
    "/relative?d_model=6&offsets=-2:3",
    "/relative?d_model=6&offsets=5,-9&layout=concatenated&dtype=bfloat16",
    "/relative/alibi?num_heads=3&query_len=7&key_len=9&masked=true",
    "/relative/alibi?num_heads=3&total_heads=5&query_positions=3,1,8&key_positions=0:9:2",
    "/relative/fire?query_start=500&query_len=30&key_start=3&key_len=17&dtype=float64",
    "/relative/kerple?a=1,0.5&p=2,1&query_len=5&convention=nemo",
    "/relative/kerple?a=1,0.3,7&p=1,0.5,2&query_len=5&convention=power&causal=false",
    "/relative/sandwich?num_heads=3&head_dim=8&query_len=5&dtype=float64",
    "/relative/swin?window_size=3,4",
    "/relative/swin?window_size=2,3&class_token=true&dtype=int64",
    "/relative/swin-v2?window_size=3,4&pretrained_window_size=8,8",
    "/relative/similarity?d_model=10&offsets=-50:51&dtype=float64",
    "/relative/xlnet?d_model=6&query_len=4&key_len=5&bi_data=true",
    "/rope/axial?convention=dinov3&head_dim=8&grid=2,3&pack=angle&dtype=float64",
    "/rope/axial?convention=diffusers_2d&head_dim=8&grid=2,3&angle=float32",
    "/rope/axial?convention=llama4&head_dim=8&grid=2,3&class_token=last&pack=flat",
    "/rope/axial?convention=qwen2_vl&head_dim=8&grid=4,6&spatial_merge_size=2",
    "/rope?head_dim=8&seq_len=40&start=-3&xpos=query&xpos_centre=5&pack=complex",
    "/rope?head_dim=12&mrope_section=1,2,3&grid=2,2,3&angle=float32&pack=interleaved",
    "/rope?head_dim=6&positions=7,0:3,-65&pack=sin_half_concat&dtype=bfloat16",
    "/rope/permutation?head_dim=10&rotary_dim=6&rotary_offset=2&num_attention_heads=3",
]
URLS = [f"{path}?{family.example}" for path, family in READ.items()] + FURTHER_URLS


def test_every_path_is_registered_once() -> None:
    paths = [endpoint.path for endpoint in ENDPOINTS.values()]

    assert len(paths) == len(set(paths))


def tables_of(url: str) -> list[Table]:
    """Return the tables of a URL, and of the examples of the arrays that it needs."""
    parts = urlsplit(url)
    family = READ[parts.path].model_validate(dict(parse_qsl(parts.query)))
    if isinstance(family, TableFamily):
        return list(family.document().arrays.values())
    assert isinstance(family, ComposedFamily)
    sent = [known for known in family.inputs if known.is_required] or family.inputs[:1]
    arrays = {
        known.name: StoredTable(np.array(known.example, "<i8"), INT64)
        if known.is_integer
        else StoredTable(np.array(known.example, "<f8"), FLOAT64)
        for known in sent
    }
    return list(family.document(arrays).arrays.values())


@pytest.mark.parametrize("step_elements", [1, 20])
@pytest.mark.parametrize("url", URLS)
def test_ranges_and_steps_of_any_size_have_the_bytes_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, url: str, step_elements: int
) -> None:
    for table, again in zip(tables_of(url), tables_of(url), strict=True):
        count = size(table)
        whole = table.read(0, count)
        with monkeypatch.context() as steps:
            for module in [
                sys.modules[name] for name in sys.modules if name.startswith("service.")
            ]:
                for constant in STEPS:
                    if hasattr(module, constant):
                        steps.setattr(module, constant, step_elements)
            for start in {0, 1, count // 3, count - 1} & set(range(count)):
                for stop in {start + 1, (start + count + 1) // 2, count}:
                    assert again.read(start, stop).tobytes() == whole[start:stop].tobytes()
