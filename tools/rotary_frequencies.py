# ruff: noqa: INP001
"""The frequencies that transformers computes for configs of every type with a rotary class.

    python tools/rotary_frequencies.py FACTS > EXPECTED

It runs where transformers 5.23.0 and torch are installed, without the service; FACTS is
service/models/facts/transformers-5.23.0.json. Each line of the output is a config, the change that
it has against the defaults of its type, and what the library's own rotary module says:
for each layer type ("" for all) the number of frequencies, the factor of the table and a few
frequencies; and the same for a longer context where the rule depends on it.
"""

import importlib
import inspect
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

Json = dict[str, Any]
_ROTARY = re.compile(r"Rotary|RoPE|Rope")
# Those of pictures, and one whose positions are time stamps.
_OTHERS = re.compile(
    r"Vision|Sam|ViT|EdgeTam|MLCD|Dinov3|VJEPA|Sapiens|LoFTR|Lightglue|MusicFlamingo"
)
_BASE, _FACTOR, _ORIGINAL = 123456.0, 4.0, 1024
_LENGTHS = {"original_max_position_embeddings": _ORIGINAL}
_YARN = {"rope_type": "yarn", "factor": _FACTOR, **_LENGTHS}
# Types that have rotary embeddings where a key says so, and those whose attention has a width that
# head_dim does not change: a model with another head_dim would not run.
_ENABLED: dict[str, Json] = {
    "esm": {"position_embedding_type": "rotary"},
    "granitemoehybrid": {"position_embedding_type": "rope"},
    "wav2vec2-bert": {"position_embeddings_type": "rotary"},
    "wav2vec2-conformer": {"position_embeddings_type": "rotary"},
    "zamba2": {"use_mem_rope": True},
}
# The default heads of these have an odd number of channels.
_EVEN: dict[str, Json] = {
    name: {"head_dim": 128} for name in ("glm4_moe", "glm4v_moe_text", "qwen3_omni_moe_text")
}
_FIXED_WIDTH = re.compile(r"blt_|longcat|zamba2")
RULES: dict[str, Json] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": _FACTOR},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": _YARN,
    "yarn null": {**_YARN, "factor": None},
    "yarn mscale": {**_YARN, "mscale": 0.707, "mscale_all_dim": 1.0},
    "yarn ranges": {**_YARN, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5},
    "yarn truncate": {**_YARN, "truncate": False},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        **_LENGTHS,
    },
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    "partial": {"rope_type": "default", "partial_rotary_factor": 0.5},
}


def classes() -> Iterator[type[torch.nn.Module]]:
    """Yield the rotary classes of the library of texts and sounds."""
    root = Path(transformers.__file__).parent / "models"
    for path in sorted(root.glob("*/modeling_*.py")):
        if not re.search(r"^class \w*(Rotary|RoPE|Rope)", path.read_text(), re.MULTILINE):
            continue
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for name, kind in vars(module).items():
            if (
                inspect.isclass(kind)
                and issubclass(kind, torch.nn.Module)
                and kind.__module__ == module.__name__
                and _ROTARY.search(name)
                and "Attention" not in name
                and not _OTHERS.search(name)
            ):
                yield kind


def configs() -> dict[str, type[PreTrainedConfig]]:
    """Return the config class of each type, those of parts included."""
    found: dict[str, type[PreTrainedConfig]] = {}
    pending = [CONFIG_MAPPING[name] for name in CONFIG_MAPPING]
    while pending:
        kind = pending.pop(0)
        if found.setdefault(kind.model_type, kind) is kind:
            parts = (part for part in kind.sub_configs.values() if hasattr(part, "model_type"))
            pending += [part for part in parts if part not in found.values()]
    return found


def pairs(facts: Json) -> Iterator[tuple[type[torch.nn.Module], type[PreTrainedConfig]]]:
    """Yield each rotary class with each config that it is made from."""
    known = configs()
    for kind in classes():
        types = [
            name
            for name, entry in facts["types"].items()
            if any(each["class"] == kind.__name__ for each in entry["modules"])
        ]
        noted = inspect.signature(kind.__init__).parameters.get("config")
        noted = noted and noted.annotation
        if inspect.isclass(noted) and issubclass(noted, PreTrainedConfig):
            parts = (noted, *noted.sub_configs.values())
            types += [part.model_type for part in parts if hasattr(part, "model_type")]
        for name in dict.fromkeys(types):
            if name in known and module_of(kind, known[name], {}) is not None:
                yield kind, known[name]


def module_of(
    kind: type[torch.nn.Module], config: type[PreTrainedConfig], content: Json
) -> torch.nn.Module | None:
    """Return the rotary module of a config; None if the library makes none."""
    try:
        made = config.from_dict(json.loads(json.dumps(content)))
        module = kind(made)
    except Exception:  # noqa: BLE001  (the library raises whatever it likes)
        return None
    width = getattr(made, "qk_rope_head_dim", None)
    counts = {2 * count for count, _, _ in frequencies(module).values()}
    if isinstance(width, int) and counts - {width}:
        return None  # Attention splits heads otherwise: the model would not run.
    rope = getattr(made, "rope_parameters", None) or {}
    rules = [rope, *(own for own in rope.values() if isinstance(own, dict))]
    is_axial = any(rule.get("rope_type") == "axial" for rule in rules)
    return module if frequencies(module) and not is_axial else None


def frequencies(module: torch.nn.Module) -> Json:
    """Return the number of frequencies, the factor and a few frequencies by layer type."""
    found: Json = {}
    for name, tensor in module.named_buffers(recurse=False):
        match = re.fullmatch(r"(?:(\w+)_)?inv_freq", name)
        if match is None or name.endswith("original_inv_freq") or tensor.ndim != 1:
            continue
        label = match[1] or ""
        if "Ernie4_5_VL" in type(module).__name__:
            tensor = tensor.sort(descending=True).values  # noqa: PLW2901  (stored by axes)
        scaling = f"{label}_attention_scaling" if label else "attention_scaling"
        last = len(tensor) - 1
        chosen = sorted({0, 1, last // 4, last // 2, 3 * last // 4, last} & {*range(last + 1)})
        values = {str(i): float(f"{tensor[i].item():.8g}") for i in chosen}
        found[label] = [len(tensor), float(getattr(module, scaling, 1.0)), values]
    return found


def longer(module: torch.nn.Module, length: int) -> Json | None:
    """Return the frequencies that a module has after a sequence of some length."""
    labels = list(frequencies(module))
    x = torch.zeros(1, 1, 1)
    try:
        for label in labels:
            for shape in ((1, 1), (3, 1, 1)):
                positions = torch.full(shape, length - 1)
                try:
                    module(x, positions, **({"layer_type": label} if label else {}))
                except (IndexError, RuntimeError, ValueError):
                    continue
                break
    except Exception:  # noqa: BLE001
        return None
    return frequencies(module)


def changes(defaults: Json, widths: dict[str, int]) -> Iterator[tuple[str, Json]]:
    """Yield the changes of a config, each with a name."""
    labels, width = [label for label in widths if label], max(widths.values())
    lists = {
        "short_factor": [1.0 + i / width for i in range(width)],
        "long_factor": [2.0 + i for i in range(width)],
    }
    rules = {**RULES, "longrope": {"rope_type": "longrope", **lists, **_LENGTHS}}
    yield "nothing", {}
    yield "all", defaults
    yield "base", {"rope_theta": _BASE}
    for key in ("rope_theta", "head_dim", "rope_scaling", "rope_parameters", "layer_types"):
        yield f"{key} null", {key: None}
    yield "head_dim", {"head_dim": 48}
    yield "partial", {"partial_rotary_factor": 0.5}
    for key in ("hidden_size", "num_attention_heads", "max_position_embeddings"):
        if isinstance(defaults.get(key), int):
            yield f"{key} doubled", {key: 2 * defaults[key]}
    if isinstance(defaults.get("layer_types"), list):
        listed = defaults["layer_types"]
        yield "layer_types reversed", {"layer_types": listed[::-1]}
    for name, rule in rules.items():
        old = {("type" if key == "rope_type" else key): value for key, value in rule.items()}
        yield f"rope_scaling {name}", {"rope_scaling": old}
        yield f"rope_scaling {name}, base", {"rope_scaling": rule, "rope_theta": _BASE}
        yield f"rope_parameters {name}", {"rope_parameters": {**rule, "rope_theta": _BASE}}
        yield f"rope_parameters {name}, no base", {"rope_parameters": rule}
        if labels:
            own = {label: {**rule, "rope_theta": _BASE + i} for i, label in enumerate(labels)}
            yield f"rope_parameters {name} by type", {"rope_parameters": own}
            without = {label: dict(rule) for label in labels}
            yield f"rope_parameters {name} by type, no base", {"rope_parameters": without}


def cases(facts: Json) -> Iterator[Json]:
    """Yield configs with what the library says."""
    found = list(pairs(facts))
    for kind, config in found:
        plain = module_of(kind, config, {})
        assert plain is not None
        widths = {label: each[0] for label, each in frequencies(plain).items()}
        try:
            defaults = json.loads(config().to_json_string(use_diff=False))
        except (TypeError, ValueError):
            defaults = {}
        for name, change in changes(defaults, widths):
            enabled = _ENABLED.get(config.model_type, {})
            even = {} if name in {"nothing", "all"} else _EVEN.get(config.model_type, {})
            content = {"model_type": config.model_type, **even, **change, **enabled}
            module = module_of(kind, config, content)
            fixed = "qk_rope_head_dim" in defaults or _FIXED_WIDTH.match(config.model_type)
            if module is None or (fixed and name.startswith("head_dim")):
                continue
            case = {
                "class": f"{kind.__module__.rpartition('modeling_')[2]}.{kind.__name__}",
                "change": name,
                "config": content,
                "expected": frequencies(module),
            }
            text = json.dumps(content)
            if "longrope" in text or "dynamic" in text:
                made = config.from_dict(json.loads(json.dumps(content)))
                length = 2 * max(getattr(made, "max_position_embeddings", 0) or 0, _ORIGINAL)
                case["longer"] = [length, longer(module, length)]
            yield case


if __name__ == "__main__":
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for each in cases(json.loads(Path(sys.argv[1]).read_text())):
        sys.stdout.write(json.dumps(each) + "\n")
