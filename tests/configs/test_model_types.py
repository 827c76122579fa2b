"""The data file of model types."""

import pytest

from service.configs.model_types import LayerPattern, _model_type, model_types
from service.configs.resolve import resolve
from service.errors import InvalidBody

TYPES = model_types()


def test_every_type_names_its_source_and_a_layout() -> None:
    for kind in TYPES.values():
        assert kind.source
        assert kind.layout in {"half", "interleaved", "none"}
        assert kind.partial in {"used", "ignored"}
        assert kind.layout != "none" or kind.no_rope is True


def test_types_stand_in_alphabetical_order() -> None:
    assert list(TYPES) == sorted(TYPES)


def test_text_models_of_other_types_are_types() -> None:
    for kind in TYPES.values():
        assert kind.text_model_type is None or kind.text_model_type in TYPES


@pytest.mark.parametrize("name", TYPES)
def test_a_config_of_nothing_but_a_type_never_fails(name: str) -> None:
    try:
        resolved = resolve({"model_type": name})
    except InvalidBody as error:
        assert error.faults  # noqa: PT017
    else:
        assert resolved.layout == "none" or resolved.entries


def test_an_unknown_fact_is_refused() -> None:
    with pytest.raises(ValueError, match="layuot"):
        _model_type("x", {"source": "s", "layuot": "half"})


def test_a_pattern_counts_layers_from_either_end() -> None:
    pattern = LayerPattern(every=3, at="full", otherwise="sliding", also=(0, -1))

    assert pattern.of(5, 3) == ("full", "sliding", "full", "sliding", "full")
