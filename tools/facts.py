# ruff: noqa: INP001, SLF001
"""Facts about the positional parts of every model type of a library, read from the library itself.

``python -m tools.facts transformers|diffusers DIR`` builds each type without weights and writes
``DIR/<library>-<version>.json``; the same library gives the same bytes. With ``--check`` it fails
where that file is another, and names the bodies and types that changed.
"""

import importlib
import inspect
import json
import logging
import math
import multiprocessing
import os
import pkgutil
import re
import signal
import sys
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, TypeAlias

import torch

from tools.deductions import POSITIONAL_CLASS, Formulas, Place, Sources, differences

Values: TypeAlias = dict[str, Any]
Built: TypeAlias = tuple[torch.nn.Module, Values]
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_PATTERNS = {name: re.compile(text) for name, text in _TABLE["patterns"].items()}
_SECONDS, _MOST_TRIES, _MOST_ITEMS = 60, 7, 64


def _is(name: str, text: str) -> bool:
    return bool(_PATTERNS[name].search(text.lower() if name in {"named", "function"} else text))


class Part(NamedTuple):
    """A positional module, or a tensor of a module, in a built model."""

    at: str
    module: torch.nn.Module
    place: Place
    attribute: str | None
    tensors: dict[str, tuple[list[int], str]]


@contextmanager
def _time_limit(seconds: int = _SECONDS) -> Iterator[None]:
    def stop(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _is_kept(value: object, depth: int = 0) -> bool:
    """Return whether JSON holds a value, and it is short."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | tuple | dict):
        items = value.values() if isinstance(value, dict) else value
        return (
            depth < 3 and len(value) <= _MOST_ITEMS and all(_is_kept(v, depth + 1) for v in items)
        )
    return value is None or isinstance(value, bool | int | str)


def _kept(config: Mapping[str, Any]) -> Values:
    """Return the members of a config that positions may depend on."""
    return {k: v for k, v in sorted(config.items()) if not _is("dropped", k) and _is_kept(v)}


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else None


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the whole numbers of a config; those in lists by name and index, as in a pointer."""
    sizes: dict[str, int | None] = {}
    for key, value in config.items():
        many = isinstance(value, list | tuple)
        sizes |= (
            {f"{key}/{i}": _whole(v) for i, v in enumerate(value)} if many else {key: _whole(value)}
        )
    return {key: value for key, value in sizes.items() if value is not None}


def _changes(config: Mapping[str, Any]) -> list[Values]:
    """Return two sets of changed values of the keys that shapes may follow."""
    first: Values = {}
    second: Values = {}
    for i, (key, value) in enumerate(sorted(config.items())):
        items = list(value) if isinstance(value, list | tuple) else [value]
        kinds = [
            name
            for name in ("bases", "lengths", "patches", "pictures", "heads", "widths")
            if _is(name, key)
        ]
        if not kinds or _is("layers", key) or not 0 < len(items) <= 4 or None in map(_whole, items):
            continue
        changed = {
            "bases": ((1, 0), (3, 0)),
            "lengths": ((1, 32 * (i + 1)), (1, 16 * (2 * i + 5))),
            "patches": ((1, 0), (2, 0)),
            "pictures": ((2, 0), (6, 0)),
            "heads": ((1, 0), (4 if key.endswith("dim") else 2, 0)),
            "widths": ((2, 0), ((4, 8, 12)[i % 3], 0)),
        }
        for into, (factor, added) in zip((first, second), changed[kinds[0]], strict=True):
            if (factor, added) != (1, 0):
                many = [
                    (factor * item + added) * (1 + n % 2 if into is second else 1)
                    for n, item in enumerate(items)
                ]
                into[key] = many if isinstance(value, list | tuple) else many[0]
    return [first, second]


def _builds(build: Callable[[Values], Any], changes: Values) -> Iterator[Any]:
    """Yield what builds with changed values: all of them, or halves that build."""
    waiting = [changes] if changes else []
    for _ in range(_MOST_TRIES):
        if not waiting:
            return
        changed = waiting.pop(0)
        try:
            with _time_limit():
                yield build(changed)
        except Exception:  # noqa: BLE001 - whatever a class refuses a config with
            keys, middle = sorted(changed), len(changed) // 2
            halves = (keys[:middle], keys[middle:]) if middle else ()
            waiting += [{key: changed[key] for key in half} for half in halves]


def _reason(refusal: Exception) -> str:
    lines = str(refusal).strip().splitlines() or [""]
    return f"{type(refusal).__name__}: {lines[0][:80]}"


class Library:
    """What both libraries have: sources, positional parts of a tree, hashes of bodies."""

    name: str

    def __init__(self) -> None:
        self.module = importlib.import_module(self.name)
        self.sources = Sources(Path(inspect.getfile(self.module)).parent)
        self.arguments: Mapping[str, Values] = _TABLE["arguments"].get(self.name, {})
        self.bodies: dict[str, set[str]] = defaultdict(set)
        self.layouts: dict[str, str | None] = {}
        self.reads: dict[type, set[str]] = defaultdict(set)

    def names(self) -> list[str]:
        """Return the names of all types."""
        raise NotImplementedError

    def fact(self, name: str) -> Values:
        """Return the facts of a type."""
        raise NotImplementedError

    def place(self, item: Any) -> Place | None:
        """Return where a class of the library's models is defined; None for others."""
        inside = re.match(rf"{self.name}\.models\.", item.__module__)
        return Place(Path(inspect.getfile(item)), item.__name__) if inside else None

    def known(self, place: Place, name: str, body: str) -> str:
        """Note whose body a hash is, and return the hash."""
        self.bodies[body].add(f"{_stem(place)}.{name}")
        return body

    def parts(self, tree: torch.nn.Module, skipped: Sequence[str] = ()) -> list[Part]:
        """Return the positional modules of a tree in its order, without some subtrees."""
        found: list[Part] = []
        owners = dict(_own_modules(tree, skipped))
        for path, module in owners.items():
            kind, last = type(module), path.rpartition(".")[2]
            if _is("other_class", kind.__name__):
                continue
            tensors = {n: t for n, t in _tensors(module) if not _is("other_tensor", n)}
            place, attribute = self.place(kind), None
            if not (path and (_is("named", last) or POSITIONAL_CLASS.search(kind.__name__))):
                tensors = {name: tensor for name, tensor in tensors.items() if _is("named", name)}
                if not tensors:
                    continue
            elif place is None and not tensors:
                continue
            if place is None:
                place, attribute = self._owner(path, owners)
            if place is not None:
                found.append(Part(_starred(path), module, place, attribute, tensors))
        return found

    def _owner(self, path: str, owners: Mapping[str, Any]) -> tuple[Place | None, str]:
        """Return the class of the library that holds a module of torch, and its attribute there."""
        names = path.split(".")
        for length in reversed(range(len(names))):
            if place := self.place(type(owners[".".join(names[:length])])):
                return place, names[length]
        return None, ""

    def described(
        self,
        parts: list[Part],
        config: Values,
        others: list[tuple[list[Part], Values]],
        names: Mapping[str, str],
    ) -> list[Values]:
        """Return the modules of a type, with the formulas that hold in other builds as well."""
        formulas = Formulas([_sizes(values) for values in (config, *(v for _, v in others))])
        changed = [_grouped(found) for found, _ in others]
        entries = []
        for key, (part, count) in _grouped(parts).items():
            same = [part, *(group[key][0] for group in changed if key in group)]
            reads = {names.get(name, name) for name in self._keys(part)} & _kept(config).keys()

            def formula(
                rows: Sequence[Any], reads: set[str] = reads, n: int = len(same)
            ) -> str | None:
                return formulas.of(tuple(rows), reads) if len(rows) == n else None

            tensors: Values = {}
            for name, (shape, kind) in sorted(part.tensors.items()):
                shapes = [other.tensors[name][0] for other in same if name in other.tensors]
                tensors[name] = {"shape": shape, "kind": kind, "formula": _by_axis(shapes, formula)}
            entry: Values = {
                "at": part.at,
                "class": type(part.module).__name__,
                "body": self._body(part),
                "count": count,
                "reads": sorted(reads),
                "tensors": tensors,
            }
            entries.append({k: v for k, v in entry.items() if v or k == "at"})
        return entries

    def _body(self, part: Part) -> str:
        if part.attribute is not None:
            name = f"{part.place.name}.{part.attribute}"
            return self.known(part.place, name, self.sources.hash(part.place, [part.attribute]))
        whole = POSITIONAL_CLASS.search(part.place.name) or not any(
            _is("named", n) for n in part.tensors
        )
        mentions = () if whole else [name for name in part.tensors if _is("named", name)]
        return self.known(part.place, part.place.name, self.sources.hash(part.place, mentions))

    def _keys(self, part: Part) -> set[str]:
        """Return the config keys that a positional module reads."""
        static = self.sources.keys_read(part.place, part.attribute)
        return static if part.attribute else static | self.reads[type(part.module)]

    def functions(self, tree: torch.nn.Module, skipped: Sequence[str] = ()) -> Values:
        """Return the hashes of the positional functions and methods of the classes in a tree."""
        own = [module for _, module in _own_modules(tree, skipped)]
        kinds = {
            type(item) for module in own for item in (module, getattr(module, "processor", module))
        }
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for kind in sorted(kinds, key=lambda kind: kind.__qualname__):
            place = self.place(kind)
            if place is not None and kind.__name__ not in {"PreTrainedModel", "ModelMixin"}:
                for name, (owner, body) in self._functions(place).items():
                    found[name][owner] = body
        hashes: Values = {}
        for name, bodies in sorted(found.items()):
            alike = len(set(bodies.values())) == 1
            hashes |= {
                name if alike else f"{o}.{name}".lstrip("."): b for o, b in sorted(bodies.items())
            }
        return hashes

    @cache  # noqa: B019 - one library in a run
    def _functions(self, place: Place) -> dict[str, tuple[str, str]]:
        """Return the owner and the hash of the functions that a class has or uses, by name."""
        found: dict[str, tuple[str, str]] = {}
        for used in self.sources.functions_used(place):
            if _is_function(used.name):
                found[used.name] = "", self.known(used, used.name, self.sources.hash(used))
                self._measure(used)
        for name in filter(_is_function, self.sources.methods(place)):
            body = self.sources.method_hash(place, name)
            found[name] = place.name, self.known(place, f"{place.name}.{name}", body)
        return found

    def _measure(self, place: Place) -> None:
        name = f"{_stem(place)}.{place.name}"
        if "apply" in place.name and name not in self.layouts:
            path = place.path.relative_to(self.sources.folder.parent).with_suffix("")
            function = getattr(importlib.import_module(".".join(path.parts)), place.name)
            self.layouts[name] = layout(function)


def _is_function(name: str) -> bool:
    return _is("function", name) and not _is("other_function", name)


def _stem(place: Place) -> str:
    return place.path.stem.removeprefix("modeling_")


def _own_modules(
    tree: torch.nn.Module, skipped: Sequence[str]
) -> Iterator[tuple[str, torch.nn.Module]]:
    below = tuple(f"{path}." for path in skipped)
    for path, module in tree.named_modules():
        if path not in skipped and not path.startswith(below):
            yield path, module


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, tuple[list[int], str]]]:
    for name, value in module.named_parameters(recurse=False):
        yield name, (list(value.shape), "parameter")
    for name, value in module.named_buffers(recurse=False):
        unsaved = name in module._non_persistent_buffers_set
        yield name, (list(value.shape), "buffer-not-saved" if unsaved else "buffer")


def _grouped(parts: Iterable[Part]) -> dict[tuple[str, str, int], tuple[Part, int]]:
    """Return parts and how often they occur, by path, class and number of the shapes there."""
    variants: dict[tuple[str, str], list[str]] = defaultdict(list)
    grouped: dict[tuple[str, str, int], tuple[Part, int]] = {}
    for part in parts:
        shapes = variants[part.at, type(part.module).__name__]
        if (shape := json.dumps(part.tensors)) not in shapes:
            shapes.append(shape)
        key = part.at, type(part.module).__name__, shapes.index(shape)
        first, count = grouped.get(key, (part, 0))
        grouped[key] = first, count + 1
    return grouped


def _by_axis(
    shapes: Sequence[Sequence[int]], formula: Callable[[Sequence[int]], str | None]
) -> list[str | None]:
    even = len({len(shape) for shape in shapes}) == 1
    columns = list(zip(*shapes, strict=True)) if even else [() for _ in shapes[0]]
    return [formula(column) for column in columns]


def layout(rotate: Callable[..., Any], width: int = 16) -> str | None:
    """Return which channels a function turns together, from the unit vectors it turns.

    Tried are (q, k, cos, sin), (x, cos, sin), (q, k, complex) and (x, complex), with one angle for
    each channel or each pair; None if the function has another convention.
    """
    units = torch.eye(width)[:, None].expand(width, 2, width).contiguous()
    heads = units[:, :, None], units[:, None]
    for angles in (width, width // 2):
        cos, sin = torch.full((1, 2, angles), 0.6), torch.full((1, 2, angles), 0.8)
        turns = torch.complex(cos, sin)
        for tables in ((cos, sin), (cos[0], sin[0]), (turns,), (turns[0],)):
            for given in (
                *((x, x) for x in heads),
                *((x,) for x in heads),
                (units, units),
                (units,),
            ):
                with suppress(Exception), _time_limit(5):
                    out = rotate(*given, *tables)
                    turned = out[0] if isinstance(out, tuple | list) else out
                    if pairs := _pairs(turned.reshape(width, 2, width)[:, 0]):
                        return pairs
    return None


def _pairs(turned: torch.Tensor) -> str | None:
    """Return the layout whose pairs a matrix mixes: row i is the image of unit vector i."""
    mixed: dict[int, set[int]] = defaultdict(set)
    for i, j in torch.nonzero(turned.abs() > 1e-6).tolist():
        mixed[j].add(i)
    pairs, width = {tuple(sorted(inputs)) for inputs in mixed.values()}, len(turned)
    if pairs == {(i, i + width // 2) for i in range(width // 2)}:
        return "half"
    return "interleaved" if pairs == {(i, i + 1) for i in range(0, width, 2)} else None


class Transformers(Library):
    """All types of CONFIG_MAPPING of transformers."""

    name = "transformers"

    def __init__(self) -> None:
        super().__init__()
        auto = importlib.import_module("transformers.models.auto.modeling_auto")
        configs = importlib.import_module("transformers.models.auto.configuration_auto")
        first = ("MODEL_MAPPING", "MODEL_FOR_PRETRAINING_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING")
        others = sorted(name for name in dir(auto) if re.fullmatch(r"MODEL_FOR_.*_MAPPING", name))
        self.mappings = [getattr(auto, name) for name in (*first, *others)]
        self.types: dict[str, Any] = {
            name: configs.CONFIG_MAPPING[name] for name in configs.CONFIG_MAPPING
        }
        self.base = self.module.PreTrainedConfig
        backends = importlib.import_module("transformers.utils.import_utils").BACKENDS_MAPPING
        backends |= {name: (lambda: True, text) for name, (_, text) in backends.items()}
        for name in ("timm_backbone", "timm_wrapper"):
            module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
            module.timm = _timm()  # type: ignore[attr-defined]
        module = importlib.import_module("transformers.models.layoutlmv2.modeling_layoutlmv2")
        module.LayoutLMv2VisualBackbone = lambda _: torch.nn.Module()  # type: ignore[attr-defined]
        self._trace()

    def _trace(self) -> None:
        """Note which keys each module reads of its config while it is built."""
        plain = self.base.__getattribute__

        def traced(config: Any, key: str) -> Any:
            frame = sys._getframe(1)
            for _ in range(6 if not key.startswith("_") else 0):
                module = frame.f_locals.get("self")
                if isinstance(module, torch.nn.Module):
                    self.reads[type(module)].add(key)
                    break
                if frame.f_back is None:
                    break
                frame = frame.f_back
            return plain(config, key)

        self.base.__getattribute__ = traced

    def names(self) -> list[str]:
        return sorted(self.types)

    @cache  # noqa: B019 - one library in a run
    def model_class(self, config_class: Any) -> Any:
        """Return the base model of a config class; None if the library has none."""
        for mapping in self.mappings:
            with suppress(KeyError, ImportError, AttributeError, ValueError):
                found = mapping[config_class]
                return found[0] if isinstance(found, list | tuple) else found
        name = config_class.__module__.replace("configuration_", "modeling_")
        try:
            module = importlib.import_module(name)
        except ImportError:
            return None
        kinds = (
            kind
            for _, kind in inspect.getmembers(module, inspect.isclass)
            if kind.__module__ == name
        )
        models = (kind for kind in kinds if issubclass(kind, self.module.PreTrainedModel))
        fitting = (kind for kind in models if _takes(kind, config_class))
        return min(fitting, key=lambda kind: (len(kind.__name__), kind.__name__), default=None)

    def _build(self, name: str, changes: Values) -> tuple[torch.nn.Module, Any]:
        config = self.types[name](**self.arguments.get(name, {}) | changes)
        with torch.device("meta"):
            tree = self.model_class(self.types[name])(config)
        if not isinstance(tree, torch.nn.Module):
            raise TypeError("the class of the model is no module")
        return tree, config

    def fact(self, name: str) -> Values:
        """Return the facts of a type; without modules where it is not built by itself."""
        self.reads.clear()
        kind = self.types[name]
        model = self.model_class(kind)
        fact: Values = {"config": kind.__name__, "model": model and model.__name__, "defaults": {}}
        try:
            with _time_limit():
                config = kind(
                    **self.arguments.get(name, {}) if name in _TABLE["no_defaults"] else {}
                )
        except Exception as refusal:  # noqa: BLE001 - whatever a class refuses its defaults with
            return fact | {"unbuilt": _reason(refusal)}
        subs = self._towers(config)
        fact["defaults"] = _kept({k: v for k, v in config.to_dict().items() if k not in subs})
        fact |= {"names": dict(sorted(kind.attribute_map.items()))} if kind.attribute_map else {}
        if subs:
            fact["towers"] = {key: self._tower(kind, key, sub) for key, sub in subs.items()}
        if model is None:
            return fact
        try:
            with _time_limit():
                tree, config = self._build(name, {})
        except Exception as refusal:  # noqa: BLE001 - whatever a class refuses its defaults with
            return fact | {"unbuilt": _reason(refusal)}
        fact |= self._inside(fact, tree, config, lambda changes: self._build(name, changes))
        if variants := self._variants(name, fact):
            fact["variants"] = variants
        return fact

    def _inside(
        self, fact: Values, tree: Any, config: Any, build: Callable[[Values], Any] | None
    ) -> Values:
        """Return what is found in the tree of a type, and note where its towers stand."""
        found = _subtrees(tree, self._towers(config))
        for key, paths in found.items():
            if tower := fact.get("towers", {}).get(key):
                tower["at"] = self._path_in(tree, paths[0], tower["type"])
        skipped = [path for paths in found.values() for path in paths]
        parts = self.parts(tree, skipped)
        changes = _changes(_kept(config.to_dict())) if parts and build else []
        built = [pair for change in changes for pair in _builds(build, change)] if build else []
        others = [(self.parts(other, skipped), values.to_dict()) for other, values in built]
        modules = self.described(parts, config.to_dict(), others, type(config).attribute_map)
        functions = self.functions(tree, skipped)
        return {"modules": modules} | ({"functions": functions} if functions else {})

    def _variants(self, name: str, fact: Values) -> list[Values]:
        """Return the modules that appear or go where a switch is in another position."""
        seen = {json.dumps([m["at"], m["body"]]) for m in fact["modules"]}
        kinds = ("absolute", "relative", "relative_key", "rotary", "rope", "alibi", "none")
        variants = []
        for key, value in fact["defaults"].items():
            texts = (
                kinds
                if isinstance(value, str | None) and re.search(r"_type$|^pos_emb$", key)
                else ()
            )
            for other in (not value,) if isinstance(value, bool) else texts:
                if not _is("switches", key) or other == value:
                    continue
                with suppress(Exception), _time_limit():
                    tree, config = self._build(name, {key: other})
                    inside = self._inside({}, tree, config, None)
                    modules = {json.dumps([m["at"], m["body"]]): m for m in inside["modules"]}
                    if modules.keys() != seen:
                        new = [m for text, m in modules.items() if text not in seen]
                        gone = [json.loads(text)[0] for text in sorted(seen - modules.keys())]
                        variants.append({"when": {key: other}, "modules": new, "without": gone})
        return variants

    def adopted(self, name: str, parent: str, key: str) -> Values:
        """Return the facts of a type that only a parent builds."""
        fact = self.fact(name)
        self.reads.clear()
        tree, config = self._build(parent, {})
        own = tree.get_submodule(_subtrees(tree, self._towers(config))[key][0])
        fact |= {"model": type(own).__name__}
        return fact | self._inside(fact, own, self._towers(config)[key], None)

    def _towers(self, config: Any) -> dict[str, Any]:
        """Return the parts of a composite config that are types of their own."""
        parts = {key: value for key, value in vars(config).items() if isinstance(value, self.base)}
        return {
            key: value for key, value in sorted(parts.items()) if value.model_type in self.types
        }

    def _path_in(self, tree: torch.nn.Module, path: str, name: str) -> str:
        """Return the path below which a tree has the positional modules of a part."""
        wanted = self._own_places(name)
        places = {(_starred(at), type(module)) for at, module in tree.named_modules()}
        found = {
            at.removesuffix(own).rstrip("."): None
            for own, kind in wanted
            for at, other in sorted(places, key=lambda place: place[0])
            if other is kind and f".{at}".endswith(f".{own}")
        }

        def fitting(prefix: str) -> tuple[int, bool, int]:
            below = {(f"{prefix}.{own}".lstrip("."), kind) for own, kind in wanted}
            is_near = path.startswith(prefix) or prefix.startswith(path)
            return -len(below & places), not is_near, -len(prefix)

        return min(found, key=fitting, default=path)

    @cache  # noqa: B019 - one library in a run
    def _own_places(self, name: str) -> frozenset[tuple[str, type]]:
        """Return the paths and the classes of the positional modules of a type."""
        with suppress(Exception), _time_limit():
            tree, config = self._build(name, {})
            skipped = [
                path for paths in _subtrees(tree, self._towers(config)).values() for path in paths
            ]
            return frozenset((part.at, type(part.module)) for part in self.parts(tree, skipped))
        return frozenset()

    def _tower(self, kind: Any, key: str, sub: Any) -> Values:
        """Return the type of a part, and the defaults that differ from those of its type.

        Those are of a config that lacks the part, and of one that has it. The type is fixed where
        the class makes it of a config with another type, too; the part is flat where the class
        reads its keys beside those of the model.
        """
        own, kept = self._defaults(sub.model_type), _kept(sub.to_dict())
        absent = _differing(own, kept)
        if absent and "head_dim" in kept:
            absent["head_dim"] = kept["head_dim"]
        tower: Values = {"type": sub.model_type, "at": None, "defaults": absent}
        if given := self._given(kind, key, sub):
            tower["given"] = given
        other = "bert" if sub.model_type == "llama" else "llama"
        with suppress(Exception):
            if type(getattr(kind(**{key: {"model_type": other}}), key)) is type(sub):
                tower["is_fixed"] = True
        with suppress(Exception):
            if "777.0" in str(getattr(kind(rope_theta=777.0), key).to_dict()):
                tower["is_flat"] = True
        return tower

    def _given(self, kind: Any, key: str, sub: Any) -> Values:
        """Return the defaults of a part that the config has, if they are not those of its type."""

        def built(change: Values) -> tuple[Values, Values]:
            part = getattr(kind(**{key: {"model_type": sub.model_type, **change}}), key)
            return _kept(type(sub)(**change).to_dict()), _kept(part.to_dict())

        with suppress(Exception):
            own, part = built({})
            given = _differing(own, part)
            wide_own, wide = built({"hidden_size": 2 * part["hidden_size"]} if given else {})
            is_kept = wide.get("head_dim") == part.get("head_dim") is not None
            if is_kept and wide_own["head_dim"] != own["head_dim"]:
                given["head_dim"] = part["head_dim"]
            return given
        return {}

    @cache  # noqa: B019 - one library in a run
    def _defaults(self, name: str) -> Values:
        with suppress(Exception):
            return _kept(self.types[name]().to_dict())
        return {}


def _differing(own: Values, other: Values) -> Values:
    """Return the members of a config that differ from another's; of a part, those that do."""
    differing = {key: value for key, value in other.items() if own.get(key, ...) != value}
    for key, value in differing.items():
        if isinstance(value, dict) and "model_type" in value and isinstance(own.get(key), dict):
            differing[key] = _differing(own[key], value)
    return differing


def _starred(path: str) -> str:
    """Return a path with a star for each number."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", path)


def _timm() -> ModuleType:
    """Return what stands for timm, whose pictures models have no type of transformers."""
    module = ModuleType("timm")

    def create_model(*_: object, **__: object) -> torch.nn.Module:
        model = torch.nn.Module()
        model.feature_info = _Features()
        model.num_features = 2048
        return model

    module.create_model = create_model  # type: ignore[attr-defined]
    return module


class _Features:
    """The stages of a model of timm, as ResNet-50 has them."""

    out_indices = (0, 1, 2, 3)
    info: Sequence[Values] = [
        {"num_chs": 128 << i, "module": f"layer{i}", "reduction": 2 << i, "index": i}
        for i in range(1, 5)
    ]
    return_layers: Mapping[str, str] = {stage["module"]: str(i) for i, stage in enumerate(info)}

    def module_name(self) -> list[str]:
        return [stage["module"] for stage in self.info]

    def channels(self) -> list[int]:
        return [stage["num_chs"] for stage in self.info]

    def get_dicts(self, **_: object) -> list[Values]:
        return list(self.info)


def _takes(kind: Any, config_class: Any) -> bool:
    """Return whether a model class takes configs of a class."""
    first = list(inspect.signature(kind.__init__).parameters.values())[1:2]
    noted = inspect.get_annotations(kind).get("config"), kind.__dict__.get("config_class")
    given = (*noted, *(parameter.annotation for parameter in first))
    return config_class.__name__ in {getattr(item, "__name__", item) for item in given}


def _subtrees(tree: torch.nn.Module, subs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paths at which a tree holds the models of the parts of its config."""
    found: dict[str, list[str]] = {}
    configs = {
        path: getattr(module, "config", None) for path, module in tree.named_modules() if path
    }
    for key, sub in subs.items():
        same = [path for path, config in configs.items() if config is sub]
        alike = [path for path, config in configs.items() if type(config) is type(sub)]
        own = type(sub) is type(getattr(tree, "config", None))
        paths = same or ([] if own else alike)
        outer = [path for path in paths if not path.startswith(tuple(f"{p}." for p in paths))]
        found |= {key: outer} if outer else {}
    return found


class Diffusers(Library):
    """The transformers of diffusers, by class name."""

    name = "diffusers"

    @cache  # noqa: B019 - one library in a run
    def _classes(self) -> dict[str, Any]:
        folder = importlib.import_module("diffusers.models.transformers")
        names = [
            module.name for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
        ]
        kinds = [
            kind
            for name in names
            for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass)
            if kind.__module__ == name and issubclass(kind, self.module.ModelMixin)
        ]
        return {kind.__name__: kind for kind in kinds if issubclass(kind, self.module.ConfigMixin)}

    def names(self) -> list[str]:
        return sorted(self._classes())

    def fact(self, name: str) -> Values:
        kind = self._classes()[name]
        parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
        given = {p.name: None if p.default is p.empty else p.default for p in parameters}
        fact: Values = {"config": name, "model": name, "defaults": _kept(given)}

        def build(changes: Values) -> Built:
            with torch.device("meta"):
                tree = kind(**self.arguments.get(name, {}) | changes)
            return tree, dict(tree.config)

        try:
            with _time_limit():
                tree, config = build({})
        except Exception as refusal:  # noqa: BLE001 - whatever a class refuses its defaults with
            return fact | {"unbuilt": _reason(refusal)}
        parts = self.parts(tree)
        built = [
            pair for change in _changes(_kept(config)) if parts for pair in _builds(build, change)
        ]
        others = [(self.parts(other), values) for other, values in built]
        fact["modules"] = self.described(parts, config, others, {})
        functions = self.functions(tree)
        return fact | ({"functions": functions} if functions else {})


_LIBRARY: list[Any] = []
"""The library, in each of the processes that work for a run."""


def _job(task: tuple[str, ...]) -> tuple[Values, dict[str, set[str]], dict[str, str | None]]:
    library = _LIBRARY[0]
    fact = library.adopted(*task) if len(task) > 1 else library.fact(*task)
    return fact, dict(library.bodies), library.layouts


def document(library: Library, processes: int) -> str:
    """Return the facts of a library as JSON, with one line for each type and body."""
    _LIBRARY[:] = [library]
    types: dict[str, Values] = {}
    with multiprocessing.get_context("fork").Pool(processes) as pool:

        def work(tasks: list[tuple[str, ...]]) -> None:
            for task, (fact, bodies, layouts) in zip(tasks, pool.imap(_job, tasks), strict=True):
                types[task[0]] = fact
                library.layouts |= layouts
                for body, places in bodies.items():
                    library.bodies[body] |= places

        work([(name,) for name in library.names()])
        homes = {
            tower["type"]: (parent, key)
            for parent, fact in reversed(types.items())
            if "modules" in fact
            for key, tower in fact.get("towers", {}).items()
            if tower["at"]
        }
        work([(name, *homes[name]) for name in homes if "modules" not in types[name]])
    for fact in types.values():
        fact.setdefault("modules", [])
    members: dict[str, Mapping[str, Any]] = {
        "types": types,
        "bodies": {body: sorted(names) for body, names in library.bodies.items()},
        "layouts": library.layouts,
    }
    lines = [f'{{"library":"{library.name} {library.module.__version__}"']
    for name, inside in members.items():
        texts = [f"{json.dumps(key)}:{_compact(value)}" for key, value in sorted(inside.items())]
        lines.append(f'"{name}":{{\n' + ",\n".join(texts) + "}")
    return ",\n".join(lines) + "}\n"


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def main() -> None:
    """Write the facts of the library that the command names."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    for kind in (
        torch.nn.Linear,
        torch.nn.Embedding,
        torch.nn.Conv1d,
        torch.nn.Conv2d,
        torch.nn.Conv3d,
    ):
        kind.reset_parameters = lambda _: None
    library = {"transformers": Transformers, "diffusers": Diffusers}[sys.argv[1]]()
    path = Path(sys.argv[2]) / f"{library.name}-{library.module.__version__}.json"
    text = document(library, os.cpu_count() or 1)
    if "--check" not in sys.argv:
        path.write_text(text)
    elif (old := path.read_text()) != text:
        sys.exit("\n".join((f"{path} is not what the library tells:", *differences(old, text))))


if __name__ == "__main__":
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    main()
