"""Settings by rope_type, with warnings, and the entries of the report."""

import pytest

from service.errors import InvalidBody
from service.models import rotary_settings
from service.models.resolve import resolve
from tests.exact import yarn_mscale
from tests.models.settings import codes_of, entry_of, llama, origin_of, value_of

ORIGINAL = {"original_max_position_embeddings": 2048}


def test_dynamic_has_a_regime_up_to_the_original_length_and_one_beyond() -> None:
    config = llama(rope_scaling={"type": "dynamic", "factor": 2.0, **ORIGINAL})

    assert entry_of(config).lengths == (8192, 16384)
    assert "original_max_position_embeddings" not in entry_of(config).values
    assert "unknown-rope-key" in codes_of(config)


def test_dynamic_with_alpha_does_not_depend_on_the_length() -> None:
    config = llama(rope_scaling={"type": "dynamic", "factor": 1.0, "alpha": 1000.0})

    assert entry_of(config).lengths == ()
    assert value_of(config, "alpha") == 1000.0
    assert "dynamic-is-stateful" not in codes_of(config)


def test_longrope_has_a_list_for_each_regime() -> None:
    lists = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    config = llama(rope_scaling={"type": "longrope", **lists, **ORIGINAL})

    assert entry_of(config).lengths == (2048, 8192)
    assert value_of(config, "factor") == 4.0


def test_mscales_of_phimoe_replace_the_attention_factor() -> None:
    lists = {"short_factor": [1.0] * 2, "long_factor": [2.0] * 2, **ORIGINAL}
    mscales = {"short_mscale": 1.25, "long_mscale": 1.5}
    scaling = {"type": "longrope", **lists, **mscales}
    entry = entry_of({"model_type": "phimoe", "head_dim": 4, "rope_scaling": scaling})

    assert entry.at(None)["attention_factor"].value == 1.25
    assert entry.at(2048)["attention_factor"].value == 1.25
    assert entry.at(2049)["attention_factor"].value == 1.5


@pytest.mark.parametrize("factor", [1.5, 4.0, 40.0, 1e6])
def test_telechat_s_attention_factor_is_its_own(factor: float) -> None:
    scaling = {"type": "telechat3-yarn", "factor": factor, **ORIGINAL}
    mscales = {"mscale": 1.0, "mscale_all_dim": 0.707}
    above, below = (yarn_mscale(factor, mscale, "0.07") for mscale in mscales.values())

    assert value_of(llama(rope_scaling=scaling), "attention_factor") == float(above)
    assert value_of(llama(rope_scaling={**scaling, **mscales}), "attention_factor") == float(
        above / below
    )
    shrunk = llama(rope_scaling={**scaling, "factor": 0.5})
    assert value_of(shrunk, "attention_factor") == 1.0


def test_deepseek_v4_s_yarn_has_an_attention_factor_of_1() -> None:
    scaling = {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 65536}
    config = {"model_type": "deepseek_v4", "rope_scaling": scaling}

    assert value_of(config, "attention_factor", "compress") == 1.0
    assert value_of(config, "rope_type", "main") == "default"


def test_a_share_of_proportional_is_the_rule_s_own() -> None:
    config = llama(rope_scaling={"rope_type": "proportional", "partial_rotary_factor": 0.25})

    assert value_of(config, "rotary_dim") == 128
    assert value_of(config, "partial_rotary_factor") == 0.25


def test_a_rule_without_warnings_of_its_own_needs_only_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rotary_settings, "_READERS", {})
    scaling = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

    entry = entry_of(llama(rope_scaling={**scaling, **ORIGINAL}))

    assert {name: entry.values[name].value for name in scaling if name != "type"} == {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    with pytest.raises(InvalidBody, match="low_freq_factor"):
        resolve(llama(rope_scaling={"type": "llama3", "factor": 8.0, **ORIGINAL}))


@pytest.mark.parametrize(
    ("rope_type", "name"), [("yarn", "beta_fast"), ("yarn", "beta_slow"), ("dynamic", "alpha")]
)
def test_a_0_that_counts_as_missing_is_a_warning(rope_type: str, name: str) -> None:
    config = llama(rope_scaling={"type": rope_type, "factor": 2.0, **ORIGINAL, name: 0})

    assert name not in entry_of(config).values
    assert "zero-ignored" in codes_of(config)


def test_attn_factor_is_read_with_a_warning() -> None:
    config = llama(rope_scaling={"type": "yarn", "factor": 4.0, **ORIGINAL, "attn_factor": 1.5})

    assert value_of(config, "attention_factor") == 1.5
    assert "attn-factor-alias" in codes_of(config)


def test_proportional_without_a_share_turns_every_pair() -> None:
    entry = entry_of(llama(rope_scaling={"rope_type": "proportional", "factor": 2.0}))

    assert "partial_rotary_factor" not in entry.values
    assert entry.values["factor"].value == 2.0


def test_the_warning_of_an_unused_key_suggests_the_nearest_or_a_rope_type() -> None:
    said = resolve(llama(rope_scaling={"type": "linear", "factor": 2.0, "facter": 4.0})).warnings
    untyped = resolve(llama(rope_scaling={"factor": 4.0})).warnings

    assert said[0].detail == "linear does not use facter; did you mean factor?"
    assert untyped[0].detail == "default does not use factor: no rope_type is given"


def test_warnings_name_the_first_unused_keys_and_count_the_others() -> None:
    many = {f"k{i}": 1 for i in range(100_000)}
    warnings = resolve(llama(rope_scaling={"type": "linear", "factor": 2.0, **many})).warnings

    assert len(warnings) == 21
    assert warnings[-1].detail == "linear does not use 99980 more keys"


def test_the_context_length_is_the_original_length_unless_given() -> None:
    entry = entry_of(llama(rope_scaling={"type": "dynamic", "factor": 2.0}))

    assert entry.at(None)["context_length"].value == 8192
    assert entry.at(20000)["context_length"].value == 20000
    assert entry.at(20000)["context_length"].origin == "?context_length"
    assert "context_length" not in entry_of(llama()).at(20000)


def test_a_missing_maximal_length_is_computed_or_assumed() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    bare = {"head_dim": 64, "rope_theta": 1e4}

    assert value_of({**bare, "rope_scaling": yarn}, "max_position_embeddings") == 8192
    assert value_of(bare, "max_position_embeddings") == 4096
    assert origin_of(bare, "max_position_embeddings") == "assumed"
    assert "max-length-assumed" in codes_of(bare)


def test_layers_without_a_rule_are_a_warning() -> None:
    listed = llama(layer_types=["a", "b", "a"], rope_parameters={"a": {"rope_theta": 5.0}})
    misspelled = {
        "model_type": "gemma3_text",
        "layer_types": ["full_attention", "sliding_atention"],
    }

    assert "layers-without-rule" in codes_of(listed)
    assert "layers-without-rule" in codes_of(misspelled)
    assert any("mean sliding_attention" in w.detail for w in resolve(misspelled).warnings)
    assert "layers-without-rule" not in codes_of({"model_type": "gemma3_text"})


def test_the_warning_of_an_unknown_layer_type_suggests_the_nearest() -> None:
    nested = {"full_atention": {"rope_theta": 5.0}, "sliding_attention": {"rope_theta": 5.0}}
    warnings = resolve({"model_type": "gemma3_text", "rope_parameters": nested}).warnings

    assert any("did you mean full_attention?" in warning.detail for warning in warnings)


def test_the_warning_of_nope_layers_names_types_where_layers_are_unknown() -> None:
    nested = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}
    warnings = resolve(llama(rope_parameters=nested)).warnings

    assert "layers of type full_attention have no rotary" in " ".join(w.detail for w in warnings)


def test_a_context_length_without_use_is_a_warning() -> None:
    dynamic = llama(rope_scaling={"type": "dynamic", "factor": 2.0})

    codes = [warning.code for warning in resolve(llama(), 20000).warnings]
    assert codes == ["context-length-unused"]
    assert "context-length-unused" not in [w.code for w in resolve(dynamic, 20000).warnings]


def test_a_long_label_has_no_suggestion() -> None:
    short, long = "full_atention", "full_atention" + "_" * 40
    known = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}
    for label, has_hint in ((short, True), (long, False)):
        blocks = {"model_type": "gemma3_text", "rope_parameters": {**known, label: {}}}
        details = [w.detail for w in resolve(blocks).warnings if w.code == "layers-unknown"]
        assert any("did you mean" in detail for detail in details) == has_hint
