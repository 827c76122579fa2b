"""Which channels turn together."""

import pytest

from service.configs.resolve import resolve
from tests.configs.settings import codes_of, llama

DEEPSEEK = {"model_type": "deepseek_v3"}


@pytest.mark.parametrize(
    ("config", "layout", "writes"),
    [
        (llama(), "half", None),
        ({"model_type": "glm4"}, "interleaved", None),
        ({"model_type": "glm4_moe"}, "half", None),
        ({"model_type": "deepseek_v2"}, "interleaved", None),
        (DEEPSEEK, "interleaved", "half"),
        ({**DEEPSEEK, "rope_interleave": False}, "half", None),
        ({"head_dim": 4}, "half", None),
        ({"head_dim": 4, "rotary_emb_interleaved": True}, "interleaved", None),
        ({"model_type": "bert"}, "none", None),
    ],
)
def test_the_layout_of_a_model(config: dict[str, object], layout: str, writes: str | None) -> None:
    resolved = resolve(config)

    assert (resolved.layout, resolved.writes) == (layout, writes)


def test_a_layout_that_a_config_says_is_no_assumption() -> None:
    assert "layout-assumed" in codes_of({"head_dim": 4})
    assert "layout-assumed" not in codes_of({"head_dim": 4, "rope_traditional": True})
