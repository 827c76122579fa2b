"""``POST /model``: the weights by which a library resizes a learned table."""

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from service.models.knowledge import known_names
from tests.client import Client, load_npy, npy_bytes

RULES = [
    ("vit", {"old_size": "14", "convention": "vit", "size": "28,28"}),
    ("clip", {"old_size": "7", "convention": "vit"}),
    ("llava", {"old_size": "24", "convention": "vit"}),
    ("dinov2_with_registers", {"mode": "bicubic", "antialias": "true", "old_size": "14"}),
    ("pixio", {"mode": "bicubic", "old_size": "16"}),
    ("lw_detr", {"mode": "bicubic", "old_size": "14"}),
    ("yolos", {"mode": "bicubic", "old_size": "32,54", "size": "64,108"}),
    ("siglip2", {"convention": "siglip2", "old_size": "16"}),
    ("qwen3_vl", {"convention": "qwen3_vl", "spatial_merge_size": "2"}),
    ("glm4v", {"convention": "glm4v", "old_size": "24"}),
    ("kimi_k25", {"mode": "bicubic", "old_size": "64"}),
    ("hunyuan_vl", {"mode": "bilinear", "old_size": "128"}),
    ("inkling2", {"mode": "bilinear", "old_size": "32", "spatial_merge_size": "2"}),
    ("muse_glimmer", {"convention": "muse", "old_size": "32"}),
    ("sam", {"convention": "sam_rel_pos", "old_size": "127", "size": "128"}),
    ("sam2_hiera_det_model", {"mode": "bicubic", "old_size": "7,7"}),
    ("sam3_lite_text_text_model", {"mode": "linear", "old_size": "77", "size": "154"}),
    ("vit_mae", {"convention": "vit", "old_size": "14,14"}),
    ("zoedepth", {"convention": "beit_rel_pos", "old_size": "24"}),
]
# What an entry says of a table that keeps its size, or is computed anew.
KEPT = ("none", "recomputed")


def resized_of(client: Client, model_type: str, query: str = "") -> list[str]:
    answer = client.post(f"/model{query}", json={"model_type": model_type})
    assert answer.status_code in {200, 422}
    encodings = answer.json().get("encodings", [])
    return [own["resized"] for own in encodings if "resized" in own]


@pytest.mark.parametrize(("model_type", "expected"), RULES)
def test_a_known_rule_has_a_link_with_its_options(
    client: Client, model_type: str, expected: dict[str, str]
) -> None:
    url, *_ = resized_of(client, model_type)
    query = {name: own for name, (own,) in parse_qs(urlsplit(url).query).items()}

    assert query.items() >= expected.items()


def entries() -> Iterator[dict[str, Any]]:
    """Yield every entry about a module or function, as it was written."""
    for path in Path(str(files("service.models"))).glob("**/*.toml"):
        for own in tomllib.loads(path.read_text(encoding="utf-8")).values():
            yield from own.get("encodings", ()) if isinstance(own, dict) else ()


def test_each_entry_that_is_resized_has_its_options_or_a_reason() -> None:
    resized = [own for own in entries() if not own.get("resize", "none").startswith(KEPT)]

    assert len(resized) > 50
    for own in entries():
        assert ("resized" in own) + ("not_resized" in own) == (own in resized), own


def test_a_table_that_keeps_its_size_has_neither(client: Client) -> None:
    answer = client.post("/model", json={"model_type": "gpt2"})

    assert answer.status_code == 200
    assert not {"resized", "not_resized"} & {
        key for own in answer.json()["encodings"] for key in own
    }


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [("vivit", "one square"), ("radio", "cut"), ("pvt", "as the new grid"), ("tvp", "sum of both")],
)
def test_a_resize_without_weights_here_says_why(
    client: Client, model_type: str, reason: str
) -> None:
    answer = client.post("/model", json={"model_type": model_type}).json()

    assert not resized_of(client, model_type)
    assert any(reason in own.get("not_resized", "") for own in answer["encodings"])


@pytest.mark.parametrize(
    ("config", "query", "reason"),
    [
        ({"model_type": "vit", "image_size": [224, 160]}, "", "140 rows as a square"),
        (
            {"model_type": "cosmos3_edge_vision"},
            "?grid=1,21,30",
            "multiple of spatial_merge_size=2",
        ),
        ({"model_type": "hunyuan_vl_vision", "interpolate_mode": "cubic"}, "", "mode"),
    ],
)
def test_a_size_that_does_not_fit_has_a_reason(
    client: Client, config: dict[str, Any], query: str, reason: str
) -> None:
    answer = client.post(f"/model{query}", json=config)

    assert answer.status_code == 200
    reasons = [own.get("not_resized", "") for own in answer.json()["encodings"]]
    assert [each for each in reasons if reason in each]


def test_axes_of_the_new_size_are_those_that_the_library_resizes(client: Client) -> None:
    sizes = {
        name: [parse_qs(urlsplit(url).query)["size"][0] for url in resized_of(client, name, query)]
        for name, query in (("muse_spark", "?grid=20,30"), ("seggpt", "?grid=20,30"))
    }
    frames = resized_of(client, "timesformer", "?grid=12,20,30")

    assert sizes == {"muse_spark": ["30,20"], "seggpt": ["20,30", "20", "30"]}
    assert [parse_qs(urlsplit(url).query)["size"][0] for url in frames] == ["20,30", "12,1"]


@pytest.mark.parametrize("grid", ["20,30", "1,20,30"])
def test_the_new_size_is_the_grid_asked_for(client: Client, grid: str) -> None:
    for model_type in ("vit", "qwen3_vl"):
        (url,) = resized_of(client, model_type, f"?grid={grid}")

        assert parse_qs(urlsplit(url).query)["size"] == ["20,30"]
        assert client.get(url).status_code == 200


@pytest.mark.full
def test_every_link_can_be_followed(client: Client) -> None:
    urls = [url for name in sorted({*known_names()}) for url in resized_of(client, name)]

    assert len(urls) > 200
    for url in {*urls}:
        assert client.get(url).status_code == 200


def resized_rows(client: Client, own: dict[str, Any]) -> int:
    """Resize a table of two channels of the shape that the model stores; return its rows."""
    *leading, rows, _ = own.get("stored_shape", own["shape"])
    around = own.get("resized_around", {})
    sent = rows - around.get("dropped", 0) - around.get("kept_behind", 0)
    x = np.zeros((*leading, sent, 2), np.float32)
    headers = {"content-type": "application/x-npy"}
    answer = client.post(own["resized_apply"], content=npy_bytes(x), headers=headers)
    assert answer.status_code == 200, (own, answer.text)
    return load_npy(answer).size // 2


@pytest.mark.parametrize(
    ("config", "around", "rows"),
    [
        ({"model_type": "vit"}, {"kept": 1}, 785),
        ({"model_type": "dinov2_with_registers"}, {"kept": 1}, 785),
        ({"model_type": "deit"}, {"kept": 2}, 786),
        ({"model_type": "pixio"}, {"kept": 8}, 792),
        ({"model_type": "timesformer"}, {"kept": 1}, 785),
        ({"model_type": "vit_mae"}, {"kept": 1}, 785),
        ({"model_type": "vitdet"}, {"dropped": 1}, 784),
        ({"model_type": "seggpt"}, {"dropped": 1}, 784),
        ({"model_type": "hunyuan_vl_vision"}, {"dropped": 1}, 784),
        ({"model_type": "yolos"}, {"kept": 1, "kept_behind": 100}, 785),
        ({"model_type": "siglip_vision_model"}, None, 784),
    ],
)
def test_the_stored_table_is_resized_without_the_rows_that_are_dropped_or_behind(
    client: Client, config: dict[str, Any], around: dict[str, int] | None, rows: int
) -> None:
    report = client.post("/model?grid=28,28", json=config).json()
    own = next(each for each in report["encodings"] if "resized_apply" in each)

    assert own.get("resized_around") == around
    assert resized_rows(client, own) == rows


@pytest.mark.full
def test_every_stored_table_can_be_resized(client: Client) -> None:
    found = {
        own["resized_apply"]: own
        for name in sorted({*known_names()})
        for own in client.post("/model", json={"model_type": name}).json().get("encodings", ())
        if "resized_apply" in own and "shape" in own
    }

    assert len(found) > 30
    for own in found.values():
        assert resized_rows(client, own) > 0
