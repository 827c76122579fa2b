"""Parameters of frequency rules, flat or by layer type."""

import pytest

from service.configs.resolve import resolve
from service.errors import InvalidBody
from tests.configs.settings import codes_of, llama, origin_of, value_of

LINEAR = {"rope_type": "linear", "factor": 8.0}


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
def test_either_name_is_read(name: str) -> None:
    config = llama(**{name: LINEAR})

    assert value_of(config, "factor") == 8.0
    assert origin_of(config, "factor") == f"/{name}/factor"


def test_rope_scaling_replaces_rope_parameters_unless_it_is_empty() -> None:
    other = {"rope_type": "linear", "factor": 2.0}

    assert value_of(llama(rope_scaling=LINEAR, rope_parameters=other), "factor") == 8.0
    assert value_of(llama(rope_scaling={}, rope_parameters=other), "factor") == 2.0
    assert codes_of(llama(rope_scaling=LINEAR, rope_parameters=LINEAR)) == []


def test_flat_scaling_spares_the_layer_types_it_is_not_for() -> None:
    config = {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_scaling": LINEAR}

    assert value_of(config, "rope_type", "full_attention") == "linear"
    assert value_of(config, "rope_type", "sliding_attention") == "default"
    assert value_of(config, "rope_theta", "sliding_attention") == 10000.0


def test_parameters_by_layer_type_are_completed_by_the_class() -> None:
    nested = {"full_attention": {**LINEAR, "rope_theta": 5e5}}
    config = {"model_type": "gemma3_text", "rope_parameters": nested}

    assert value_of(config, "rope_theta", "full_attention") == 5e5
    assert value_of(config, "rope_theta", "sliding_attention") == 10000.0


def test_a_null_layer_type_has_no_rotary_embedding() -> None:
    types = ["full_attention", "sliding_attention"] * 2
    nested = {"full_attention": None, "sliding_attention": LINEAR}
    resolved = resolve(llama(layer_types=types, rope_parameters=nested))

    assert [(entry.label, entry.layers) for entry in resolved.entries] == [
        ("sliding_attention", (1, 3))
    ]
    assert "nope-layers" in [warning.code for warning in resolved.warnings]


def test_a_class_s_own_rule_holds_where_there_is_none_and_is_a_warning() -> None:
    config = {"model_type": "apertus", "rope_theta": 5e6}

    assert value_of(config, "rope_type") == "llama3"
    assert value_of(config, "rope_theta") == 5e6
    assert "class-default-used" in codes_of(config)
    assert value_of({**config, "rope_scaling": LINEAR}, "rope_type") == "linear"


@pytest.mark.parametrize("sent", ["dynamic", 5, [8.0], True])
def test_a_block_must_be_an_object(sent: object) -> None:
    with pytest.raises(InvalidBody) as raised:
        resolve(llama(rope_scaling=sent))
    assert raised.value.faults[0].where == "/rope_scaling"


def test_layer_types_are_bounded() -> None:
    with pytest.raises(InvalidBody, match="at most 64 layer types"):
        resolve(llama(rope_parameters={f"type {i}": LINEAR for i in range(65)}))


def test_an_object_under_the_name_of_a_parameter_is_a_fault_not_a_layer_type() -> None:
    for block in ({**LINEAR, "factor": {}}, {"factor": {"a": 1}}, {**LINEAR, "rope_theta": {}}):
        with pytest.raises(InvalidBody) as raised:
            resolve({"model_type": "apertus", "rope_parameters": block})
        assert raised.value.faults[0].where is not None
        assert raised.value.faults[0].where.startswith("/rope_parameters/")


def test_a_rope_type_that_is_said_outright_holds_beside_any_object() -> None:
    config = llama(rope_scaling={**LINEAR, "x": {"a": 1}})
    null = {"model_type": "gemma3_text", "rope_scaling": {**LINEAR, "full_attention": None}}

    assert value_of(config, "factor") == 8.0
    assert "unknown-rope-key" in codes_of(config)
    assert value_of(null, "factor", "full_attention") == 8.0


def test_a_value_beside_parameters_by_layer_type_is_a_warning() -> None:
    nested = {"full_attention": {**LINEAR}, "sliding_attention": {}, "rope_theta": 5.0}
    config = {"model_type": "gemma3_text", "rope_parameters": nested}

    assert value_of(config, "rope_theta", "full_attention") == 1e6
    assert "unknown-rope-key" in codes_of(config)


def nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


def test_objects_too_deep_to_compare_differ() -> None:
    linear = {"type": "linear", "factor": 2}
    config = llama(
        rope_scaling={**linear, "x": nested(100_000)},
        rope_parameters={**linear, "x": nested(100_000)},
    )

    assert "rope-scaling-and-rope-parameters-both" in codes_of(config)
