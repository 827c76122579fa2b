"""Configs of Llama, and the values, origins and warnings that a config resolves to."""

from collections.abc import Mapping
from typing import Any

from service.models.config_values import KeyPlace, ReadingReport
from service.models.resolve import Resolved, resolve_at
from service.models.rotary_settings import LayerSettings

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 8192,
    "rope_theta": 10000.0,
}


def resolve(config: Mapping[str, Any], context_length: int | None = None) -> Resolved:
    """Return the rotary settings of a config; raises InvalidBody."""
    return resolve_at(KeyPlace(config, "", ReadingReport()), context_length)


def llama(**keys: Any) -> dict[str, Any]:
    return {**LLAMA, **keys}


def scaled(**scaling: Any) -> dict[str, Any]:
    return llama(rope_scaling=scaling)


def entry_of(config: dict[str, Any], label: str = "default") -> LayerSettings:
    return next(entry for entry in resolve(config).entries if entry.label == label)


def value_of(config: dict[str, Any], name: str, label: str = "default") -> Any:
    return entry_of(config, label).at(None)[name].value


def origin_of(config: dict[str, Any], name: str, label: str = "default") -> str:
    return str(entry_of(config, label).at(None)[name])


def codes_of(config: dict[str, Any]) -> list[str]:
    return [warning.code for warning in resolve(config).warnings]
