"""The schema of what is said about a model."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from service.configs.model_types import model_types
from service.configs.warnings import MEANINGS
from service.errors import InvalidBody
from service.routes.rope_config import CONFIG
from service.routes.rope_config_schema import ROPE_CONFIG

MODELS = json.loads((Path(__file__).parents[1] / "data/rope_models.json").read_text())["models"]
BARE = [{"model_type": name, "hidden_size": 64, "num_attention_heads": 1} for name in model_types()]


def said_of(config: dict[str, Any], **query: Any) -> Any:
    return json.loads(json.dumps(CONFIG.report(CONFIG.parameters(**query), config)))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_what_is_said_of_published_models_keeps_to_the_schema(model: dict[str, Any]) -> None:
    jsonschema.validate(said_of(model["hf_config"]), ROPE_CONFIG)
    jsonschema.validate(said_of(model["hf_config"], context_length=200_000), ROPE_CONFIG)


def test_what_is_said_of_every_type_keeps_to_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(ROPE_CONFIG)
    for config in BARE:
        try:
            said = said_of(config)
        except InvalidBody:
            continue
        validator.validate(said)


def test_the_schema_can_be_broken() -> None:
    said = said_of(dict(CONFIG.example))

    for broken in ({**said, "layout": "halved"}, {**said, "rope": {"default": {}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, ROPE_CONFIG)


def test_codes_of_warnings_are_an_enumeration_with_their_meanings() -> None:
    code = ROPE_CONFIG["properties"]["warnings"]["items"]["properties"]["code"]

    assert code["enum"] == list(MEANINGS)
    assert all(meaning in code["description"] for meaning in MEANINGS.values())
