"""The settings of engines for the rotary embedding of a model, and what they cannot express.

``engines.toml`` has their keys, defaults and limits, and which key mends which mistake; of GGUF,
``formats.toml`` has the architectures. An engine of which nothing is certain for a model is left
out.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from math import isclose
from typing import Any

from service.encodings.rotary.rules import RULE_KEYS, rule_of, yarn_mscale
from service.models.config_values import TEXT_CONFIGS
from service.models.describe import PartEncoding
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.models.translation import format_tables

_SHARE, _ORIGINAL = "partial_rotary_factor", "original_max_position_embeddings"
_MSCALES, _CONFIGS = ("mscale", "mscale_all_dim"), ("transformers", "mlx")
_TEXTS = {"", *TEXT_CONFIGS}
_FULL, _SLIDING = "full_attention", "sliding_attention"
_ATTENTION, _BASE = "rope.scaling.attn_factor", "rope.freq_base"
_AXES = ("mrope_section", "mrope_interleaved")
_VLLM_KEYS = {"rope_type", "rope_theta", *_AXES, *RULE_KEYS} - {"max_position_embeddings"}


@cache
def engine_tables() -> Mapping[str, Any]:
    """Return what engines.toml has: a table by the name of each engine, and mistakes and mends."""
    text = files("service.models").joinpath("engines.toml").read_text("utf-8")
    return tomllib.loads(text)


def keys_for(mistake: str, key: str | None = None, arch: str | None = None) -> dict[str, str]:
    """Return where each engine has the setting that mends a mistake; {} if no setting does.

    Args:
        mistake: the name of the mistake in a diagnosis, such as ``wrong-base``.
        key: the setting, where the mistake may be in several: ``factor`` of ``wrong-parameter``.
        arch: the architecture of a GGUF file; ``{arch}`` stands for it unless given.
    """
    tables = engine_tables()
    engines = tables["mends"].get(key) or tables["mends"].get(tables["mistakes"].get(mistake), {})
    return {engine: text.replace("{arch}", arch or "{arch}") for engine, text in engines.items()}


def rotary_models(encodings: Iterable[PartEncoding]) -> list[Resolved]:
    """Return the parts of a model with known rotary settings, its text model first.

    Without the settings of the text model there are none.
    """
    found: dict[int, Resolved] = {}
    main: list[Resolved] = []
    for each in encodings:
        resolved, is_own = each.resolved, each.is_sent or not each.config
        if resolved is None or not is_own or not _can_express(resolved):
            continue
        found[id(resolved)] = resolved
        if _TEXTS.issuperset(each.config.split("/")):
            main.append(resolved)
    return [*main[:1], *(each for each in found.values() if each is not main[0])] if main else []


def _can_express(resolved: Resolved) -> bool:
    """Return whether engines can express these settings at all."""
    kind, entries = resolved.model.type, resolved.entries
    if not entries or kind.inverse or kind.last_channels or kind.not_in_config:
        return False
    return resolved.model.is_known and not any(
        "mrope_layout" in entry.values
        or "mrope_section" in entry.block.values.keys() - entry.values.keys()
        for entry in entries
    )


def engine_settings(resolved: Resolved, form: str) -> dict[str, dict[str, Any]]:
    """Return what each engine must be told of a text model, by the name of the engine.

    Args:
        resolved: its settings.
        form: the format of the document that they are from.
    """
    engines: dict[str, dict[str, Any]] = {}
    if any(_plain(entry)["rotary_dim"] % 2 for entry in resolved.entries):
        return engines
    for name, settings_of in _ENGINES.items():
        rotary = _Rotary(name, resolved, form)
        fields = settings_of(rotary)
        if fields is not None:
            rotary.refuse_values()
            cannot = {"cannot": [*rotary.cannot]} if rotary.cannot else {}
            source = rotary.table["source"].format(type=resolved.model_type)
            engines[name] = {**fields, **cannot, "source": source}
    return engines


class _Rotary:
    """The rotary embedding of a text model, for one engine.

    Attributes:
        main: the settings of the layers with full attention.
        values: theirs; ``scale`` is the attention factor.
        arch, keys: the architecture of a GGUF file, and its keys without that prefix.
        texts: the texts of what the engine cannot express, by code.
        cannot: those that hold.
    """

    def __init__(self, engine: str, resolved: Resolved, form: str) -> None:
        self.table, self.resolved, self.form = engine_tables()[engine], resolved, form
        self.by_label = {entry.label: entry for entry in resolved.entries}
        self.main = self.by_label.get(_FULL, resolved.entries[0])
        self.values = _plain(self.main)
        self.type = str(resolved.text_model_type)
        self.rule: str = self.values["rope_type"]
        self.theta: float = self.values["rope_theta"]
        self.share = self.values["rotary_dim"] / self.values["head_dim"]
        self.arch, self.keys = "", dict[str, Any]()
        self.texts, self.cannot = dict(self.table["cannot"]), dict[str, None]()

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
        known = {"arch": self.arch, "rule": self.rule, **names}
        self.cannot[self.texts[code].format(**known)] = None

    def refuse_values(self) -> None:
        """Add the rules and values that have a text of their own; of truncate, that it is false."""
        for code in self.texts:
            value = self.values.get(code)
            if code in self.rules or (value is not None and bool(value) != (code == "truncate")):
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


def _llama_cpp(rotary: _Rotary) -> dict[str, Any] | None:
    arch, values, keys = _architecture(rotary), rotary.values, rotary.keys
    if arch is None:
        return None
    rotary.arch = arch
    if rotary.theta != 10000:
        keys[_BASE] = rotary.theta
    is_cut, is_by_layer = _is_in("cut", arch), arch in rotary.table["layers"]
    if rotary.share != 1 or is_cut or is_by_layer:
        keys["rope.dimension_count"] = values["rotary_dim"]
    if rotary.share != 1 and arch in rotary.table["whole_head"]:
        rotary.refuse("partial")
    if is_by_layer or not (rotary.is_usual_width or is_cut):
        keys["attention.key_length"] = values["head_dim"]
    sections, kind = values.get("mrope_section"), _kind(arch)
    if sections and kind == ("imrope" if values.get("mrope_interleaved") else "mrope"):
        keys["rope.dimension_sections"] = [*sections, 0]
    elif sections:
        rotary.refuse("sections")
    tensors = _put_rule(rotary)
    _put_layers(rotary)
    _put_temperature(rotary)
    fields = {
        "keys": {f"{arch}.{name}": value for name, value in keys.items()},
        "flags": " ".join(_flags(rotary)),
        "tensors": [{"name": name, "shape": [values["rotary_dim"] // 2]} for name in tensors],
        "rope_type": kind,
        "weights": rotary.table["permuted"] if _is_in("permuted", arch) else "",
    }
    return {"architecture": arch, **{name: each for name, each in fields.items() if each}}


def _architecture(rotary: _Rotary) -> str | None:
    """Return the architecture of the model's file; None if it is not certain."""
    model, own = rotary.resolved.model, rotary.table["types"].get(rotary.type, {})
    configs: list[Any] = [model.place.content, *(place.content for place in model.outer)]
    classes = next(filter(None, (each.get("architectures") for each in configs)), None)
    if classes is None and rotary.type == rotary.resolved.model_type:
        classes = [name for name in [*own][:1] if not name.endswith("Generation")]
    elif classes is None:
        classes = [rotary.table["composites"].get(rotary.resolved.model_type)]
    arch: str | None = own.get(classes[0]) if len(classes) == 1 else None
    if arch is None or rotary.form not in _CONFIGS:
        return None
    is_half = _kind(arch) != "norm" or _is_in("permuted", arch)
    has_axes = _kind(arch) not in {"mrope", "imrope"} or "mrope_section" in rotary.values
    return arch if has_axes and is_half == (rotary.resolved.layout == "half") else None


def _is_in(table: str, arch: str) -> bool:
    return arch in format_tables()["gguf"][table].split()


def _kind(arch: str) -> str:
    """Return which pairs llama.cpp turns."""
    return next(kind for kind in ("norm", "neox", "mrope", "imrope") if _is_in(kind, arch))


def _flags(rotary: _Rotary) -> Iterator[str]:
    """Yield the arguments that say the same as keys; there are none for lists of factors."""
    table, values = rotary.table, rotary.values
    names = rotary.keys.keys() & ({_BASE} if rotary.rule == "longrope" else table["flags"].keys())
    flags = {flag: rotary.keys[name] for name, flag in table["flags"].items() if name in names}
    if rotary.rule == "linear":
        flags = {"--rope-scaling": "linear", **flags}
    elif rotary.rule == "yarn":
        for name, own in table["betas"].items():
            if values.get(name) not in {None, own["usual"]}:
                flags[own["flag"]] = values[name]
    for flag, value in flags.items():
        is_whole = isinstance(value, float) and value.is_integer()
        yield f"{flag} {int(value) if is_whole else value}"


def _put_rule(rotary: _Rotary) -> Sequence[str]:
    """Add the keys of the frequency rule; return the tensors that divide frequencies."""
    values, rule, keys, table = rotary.values, rotary.rule, rotary.keys, rotary.table
    tensors: Sequence[str] = table["tensors"].get(rule, ())
    if rule in {"linear", "yarn"}:
        keys["rope.scaling.factor"] = values["factor"]
    if rule in {"longrope", "yarn"}:
        keys["rope.scaling.type"] = rule
        keys["rope.scaling.original_context_length"] = values[_ORIGINAL]
    if rule == "yarn":
        _put_yarn(rotary)
    elif rule == "longrope":
        keys[_ATTENTION] = rotary.scale
        if rotary.main.mscales:
            rotary.refuse("mscales")
    if not tensors and rule not in table["rules"]:
        rotary.refuse("rule")
    readers = "two_lists" if rule == "longrope" else "may_divide"
    if tensors and not (_is_in(readers, rotary.arch) or rotary.arch in table.get(readers, ())):
        rotary.refuse("tensor", tensor=" or ".join(tensors))
    return tensors


def _put_yarn(rotary: _Rotary) -> None:
    values, arch, factor = rotary.values, rotary.arch, Decimal(rotary.values["factor"])
    all_dim, is_mla = values.get("mscale_all_dim"), _is_in("log_tenth", arch)
    usual = yarn_mscale(factor)
    if all_dim and (is_mla or _is_in("log_whole", arch)):
        rotary.keys["rope.scaling.yarn_log_multiplier"] = all_dim / 10 if is_mla else all_dim
        mscale = Decimal(all_dim if arch == "deepseek2" else 1)
        expected = yarn_mscale(factor, mscale) / yarn_mscale(factor, Decimal(all_dim))
        if not isclose(rotary.scale, expected):
            rotary.refuse("attention")
    elif not isclose(rotary.scale, usual):
        rotary.keys[_ATTENTION] = rotary.scale / float(usual)
        rotary.refuse("flag")
    if is_mla != ("softmax_scale_multiplier" in rotary.resolved.attention):
        rotary.refuse("softmax")
    for name, own in rotary.table["betas"].items():
        if values.get(name, own["usual"]) == own["usual"]:
            continue
        if _is_in("reads_betas", arch):
            rotary.keys[f"rope.scaling.yarn_{name}"] = values[name]
        else:
            rotary.refuse("betas", name=name, flag=own["flag"])


def _put_layers(rotary: _Rotary) -> None:
    """Add the keys of layers that differ, or say that they cannot be told apart so."""
    keys, by_layer = rotary.keys, rotary.table["layers"]
    table = {**format_tables()["gguf"]["layers"], **by_layer}
    spec: Any = table.get(rotary.arch, {"every": 1, "turns": ""})
    every, count = spec["every"], rotary.count("num_hidden_layers") or 0
    dense = 0 if spec.get("dense_first") else every - 1
    is_always = spec.get("always") or count == spec.get("layers", 0)
    last = {layer for layer in range(count) if layer % every == dense}
    turns = spec["turns"] if is_always else ""
    expected = {"sliding": last, "not_every": last, "every": {*range(count)} - last}
    if rotary.resolved.without != expected.get(turns, set()):
        rotary.refuse("without")
    if len(rotary.by_label) == 1:
        return
    if rotary.by_label.keys() != {_FULL, _SLIDING} or spec["turns"] != "all":
        rotary.refuse("by_type")
        return
    sliding = _plain(rotary.by_label[_SLIDING])
    if rotary.arch in by_layer:
        layers = rotary.by_label[_SLIDING].layers or ()
        keys["attention.sliding_window_pattern"] = [each in layers for each in range(count)]
        keys["attention.key_length_swa"] = sliding["head_dim"]
        keys["rope.dimension_count_swa"] = sliding["rotary_dim"]
    elif not rotary.has_windows(every, dense):
        rotary.refuse("window_layers")
    if sliding["rope_theta"] != spec.get("base", rotary.theta):
        keys["rope.freq_base_swa"] = sliding["rope_theta"]
    if sliding["rope_type"] != (rotary.rule if spec["scaled"] else "default"):
        rotary.refuse("window_rule")
    window = rotary.resolved.model.raw("sliding_window")
    if isinstance(window, int):
        keys["attention.sliding_window"] = window


def _put_temperature(rotary: _Rotary) -> None:
    """Add the key of the factor of queries, or say that it is another one."""
    own = rotary.resolved.attention.get("query_temperature", {})
    fixed = format_tables()["gguf"]["temperature"].get(rotary.arch, {})
    names = {"attn_scale": "scale", "floor_scale": "length"}
    beta = own.get("llama_4_scaling_beta")
    if beta and _is_in("log_whole", rotary.arch):
        rotary.keys["attention.temperature_scale"] = beta
    elif beta or any(own.get(name) != fixed.get(key) for name, key in names.items()):
        rotary.refuse("temperature")


def _vllm(rotary: _Rotary) -> dict[str, Any] | None:
    entries, is_served = rotary.resolved.entries, rotary.type in rotary.table["types"]
    if rotary.form != "transformers" or not is_served or not rotary.is_whole:
        return None
    if "mrope_section" in rotary.values and rotary.values.keys() & {"attention_factor", *_MSCALES}:
        return None
    if rotary.type in rotary.table["mla"]["types"]:
        rotary.texts |= rotary.table["mla"]["cannot"]
    is_flat = len(entries) == 1 and not entries[0].block.is_nested
    if not is_flat and not all(entry.block.is_nested for entry in entries):
        return {"hf_overrides": {}}
    blocks = {entry.label: _block(rotary, entry) for entry in entries}
    overrides: dict[str, Any] = {}
    if any(_reads_other(rotary, *pair) for pair in zip(entries, blocks.values(), strict=True)):
        overrides = {"rope_parameters": blocks[entries[0].label] if is_flat else blocks}
        path = rotary.resolved.model.place.pointer.split("/")[1:]
        if not path and rotary.type != rotary.resolved.model_type:
            path = ["text_config"]
        for name in reversed(path):
            overrides = {name: overrides}
    return {"hf_overrides": overrides}


def _block(rotary: _Rotary, entry: LayerSettings) -> dict[str, Any]:
    """Return rope_parameters as vLLM reads them."""
    names = entry.values.keys() & _VLLM_KEYS
    block = {name: _listed(entry.values[name].value) for name in sorted(names)}
    if block["rope_type"] != "proportional" and rotary.share != 1:
        block[_SHARE] = rotary.share
    elif block["rope_type"] == "proportional" and block.get("factor", 1) != 1:
        rotary.refuse("divided")
    return block


def _reads_other(rotary: _Rotary, entry: LayerSettings, block: Mapping[str, Any]) -> bool:
    """Return whether vLLM reads something else in the config of these layers."""
    sent, table = entry.block.place.content, rotary.table
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


def _onnx(rotary: _Rotary) -> dict[str, Any]:
    values, resolved = rotary.values, rotary.resolved
    for entry in resolved.entries:
        if entry.rope_type not in rotary.table["builder"]:
            rotary.refuse("builder", rule=entry.rope_type)
        if entry.rope_type == "yarn" and _plain(entry).get("truncate", True):
            rotary.refuse("rounded")
        if entry.lengths:
            rotary.refuse("regimes")
    if resolved.writes:
        rotary.refuse("writes", layout=resolved.layout, writes=resolved.writes)
    fields = {
        "interleaved": int(resolved.layout == "interleaved"),
        "rotary_embedding_dim": 0 if rotary.share == 1 else values["rotary_dim"],
    }
    heads = rotary.count("num_attention_heads")
    return {**fields, "num_heads": heads} if heads else fields


def _mlx(rotary: _Rotary) -> dict[str, Any] | None:
    own = rotary.table["types"].get(rotary.resolved.model_type)
    is_by_type = len(rotary.by_label) > 1
    if own is None or rotary.resolved.without or is_by_type != ("local" in own):
        return None
    if rotary.form not in _CONFIGS:
        return None
    keys: dict[str, Any] = {}
    is_interleaved = rotary.resolved.layout == "interleaved"
    if is_interleaved != own.get("traditional", is_interleaved):
        keys["rope_traditional"] = is_interleaved
    if rotary.theta != own.get("theta"):
        keys[own.get("theta_key", "rope_theta")] = rotary.theta
    if "partial_key" not in own and rotary.share != 1:
        rotary.refuse("partial")
    elif "partial_key" in own and rotary.share != own.get("partial"):
        keys[own["partial_key"]] = rotary.share
    if is_by_type:
        sliding = _plain(rotary.by_label[_SLIDING])
        if sliding["rope_theta"] != own["local"]:
            keys["rope_local_base_freq"] = sliding["rope_theta"]
        if not rotary.has_windows(6, 5) or sliding["rope_type"] != "default":
            rotary.refuse("window_layers")
    return {"keys": keys | _rule_of_mlx(rotary, own)}


def _rule_of_mlx(rotary: _Rotary, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the frequency rule, and say what its class leaves out."""
    rule, known, rules = rotary.rule, own.get("rules", []), rotary.table["rules"]
    if rule == "default":
        return {}
    if rule not in (rules if known is True else known):
        rotary.refuse("rule")
        return {}
    block = {own.get("kind_key", "rope_type"): rule, **rotary.has(*rules[rule])}
    if all(rotary.values.get(name) for name in _MSCALES):
        block |= rotary.has(*_MSCALES)
    top = {name: block.pop(name) for name in own.get("at_top", ()) if name in block}
    return {**top, "rope_scaling": block}


def _tensorrt_llm(rotary: _Rotary) -> dict[str, Any] | None:
    values, resolved, rule = rotary.values, rotary.resolved, rotary.rule
    if resolved.model_type not in rotary.table["types"] or len(resolved.entries) > 1:
        return None
    kind = "rope_gptj" if resolved.layout == "interleaved" else "rope_gpt_neox"
    config: dict[str, Any] = {"position_embedding_type": kind}
    if rotary.theta != 10000:
        config["rotary_base"] = rotary.theta
    if not rotary.is_usual_width:
        config["head_size"] = values["head_dim"]
    if rotary.share != 1:
        rotary.refuse("partial")
    names = rotary.table["rules"].get(rule)
    if names is None:
        rotary.refuse("rule")
    elif "mrope_section" in values:
        scaling = {"type": "mrope", **rotary.has("mrope_section")}
        config |= {"position_embedding_type": "mrope", "rotary_scaling": scaling}
    elif rule == "longrope":
        config |= _longrope_of_tensorrt_llm(rotary)
    elif rule != "default":
        config["rotary_scaling"] = {"type": rule, **rotary.has(*names)}
    return {"config": config}


def _longrope_of_tensorrt_llm(rotary: _Rotary) -> dict[str, Any]:
    values, names = rotary.values, ("short", "long")
    config = {"position_embedding_type": "long_rope", **rotary.has(_ORIGINAL)}
    config |= {f"longrope_scaling_{name}_factors": [*values[f"{name}_factor"]] for name in names}
    if "attention_factor" in values:
        given = [own.value for own in rotary.main.mscales] or 2 * [values["attention_factor"]]
        config |= zip((f"longrope_{name}_mscale" for name in names), given, strict=True)
    return config


_ENGINES: Mapping[str, Callable[[_Rotary], dict[str, Any] | None]] = {
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
    "onnx": _onnx,
    "mlx": _mlx,
    "tensorrt-llm": _tensorrt_llm,
}
