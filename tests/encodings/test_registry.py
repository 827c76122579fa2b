"""Promises of every family of the registry."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from service.encodings.family import TableFamily
from service.encodings.registry import FAMILIES
from service.numerics.tables import Table, size
from service.routes import ENDPOINTS

TABLE_FAMILIES = {family.path: family for family in FAMILIES if issubclass(family, TableFamily)}
# Tables whose reading depends on more than the example shows.
FURTHER_URLS = [
    "/relative?d_model=6&offsets=-2:3",
    "/relative?d_model=6&offsets=5,-9&layout=concatenated&dtype=bfloat16",
    "/relative/alibi?num_heads=3&query_len=7&key_len=9&masked=true",
    "/relative/alibi?num_heads=3&query_positions=3,1,8&key_positions=0:9:2",
    "/relative/fire?query_start=500&query_len=30&key_start=3&key_len=17&dtype=float64",
    "/relative/kerple?a=1,0.5&p=2,1&query_len=5&convention=nemo",
    "/relative/sandwich?num_heads=3&head_dim=8&query_len=5&dtype=float64",
    "/relative/swin?window_size=3,4",
    "/relative/swin?window_size=2,3&class_token=true&dtype=int64",
    "/relative/swin-v2?window_size=3,4&pretrained_window_size=8,8",
    "/relative/similarity?d_model=10&offsets=-50:51&dtype=float64",
    "/relative/xlnet?d_model=6&query_len=4&key_len=5&bi_data=true",
]
URLS = [f"{path}?{family.example}" for path, family in TABLE_FAMILIES.items()] + FURTHER_URLS


def test_every_path_is_registered_once() -> None:
    paths = [endpoint.path for endpoint in ENDPOINTS]

    assert len(paths) == len(set(paths))


def tables_of(url: str) -> list[Table]:
    parts = urlsplit(url)
    family = TABLE_FAMILIES[parts.path].model_validate(dict(parse_qsl(parts.query)))
    return list(family.document().arrays.values())


@pytest.mark.parametrize("step_elements", [1, 20])
@pytest.mark.parametrize("url", URLS)
def test_ranges_and_steps_of_any_size_have_the_bytes_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, url: str, step_elements: int
) -> None:
    for table in tables_of(url):
        count = size(table)
        whole = table.read(0, count)
        with monkeypatch.context() as steps:
            steps.setattr("service.numerics.tables.STEP_ELEMENTS", step_elements)
            for start in {0, 1, count // 3, count - 1} & set(range(count)):
                for stop in {start + 1, (start + count + 1) // 2, count}:
                    assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()
