"""Published models: what their configs must come to."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.models.resolve import resolve

MODELS = json.loads((Path(__file__).parents[1] / "data/rope_models.json").read_text())["models"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_published_models_have_their_layouts_and_widths(model: dict[str, Any]) -> None:
    resolved = resolve(model["hf_config"])

    assert resolved.layout == model["layout"]
    assert {entry.label for entry in resolved.entries} == {
        label for label in model["rotary_dim"] if "(" not in label
    }
    for entry in resolved.entries:
        head_dim = model["head_dim"]
        if isinstance(head_dim, dict):
            head_dim = head_dim[entry.label]
        assert entry.values["head_dim"].value == head_dim
        assert entry.values["rotary_dim"].value == model["rotary_dim"][entry.label]


def test_published_models_have_only_expected_warnings() -> None:
    for model in MODELS:
        if model["confidence"] == "verbatim-copy":
            codes = {warning.code for warning in resolve(model["hf_config"]).warnings}
            assert not {code for code in codes if code.endswith(("-assumed", "-unknown"))}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bloom"},
        {"model_type": "falcon", "alibi": True},
        {"model_type": "esm", "position_embedding_type": "absolute"},
        {"model_type": "zamba2"},
    ],
)
def test_models_without_rotary_embedding_have_a_warning(config: dict[str, object]) -> None:
    resolved = resolve(config)

    assert resolved.entries == ()
    assert "no-rotary-embedding" in [warning.code for warning in resolved.warnings]


def test_rope_if_enables_rotary_embeddings() -> None:
    assert resolve({"model_type": "falcon", "alibi": False}).entries
    assert resolve({"model_type": "zamba2", "use_mem_rope": True}).entries
