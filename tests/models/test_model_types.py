"""The data file of model types, and the text model of a config."""

import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from service.errors import InvalidBody
from service.models.model_types import LayerPattern, ModelType, model_types
from tests.models.settings import LLAMA, codes_of, origin_of, resolve, value_of

TYPES = model_types()


def test_every_type_has_a_source_and_its_layout_equals_that_of_its_text_model() -> None:
    assert list(TYPES) == sorted(TYPES)
    for kind in TYPES.values():
        assert re.match(r"(transformers|vLLM) [0-9]+\.[0-9]+\.[0-9]+: \S", kind.source), kind.name
        assert kind.layout in {"half", "interleaved", "none"}
        assert kind.partial in {"used", "ignored"}
        assert kind.layout != "none" or kind.no_rope is True
        text = TYPES[kind.text_model_type or kind.name]
        assert (kind.layout, kind.partial) == (text.layout, text.partial), kind.name


@pytest.mark.parametrize("name", TYPES)
def test_config_of_only_a_model_type_resolves_or_has_faults(name: str) -> None:
    try:
        resolved = resolve({"model_type": name})
    except InvalidBody as error:
        assert error.faults  # noqa: PT017
    else:
        assert resolved.layout == "none" or resolved.entries


def test_unknown_fact_is_refused() -> None:
    with pytest.raises(ValueError, match="layuot"):
        TypeAdapter(ModelType).validate_python({"name": "x", "source": "s", "layuot": "half"})


def test_pattern_counts_layers_from_either_end() -> None:
    pattern = LayerPattern(every=3, at="full", otherwise="sliding", also=(0, -1))

    assert pattern.of(5, 3) == ("full", "sliding", "full", "sliding", "full")


def test_same_as_copies_the_facts_of_a_type() -> None:
    assert TYPES["Yi"].defaults == TYPES["llama"].defaults
    assert TYPES["RefinedWebModel"].rope_if == TYPES["falcon"].rope_if
    assert TYPES["Yi"].name == "Yi"


def plain(name: str, **keys: Any) -> dict[str, Any]:
    """Return a config of a type with the sizes of its heads, and with rotary embeddings."""
    kind = TYPES[name]
    width = {} if "hidden_size" in kind.defaults else {"hidden_size": 64, "num_attention_heads": 2}
    return {"model_type": name, **width, **kind.rope_if, **keys}


@pytest.mark.parametrize(
    ("name", "key"), [(kind.name, key) for kind in TYPES.values() for key in kind.fixed]
)
def test_values_fixed_by_a_class_ignore_the_config(name: str, key: str) -> None:
    values: dict[str, Any] = {
        "rope_theta": 777.0,
        "head_dim": 14,
        "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 777.0},
        "rotary_dim": 2,
        "partial_rotary_factor": 0.125,
    }
    config = plain(name, **{key: values[key]})

    assert "key-not-read" in codes_of(config)
    label = resolve(config).entries[0].label
    assert value_of(config, "rope_theta", label) != 777.0
    for read in ("rope_type", "head_dim", "rotary_dim"):
        assert value_of(config, read, label) == value_of(plain(name), read, label)
    assert "key-not-read" not in codes_of(plain(name, **{key: None}))
    assert "key-not-read" not in codes_of(plain("gptj", rope_theta=10000))


@pytest.mark.parametrize("name", [kind.name for kind in TYPES.values() if kind.not_in_config])
def test_types_whose_angles_need_values_missing_from_configs_have_a_warning(name: str) -> None:
    assert "table-incomplete" in codes_of(plain(name))


@pytest.mark.parametrize(
    ("name", "key"), [(kind.name, key) for kind in TYPES.values() for key in kind.not_read]
)
def test_not_read_keys_are_a_warning_unless_false(name: str, key: str) -> None:
    assert "setting-not-resolved" in codes_of(plain(name, **{key: True}))
    assert "setting-not-resolved" not in codes_of(plain(name, **{key: False}))


@pytest.mark.parametrize("name", [kind.name for kind in TYPES.values() if kind.last_channels])
def test_rotated_last_channels_are_an_offset_and_a_warning(name: str) -> None:
    for entry in resolve(plain(name)).entries:
        assert entry.offset is not None
        width = entry.offset.value + entry.values["rotary_dim"].value
        assert width == entry.values["head_dim"].value
    assert "last-channels-turn" in codes_of(plain(name))


@pytest.mark.parametrize("name", [kind.name for kind in TYPES.values() if kind.null_theta_is_none])
def test_null_base_may_mean_no_rotary_embedding(name: str) -> None:
    null = {"rope_theta": None}

    assert resolve(plain(name)).entries
    assert resolve(plain(name, rope_parameters={"rope_type": "default"})).entries
    assert resolve(plain(name, rope_theta=None, rope_parameters={"rope_theta": 5e5})).entries
    for config in (plain(name, **null), plain(name, rope_parameters={"rope_type": "x", **null})):
        assert resolve(config).entries == ()
        assert codes_of(config) == ["no-rotary-embedding"]


def test_members_of_an_inner_object_are_read_where_a_class_has_them_there() -> None:
    config = plain("dbrx", attn_config={"rope_theta": 500000})

    assert value_of(config, "rope_theta") == 500000.0
    assert value_of({**config, "rope_theta": 7e4}, "rope_theta") == 7e4
    assert "theta-not-everywhere" in codes_of(config)


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
def test_text_model_is_found_in_a_nested_config(config: dict[str, object], pointer: str) -> None:
    label = resolve(config).entries[0].label

    assert origin_of(config, "head_dim", label) == f"{pointer}/head_dim"


def test_text_model_has_its_own_type_or_that_of_the_whole() -> None:
    own = {"model_type": "llava", "text_config": {**LLAMA, "model_type": "mistral"}}
    implied = {"model_type": "gemma3", "text_config": INNER}

    assert resolve({"model_type": "qwen2_5_omni"}).text_model_type == "qwen2_5_omni_text"
    assert resolve(own).text_model_type == "mistral"
    assert resolve(implied).text_model_type == "gemma3_text"
    assert resolve(implied).model_type == "gemma3"


def test_multimodal_config_may_be_flat() -> None:
    flat = {**LLAMA, "model_type": "qwen2_vl", "rope_scaling": {"type": "mrope"}}

    assert resolve(flat).text_model_type == "qwen2_vl_text"
    assert value_of(flat, "mrope_section") == (16, 24, 24)


def test_local_bases_of_an_unknown_type_are_those_of_its_sliding_layers() -> None:
    config = {"head_dim": 64, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
    both = {"head_dim": 64, "global_rope_theta": 160000.0, "local_rope_theta": 1e4}

    for sent, full in ((config, 1e6), (both, 160000.0)):
        assert value_of(sent, "rope_theta", "full_attention") == full
        assert value_of(sent, "rope_theta", "sliding_attention") == 1e4
    assert "model-type-missing" in codes_of(config)
