"""The settings of engines for the rotary embedding of a model, and what they cannot express.

``engines.toml`` has their keys, defaults and limits; of GGUF, ``formats.toml`` has the
architectures. An engine of which nothing is certain for a model is left out.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from math import isclose
from typing import Any

from service.encodings.rotary.rules import RULE_KEYS, rule_of, yarn_mscale
from service.models.describe import PartEncoding
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.models.translation import format_tables

_SHARE, _ORIGINAL = "partial_rotary_factor", "original_max_position_embeddings"
_MSCALES, _CONFIGS = ("mscale", "mscale_all_dim"), ("transformers", "mlx")
_TEXTS = ("", "/text_config")
_FULL, _SLIDING = "full_attention", "sliding_attention"
_ATTENTION, _BASE = "rope.scaling.attn_factor", "rope.freq_base"
_FLAGS = {
    "rope.scaling.type": "--rope-scaling",
    "rope.scaling.factor": "--rope-scale",
    "rope.scaling.original_context_length": "--yarn-orig-ctx",
    _BASE: "--rope-freq-base",
}
_BETAS = {
    "beta_fast": ("--yarn-beta-fast", 32),
    "beta_slow": ("--yarn-beta-slow", 1),
}
_TENSORS = {
    "llama3": ("rope_freqs.weight",),
    "longrope": ("rope_factors_long.weight", "rope_factors_short.weight"),
}


@cache
def _tables() -> Mapping[str, Any]:
    text = files("service.models").joinpath("engines.toml").read_text("utf-8")
    return tomllib.loads(text)


def main_text_model(encodings: Iterable[PartEncoding]) -> Resolved | None:
    """Return the rotary settings of the text model of a model, if they are known."""
    own = (each for each in encodings if each.config in _TEXTS)
    texts = (each.resolved for each in own if each.is_sent or not each.config)
    resolved = next(filter(None, texts), None)
    if resolved is None or not resolved.entries or not resolved.model.is_known:
        return None
    kind = resolved.model.type
    is_odd = bool(kind.inverse or kind.last_channels or kind.not_in_config)
    for entry in resolved.entries:
        unread = entry.block.values.keys() - entry.values.keys()
        is_odd = is_odd or "mrope_layout" in entry.values or "mrope_section" in unread
    return None if is_odd else resolved


def engine_settings(resolved: Resolved, form: str) -> dict[str, dict[str, Any]]:
    """Return what each engine must be told of a text model, by the name of the engine.

    Args:
        resolved: its settings.
        form: the format of the document that they are from.
    """
    engines = {}
    for name, tell in _ENGINES.items():
        told = _Rotary(name, resolved, form)
        fields = tell(told)
        if fields is not None:
            cannot = {"cannot": told.cannot} if told.cannot else {}
            source = told.table["source"].format(type=resolved.model_type)
            engines[name] = {**fields, **cannot, "source": source}
    return engines


class _Rotary:
    """The rotary embedding of a text model, as one engine is told of it.

    Attributes:
        main: the settings of the layers with full attention.
        values: theirs; ``scale`` is the attention factor.
        cannot: what the engine cannot express.
    """

    def __init__(self, engine: str, resolved: Resolved, form: str) -> None:
        self.table, self.resolved, self.form = _tables()[engine], resolved, form
        self.by_label = {entry.label: entry for entry in resolved.entries}
        self.main = self.by_label.get(_FULL, resolved.entries[0])
        self.values = _plain(self.main)
        self.rule: str = self.values["rope_type"]
        self.theta: float = self.values["rope_theta"]
        self.share = self.values["rotary_dim"] / self.values["head_dim"]
        self.cannot: list[str] = []

    @property
    def scale(self) -> float:
        keys = {name: self.values[name] for name in (_SHARE, *RULE_KEYS) if name in self.values}
        rule = rule_of(self.rule, keys)
        known = {name: own for name, own in keys.items() if name in {_SHARE, *rule.key_types()}}
        return rule.from_keys(self.values["rotary_dim"], self.theta, known).scale

    def has(self, *names: str) -> dict[str, Any]:
        """Return the values that there are, lists as JSON has them."""
        return {name: _listed(self.values[name]) for name in names if name in self.values}

    def refuse(self, code: str, **names: Any) -> None:
        """Add a part of the settings that the engine cannot express."""
        self.cannot.append(self.table["cannot"][code].format(**names))

    def count(self, name: str) -> Any:
        value = self.resolved.model.value(name, warns=False)
        return None if value is None else value.value

    @property
    def is_usual_width(self) -> bool:
        """True if a head has its share of the hidden size."""
        hidden, heads = self.count("hidden_size"), self.count("num_attention_heads")
        return bool(hidden and heads) and hidden // heads == self.values["head_dim"]

    def has_windows(self, every: int, dense: int) -> bool:
        """Return whether all layers have a window but one of each period."""
        layers, count = self.by_label[_SLIDING].layers, self.count("num_hidden_layers")
        expected = (layer for layer in range(count or 0) if layer % every != dense)
        return layers is not None and layers == tuple(expected)


def _listed(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else value


def _plain(entry: LayerSettings) -> dict[str, Any]:
    return {name: value.value for name, value in entry.at(None).items()}


def _llama_cpp(told: _Rotary) -> dict[str, Any] | None:
    arch = _architecture(told)
    if arch is None:
        return None
    kind, values, keys = _kind(arch), told.values, dict[str, Any]()
    if told.theta != 10000:
        keys[_BASE] = told.theta
    if told.share != 1:
        keys["rope.dimension_count"] = values["rotary_dim"]
        if arch in told.table["whole_head"]:
            told.refuse("partial", arch=arch)
    if not told.is_usual_width:
        keys["attention.key_length"] = values["head_dim"]
    sections = values.get("mrope_section")
    if sections and kind == ("imrope" if values.get("mrope_interleaved") else "mrope"):
        keys["rope.dimension_sections"] = [*sections, 0]
    elif sections:
        told.refuse("sections", arch=arch)
    tensors = _put_rule(told, keys, arch)
    _put_layers(told, keys, arch)
    fields = {
        "keys": {f"{arch}.{name}": value for name, value in keys.items()},
        "flags": " ".join(_flags(told, keys)),
        "tensors": [{"name": name, "shape": [values["rotary_dim"] // 2]} for name in tensors],
        "rope_type": kind,
        "weights": told.table["permuted"] if _is_in("permuted", arch) else "",
    }
    return {"architecture": arch, **{name: each for name, each in fields.items() if each}}


def _architecture(told: _Rotary) -> str | None:
    """Return the architecture of the model's file; None if it is not certain."""
    model, types = told.resolved.model, told.table["types"]
    own = types.get(model.model_type)
    sent: Any = model.outer[0].content if model.outer else model.place.content
    classes = sent.get("architectures") or []
    if own is None or told.form not in _CONFIGS:
        return None
    if classes not in ([name] for name in own["classes"]) and (classes or own.get("named")):
        return None
    arch: str = own["arch"]
    is_half = _kind(arch) != "norm" or _is_in("permuted", arch)
    has_axes = _kind(arch) not in {"mrope", "imrope"} or "mrope_section" in told.values
    return arch if has_axes and is_half == (told.resolved.layout == "half") else None


def _is_in(table: str, arch: str) -> bool:
    return arch in format_tables()["gguf"][table].split()


def _kind(arch: str) -> str:
    """Return which pairs llama.cpp turns."""
    return next(kind for kind in ("norm", "neox", "mrope", "imrope") if _is_in(kind, arch))


def _flags(told: _Rotary, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments that say the same as keys; there are none for lists of factors."""
    flags = {flag: keys[name] for name, flag in _FLAGS.items() if name in keys}
    if told.rule == "longrope":
        flags = {"--rope-freq-base": keys[_BASE]} if _BASE in keys else {}
    elif told.rule == "linear":
        flags = {"--rope-scaling": "linear", **flags}
    elif told.rule == "yarn":
        given = ((flag, told.values.get(name), usual) for name, (flag, usual) in _BETAS.items())
        flags |= {flag: own for flag, own, usual in given if own not in {None, usual}}
    for flag, value in flags.items():
        is_whole = isinstance(value, float) and value.is_integer()
        yield f"{flag} {int(value) if is_whole else value}"


def _put_rule(told: _Rotary, keys: dict[str, Any], arch: str) -> tuple[str, ...]:
    """Add the keys of the frequency rule; return the tensors that divide frequencies."""
    values, rule = told.values, told.rule
    tensors: tuple[str, ...] = _TENSORS.get(rule, ())
    if rule in {"linear", "yarn"}:
        keys["rope.scaling.factor"] = values["factor"]
    if rule in {"longrope", "yarn"}:
        keys["rope.scaling.type"] = rule
        keys["rope.scaling.original_context_length"] = values[_ORIGINAL]
    if rule == "yarn":
        _put_yarn(told, keys, arch)
    elif rule == "longrope":
        keys[_ATTENTION] = told.scale
        told.refuse("longrope")
        if told.main.mscales:
            told.refuse("mscales")
    elif rule not in {"default", "linear", "llama3"}:
        told.refuse("dynamic" if rule == "dynamic" else "rule", rule=rule)
    table = "may_divide" if rule == "llama3" else "two_lists"
    if tensors and not _is_in(table, arch):
        told.refuse("tensor", arch=arch, tensor=" or ".join(tensors))
    return tensors


def _put_yarn(told: _Rotary, keys: dict[str, Any], arch: str) -> None:
    attention = told.scale / float(yarn_mscale(Decimal(told.values["factor"])))
    if not isclose(attention, 1):
        keys[_ATTENTION] = attention
        told.refuse("flag")
    if not told.values.get("truncate", True):
        told.refuse("truncate")
    for name, (flag, usual) in _BETAS.items():
        if told.values.get(name, usual) != usual and not _is_in("reads_betas", arch):
            told.refuse("betas", arch=arch, name=name, flag=flag)


def _put_layers(told: _Rotary, keys: dict[str, Any], arch: str) -> None:
    """Add the keys of layers that differ, or say that they cannot be told apart so."""
    spec: Any = format_tables()["gguf"]["layers"].get(arch, {"every": 1, "turns": ""})
    every, count = spec["every"], told.count("num_hidden_layers") or 0
    dense = 0 if spec.get("dense_first") else every - 1
    is_always = spec.get("always") or count == spec.get("layers", 0)
    is_without = is_always and spec["turns"] in {"sliding", "not_every"}
    expected = {layer for layer in range(count) if layer % every == dense}
    if told.resolved.without != (expected if is_without else set()):
        told.refuse("without", arch=arch)
    if len(told.by_label) == 1:
        return
    if told.by_label.keys() != {_FULL, _SLIDING} or spec["turns"] != "all":
        told.refuse("by_type", arch=arch)
        return
    if not told.has_windows(every, dense):
        told.refuse("window_layers", arch=arch)
    sliding = _plain(told.by_label[_SLIDING])
    if sliding["rope_theta"] != spec.get("base", told.theta):
        keys["rope.freq_base_swa"] = sliding["rope_theta"]
    if sliding["rope_type"] != (told.rule if spec["scaled"] else "default"):
        told.refuse("window_rule", arch=arch)
    window = told.resolved.model.raw("sliding_window")
    if isinstance(window, int):
        keys["attention.sliding_window"] = window


def _vllm(told: _Rotary) -> dict[str, Any] | None:
    if told.form != "transformers" or told.resolved.model_type not in told.table["types"]:
        return None
    entries, table = told.resolved.entries, told.table
    is_flat = len(entries) == 1 and not entries[0].block.is_nested
    if not is_flat and not all(entry.block.is_nested for entry in entries):
        return {"hf_overrides": {}}
    blocks, is_other = {}, False
    for entry in entries:
        sent, names = entry.block.place.content, entry.values.keys() & _VLLM_KEYS
        block = {name: _listed(entry.values[name].value) for name in sorted(names)}
        if block["rope_type"] != "proportional" and told.share != 1:
            block[_SHARE] = told.share
        blocks[entry.label] = block
        needs = () if entry.block.is_default else table["needs"].get(entry.rope_type, ())
        is_other |= any(sent.get(name) is None for name in needs)
        aliases = (own for own in entry.values.values() if own.is_alias)
        is_other |= any(own.pointer.rpartition("/")[2] not in table["keys"] for own in aliases)
        kind = sent.get("rope_type") or sent.get("type") or entry.rope_type
        is_other |= kind not in {entry.rope_type, *table["kinds"]}
        if entry.rope_type in table["cannot"]:
            told.refuse(entry.rope_type)
    overrides: dict[str, Any] = {}
    if is_other:
        overrides = {"rope_parameters": blocks[entries[0].label] if is_flat else blocks}
        for name in reversed(told.resolved.model.place.pointer.split("/")[1:]):
            overrides = {name: overrides}
    return {"hf_overrides": overrides}


def _onnx(told: _Rotary) -> dict[str, Any]:
    values, resolved = told.values, told.resolved
    for entry in resolved.entries:
        if entry.rope_type not in told.table["builder"]:
            told.refuse("builder", rule=entry.rope_type)
        if entry.rope_type == "yarn" and _plain(entry).get("truncate", True):
            told.refuse("truncate")
        if entry.lengths:
            told.refuse("regimes")
    if "mrope_section" in values:
        told.refuse("sections")
    if resolved.writes:
        told.refuse("writes", layout=resolved.layout, writes=resolved.writes)
    fields = {
        "interleaved": int(resolved.layout == "interleaved"),
        "rotary_embedding_dim": 0 if told.share == 1 else values["rotary_dim"],
    }
    heads = told.count("num_attention_heads")
    return {**fields, "num_heads": heads} if heads else fields


def _mlx(told: _Rotary) -> dict[str, Any] | None:
    own = told.table["types"].get(told.resolved.model_type)
    is_by_type = len(told.by_label) > 1
    if own is None or told.resolved.without or is_by_type != ("local" in own):
        return None
    if told.form not in _CONFIGS:
        return None
    keys: dict[str, Any] = {}
    is_interleaved = told.resolved.layout == "interleaved"
    if is_interleaved != own.get("traditional", is_interleaved):
        keys["rope_traditional"] = is_interleaved
    if told.theta != own.get("theta"):
        keys[own.get("theta_key", "rope_theta")] = told.theta
    if "partial_key" not in own and told.share != 1:
        told.refuse("partial")
    elif "partial_key" in own and told.share != own.get("partial"):
        keys[own["partial_key"]] = told.share
    if is_by_type:
        sliding = _plain(told.by_label[_SLIDING])
        if sliding["rope_theta"] != own["local"]:
            keys["rope_local_base_freq"] = sliding["rope_theta"]
        if not told.has_windows(6, 5) or sliding["rope_type"] != "default":
            told.refuse("window_layers")
    return {"keys": keys | _rule_of_mlx(told, own)}


def _rule_of_mlx(told: _Rotary, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the frequency rule, and say what its class leaves out."""
    values, rule, known = told.values, told.rule, own.get("rules", [])
    if "mrope_section" in values:
        told.refuse("sections")
    if rule == "default":
        return {}
    if rule not in (told.table["rules"] if known is True else known):
        told.refuse("rule", rule=rule)
        return {}
    for code, is_so in {
        "longrope": rule == "longrope",
        "alpha": "alpha" in values,
        "truncate": not values.get("truncate", True),
        "attention": "attention_factor" in values,
    }.items():
        if is_so:
            told.refuse(code)
    block = {own.get("kind_key", "rope_type"): rule, **told.has(*_MLX_KEYS.get(rule, _LLAMA3))}
    if all(values.get(name) for name in _MSCALES):
        block |= told.has(*_MSCALES)
    top = {name: block.pop(name) for name in own.get("at_top", ()) if name in block}
    return {**top, "rope_scaling": block}


def _tensorrt_llm(told: _Rotary) -> dict[str, Any] | None:
    values, resolved = told.values, told.resolved
    if resolved.model_type not in told.table["types"] or len(resolved.entries) > 1:
        return None
    kind = "rope_gptj" if resolved.layout == "interleaved" else "rope_gpt_neox"
    config: dict[str, Any] = {"position_embedding_type": kind}
    if told.theta != 10000:
        config["rotary_base"] = told.theta
    if not told.is_usual_width:
        config["head_size"] = values["head_dim"]
    if told.share != 1:
        told.refuse("partial")
    if values.get("mrope_interleaved"):
        told.refuse("sections")
    if told.rule not in told.table["rules"]:
        told.refuse("rule", rule=told.rule)
        return {"config": config}
    return {"config": config | _rule_of_tensorrt_llm(told)}


def _rule_of_tensorrt_llm(told: _Rotary) -> dict[str, Any]:
    values, rule = told.values, told.rule
    if "mrope_section" in values:
        scaling = {"type": "mrope", **told.has("mrope_section")}
        return {"position_embedding_type": "mrope", "rotary_scaling": scaling}
    if rule == "longrope":
        lists: dict[str, Any] = {
            f"longrope_scaling_{name}_factors": _listed(values[f"{name}_factor"])
            for name in ("short", "long")
        }
        if "attention_factor" in values:
            given = [each.value for each in told.main.mscales] or 2 * [values["attention_factor"]]
            lists |= zip(("longrope_short_mscale", "longrope_long_mscale"), given, strict=True)
        return {"position_embedding_type": "long_rope", **told.has(_ORIGINAL), **lists}
    if "alpha" in values:
        told.refuse("alpha")
    return {} if rule == "default" else {"rotary_scaling": {"type": rule, **told.has(*_LLAMA3)}}


_VLLM_KEYS = {"rope_type", "rope_theta", "mrope_section", "mrope_interleaved", *RULE_KEYS} - {
    "max_position_embeddings"
}
_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL)
_MLX_KEYS = {
    "yarn": ("factor", _ORIGINAL, "beta_fast", "beta_slow"),
    "longrope": (_ORIGINAL, "short_factor", "long_factor"),
    "proportional": (_SHARE, "factor"),
}
_ENGINES: Mapping[str, Callable[[_Rotary], dict[str, Any] | None]] = {
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
    "onnx": _onnx,
    "mlx": _mlx,
    "tensorrt-llm": _tensorrt_llm,
}
