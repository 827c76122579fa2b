"""``POST /model``: the weights by which a library resizes a learned table."""

from urllib.parse import parse_qs, urlsplit

import pytest

from service.models.model_types import model_types
from tests.client import Client

RULES = [
    ("vit", {"mode": "bicubic", "align_corners": "false", "old_size": "14", "convention": "vit"}),
    ("clip", {"mode": "bicubic", "old_size": "7", "convention": "vit"}),
    ("llava", {"mode": "bicubic", "old_size": "24", "convention": "vit"}),
    ("dinov2_with_registers", {"mode": "bicubic", "antialias": "true"}),
    ("siglip2", {"mode": "bilinear", "antialias": "true", "convention": "siglip2"}),
    ("qwen3_vl", {"mode": "bilinear", "convention": "qwen3_vl", "spatial_merge_size": "2"}),
    ("glm4v", {"mode": "bicubic", "old_size": "24", "convention": "glm4v"}),
    ("sam", {"mode": "linear", "old_size": "127", "size": "128", "convention": "sam_rel_pos"}),
]


def resized_of(client: Client, model_type: str, query: str = "") -> list[str]:
    answer = client.post(f"/model{query}", json={"model_type": model_type})
    assert answer.status_code in {200, 422}
    encodings = answer.json().get("encodings", [])
    return [own["resized"] for own in encodings if "resized" in own]


@pytest.mark.parametrize(("model_type", "expected"), RULES)
def test_a_known_rule_has_a_link_with_its_options(
    client: Client, model_type: str, expected: dict[str, str]
) -> None:
    (url,) = set(resized_of(client, model_type))
    query = {name: own for name, (own,) in parse_qs(urlsplit(url).query).items()}

    assert query.items() >= expected.items()


def test_a_rule_that_is_not_known_has_none(client: Client) -> None:
    for model_type in ("muse_spark", "videomae", "gpt2"):
        assert client.post("/model", json={"model_type": model_type}).status_code == 200
        assert not resized_of(client, model_type)


@pytest.mark.parametrize("grid", ["20,30", "1,20,30"])
def test_the_new_size_is_the_grid_asked_for(client: Client, grid: str) -> None:
    for model_type in ("vit", "qwen3_vl"):
        (url,) = resized_of(client, model_type, f"?grid={grid}")

        assert parse_qs(urlsplit(url).query)["size"] == ["20,30"]
        assert client.get(url).status_code == 200


@pytest.mark.full
def test_every_link_can_be_followed(client: Client) -> None:
    urls = {url for name in model_types() for url in resized_of(client, name)}

    assert len(urls) > 15
    for url in urls:
        assert client.get(url).status_code == 200
