"""What attention multiplies beside the table."""

from service.configs.resolve import resolve
from tests.configs.settings import codes_of
from tests.exact import yarn_mscale

YARN = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
MSCALES = {"mscale": 1.0, "mscale_all_dim": 1.0}


def test_deepseek_s_softmax_is_scaled_by_mscale_all_dim() -> None:
    config = {"model_type": "deepseek_v3", "rope_scaling": {**YARN, **MSCALES}}

    exact = float(yarn_mscale(40.0, 1.0) ** 2)
    assert resolve(config).attention["softmax_scale_multiplier"] == exact
    assert resolve({"model_type": "deepseek_v3", "rope_scaling": YARN}).attention == {}


def test_queries_of_llama_4_grow_in_layers_without_rotary_embedding() -> None:
    config = {"model_type": "llama4_text", "num_hidden_layers": 8, "floor_scale": 4096}
    off = {**config, "attn_temperature_tuning": False}

    temperature = resolve(config).attention["query_temperature"]
    assert (temperature["attn_scale"], temperature["floor_scale"]) == (0.1, 4096)
    assert temperature["layers"] == [3, 7]
    assert resolve(off).attention == {}


def test_queries_of_ministral_3_grow_by_the_original_length() -> None:
    scaling = {**YARN, **MSCALES, "llama_4_scaling_beta": 0.1}
    attention = resolve({"model_type": "ministral3", "rope_parameters": scaling}).attention

    assert attention["query_temperature"]["llama_4_scaling_beta"] == 0.1
    assert attention["query_temperature"]["original_max_position_embeddings"] == 4096
    assert attention["origin"]["llama_4_scaling_beta"] == "/rope_parameters/llama_4_scaling_beta"


def test_a_beta_of_0_or_a_rule_without_original_length_leaves_queries_as_they_are() -> None:
    flat = {**YARN, "llama_4_scaling_beta": 0}

    assert resolve({"model_type": "ministral3", "rope_parameters": flat}).attention == {}
    plain = {"rope_type": "default", "llama_4_scaling_beta": 0.1}
    assert resolve({"model_type": "ministral3", "rope_parameters": plain}).attention == {}


def test_a_beta_in_a_class_that_is_not_known_for_it_is_said_to_imply_the_formula() -> None:
    scaling = {**YARN, "llama_4_scaling_beta": 0.1}
    attention = resolve({"model_type": "llama", "rope_scaling": scaling}).attention

    assert attention["origin"]["query_temperature"] == (
        "computed: implied by /rope_scaling/llama_4_scaling_beta"
    )


def test_without_a_known_class_a_softmax_multiplier_is_a_warning() -> None:
    config = {"model_type": "unheard-of", "head_dim": 64, "rope_scaling": {**YARN, **MSCALES}}

    assert resolve(config).attention == {}
    assert "softmax-scale-unknown" in codes_of(config)
