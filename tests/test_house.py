"""The rules of the house: direction of imports, sizes of modules, one name for one thing."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "service"
LAYERS = (
    "numerics", "encodings", "models", "analysis", "formats", "delivery", "routes", "conformance",
    "app", "serving"
)  # fmt: skip
MODULES = sorted(
    path.relative_to(SERVICE) for path in SERVICE.rglob("*.py") if path.name != "__init__.py"
)
FAILURE_CODES = {400, 401, *range(404, 407), 408, 410, *range(412, 417), 422, 429, 431, 500, 503}
IDEAL_LINES, MOST_LINES, MOST_SIBLINGS, PREFIX_FAMILY = 100, 600, 20, 3
SCRIPTS = sorted((SERVICE / "explorer").glob("*.js"))
MOST_SCRIPT_LINES = 3715


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse((SERVICE / module).read_text())


def name_of(module: Path) -> str:
    return ".".join(("service", *module.with_suffix("").parts))


def names_imported_by(nodes: Iterable[ast.AST]) -> frozenset[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return frozenset(name for name in names if name.startswith("service."))


@cache
def imports_of(module: Path) -> frozenset[str]:
    return names_imported_by(ast.walk(tree_of(module)))


@cache
def imports_at_start_of(module: Path) -> frozenset[str]:
    """The imports outside of functions: the others run when the function does."""
    return names_imported_by(tree_of(module).body)


def lines_of(module: Path) -> int:
    return len((SERVICE / module).read_text().splitlines())


def importers_of(module: Path) -> list[Path]:
    return [other for other in MODULES if name_of(module) in imports_of(other)]


def is_registered(module: Path) -> bool:
    """Return whether a registry finds the module."""
    kinds = ("absolute", "grid", "rotary", "relative", "positions", "resize")
    folders = ("formats", "conformance/files", *(f"encodings/{kind}" for kind in kinds))
    reports = (SERVICE / "routes/__init__.py").read_text()
    is_report = module.parent.as_posix() == "routes" and f'"{module.stem}.' in reports
    return is_report or module.parent.as_posix() in folders


def is_imported_lazily(module: Path) -> bool:
    """Return whether only functions import the module, because its import is slow."""
    return not any(name_of(module) in imports_at_start_of(other) for other in MODULES)


SERVER_PARTS = {Path("serving/fast_path.py"), Path("serving/supervisor.py")}
"""Modules that only the server imports: a protocol, and processes, are concepts of their own."""


def test_packages_import_only_lower_layers() -> None:
    offending = [
        f"{module} imports {name}"
        for module in MODULES
        if len(module.parts) > 1
        for layer in [LAYERS.index(module.parts[0])]
        for name in imports_of(module)
        if name.split(".")[1] in {*LAYERS[layer + 1 :], "__main__"}
    ]

    assert not offending


def test_errors_and_lru_import_nothing_from_service() -> None:
    assert not imports_of(Path("errors.py"))
    assert not imports_of(Path("lru.py"))


def test_a_folder_has_at_most_twenty_modules() -> None:
    siblings = Counter(module.parent for module in MODULES)

    assert not {folder: count for folder, count in siblings.items() if count > MOST_SIBLINGS}


def test_a_long_module_says_why_it_is_long() -> None:
    offending = [
        str(module)
        for module in MODULES
        if lines_of(module) > MOST_LINES
        and "This module is long because" not in (ast.get_docstring(tree_of(module)) or "")
    ]

    assert not offending


def test_a_short_module_is_registered_or_used_by_several() -> None:
    offending = [
        str(module)
        for module in MODULES
        if lines_of(module) < IDEAL_LINES
        and module.stem != "__main__"
        and not is_registered(module)
        and len(importers_of(module)) < 2
    ]

    assert not offending


def test_no_module_is_imported_by_one_sibling_alone() -> None:
    offending = [
        f"{module} is only imported by {importer}"
        for module in MODULES
        for importer in [importers_of(module)]
        if len(importer) == 1
        and importer[0].parent == module.parent
        and not is_registered(module)
        and module not in SERVER_PARTS
        and not is_imported_lazily(module)
        and lines_of(module) + lines_of(importer[0]) <= MOST_LINES
    ]

    assert not offending


def test_no_folder_has_a_family_of_prefixes() -> None:
    folders: defaultdict[Path, Counter[str]] = defaultdict(Counter)
    for module in MODULES:
        folders[module.parent][module.stem.split("_")[0]] += 1
    offending = {
        f"{folder}/{prefix}_*": count
        for folder, prefixes in folders.items()
        for prefix, count in prefixes.items()
        if count >= PREFIX_FAMILY
    }

    assert not offending


def test_a_name_of_a_module_or_a_class_stands_for_one_thing() -> None:
    modules = Counter(module.stem for module in MODULES)
    classes = Counter(
        node.name
        for module in MODULES
        for node in tree_of(module).body
        if isinstance(node, ast.ClassDef)
    )

    assert not [name for name, count in (modules + classes).items() if count > 1]


def test_no_import_is_a_cycle() -> None:
    graph = {name_of(module): imports_at_start_of(module) for module in MODULES}
    seen: dict[str, bool] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join(after for _, after in pairwise((*path, name)))
        if not seen.get(name):
            for other in graph[name] & graph.keys():
                visit(other, (*path, name))
            seen[name] = True

    for name in graph:
        visit(name, ())


def test_status_codes_of_failures_live_in_one_module() -> None:
    offending = [
        str(module)
        for module in MODULES
        if module.stem != "problems"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Constant) and type(node.value) is int
        if node.value in FAILURE_CODES
    ]

    assert not offending


def test_scripts_of_the_page_stay_within_their_budget() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in SCRIPTS}

    assert 0 < len(lines) <= MOST_SIBLINGS
    assert sum(lines.values()) <= MOST_SCRIPT_LINES, lines
    assert max(lines.values()) <= MOST_LINES, lines
