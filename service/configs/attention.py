"""What attention multiplies beside the table: the softmax, and queries by their position."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from service.configs.layers import Layers
from service.configs.lookup import Found
from service.configs.rule import Rule
from service.configs.text import TextModel
from service.tables.angle import exact_context
from service.tables.scaling import yarn_mscale

_LLAMA4 = "1 + attn_scale·ln(1 + floor((position + 1)/floor_scale))"
_MINISTRAL3 = "1 + llama_4_scaling_beta·ln(1 + floor(position/original_max_position_embeddings))"


def attention_of(model: TextModel, rules: Sequence[Rule], layers: Layers) -> dict[str, Any]:
    """Give softmax_scale_multiplier and query_temperature, with their origins, where there are any.

    The first multiplies 1/√d of the softmax: (0.1·mscale_all_dim·ln factor + 1)², transformers
    5.23.0 ``DeepseekV3Attention``. The second multiplies queries: ``Llama4TextAttention``,
    ``Ministral3Attention``.
    """
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for rule in rules:
        _add_softmax(model, rule, found, origin)
        _add_ministral3(model, rule, found, origin)
    if model.type.attention.query_temperature == "llama4":
        _add_llama4(model, layers, found, origin)
    return {**found, "origin": origin} if found else {}


def _add_softmax(
    model: TextModel, rule: Rule, found: dict[str, Any], origin: dict[str, str]
) -> None:
    factor, all_dim = rule.parameters.get("factor"), rule.block.values.get("mscale_all_dim")
    is_scaled = rule.parameters["rope_type"].value != "default"
    if not is_scaled or not all_dim or not all_dim.value or not factor:
        return
    if not model.is_known:
        detail = "classes such as DeepSeek's multiply the softmax scale where mscale_all_dim is set"
        rule.caution("softmax-scale-unknown", detail, "mscale_all_dim")
    if not model.type.attention.softmax_mscale:
        return
    mscale = yarn_mscale(Decimal(factor.value), Decimal(all_dim.value))
    found["softmax_scale_multiplier"] = float(exact_context().multiply(mscale, mscale))
    formula = f"(0.1 · {all_dim.origin} · ln {factor.origin} + 1)^2"
    origin["softmax_scale_multiplier"] = f"computed: {formula}"


def _add_ministral3(
    model: TextModel, rule: Rule, found: dict[str, Any], origin: dict[str, str]
) -> None:
    beta = rule.block.values.get("llama_4_scaling_beta")
    original = rule.parameters.get("original_max_position_embeddings")
    if not beta or not original or not beta.value:
        return
    values = {"llama_4_scaling_beta": beta, "original_max_position_embeddings": original}
    _add_temperature(_MINISTRAL3, values, found, origin)
    if model.type.attention.query_temperature != "ministral3":
        origin["query_temperature"] = f"computed: implied by {beta.pointer}"


def _add_llama4(
    model: TextModel, layers: Layers, found: dict[str, Any], origin: dict[str, str]
) -> None:
    tuned = model.value("attn_temperature_tuning")
    scale, floor_scale = model.value("attn_scale"), model.value("floor_scale")
    if not tuned or not tuned.value or not scale or not floor_scale:
        return
    values = {"attn_scale": scale, "floor_scale": floor_scale}
    _add_temperature(_LLAMA4, values, found, origin)
    found["query_temperature"]["layers"] = sorted(layers.without)


def _add_temperature(
    formula: str, values: dict[str, Found], found: dict[str, Any], origin: dict[str, str]
) -> None:
    numbers = {name: value.value for name, value in values.items()}
    found["query_temperature"] = {"formula": formula, **numbers}
    origin |= {name: value.origin for name, value in values.items()}
