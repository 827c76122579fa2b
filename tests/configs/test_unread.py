"""Keys that sound like rotary settings and are none."""

import pytest

from service.configs.resolve import resolve
from tests.configs.settings import codes_of, llama


def details_of(config: dict[str, object]) -> list[str]:
    return [w.detail for w in resolve(config).warnings if w.code == "unknown-rope-key"]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("rope_scalling", "rope_scaling"),
        ("ropeScaling", "rope_scaling"),
        ("rope_teta", "rope_theta"),
        ("rotary_pctt", "rotary_pct"),
    ],
)
def test_a_misspelled_key_is_told_the_nearest(key: str, meant: str) -> None:
    assert details_of(llama(**{key: 5})) == [f"{key} is not read; did you mean {meant}?"]


def test_what_says_nothing_or_is_read_is_no_warning() -> None:
    silent = dict.fromkeys(["rope_x", "use_dynamic_ntk", "alibi"], False)

    assert codes_of(llama(**silent, rotary_scaling_factor=None, rope_interleaved=True)) == []
    assert details_of({"model_type": "smollm3", "no_rope_layer_interval": 4}) == []
    assert details_of({"model_type": "deepseek_v3", "rope_interleave": True}) == []
    assert details_of({"model_type": "modernbert", "global_rope_theta": 1e4}) == []


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "xlm-roberta", "position_embedding_type": "rotary"}, "/position_embedd"),
        ({"model_type": "mpt", "attn_config": {"rope": True}}, "/attn_config/rope"),
        ({"model_type": "gpt2", "rope_scaling": {"type": "linear"}}, "/rope_scaling"),
    ],
)
def test_rotary_settings_of_a_type_without_are_a_warning(
    config: dict[str, object], pointer: str
) -> None:
    warnings = resolve(config).warnings

    assert [warning.code for warning in warnings] == ["no-rotary-embedding", "unknown-rope-key"]
    assert warnings[1].pointer.startswith(pointer)


def test_of_many_keys_the_first_are_named_and_the_others_counted() -> None:
    many = {f"rope_{i}": 1 for i in range(100_000)}

    assert len(details_of(llama(**many))) == 21
    assert details_of(llama(**many))[-1] == "99980 more keys are not read"


def test_that_there_is_a_rotary_embedding_is_no_news() -> None:
    assert details_of(llama(rotary=True, use_rotary_pos_emb=True)) == []
    assert details_of({"model_type": "mpt", "attn_config": {"alibi": True}}) == []
