"""The house: imports point one way, tests mirror the code, modules stay small."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "service"
FLOORS = ["tables", "analysis", "configs", "formats", "delivery", "routes", "app", "serving"]
MODULES = sorted(path.relative_to(SERVICE) for path in SERVICE.rglob("*.py"))


def imports_of(module: Path) -> set[str]:
    """Name every module of the service that a module imports."""
    tree = ast.parse((SERVICE / module).read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("service.")}


@pytest.mark.parametrize("module", [path for path in MODULES if len(path.parts) > 1], ids=str)
def test_imports_point_down_the_house(module: Path) -> None:
    floor = FLOORS.index(module.parts[0])
    above = {f"service.{name}" for name in [*FLOORS[floor + 1 :], "local", "__main__"]}

    offending = {name for name in imports_of(module) if ".".join(name.split(".")[:2]) in above}

    assert not offending


@pytest.mark.parametrize("module", ["errors.py", "lru.py"])
def test_what_every_floor_uses_stands_on_none(module: str) -> None:
    assert not imports_of(Path(module))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_modules_stay_small(module: Path) -> None:
    assert len((SERVICE / module).read_text().splitlines()) <= 250


def test_status_codes_of_failures_live_in_one_place() -> None:
    for module in MODULES:
        if module.name == "problems.py":
            continue
        tree = ast.parse((SERVICE / module).read_text())
        numbers = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and type(node.value) is int
        }
        assert not numbers & {
            400,
            401,
            *range(404, 407),
            408,
            410,
            *range(412, 417),
            422,
            429,
            431,
            500,
            503,
        }, module


@pytest.mark.parametrize(
    "module",
    [path for path in MODULES if path.name not in {"__init__.py", "document.py", "format.py"}],
    ids=str,
)
def test_tests_mirror_the_code(module: Path) -> None:
    name = module.name.replace("__main__", "main")
    assert (ROOT / "tests" / module.parent / f"test_{name}").exists()
