"""The base of the frequencies."""

import pytest

from tests.configs.settings import LLAMA, codes_of, llama, origin_of, value_of

BARE = {name: value for name, value in LLAMA.items() if name != "rope_theta"}


@pytest.mark.parametrize(
    ("beside", "theta", "origin"),
    [
        ({"rope_theta": 5e5, "rotary_emb_base": 7}, 5e5, "/rope_theta"),
        ({"rotary_emb_base": 7e5}, 7e5, "alias /rotary_emb_base"),
        ({"rope_ratio": 500}, 5e6, "computed: 10000 · /rope_ratio"),
        (
            {"rope_theta": 1.0, "rope_parameters": {"rope_theta": 9e5}},
            9e5,
            "/rope_parameters/rope_theta",
        ),
        ({}, 10000.0, "class default of llama (transformers 5.23.0)"),
    ],
)
def test_where_the_base_is_said(beside: dict[str, object], theta: float, origin: str) -> None:
    config = {**BARE, **beside}

    assert value_of(config, "rope_theta") == theta
    assert origin_of(config, "rope_theta") == origin


def test_a_changed_class_default_is_a_warning() -> None:
    assert "theta-default-changed" in codes_of({"model_type": "persimmon"})
    assert "theta-default-changed" not in codes_of({"model_type": "persimmon", "rope_theta": 25e3})


def test_layer_types_with_bases_of_their_own_keep_them() -> None:
    modern = {"model_type": "modernbert", "rope_theta": 7.0, "global_rope_theta": 8e4}
    gemma4 = {"model_type": "gemma4_text", "rope_theta": 7.0}

    assert value_of(modern, "rope_theta", "full_attention") == 8e4
    assert value_of(modern, "rope_theta", "sliding_attention") == 1e4
    assert value_of(gemma4, "rope_theta", "full_attention") == 1e6
    assert "unknown-rope-key" in codes_of(gemma4)


def test_an_unknown_type_has_a_base_of_10000_with_a_warning() -> None:
    config = {"model_type": "unheard-of", "head_dim": 64}

    assert value_of(config, "rope_theta") == 10000.0
    assert "theta-assumed" in codes_of(config)
    assert "theta-assumed" not in codes_of(llama())


def test_a_class_s_own_base_that_transformers_keeps_is_a_warning() -> None:
    apertus = {"model_type": "apertus", "rope_theta": 5e6}
    olmo3 = {"model_type": "olmo3", "rope_theta": 1e5}

    assert "theta-not-everywhere" in codes_of(apertus)
    assert "theta-not-everywhere" not in codes_of({**apertus, "rope_theta": 12e6})
    assert "theta-not-everywhere" in codes_of(olmo3)
    assert "theta-not-everywhere" not in codes_of({**olmo3, "rope_theta": 5e5})
