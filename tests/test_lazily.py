"""What is imported when it is first asked for, and what a start does not import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from service.encodings import registry
from service.encodings.family import ComposedFamily, TableFamily
from service.encodings.transforms import TransformFamily
from service.lazily import MadeOnDemand
from service.routes import ENDPOINTS, GET_REPORTS, REPORTS, RESOURCES

ROOT = Path(__file__).parents[1]
ANALYSES = {"service.models", "service.analysis.explanation", "service.analysis.identification"}
SERVERS = {"fastapi", "starlette", "httpx", "uvicorn", "prometheus_client"}
DRAWING = {"PIL", "matplotlib"}


def output_of(program: str, *arguments: str) -> str:
    """Return what a program prints in a new process."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def modules_after(program: str, *arguments: str) -> set[str]:
    """Return the modules that a new process has imported, and the packages they are in."""
    output = output_of(f"import sys\n{program}\nprint(*sys.modules)", *arguments)
    modules = set(output.split())
    return modules | {name.partition(".")[0] for name in modules}


def test_a_value_is_made_once_when_it_is_asked_for() -> None:
    values = MadeOnDemand(["one", "two"], lambda name: [name])

    assert [*values] == ["one", "two"]
    assert "two" in values
    assert not values.made
    assert values["two"] is values["two"]
    assert values.made == {"two": ["two"]}


def test_an_unknown_name_has_no_value() -> None:
    values = MadeOnDemand(["one"], str.upper)

    assert "two" not in values
    assert values.get("two") is None
    with pytest.raises(KeyError, match="two"):
        values["two"]


def test_the_registry_lists_every_family_by_its_own_path() -> None:
    kinds = {
        TableFamily: registry.TABLES,
        TransformFamily: registry.TRANSFORMS,
        ComposedFamily: registry.COMPOSITIONS,
    }
    families, modules = registry.FAMILIES.values(), ROOT.glob("service/encodings/*/*.py")
    names = [name for module in modules for name in classes_with_path(module)]

    assert [each.path for each in families] == [*registry.FAMILIES] == sorted(registry.FAMILIES)
    assert sorted(names) == sorted(each.__name__ for each in families)
    for kind, places in kinds.items():
        assert all(issubclass(registry.FAMILIES[path], kind) for path in places)


def classes_with_path(module: Path) -> list[str]:
    """Return the names of the classes of a module that have a path as keyword."""
    return [
        node.name
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.ClassDef) and any(each.arg == "path" for each in node.keywords)
    ]


def test_every_endpoint_is_listed_by_its_own_path() -> None:
    assert [each.path for each in ENDPOINTS.values()] == [*ENDPOINTS]
    assert all(each.has_get for each in RESOURCES.values())
    reports = [path for path, each in ENDPOINTS.items() if each.report]
    assert reports == [*dict.fromkeys((*REPORTS, *GET_REPORTS))]


def test_an_endpoint_has_the_validator_that_its_family_defers_to_the_first_request() -> None:
    program = (
        "from service.encodings.registry import FAMILIES\nfrom service.routes import ENDPOINTS\n"
        "family = FAMILIES['/encoding']\nprint(family.__pydantic_complete__)\n"
        "print(ENDPOINTS['/encoding'].parameters.__pydantic_complete__)"
    )

    assert output_of(program).split() == ["False", "True"]


def test_numpy_starts_no_threads_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")

    threads = output_of("import service, numpy, os\nprint(len(os.listdir('/proc/self/task')))")

    assert int(threads) == 1


def test_get_of_a_small_table_imports_no_server_no_analysis_and_no_drawing(tmp_path: Path) -> None:
    get = "from service.__main__ import main\nassert main(['get', *sys.argv[1:]]) == 0"
    url, file = "/encoding.npy?seq_len=4&d_model=4", tmp_path / "table.npy"

    modules = modules_after(get, url, "-o", str(file))

    assert file.stat().st_size == 192
    assert not modules & (SERVERS | DRAWING | ANALYSES | {"pydantic_settings"})
    assert "service.encodings.absolute.sinusoidal" in modules
    assert "service.encodings.rotary.rope" not in modules


def test_a_server_is_made_without_what_only_some_requests_need() -> None:
    make = "from service.app import create_app\nimport service.serving.server\ncreate_app()"

    modules = modules_after(make)

    assert "fastapi" in modules
    assert not modules & (DRAWING | ANALYSES | {"httpx", "yaml"})
    assert "service.encodings.absolute.sinusoidal" not in modules


def test_the_supervisor_of_several_processes_imports_no_server() -> None:
    modules = modules_after("import service.__main__, service.serving.start")

    assert not modules & (SERVERS | DRAWING | ANALYSES)
