"""Frequency rules in the spellings of other programs, as keys at the top of their configs.

Mistral's params.json, OpenAI's gpt-oss, litgpt, Meta's params.json.
"""

from service.configs.lookup import Found, Log, Values, read_object, read_values
from service.configs.spellings import LLAMA4_OF_MISTRAL, RULE, YARN_OF_MISTRAL
from service.configs.text import TextModel


def foreign_block(model: TextModel, log: Log) -> Values | None:
    """Find the parameters of a rule in another program's spelling, if a config has them."""
    for read in (_mistral, _litgpt_llama3, _litgpt_linear, _gpt_oss, _meta):
        found = read(model, log)
        if found is not None:
            return found
    return None


def _mistral(model: TextModel, log: Log) -> Values | None:
    """Read ``yarn``: beta and alpha are β_fast and β_slow, without apply_scale the factor is 1."""
    place = read_object(model.place, "yarn", log)
    if place is None:
        return None
    tuned = read_object(model.place, "llama_4_scaling", log)
    beside = read_values(tuned, LLAMA4_OF_MISTRAL, {}, log) if tuned else {}
    values = {**beside, **read_values(place, YARN_OF_MISTRAL, {}, log)}
    scale = values.pop("apply_scale", None)
    if scale is not None and not scale.value:
        values["attention_factor"] = scale.computed(1.0, f"{scale.pointer} is false")
    return {"rope_type": _implied("yarn", place.pointer), **values}


def _litgpt_llama3(model: TextModel, log: Log) -> Values | None:
    place = read_object(model.place, "rope_adjustments", log)
    if place is None:
        return None
    values = read_values(place, RULE, {}, log)
    return {"rope_type": _implied("llama3", place.pointer), **values}


def _litgpt_linear(model: TextModel, _: Log) -> Values | None:
    ratio = model.given("rope_condense_ratio")
    if ratio is None or ratio.value == 1:
        return None
    return {"rope_type": _implied("linear", ratio.pointer), "factor": _alias(ratio)}


def _gpt_oss(model: TextModel, _: Log) -> Values | None:
    """Read gpt-oss's own keys: its range of YaRN is not rounded."""
    length, factor = model.given("initial_context_length"), model.given("rope_scaling_factor")
    fast, slow = model.given("rope_ntk_beta"), model.given("rope_ntk_alpha")
    if length is None or factor is None or fast is None or slow is None or factor.value <= 1:
        return None
    return {
        "rope_type": _implied("yarn", factor.pointer),
        "factor": _alias(factor),
        "original_max_position_embeddings": _alias(length),
        "beta_fast": _alias(fast),
        "beta_slow": _alias(slow),
        "truncate": factor.computed(False, "gpt-oss does not round the range"),
    }


def _meta(model: TextModel, log: Log) -> Values | None:
    """Read ``use_scaled_rope``, whose numbers are in Meta's code; a config may name two."""
    scaled = model.given("use_scaled_rope")
    if scaled is None or not scaled.value:
        return None
    detail = "use_scaled_rope: low_freq_factor 1, an original length of 8192"
    assumed = {"low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
    values = {"rope_type": _implied("llama3", scaled.pointer)}
    given = {"factor": "rope_scaling_factor", "high_freq_factor": "rope_high_freq_factor"}
    for name, number in {"factor": 8.0, "high_freq_factor": 4.0}.items():
        found = model.given(given[name])
        if found is None:
            assumed[name] = number
            detail += f", {name} {number:g}"
        else:
            values[name] = _alias(found)
    log.caution("scaled-rope-assumed", f"{detail} were taken, those of Llama 3.1", scaled.pointer)
    values |= {name: Found(number, "assumed", scaled.pointer) for name, number in assumed.items()}
    return values


def _implied(rope_type: str, pointer: str) -> Found:
    return Found(rope_type, f"computed: implied by {pointer}", pointer)


def _alias(found: Found) -> Found:
    return Found(found.value, f"alias {found.pointer}", found.pointer)
