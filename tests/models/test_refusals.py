"""Configs that are refused, with pointers to their faults, and configs with warnings."""

from typing import Any

import pytest

from service.errors import InvalidBody
from tests.client import Client
from tests.models.settings import codes_of, llama, resolve, scaled

LINEAR = {"rope_type": "linear", "factor": 8.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
ORIGINAL = {"original_max_position_embeddings": 2048}
HEADS = {"head_dim": 64, "rope_theta": 10000.0}
STEP = {"model_type": "step3p5", "num_hidden_layers": 4}
GRANITE = {"model_type": "granite_swa"}
APERTUS = {"model_type": "apertus", "rope_theta": 5e6}
OLMO3 = {"model_type": "olmo3", "rope_theta": 1e5}
SMOLLM3 = {"model_type": "smollm3", "num_hidden_layers": 36, "no_rope_layers": [1, 1, 0]}
PERSIMMON = {"model_type": "persimmon"}
PAIRS = {"type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 63, **ORIGINAL}
LONGEST_LISTS = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 64,
    "short_factor": [1.0] * 32768,
    "long_factor": [1.0] * 32768,
}
# Blocks and lists together tell apart more types of layers than either.
TYPES_BY_BASES = {
    **STEP,
    "num_hidden_layers": 81,
    "rope_theta": [10000.0 + i % 9 for i in range(81)],
    "layer_types": [f"t{i // 9}" for i in range(81)],
    "rope_parameters": {f"t{i}": {"rope_theta": 1e4} for i in range(9)},
}


def apertus(**parameters: Any) -> dict[str, Any]:
    return {"model_type": "apertus", "rope_parameters": parameters}


@pytest.mark.parametrize(
    ("config", "pointers", "detail"),
    [
        *(
            (llama(rope_scaling=x), ["/rope_scaling"], "object")
            for x in ("dynamic", 5, [8.0], True)
        ),
        (
            llama(model_type="another", rope_parameters={f"type {i}": LINEAR for i in range(65)}),
            ["/rope_parameters"],
            "at most 64 layer types",
        ),
        (apertus(**{**LINEAR, "factor": {}}), ["/rope_parameters/factor"], "number"),
        (apertus(factor={"a": 1}), ["/rope_parameters/factor"], "number"),
        (apertus(**LINEAR, rope_theta={}), ["/rope_parameters/rope_theta"], "number"),
        (llama(layer_types=["full_attention"] * 10**6), ["/layer_types"], "at most 4096"),
        (
            {**STEP, "rope_theta": [1e4]},
            ["/rope_theta"],
            "rope_theta has 1 items, and there are layers up to 3",
        ),
        (
            {
                **GRANITE,
                "num_hidden_layers": 65,
                "layer_rope_theta": [float(i + 2) for i in range(65)],
            },
            ["/layer_rope_theta"],
            "at most 64 types of layers",
        ),
        (scaled(type="yran", factor=4.0), ["/rope_scaling/type"], "did you mean yarn"),
        ({"model_type": "codegen", "rotary_dim": None}, ["/rotary_dim"], "not null"),
        (scaled(type="???"), ["/rope_scaling/type"], "there are default, linear"),
        (
            scaled(type="linear", facter=4.0),
            ["/rope_scaling/factor"],
            "factor is required for linear; is it facter?",
        ),
        ({"model_type": "Yi", "hidden_size": 0}, ["/hidden_size"], "must be an integer"),
        (
            {"hidden_size": 4, "num_attention_heads": 8, "rope_theta": 1e4},
            ["/hidden_size"],
            "no width of a head",
        ),
        (
            {"model_type": "cohere2", "hidden_size": 4, "num_attention_heads": 8},
            ["/hidden_size"],
            "no width of a head",
        ),
        *(
            (
                {**HEADS, "rope_scaling": {"rope_type": rope_type, **scaling}},
                ["/max_position_embeddings"],
                f"max_position_embeddings is required for {rope_type}",
            )
            for rope_type, scaling in (
                ("dynamic", {"factor": 2.0}),
                ("yarn", {"factor": 4.0}),
                ("yarn", ORIGINAL),
                ("llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}),
            )
        ),
        *(
            (scaled(rope_type=rope_type), [f"/rope_scaling/{name}" for name in missing], "required")
            for rope_type, missing in (
                ("linear", ["factor"]),
                ("dynamic", ["factor"]),
                ("ntk", ["factor"]),
                ("llama3", ["factor", "low_freq_factor", "high_freq_factor"]),
                ("longrope", ["short_factor", "long_factor"]),
            )
        ),
        (scaled(**PAIRS), ["/rope_scaling/long_factor"], "has 63 factors for 64 rotated pairs"),
        (
            llama(rope_parameters={"full_attention": LINEAR, "sliding_attention": LINEAR}),
            ["/rope_parameters"],
            "the class of llama has one rule for all layers",
        ),
        (
            {
                **OLMO3,
                "rope_scaling": LINEAR,
                "rope_parameters": {"full_attention": LINEAR, "sliding_attention": LINEAR},
            },
            ["/rope_scaling"],
            "has one rule for all layers, and /rope_parameters has them by layer type",
        ),
        (
            llama(
                model_type="another",
                head_dim=65536,
                rope_parameters=dict.fromkeys("abc", LONGEST_LISTS),
            ),
            ["/rope_parameters/a"],
            "lists of 196608 numbers",
        ),
        (TYPES_BY_BASES, ["/rope_parameters/t0"], "more than 64 types of layers"),
        (
            {
                **llama(hidden_size="wide", num_attention_heads=-3),
                "rope_scaling": {"type": "yarn", "factor": "eight", "mscale": []},
            },
            [
                "/hidden_size",
                "/num_attention_heads",
                "/rope_scaling/factor",
                "/rope_scaling/mscale",
            ],
            "must be",
        ),
    ],
)
def test_faults_of_a_config_are_one_problem(
    config: dict[str, Any], pointers: list[str], detail: str
) -> None:
    with pytest.raises(InvalidBody) as raised:
        resolve(config)

    assert [fault.where for fault in raised.value.faults] == pointers
    assert all(detail in fault.detail for fault in raised.value.faults)


def test_key_that_is_given_is_no_hint_for_a_required_one() -> None:
    rule = {"factor": 8.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}

    with pytest.raises(InvalidBody) as raised:
        resolve(scaled(rope_type="llama3", **rule))

    assert "high_freq_factor is required for llama3" in str(raised.value)
    assert "is it" not in str(raised.value)


@pytest.mark.parametrize(
    ("code", "config", "silent"),
    [
        ("layout-assumed", HEADS, {**HEADS, "rope_traditional": True}),
        ("layer-count-differs", SMOLLM3, {**SMOLLM3, "num_hidden_layers": 3}),
        ("heads-do-not-divide", llama(num_attention_heads=33), llama()),
        ("implicit-factor-differs", scaled(**YARN, original_max_position_embeddings=8192), llama()),
        ("theta-default-changed", PERSIMMON, {**PERSIMMON, "rope_theta": 25e3}),
        ("theta-not-everywhere", APERTUS, {**APERTUS, "rope_theta": 12e6}),
        ("theta-not-everywhere", OLMO3, {**OLMO3, "rope_theta": 5e5}),
    ],
)
def test_uncertain_value_has_a_warning_and_a_certain_one_none(
    code: str, config: dict[str, Any], silent: dict[str, Any]
) -> None:
    assert code in codes_of(config)
    assert code not in codes_of(silent)


@pytest.mark.parametrize(
    ("config", "is_right"),
    [
        ({"model_type": "cohere2", "position_embedding_type": "rope_gptj"}, True),
        ({"model_type": "llama", "position_embedding_type": "rope_gptj"}, False),
        ({"model_type": "kimi_k25", "vision_config": {"pos_emb_type": "divided_fixed"}}, True),
        (
            {
                "model_type": "granite_speech",
                "projector_config": {
                    "model_type": "blip_2_qformer",
                    "position_embedding_type": "absolute",
                },
            },
            True,
        ),
        ({"model_type": "chatglm", "num_layers": 28, "position_encoding_2d": True}, False),
    ],
)
def test_kinds_of_positions_of_published_configs_are_read_or_refused(
    client: Client, config: dict[str, Any], is_right: bool
) -> None:
    assert client.post("/model", json=config).status_code == (200 if is_right else 422)
