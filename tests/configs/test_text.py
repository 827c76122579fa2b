"""The text model of a config."""

import pytest

from service.configs.resolve import resolve
from tests.configs.settings import LLAMA, codes_of, origin_of, value_of

INNER = {"head_dim": 64, "rope_theta": 5000.0, "max_position_embeddings": 512}


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "gemma3", "text_config": INNER}, "/text_config"),
        ({"model_type": "unheard-of", "llm_config": INNER}, "/llm_config"),
        ({"language_config": INNER}, "/language_config"),
        ({"thinker_config": {"text_config": INNER}}, "/thinker_config/text_config"),
        (
            {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": INNER}},
            "/thinker_config/text_config",
        ),
    ],
)
def test_the_text_model_is_found_within(config: dict[str, object], pointer: str) -> None:
    label = resolve(config).entries[0].label

    assert origin_of(config, "head_dim", label) == f"{pointer}/head_dim"


def test_a_text_model_is_of_its_own_type_or_of_that_of_the_whole() -> None:
    own = {"model_type": "llava", "text_config": {**LLAMA, "model_type": "mistral"}}
    implied = {"model_type": "gemma3", "text_config": INNER}

    assert resolve(own).text_model_type == "mistral"
    assert resolve(implied).text_model_type == "gemma3_text"
    assert resolve(implied).model_type == "gemma3"


def test_a_multimodal_config_may_be_flat() -> None:
    flat = {**LLAMA, "model_type": "qwen2_vl", "rope_scaling": {"type": "mrope"}}

    assert resolve(flat).text_model_type == "qwen2_vl_text"
    assert value_of(flat, "mrope_section") == (16, 24, 24)


def test_the_text_model_of_a_text_model_is_the_innermost() -> None:
    assert resolve({"model_type": "qwen2_5_omni"}).text_model_type == "qwen2_5_omni_text"


def test_local_bases_of_an_unknown_type_are_those_of_its_sliding_layers() -> None:
    config = {"head_dim": 64, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
    both = {"head_dim": 64, "global_rope_theta": 160000.0, "local_rope_theta": 1e4}

    for sent, full in ((config, 1e6), (both, 160000.0)):
        assert value_of(sent, "rope_theta", "full_attention") == full
        assert value_of(sent, "rope_theta", "sliding_attention") == 1e4
    assert "model-type-missing" in codes_of(config)
