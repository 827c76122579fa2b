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
_TEXTS = {"", "text_config", "language_config", "llm_config", "thinker_config"}
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
    "proportional": ("rope_freqs.weight",),
    "longrope": ("rope_factors_long.weight", "rope_factors_short.weight"),
}


@cache
def _tables() -> Mapping[str, Any]:
    text = files("service.models").joinpath("engines.toml").read_text("utf-8")
    return tomllib.loads(text)


def rotary_models(encodings: Iterable[PartEncoding]) -> list[Resolved]:
    """Return the parts of a model with known rotary settings, its text model first.

    Without the settings of the text model there are none.
    """
    found: dict[int, Resolved] = {}
    main: list[Resolved] = []
    for each in encodings:
        resolved = each.resolved
        if resolved is None or not (each.is_sent or not each.config) or _is_odd(resolved):
            continue
        found[id(resolved)] = resolved
        if _TEXTS.issuperset(each.config.split("/")):
            main.append(resolved)
    return [*main[:1], *(each for each in found.values() if each is not main[0])] if main else []


def _is_odd(resolved: Resolved) -> bool:
    """Return whether engines cannot be told of settings: they have no words for them."""
    kind = resolved.model.type
    is_odd = bool(kind.inverse or kind.last_channels or kind.not_in_config)
    for entry in resolved.entries:
        unread = entry.block.values.keys() - entry.values.keys()
        is_odd = is_odd or "mrope_layout" in entry.values or "mrope_section" in unread
    return is_odd or not resolved.entries or not resolved.model.is_known


def engine_settings(resolved: Resolved, form: str) -> dict[str, dict[str, Any]]:
    """Return what each engine must be told of a text model, by the name of the engine.

    Args:
        resolved: its settings.
        form: the format of the document that they are from.
    """
    engines: dict[str, dict[str, Any]] = {}
    if any(_plain(entry)["rotary_dim"] % 2 for entry in resolved.entries):
        return engines
    for name, tell in _ENGINES.items():
        told = _Rotary(name, resolved, form)
        fields = tell(told)
        if fields is not None:
            told.refuse_values()
            cannot = {"cannot": [*told.cannot]} if told.cannot else {}
            source = told.table["source"].format(type=resolved.model_type)
            engines[name] = {**fields, **cannot, "source": source}
    return engines


class _Rotary:
    """The rotary embedding of a text model, as one engine is told of it.

    Attributes:
        main: the settings of the layers with full attention.
        values: theirs; ``scale`` is the attention factor.
        cannot_say: the texts of what the engine cannot express, by code.
        cannot: those that hold.
    """

    def __init__(self, engine: str, resolved: Resolved, form: str) -> None:
        self.table, self.resolved, self.form = _tables()[engine], resolved, form
        self.by_label = {entry.label: entry for entry in resolved.entries}
        self.main = self.by_label.get(_FULL, resolved.entries[0])
        self.values = _plain(self.main)
        self.type = str(resolved.text_model_type)
        self.rule: str = self.values["rope_type"]
        self.theta: float = self.values["rope_theta"]
        self.share = self.values["rotary_dim"] / self.values["head_dim"]
        self.cannot_say, self.cannot = dict(self.table["cannot"]), dict[str, None]()

    @property
    def is_whole(self) -> bool:
        """True if the text model is the whole model, or the model one that the engine has."""
        name = self.resolved.model_type
        return self.type == name or name in self.table.get("composites", ())

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
        self.cannot[self.cannot_say[code].format(**names)] = None

    def refuse_values(self) -> None:
        """Add the rules and values that have a text of their own; of truncate, that it is false."""
        for code in self.cannot_say.keys() & {*self.values, *self.rules}:
            if code in self.rules or bool(self.values[code]) != (code == "truncate"):
                self.refuse(code)

    @property
    def rules(self) -> set[str]:
        """The names of the rules of all layers."""
        return {entry.rope_type for entry in self.resolved.entries}

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
    arch, values, keys = _architecture(told), told.values, dict[str, Any]()
    if arch is None:
        return None
    if told.theta != 10000:
        keys[_BASE] = told.theta
    is_cut, is_by_layer = _is_in("cut", arch), arch in told.table["layers"]
    if told.share != 1 or is_cut or is_by_layer:
        keys["rope.dimension_count"] = values["rotary_dim"]
    if told.share != 1 and arch in told.table["whole_head"]:
        told.refuse("partial", arch=arch)
    if is_by_layer or not (told.is_usual_width or is_cut):
        keys["attention.key_length"] = values["head_dim"]
    sections, kind = values.get("mrope_section"), _kind(arch)
    if sections and kind == ("imrope" if values.get("mrope_interleaved") else "mrope"):
        keys["rope.dimension_sections"] = [*sections, 0]
    elif sections:
        told.refuse("sections", arch=arch)
    tensors = _put_rule(told, keys, arch)
    _put_layers(told, keys, arch)
    _put_temperature(told, keys, arch)
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
    model, own = told.resolved.model, told.table["types"].get(told.type, {})
    configs: list[Any] = [model.place.content, *(place.content for place in model.outer)]
    classes = next(filter(None, (each.get("architectures") for each in configs)), None)
    if classes is None and told.type == told.resolved.model_type:
        classes = [name for name in [*own][:1] if not name.endswith("Generation")]
    elif classes is None:
        classes = [told.table["composites"].get(told.resolved.model_type)]
    arch: str | None = own.get(classes[0]) if len(classes) == 1 else None
    if arch is None or told.form not in _CONFIGS:
        return None
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
        if told.main.mscales:
            told.refuse("mscales")
    if not tensors and rule not in told.table["rules"]:
        told.refuse("rule", rule=rule)
    table = "two_lists" if rule == "longrope" else "may_divide"
    if tensors and not (_is_in(table, arch) or arch in told.table.get(table, ())):
        told.refuse("tensor", arch=arch, tensor=" or ".join(tensors))
    return tensors


def _put_yarn(told: _Rotary, keys: dict[str, Any], arch: str) -> None:
    values, factor = told.values, Decimal(told.values["factor"])
    all_dim, is_mla = values.get("mscale_all_dim"), _is_in("log_tenth", arch)
    usual = yarn_mscale(factor)
    if all_dim and (is_mla or _is_in("log_whole", arch)):
        keys["rope.scaling.yarn_log_multiplier"] = all_dim / 10 if is_mla else all_dim
        mscale = Decimal(all_dim if arch == "deepseek2" else 1)
        expected = yarn_mscale(factor, mscale) / yarn_mscale(factor, Decimal(all_dim))
        if not isclose(told.scale, expected):
            told.refuse("attention", arch=arch)
    elif not isclose(told.scale, usual):
        keys[_ATTENTION] = told.scale / float(usual)
        told.refuse("flag")
    if is_mla != ("softmax_scale_multiplier" in told.resolved.attention):
        told.refuse("softmax", arch=arch)
    for name, (flag, default) in _BETAS.items():
        if values.get(name, default) != default and not _is_in("reads_betas", arch):
            told.refuse("betas", arch=arch, name=name, flag=flag)


def _put_layers(told: _Rotary, keys: dict[str, Any], arch: str) -> None:
    """Add the keys of layers that differ, or say that they cannot be told apart so."""
    table = {**format_tables()["gguf"]["layers"], **told.table["layers"]}
    spec: Any = table.get(arch, {"every": 1, "turns": ""})
    every, count = spec["every"], told.count("num_hidden_layers") or 0
    dense = 0 if spec.get("dense_first") else every - 1
    is_always = spec.get("always") or count == spec.get("layers", 0)
    last = {layer for layer in range(count) if layer % every == dense}
    turns = spec["turns"] if is_always else ""
    expected = {"sliding": last, "not_every": last, "every": {*range(count)} - last}
    if told.resolved.without != expected.get(turns, set()):
        told.refuse("without", arch=arch)
    if len(told.by_label) == 1:
        return
    if told.by_label.keys() != {_FULL, _SLIDING} or spec["turns"] != "all":
        told.refuse("by_type", arch=arch)
        return
    sliding = _plain(told.by_label[_SLIDING])
    if arch in told.table["layers"]:
        layers = told.by_label[_SLIDING].layers or ()
        keys["attention.sliding_window_pattern"] = [each in layers for each in range(count)]
        keys["attention.key_length_swa"] = sliding["head_dim"]
        keys["rope.dimension_count_swa"] = sliding["rotary_dim"]
    elif not told.has_windows(every, dense):
        told.refuse("window_layers", arch=arch)
    if sliding["rope_theta"] != spec.get("base", told.theta):
        keys["rope.freq_base_swa"] = sliding["rope_theta"]
    if sliding["rope_type"] != (told.rule if spec["scaled"] else "default"):
        told.refuse("window_rule", arch=arch)
    window = told.resolved.model.raw("sliding_window")
    if isinstance(window, int):
        keys["attention.sliding_window"] = window


def _put_temperature(told: _Rotary, keys: dict[str, Any], arch: str) -> None:
    """Add the key of the factor of queries, or say that it is another one."""
    own, fixed = told.resolved.attention.get("query_temperature", {}), _temperature(arch)
    beta = own.get("llama_4_scaling_beta")
    if beta and _is_in("log_whole", arch):
        keys["attention.temperature_scale"] = beta
    elif (own.get("attn_scale"), own.get("floor_scale")) != fixed or beta:
        told.refuse("temperature", arch=arch)


def _temperature(arch: str) -> tuple[Any, Any]:
    own = format_tables()["gguf"]["temperature"].get(arch, {})
    return own.get("scale"), own.get("length")


def _vllm(told: _Rotary) -> dict[str, Any] | None:
    if told.form != "transformers" or told.type not in told.table["types"] or not told.is_whole:
        return None
    entries = told.resolved.entries
    if "mrope_section" in told.values and told.values.keys() & {"attention_factor", *_MSCALES}:
        return None
    if told.type in told.table["mla"]["types"]:
        told.cannot_say |= told.table["mla"]["cannot"]
    is_flat = len(entries) == 1 and not entries[0].block.is_nested
    if not is_flat and not all(entry.block.is_nested for entry in entries):
        return {"hf_overrides": {}}
    blocks = {entry.label: _block(told, entry) for entry in entries}
    overrides: dict[str, Any] = {}
    if any(_is_other(told, *pair) for pair in zip(entries, blocks.values(), strict=True)):
        overrides = {"rope_parameters": blocks[entries[0].label] if is_flat else blocks}
        path = told.resolved.model.place.pointer.split("/")[1:]
        if not path and told.type != told.resolved.model_type:
            path = ["text_config"]
        for name in reversed(path):
            overrides = {name: overrides}
    return {"hf_overrides": overrides}


def _block(told: _Rotary, entry: LayerSettings) -> dict[str, Any]:
    """Return rope_parameters as vLLM reads them."""
    names = entry.values.keys() & _VLLM_KEYS
    block = {name: _listed(entry.values[name].value) for name in sorted(names)}
    if block["rope_type"] != "proportional" and told.share != 1:
        block[_SHARE] = told.share
    elif block["rope_type"] == "proportional" and block.get("factor", 1) != 1:
        told.refuse("divided")
    return block


def _is_other(told: _Rotary, entry: LayerSettings, block: Mapping[str, Any]) -> bool:
    """Return whether vLLM reads something else in the config of these layers."""
    sent, table = entry.block.place.content, told.table
    needs = () if entry.block.is_default else table["needs"].get(entry.rope_type, ())
    needs = [*needs, *(name for name in _AXES if block.get(name))]
    aliases = (own for own in entry.values.values() if own.is_alias)
    unread = {own.pointer.rpartition("/")[2] for own in entry.model.unread.values()}
    kind = sent.get("rope_type") or sent.get("type") or entry.rope_type
    return (
        any(sent.get(name) is None for name in needs)
        or any(own.pointer.rpartition("/")[2] not in table["keys"] for own in aliases)
        or not unread.isdisjoint(table["keys"])
        or kind not in {entry.rope_type, *table["kinds"]}
    )


def _onnx(told: _Rotary) -> dict[str, Any]:
    values, resolved = told.values, told.resolved
    for entry in resolved.entries:
        if entry.rope_type not in told.table["builder"]:
            told.refuse("builder", rule=entry.rope_type)
        if entry.rope_type == "yarn" and _plain(entry).get("truncate", True):
            told.refuse("rounded")
        if entry.lengths:
            told.refuse("regimes")
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
    rule, known = told.rule, own.get("rules", [])
    if rule == "default":
        return {}
    if rule not in (told.table["rules"] if known is True else known):
        told.refuse("rule", rule=rule)
        return {}
    block = {own.get("kind_key", "rope_type"): rule, **told.has(*_MLX_KEYS.get(rule, _LLAMA3))}
    if all(told.values.get(name) for name in _MSCALES):
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
    return {} if rule == "default" else {"rotary_scaling": {"type": rule, **told.has(*_LLAMA3)}}


_AXES = ("mrope_section", "mrope_interleaved")
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
