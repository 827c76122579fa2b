# ruff: noqa: INP001
"""What source code and shapes tell without any library: hashes of bodies, keys read, formulas.

A hash of a body stays the same where names of classes and locals, comments, docstrings, annotations
or messages change, and changes where the computation does: it covers base classes and the
functions, constants and positional classes of the same library that the body uses.
"""

import ast
import copy
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

POSITIONAL_CLASS = re.compile(
    r"Rotary|RoPE|Rope(?!n)|Position(?!wise)|Alibi|Sinus|RelPos|Timestep|PosEmb|EmbedND"
    r"|Fourier"
)
_NOISE = re.compile(
    r"no_grad|lru_cache|cache|auto_docstring|add_start|deprecate|compile|use_kernel|force_fp32"
    r"|merge_with|capture_|check_model|can_return|torch_compilable|apply_lora|maybe_allow"
)
_LOGS = re.compile(r"^(logger|logging|warnings)$")
Definition = ast.ClassDef | ast.FunctionDef


class Place(NamedTuple):
    """A name at the top of a module, by the path of the module's file."""

    path: Path
    name: str


class _Plain(ast.NodeTransformer):
    """Strip what computes nothing, and number the names of locals."""

    def __init__(self, own: str, meanings: Mapping[str, str]) -> None:
        self.own, self.meanings = own, meanings
        self.locals: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = self.locals.get(node.id) or self.meanings.get(node.id, node.id)
        return ast.Name("Self" if node.id == self.own else name, ast.Load())

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self.locals.get(node.arg, node.arg))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        value = node.value
        if isinstance(value, ast.Constant):
            return None
        callee = value.func if isinstance(value, ast.Call) else None
        owner = callee.value if isinstance(callee, ast.Attribute) else None
        if isinstance(owner, ast.Name) and _LOGS.match(owner.id):
            return None
        return self.generic_visit(node)

    def visit_Pass(self, _: ast.Pass) -> None:
        return None

    def visit_ImportFrom(self, _: ast.ImportFrom) -> None:
        return None

    def visit_Raise(self, _: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_Assert(self, _: ast.Assert) -> None:
        return None

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.Assign([self.visit(node.target)], self.visit(node.value))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if not self.locals:
            self.locals = {name: f"v{i}" for i, name in enumerate(_locals_of(node))}
        noisy = (name for name in node.decorator_list if not _NOISE.search(ast.unparse(name)))
        node.decorator_list, node.returns = list(noisy), None
        node.name = "Self" if node.name == self.own else node.name
        node.type_comment = None
        return self.generic_visit(node)


def _locals_of(function: ast.FunctionDef) -> list[str]:
    """Return the names that a function binds, in the order of the source."""
    bound = (
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(function)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    return [name for name in dict.fromkeys(bound) if name not in {"self", "cls", "config"}]


@cache
def _imports_in(code: ast.AST) -> dict[str, ast.ImportFrom]:
    """Return the imports within functions, by the name they bind."""
    imports = (node for node in ast.walk(code) if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name: node for node in imports for alias in node.names}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class Sources:
    """The modules of a library below a folder, parsed when they are needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hashes: dict[tuple[Place, frozenset[str]], str] = {}

    @cache  # noqa: B019 - a run has one or two of these
    def _names(self, path: Path) -> dict[str, ast.AST]:
        """Return what stands at the top of a module: definitions, values and imports."""
        names: dict[str, ast.AST] = {}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, Definition):
                names[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name: node for alias in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names[node.targets[0].id] = node.value
        return names

    def find(self, place: Place, inside: ast.AST | None = None) -> tuple[Place, ast.AST] | None:
        """Return where a name is defined in the library, through imports; None if it is not.

        Args:
            place: the module, and a name in it.
            inside: code of the module, whose own imports hold first.
        """
        own = _imports_in(inside) if inside is not None else {}
        node = own.get(place.name) or self._names(place.path).get(place.name)
        if not isinstance(node, ast.ImportFrom):
            return None if node is None else (place, node)
        package = place.path.parents[node.level - 1] if node.level else self.folder.parent
        path = package.joinpath(*(node.module or "").split(".")).with_suffix(".py")
        models = path.is_relative_to(self.folder / "models") or path.stem == "modeling_rope_utils"
        if not (models and path.is_file()):
            return None
        original = next(a.name for a in node.names if place.name in {a.asname, a.name})
        return self.find(Place(path, original))

    def _meaning(self, place: Place, inside: ast.AST) -> str | None:
        """Return what a body's use of a name stands for; None where the name says enough."""
        found = self.find(place, inside)
        if found is None:
            return None
        definition = found[1]
        if isinstance(definition, ast.ClassDef) and not POSITIONAL_CLASS.search(definition.name):
            return "Class"
        return self.hash(found[0])

    def bases(self, place: Place) -> Iterator[tuple[Place, ast.ClassDef]]:
        """Yield a class and the classes of the library's models it inherits from, itself first."""
        found = self.find(place)
        if found is None or not isinstance(found[1], ast.ClassDef):
            return
        yield found[0], found[1]
        if found[0].path.stem in {"modeling_utils", "modeling_layers"}:
            return
        for base in found[1].bases:
            if isinstance(base, ast.Name):
                yield from self.bases(Place(found[0].path, base.id))

    def _parts(self, place: Place) -> dict[str, tuple[Place, ast.stmt]]:
        """Return the statements of a class by name, inherited ones included."""
        parts: dict[str, tuple[Place, ast.stmt]] = {}
        for depth, (where, definition) in enumerate(self.bases(place)):
            for node in definition.body:
                name = node.name if isinstance(node, Definition) else ast.unparse(node)
                if name not in parts:
                    parts[name] = where, node
                elif f"super().{name}(" in ast.unparse(parts[name][1]):
                    parts[f"{name} {depth}"] = where, node
        return parts

    def hash(self, place: Place, mentions: Iterable[str] = ()) -> str:
        """Return the hash of a definition, or of the methods that mention one of some names."""
        key = place, frozenset(mentions)
        if key not in self._hashes:
            self._hashes[key] = "recursion"
            texts = (*sorted(key[1]), *sorted(filter(None, self._texts(*key))))
            self._hashes[key] = _hash("\n".join(texts))
        return self._hashes[key]

    def _texts(self, place: Place, mentions: frozenset[str]) -> Iterator[str]:
        found = self.find(place)
        if found is None:
            raise KeyError(place)
        if not isinstance(found[1], ast.ClassDef):
            yield self._text(*found)
            return
        for where, node in self._parts(found[0]).values():
            if not mentions or mentions & set(re.findall(r"\w+", ast.unparse(node))):
                yield self._text(Place(where.path, place.name), node)

    def methods(self, place: Place) -> list[str]:
        """Return the names of the methods of a class, inherited ones included."""
        parts = self._parts(place).items()
        return [name for name, (_, node) in parts if isinstance(node, ast.FunctionDef)]

    def method_hash(self, place: Place, method: str) -> str:
        """Return the hash of a method of a class, inherited or not."""
        where, node = self._parts(place)[method]
        return _hash(self._text(Place(where.path, place.name), node))

    def _text(self, place: Place, node: ast.AST) -> str:
        used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)} - {place.name}
        meanings = {name: self._meaning(Place(place.path, name), node) for name in sorted(used)}
        own = node.name if isinstance(node, ast.FunctionDef) and not _method(node) else place.name
        plain = _Plain(own, {name: text for name, text in meanings.items() if text})
        stripped = plain.visit(copy.deepcopy(node))
        return ast.dump(stripped) if stripped else ""

    def functions_used(self, place: Place) -> Iterator[Place]:
        """Yield the functions of the library that a class or function uses, directly or not."""
        seen: set[Place] = set()
        waiting = [where for where, _ in self.bases(place)] or [place]
        while waiting:
            user = waiting.pop()
            found = self.find(user)
            if found is None or user in seen:
                continue
            seen.add(user)
            for node in ast.walk(found[1]):
                used = isinstance(node, ast.Name) and self.find(
                    Place(found[0].path, node.id), found[1]
                )
                if used and isinstance(used[1], ast.FunctionDef):
                    waiting.append(used[0])
            if isinstance(found[1], ast.FunctionDef):
                yield found[0]

    def keys_read(self, place: Place, attribute: str | None = None) -> set[str]:
        """Return the attributes of ``config`` that a class reads, or that one assignment does."""
        keys: set[str] = set()
        for _, node in self._parts(place).values():
            if attribute is None:
                keys |= _keys_of(node)
                continue
            for part in ast.walk(node):
                targets = part.targets if isinstance(part, ast.Assign) else ()
                if f"self.{attribute}" in map(ast.unparse, targets):
                    keys |= _keys_of(part)
        return keys


def _method(node: ast.FunctionDef) -> bool:
    return bool(node.args.args) and node.args.args[0].arg in {"self", "cls"}


def _keys_of(node: ast.AST) -> set[str]:
    """Return the attributes of ``config`` and ``self.config`` that code reads."""
    read = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return {part.attr for part in read if re.fullmatch(r"(self\.)?config", ast.unparse(part.value))}


Sizes = Mapping[str, int]
Row = tuple[int, ...]


def _half(value: int) -> int | None:
    return value // 2 if value % 2 == 0 else None


def _root(value: int) -> int | None:
    root = math.isqrt(max(value, 0))
    return root if root * root == value else None


def _root_of_window(value: int) -> int | None:
    root = _root(value)
    return None if root is None else _half(root + 1)


_OUTER: tuple[tuple[str, Callable[[int], int | None]], ...] = (
    ("{}", lambda value: value),
    ("2 * {}", _half),
    ("2 * {} - 1", lambda value: _half(value + 1)),
    ("{} ** 2", _root),
    ("(2 * {} - 1) ** 2", _root_of_window),
    ("{} ** 4", lambda value: _root(_root(value) or -1)),
)
_ADDED = (0, 1, 2, 3, 4, 5, -1)


class Formulas:
    """Formulas over config keys that hold in every build of a type.

    Args:
        builds: the sizes in the config of each build, by key; the first is the default.
    """

    def __init__(self, builds: Sequence[Sizes]) -> None:
        names = sorted(set.intersection(*(set(sizes) for sizes in builds)))
        rows = {name: tuple(sizes[name] for sizes in builds) for name in names}
        self._builds = len(builds)
        self._fixed = {row[0] for row in rows.values() if len(set(row)) == 1}
        self._inner: dict[Row, list[str]] = defaultdict(list)
        changed = {n: row for n, row in rows.items() if len(set(row)) > 1 and 0 not in row}
        for text, row in sorted(_inner(changed), key=lambda pair: (len(pair[0]), pair[0])):
            self._inner[row].append(text)

    def of(self, values: Row, likely: Iterable[str] = ()) -> str | None:
        """Return a formula for a size that has these values in the builds; None if none holds.

        A size that no change of the config changes is a constant, if no key that could not be
        changed has its value. Of several formulas, one over likely keys is best, then a short one.
        """
        if len(values) != self._builds or self._builds < 2:
            return None
        if len(set(values)) == 1:
            return None if values[0] in self._fixed - {1} else str(values[0])
        fitting: list[str] = []
        for added, (outer, inverse) in product(_ADDED, _OUTER):
            row = tuple(root for value in values if (root := inverse(value - added)) is not None)
            for inner in self._inner.get(row, ()) if len(row) == self._builds else ():
                text = outer.format(f"({inner})" if outer != "{}" and " " in inner else inner)
                fitting.append(
                    f"{text} {'-' if added < 0 else '+'} {abs(added)}" if added else text
                )
        known = {*likely}
        return min(
            fitting, key=lambda text: (bool(_keys_in(text) - known), len(text), text), default=None
        )


def _keys_in(formula: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", formula))


def _inner(rows: Mapping[str, Row]) -> Iterator[tuple[str, Row]]:
    """Yield products, quotients and sums of changed sizes."""
    for a, row in rows.items():
        yield a, row
        for divisor in (2, 4, 8):
            yield f"{a} // {divisor}", tuple(value // divisor for value in row)
    for (a, left), (b, right) in product(rows.items(), repeat=2):
        if a == b:
            continue
        pairs = list(zip(left, right, strict=True))
        quotient = tuple(x // y for x, y in pairs)
        if all(quotient):
            yield f"{a} // {b}", quotient
            yield f"{a} // {b} // 2", tuple(value // 2 for value in quotient)
            yield f"{a} // {b} // 4", tuple(value // 4 for value in quotient)
        if a < b:
            yield f"{a} * {b}", tuple(x * y for x, y in pairs)
            yield f"{a} + {b}", tuple(x + y for x, y in pairs)
    yield from _grids(rows)


def _grids(rows: Mapping[str, Row]) -> Iterator[tuple[str, Row]]:
    """Yield the numbers of patches in rectangles."""
    sides = [name[:-2] for name in rows if name.endswith("/0") and f"{name[:-2]}/1" in rows]
    for size, patch in product(sides, (*rows, *sides)):
        down, across = (patch, patch) if patch in rows else (f"{patch}/0", f"{patch}/1")
        if size != patch:
            height = zip(rows[f"{size}/0"], rows[down], strict=True)
            width = zip(rows[f"{size}/1"], rows[across], strict=True)
            text = f"({size}/0 // {down}) * ({size}/1 // {across})"
            yield (
                text,
                tuple(a // b * (c // d) for (a, b), (c, d) in zip(height, width, strict=True)),
            )


def _by_name(bodies: dict[str, list[str]]) -> dict[str, str]:
    return {name: body for body, names in bodies.items() for name in names}


def differences(old: str, new: str) -> list[str]:
    """Return the bodies, types and layouts in which two documents of facts differ."""
    before, after = json.loads(old), json.loads(new)
    changed: list[str] = []
    hashes = (_by_name(before["bodies"]), _by_name(after["bodies"]))
    parts: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("body", *hashes),
        ("type", before["types"], after["types"]),
        ("layout", before["layouts"], after["layouts"]),
    )
    for part, a, b in parts:
        for name in sorted(a.keys() | b.keys()):
            if a.get(name) != b.get(name):
                what = "new" if name not in a else "gone" if name not in b else "changed"
                changed.append(f"{part} {name}: {what}")
    return changed
