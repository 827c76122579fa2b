"""The built wheel, installed by pip into an empty environment, away from the source tree."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

import httpx
import pytest

from service import __version__
from service.__main__ import find_body
from tests.system.processes import run
from tests.system.servers import ROOT, Server, running_program

pytestmark = pytest.mark.system

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
GENERATED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
FILES = [
    "/encoding.npy?seq_len=50&d_model=512",
    "/encoding.png?seq_len=20&d_model=16",
    "/rope.safetensors?head_dim=8&seq_len=4&pack=half",
    "/relative/alibi.csv?num_heads=8&head=0&query_len=4",
    "/encoding.json.sha256?convention=vaswani&seq_len=2&d_model=4",
]
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the pinned build requirements."""
    return environment(tmp_path_factory.mktemp("tools"), "build")


@pytest.fixture(scope="module")
def wheel(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tools, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of an environment with the wheel."""
    python = environment(tmp_path_factory.mktemp("installed"), "runtime")
    run(*PIP, f"--python={python}", "install", "--no-deps", "--no-index", wheel)
    return python.parent


@pytest.fixture(scope="module")
def installed(programs: Path) -> Iterator[Server]:
    """Run a server of the wheel."""
    with running_program([programs / "posref"], programs, {}) as server:
        yield server


def environment(folder: Path, requirements: str) -> Path:
    """Return the interpreter of a new environment with pinned requirements alone."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pinned = ROOT / "requirements" / f"{requirements}.txt"
    words = ("install", "--no-compile", "--require-hashes", f"--requirement={pinned}")
    run(*PIP, f"--python={python}", *words)
    return python


def build(tools: Path, folder: Path) -> Path:
    """Build the wheel from a copy of the source tree that is removed afterwards."""
    source = shutil.copytree(ROOT, folder / "source", ignore=GENERATED)
    fixed = {"SOURCE_DATE_EPOCH": "315532800"}
    words = ("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", source)
    run(*PIP, f"--python={tools}", *words, environment=fixed)
    shutil.rmtree(source)
    (built,) = folder.glob("*.whl")
    return built


def run_installed(programs: Path, *words: str | Path) -> str:
    """Run posref in a folder without the source tree, which PYTHONPATH does not name either."""
    return run("env", "-u", "PYTHONPATH", "-C", programs, programs / "posref", *words)


def post(server: Server, target: str, content: bytes, media_type: str) -> httpx.Response:
    headers = {"Content-Type": media_type}
    return httpx.post(
        server.url(target), content=content, headers=headers, timeout=60, trust_env=False
    )


def hold_same(answer: httpx.Response, of_source: httpx.Response) -> None:
    """Check that two answers are successful and have the same type and bytes."""
    assert answer.is_success, answer.text
    kinds = [each.headers["Content-Type"] for each in (answer, of_source)]
    assert (kinds[0], answer.content) == (kinds[1], of_source.content), answer.url


def metadata_of(wheel: ZipFile, name: str) -> str:
    return wheel.read(f"posref-{__version__}.dist-info/{name}").decode()


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    package = {
        str(file.relative_to(ROOT)): file.read_bytes()
        for file in (ROOT / "service").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    with ZipFile(wheel) as built:
        held = {name: built.read(name) for name in built.namelist()}

    described = {name for name in held if name.startswith(f"posref-{__version__}.dist-info/")}
    assert {name: held[name] for name in held.keys() - described} == package
    assert "service/py.typed" in package


def test_two_builds_give_the_same_bytes(tools: Path, wheel: Path, tmp_path: Path) -> None:
    assert build(tools, tmp_path).read_bytes() == wheel.read_bytes()


def test_wheel_describes_itself(wheel: Path) -> None:
    with ZipFile(wheel) as built:
        described = HeaderParser().parsestr(metadata_of(built, "METADATA"))
        commands = metadata_of(built, "entry_points.txt")
        license_text = metadata_of(built, "licenses/LICENSE")

    assert (described["Name"], described["Version"]) == ("posref", __version__)
    assert described["License-Expression"] == "MIT"
    assert license_text == (ROOT / "LICENSE").read_text()
    assert described["Description-Content-Type"] == "text/markdown"
    assert described.get_payload() == (ROOT / "README.md").read_text()
    assert set(described["Requires-Python"].split(",")) == {">=3.11", "<3.15"}
    assert commands.split() == ["[console_scripts]", "posref", "=", "service.__main__:main"]
    assert wheel.name.endswith("-py3-none-any.whl")


def test_installed_requirements_are_those_that_the_wheel_names(programs: Path) -> None:
    assert run(*PIP, f"--python={programs / 'python'}", "check") == ""


@pytest.mark.parametrize("url", FILES[:2])
def test_installed_command_writes_the_file_of_the_source_tree(
    programs: Path, tmp_path: Path, url: str
) -> None:
    file = tmp_path / "file"

    run_installed(programs, "get", url, f"--output={file}")

    assert file.read_bytes() == b"".join(find_body(url).blocks())


def test_installed_command_prints_version_and_openapi_document(programs: Path) -> None:
    assert run_installed(programs, "--version") == f"posref {__version__}\n"
    assert run_installed(programs, "openapi") == (ROOT / "openapi.json").read_text()


def test_installed_service_runs_without_the_source_tree(programs: Path, installed: Server) -> None:
    code = "import service; print(service.__file__)"
    found = Path(run("env", "-u", "PYTHONPATH", "-C", programs, programs / "python", "-c", code))

    assert found.is_relative_to(programs.parent)
    assert Path(f"/proc/{installed.process.pid}/cwd").resolve() == programs.resolve()
    assert run_installed(programs, "ready", f"--port={installed.port}") == ""


def test_installed_service_answers_every_link_as_the_source_tree(
    installed: Server, server: Server
) -> None:
    links = server.get("/").json()["links"]
    targets = [link["href"] for link in links if link["method"] == "GET"]
    targets += re.findall(r'(?:src|href)="(/docs/[^"]+)"', server.get("/docs").text)
    targets.remove("/metrics")

    assert len(targets) > 30
    for target in [*targets, *FILES]:
        hold_same(installed.get(target), server.get(target))


def test_installed_service_answers_posts_as_the_source_tree(
    installed: Server, server: Server
) -> None:
    table = server.get(FILES[0])
    bodies = {
        "/rope/config": (json.dumps(CONFIG).encode(), "application/json"),
        "/encoding/apply": (table.content, "application/x-npy"),
        "/identify": (table.content, "application/x-npy"),
        f"/compare?to={quote(FILES[0])}": (table.content, "application/x-npy"),
    }

    for target, (content, media_type) in bodies.items():
        hold_same(*(post(each, target, content, media_type) for each in (installed, server)))
