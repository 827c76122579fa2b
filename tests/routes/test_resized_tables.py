"""``POST /model``: the weights by which a library resizes a learned table."""

from urllib.parse import parse_qs, urlsplit

import pytest

from service.models.model_types import model_types
from tests.client import Client

RULES = [
    ("vit", {"mode": "bicubic", "align_corners": "false", "old_size": "14"}),
    ("clip", {"mode": "bicubic", "old_size": "7"}),
    ("dinov2_with_registers", {"mode": "bicubic", "antialias": "true"}),
    ("siglip2", {"mode": "bilinear", "antialias": "true", "old_size": "16"}),
    ("qwen3_vl", {"mode": "bilinear", "align_corners": "true", "old_size": "48"}),
    ("glm4v", {"mode": "bicubic", "old_size": "24"}),
]


def resized_of(client: Client, model_type: str) -> list[str]:
    answer = client.post("/model", json={"model_type": model_type})
    if answer.status_code != 200:
        return []
    return [own["resized"] for own in answer.json()["encodings"] if "resized" in own]


@pytest.mark.parametrize(("model_type", "expected"), RULES)
def test_a_known_rule_has_a_link_with_its_options(
    client: Client, model_type: str, expected: dict[str, str]
) -> None:
    (url,) = set(resized_of(client, model_type))
    query = {name: own for name, (own,) in parse_qs(urlsplit(url).query).items()}

    assert query.items() >= expected.items()


def test_a_rule_that_is_not_known_has_none(client: Client) -> None:
    for model_type in ("muse_spark", "videomae", "gpt2"):
        assert not resized_of(client, model_type)


@pytest.mark.full
def test_every_link_can_be_followed(client: Client) -> None:
    urls = {url for name in model_types() for url in resized_of(client, name)}

    assert len(urls) > 10
    for url in urls:
        assert client.get(url).status_code == 200
