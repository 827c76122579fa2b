"""The values that a config gives to the parameters of a table.

A source is a number, a flag, ``"'text'"``, or an expression over JSON pointers into the config,
such as ``/hidden_size // /num_attention_heads``. A missing or null value skips to the next source;
``has(/key)`` is whether there is one.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeAlias

from service.models.config_values import MAX_COUNT, KeyPlace, Origin, ResolvedValue, differ

Source: TypeAlias = bool | int | float | str
Sources: TypeAlias = Source | list[Source] | dict[Literal["join"], list[Source | list[Source]]]

_MAX_ITEMS = 4096
_POINTER = re.compile(r"(?<![\w/])/(?=[A-Za-z_])[\w.-]+(?:/[\w.-]+)*")
_NUMBER = re.compile(r"\s*[-+]?\d[\d.eE+-]*\s*")
_PREFIX = "_p"
_PRESENCE = re.compile(r"has\((/[\w./-]+)\)")
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OF_LISTS: Mapping[str, Callable[..., Any]] = {"sum": sum, "len": len, "max": max, "min": min}
_OF_NUMBERS: Mapping[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "int": int,
    "round": round,
    "span": lambda first, count: f"{first}:{first + count}",
}


class Missing(Exception):
    """No value: a pointer of the expression leads to nothing, or to null."""


class Unusable(Exception):
    """A value that an expression cannot use.

    Attributes:
        pointer: its pointer.
        value: the value; None for a combination of values.
        rule: the rule that it breaks.
    """

    def __init__(self, pointer: str, value: object, rule: str) -> None:
        super().__init__(rule)
        self.pointer, self.value, self.rule = pointer, value, rule


@dataclass(frozen=True)
class Scope:
    """A config and, for what it lacks, the defaults of its class.

    Attributes:
        library: the library, its version and the class, the origin of defaults.
        names: the class's own names of canonical keys.
        read: the names of the members that expressions have asked for.
    """

    place: KeyPlace
    library: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def beside(self, content: Mapping[str, Any]) -> "Scope":
        """Return the scope of a config with other members, too."""
        place = self.place
        return replace(self, place=replace(place, content={**place.content, **content}))

    def find(self, pointer: str) -> tuple[Any, str, bool]:
        """Return a value, the pointer to it, and whether the config has it; raises Missing."""
        first, *others = pointer[1:].split("/")
        if first == "rope_parameters" and self.place.content.get("rope_scaling"):
            # transformers reads one of them.
            return replace(self, place=self.place.absent(self.place.pointer)).find(pointer)
        spellings = self._spellings(first)
        self.read.update(spellings)
        # A list among the defaults has no items for a config whose value is not a list.
        is_item = bool(others) and others[0].isdigit()
        given = [name for name in spellings if self.place.content.get(name) is not None]
        is_given = bool(given)
        for name in given[1:]:
            if differ(self.place.content[name], self.place.content[given[0]]):
                self.place.warn("said-twice", f"{given[0]} is used, and {name} is another", name)
        for content, is_config in ((self.place.content, True), (self.defaults, False)):
            for name in spellings if is_config or not (is_item and is_given) else ():
                value, is_there = content, True
                for key in (name, *others):
                    value, is_there = _member(value, key)
                    if not is_there:
                        break
                if is_there:
                    path = "/".join((name, *others))
                    if value is None or isinstance(value, dict):
                        raise Missing
                    where, like = f"{self.place.pointer}/{path}", self.defaults.get(name)
                    return _checked(value, where, like), path, is_config
        raise Missing

    def _spellings(self, name: str) -> list[str]:
        others = [key for key, own in self.names.items() if own == name]
        return list(dict.fromkeys([*others, name, self.names.get(name, name)]))

    def value(self, sources: Sources | list[str]) -> ResolvedValue:
        """Return the value of the first source that has one; raises Missing or Unusable.

        A pointer into the config comes before all others, as another name of a default does not
        replace what a config says.
        """
        if isinstance(sources, dict):
            each = [self.value(source) for source in sources["join"]]
            pointers = tuple(dict.fromkeys(name for one in each for name in one.sources))
            kinds = {one.origin for one in each}
            origin: Origin = kinds.pop() if len(kinds) == 1 else "computed"
            return ResolvedValue(tuple(one.value for one in each), origin, pointers)
        listed = sources if isinstance(sources, list) else [sources]
        for source in listed:
            if isinstance(source, str) and _POINTER.fullmatch(source):
                try:
                    value, path, is_config = self.find(source)
                except Missing:
                    continue
                if is_config:
                    return ResolvedValue(value, "config", (f"{self.place.pointer}/{path}",))
        for source in listed:
            try:
                return self._of(source)
            except Missing:
                continue
        raise Missing

    def is_null_by_default(self, sources: Sources) -> bool:
        """Return whether the class has null for the key of a single source."""
        if not isinstance(sources, str) or not _POINTER.fullmatch(sources):
            return False
        return any(self.defaults.get(name, ...) is None for name in self._spellings(sources[1:]))

    def null_keys(self, source: str) -> list[str]:
        """Return the keys of a source that are null in the config, not missing."""
        names = [name for key in re.findall(r"/(\w+)", source) for name in self._spellings(key)]
        return [name for name in names if self.place.content.get(name, ...) is None]

    def holds(self, condition: str) -> bool:
        """Return whether a condition holds; one with a missing value does."""
        try:
            return bool(self._of(condition).value)
        except Missing:
            return True

    def unmet(self, condition: str) -> Unusable:
        """Return the error for a condition that a config does not meet."""
        content, start = self.place.content, self.place.pointer
        wanted = condition.removeprefix("has(").removesuffix(")")
        if condition == f"has({wanted})":
            is_null = wanted[1:] in content
            rule = "must not be null" if is_null else "is required, and the class has no default"
            return Unusable(f"{start}{wanted}", None, rule)
        names = [name[1:] for name in re.findall(r"/\w+", condition)]
        name = next((each for each in names if each in content), names[0])
        rule = f"does not fit: {in_words(condition)}"
        return Unusable(f"{start}/{name}", content.get(name), rule)

    def _of(self, source: Source) -> ResolvedValue:
        if not isinstance(source, str):
            return ResolvedValue(source, "fixed in code", (self.library,))
        if source.startswith("'") and source.endswith("'"):
            return ResolvedValue(source[1:-1], "fixed in code", (self.library,))
        source = _PRESENCE.sub(lambda match: str(self._has(match[1])), source)
        tree, names = _parsed(source)
        found = [self.find(name) for name in names]
        where = self._where(found)
        pointers = [f"{self.place.pointer}/{path}" for _, path, _ in found]
        evaluation = _Evaluation([one[0] for one in found], where, pointers)
        value = _checked(evaluation.of(tree), where)
        if type(value) is int and abs(value) > MAX_COUNT:
            raise Unusable(self._where(found), None, "is too large")
        from_config = tuple(f"{self.place.pointer}/{path}" for _, path, own in found if own)
        if isinstance(tree, ast.Name):
            if from_config:
                return ResolvedValue(value, "config", from_config)
            return ResolvedValue(value, "class default", (self.library,))
        defaults = (self.library,) if any(not own for *_, own in found) else ()
        return ResolvedValue(value, "computed", (*from_config, *defaults))

    def _has(self, pointer: str) -> bool:
        try:
            self.find(pointer)
        except Missing:
            return False
        return True

    def _where(self, found: Sequence[tuple[Any, str, bool]]) -> str:
        paths = [path for _, path, own in found if own] or [path for _, path, _ in found]
        return f"{self.place.pointer}/{paths[0]}" if paths else self.place.pointer


_WORDS = {
    r"(\w|\)) % (\d+) == 0": r"\1 must be divisible by \2",
    r"\(([^()]*)\) must": r"\1 must",
    r"len\((/[\w/]+)\)": r"the length of \1",
    r"sum\((/[\w/]+)\)": r"the sum of \1",
    r"max\((/[\w/]+)\)": r"the largest of \1",
    " == ": " must be ",
    " != ": " must not be ",
    " <= ": " must be at most ",
    " >= ": " must be at least ",
    " > ": " must be more than ",
    "False": "false",
    " // ": " / ",
    r"(?<![\w/])/(?=[a-z])": "",
}


def in_words(condition: str) -> str:
    """Return the rule that a condition of an entry is, as words with the names of keys."""
    for pattern, words in _WORDS.items():
        condition = re.sub(pattern, words, condition)
    return condition


def filled(template: Any, value: Callable[[str], Any]) -> Any:
    """Return a template of JSON with a value in place of each text."""
    if isinstance(template, Mapping):
        return {name: filled(each, value) for name, each in template.items()}
    if isinstance(template, list):
        return [filled(each, value) for each in template]
    return value(template) if isinstance(template, str) else template


def _member(value: Any, key: str) -> tuple[Any, bool]:
    if isinstance(value, dict):
        return value.get(key), key in value
    if isinstance(value, list) and key.isdigit() and int(key) < len(value):
        return value[int(key)], True
    return None, False


def _checked(value: Any, pointer: str, like: object = None) -> Any:
    """Return a text, flag, number or list of numbers, 4.0 like 4; raises Unusable for others."""
    if isinstance(value, list | tuple):
        if len(value) > _MAX_ITEMS:
            raise Unusable(pointer, None, f"must be a list of at most {_MAX_ITEMS}")
        return tuple(_checked(item, pointer) for item in value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        raise Unusable(pointer, value, "must be a number, not text")
    if isinstance(value, float) and not isfinite(value):
        raise Unusable(pointer, str(value), "must be a finite number")
    if isinstance(value, float) and type(like) is int and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) > MAX_COUNT:
        raise Unusable(pointer, None, "must be an integer from -2^53 to 2^53")
    return value


@cache
def _parsed(source: str) -> tuple[ast.expr, tuple[str, ...]]:
    pointers: dict[str, int] = {}

    def name(match: re.Match[str]) -> str:
        return f"{_PREFIX}{pointers.setdefault(match[0], len(pointers))}"

    return ast.parse(_POINTER.sub(name, source), mode="eval").body, tuple(pointers)


@dataclass(frozen=True)
class _Evaluation:
    """Evaluates expressions over values from a config, each at a pointer.

    Attributes:
        where: the pointer of what has none of its own.
    """

    values: Sequence[Any]
    where: str
    pointers: Sequence[str]

    def of(self, node: ast.expr) -> Any:
        """Return the value of a node; raises Unusable."""
        return _NODES[type(node)](self, node)

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def name(self, node: ast.Name) -> Any:
        return self.values[int(node.id.removeprefix(_PREFIX))]

    def _at(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.Name):
            return self.pointers[int(node.id.removeprefix(_PREFIX))]
        return self.where

    def choice(self, node: ast.IfExp) -> Any:
        return self.of(node.body if self.of(node.test) else node.orelse)

    def compared(self, node: ast.Compare) -> bool:
        left, right = self.of(node.left), self.of(node.comparators[0])
        kind = type(node.ops[0])
        if kind not in {ast.Eq, ast.NotEq}:
            left, right = self._number(left), self._number(right)
        return bool(_OPERATORS[kind](left, right))

    def all_or_any(self, node: ast.BoolOp) -> bool:
        results = map(self.of, node.values)
        return all(results) if isinstance(node.op, ast.And) else any(results)

    def unary(self, node: ast.UnaryOp) -> Any:
        operand = self.of(node.operand)
        return not operand if isinstance(node.op, ast.Not) else -self._number(operand)

    def binary(self, node: ast.BinOp) -> Any:
        left, right = (self._number(self.of(each), each) for each in (node.left, node.right))
        if right == 0 and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
            raise Unusable(self._at(node.right), right, "leads to a division by 0")
        return _OPERATORS[type(node.op)](left, right)

    def call(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Name)
        name, arguments = node.func.id, [self.of(each) for each in node.args]
        if name in _OF_LISTS and len(arguments) == 1:
            if not isinstance(arguments[0], tuple) or not arguments[0]:
                raise Unusable(self.where, arguments[0], "must be a list here, not empty")
            return _OF_LISTS[name]([*map(self._number, arguments[0])])
        return _OF_NUMBERS[name](*map(self._number, arguments))

    def _number(self, value: Any, node: ast.expr | None = None) -> Any:
        if type(value) not in {int, float}:
            raise Unusable(self._at(node), value, "must be a number here")
        if abs(value) > MAX_COUNT:
            raise Unusable(self._at(node), None, "is too large")
        return value


_NODES: Mapping[type, Callable[[_Evaluation, Any], Any]] = {
    ast.Constant: _Evaluation.constant,
    ast.Name: _Evaluation.name,
    ast.IfExp: _Evaluation.choice,
    ast.Compare: _Evaluation.compared,
    ast.BoolOp: _Evaluation.all_or_any,
    ast.UnaryOp: _Evaluation.unary,
    ast.BinOp: _Evaluation.binary,
    ast.Call: _Evaluation.call,
}
