"""Clients that others' generators make from openapi.json, compiled and used against a server."""

import base64
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.system.debian import CACHE, install
from tests.system.packages import cached, node_modules
from tests.system.processes import run
from tests.system.servers import ROOT, Server

pytestmark = pytest.mark.system

PROGRAMS = Path(__file__).parent / "generated"
DOCUMENT = ROOT / "openapi.json"
REQUIREMENTS = ROOT / "requirements" / "generators.txt"
DEBIAN = (
    "default-jdk-headless", "libgeronimo-annotation-1.3-spec-java",
    "golang-go", "golang-gopkg-validator.v2-dev",
)  # fmt: skip
AT_ONCE = 2
BRIEF = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java machine that runs for seconds."""

CODE_ALONE = ("--global-property=apiDocs=false,modelDocs=false,apiTests=false,modelTests=false",)

# An enumeration of Go needs its name in those of its constants: two have a float32. The template
# for Java has a variable p of its own, which is a parameter of /relative/kerple.
OPTIONS = {
    "go": ("--additional-properties=packageName=posref,enumClassPrefix=true",),
    "typescript-fetch": ("--additional-properties=importFileExtension=.js",),
    "java": (
        "--library=native",
        "--parameter-name-mappings=p=power",
        "--invoker-package=posref",
        "--api-package=posref.api",
        "--model-package=posref.model",
        "--additional-properties=openApiNullable=false,useSingleRequestParameter=true",
    ),
    "rust": (),
    "csharp": ("--library=httpclient",),
}

# What generators tell of every document like this one: of OpenAPI 3.1, of objects that are closed,
# of examples that they leave out, and that they spell media types, `type` and `Range` in another
# way, as Rust and Go need it.
NOTES = re.compile(
    r"OpenAPI 3\.1 support is still in beta"
    r"|Failed to get the schema name: null$|Ignoring complex example on request body$"
    r"|(Application|Image|Text)\S+ cannot be used as a model name\. Renamed to \w+Slash\w+$"
    r"|\btype cannot be used as a field/variable name\. Renamed to r(#|_hash_)type$"
    r"|range \(reserved word\) cannot be used as parameter name\. Renamed to range_$"
)

CONFIG = {
    "model_type": "llama",
    "head_dim": 64,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "key_of_another_library": {"any": [1, "value"]},
}
VECTORS = [[1, 2, 3, 4], [5, 6, 7, 8]]


@dataclass(frozen=True)
class Tools:
    """Folders of the generators and of what the generated code needs."""

    python: Path
    node: Path

    @property
    def jar(self) -> Path:
        """The generator; the client for Java uses the copy of Jackson in it."""
        return self.python / "openapi_generator_cli" / "openapi-generator.jar"


@dataclass(frozen=True)
class Client:
    """A generated client, the lines that its generator complained with, and how to run it."""

    folder: Path
    complaints: list[str]
    program: tuple[str | Path, ...] = ()
    path: tuple[Path, ...] = ()

    def told(self, *arguments: str) -> Any:
        """Run the program and return what it prints."""
        environment = {"PYTHONPATH": os.pathsep.join(map(str, self.path))}
        return json.loads(run(*self.program, *arguments, environment=environment))


def python_packages() -> Path:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    pinned = ("--require-hashes", "-r", REQUIREMENTS)
    return cached("generators", REQUIREMENTS, lambda folder: run(*pip, *pinned, "--target", folder))


def generate(tools: Tools, name: str, folder: Path) -> list[str]:
    """Generate a client with openapi-generator and return its complaints."""
    told = run(
        "java", "-Xmx2g", *BRIEF, "-jar", tools.jar,
        "generate", "-g", name, "-i", DOCUMENT, "-o", folder, *CODE_ALONE, *OPTIONS[name],
    )  # fmt: skip
    lines = re.findall(r"^\[\w+\] (?:WARN|ERROR) .*$", told, re.MULTILINE)
    return [line for line in lines if not NOTES.search(line)]


def go(tools: Tools, folder: Path) -> Client:
    client, program = folder / "src" / "posref", folder / "program"
    complaints = generate(tools, "go", client)
    shutil.copytree(PROGRAMS / "go", folder / "src" / "program")
    path = f"{folder}{os.pathsep}/usr/share/gocode"
    environment = {"GO111MODULE": "off", "GOPATH": path, "GOCACHE": str(CACHE / "go")}
    run("go", "build", "-o", program, "program", environment=environment)
    return Client(client, complaints, (program,))


def typescript(tools: Tools, folder: Path) -> Client:
    client, programs, built = (folder / name for name in ("client", "program", "built"))
    complaints = generate(tools, "typescript-fetch", client)
    shutil.copytree(PROGRAMS / "typescript", programs)
    (folder / "package.json").write_text('{"type": "module"}')
    types = tools.node / "openapi-typescript" / "bin" / "cli.js"
    run("node", types, DOCUMENT, "--output", programs / "schema.d.ts")
    strict = ("--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")
    compiler = ("node", tools.node / "typescript" / "bin" / "tsc", *strict)
    run(*compiler, "--rootDir", folder, "--outDir", built, *sorted(programs.glob("*.ts")))
    (built / "package.json").write_text('{"type": "module"}')
    return Client(client, complaints, ("node", built / "program" / "main.js"))


def java(tools: Tools, folder: Path) -> Client:
    client, classes = folder / "client", folder / "classes"
    complaints = generate(tools, "java", client)
    annotations = "/usr/share/java/geronimo-annotation-1.3-spec.jar"
    path = os.pathsep.join(map(str, (classes, tools.jar, annotations)))
    sources = [*client.glob("src/main/**/*.java"), PROGRAMS / "java" / "Main.java"]
    run(
        "javac",
        *(f"-J{option}" for option in BRIEF),
        "-proc:none",
        "-nowarn",
        "-d",
        classes,
        "-cp",
        path,
        *sources,
    )
    return Client(client, complaints, ("java", "-cp", path, "Main"))


def python(tools: Tools, folder: Path) -> Client:
    client, program = folder / "posref_client", folder / "main.py"
    settings = ("--meta", "none", "--config", PROGRAMS / "python" / "generator.yaml")
    generator = (sys.executable, "-m", "openapi_python_client", "generate", *settings)
    environment = {"PYTHONPATH": str(tools.python)}
    told = run(*generator, "--path", DOCUMENT, "--output-path", client, environment=environment)
    shutil.copy(PROGRAMS / "python" / "main.py", program)
    checker = (sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports")
    run(*checker, f"--cache-dir={folder / 'mypy'}", program)
    complaints = [line for line in told.splitlines() if not line.startswith("Generating ")]
    return Client(client, complaints, (sys.executable, program), (folder, tools.python))


def rust(tools: Tools, folder: Path) -> Client:
    return Client(folder, generate(tools, "rust", folder))


def csharp(tools: Tools, folder: Path) -> Client:
    return Client(folder, generate(tools, "csharp", folder))


CLIENTS = {made.__name__: made for made in (csharp, java, go, typescript, python, rust)}
USED = ("go", "java", "python", "typescript")


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Client]]]:
    """Generate and compile all clients, the slowest first, and yield them as they are done."""
    install(DEBIAN)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        packages, modules = pool.submit(python_packages), pool.submit(node_modules, PROGRAMS)
        tools = Tools(packages.result(), modules.result())
        yield {
            name: pool.submit(made, tools, tmp_path_factory.mktemp(name))
            for name, made in CLIENTS.items()
        }


def picked(answer: httpx.Response, *names: str) -> dict[str, Any]:
    content = answer.raise_for_status().json()
    return {name: content[name] for name in names}


def posted(server: Server, target: str, body: object) -> httpx.Response:
    return httpx.post(server.url(target), json=body, timeout=60, trust_env=False)


@pytest.mark.parametrize("name", USED)
def test_client_parses_every_kind_of_answer(
    name: str, clients: Mapping[str, Future[Client]], server: Server
) -> None:
    told = clients[name].result().told(server.url(""), json.dumps(CONFIG))

    file = server.get("/rope.npy?head_dim=4&seq_len=2").content
    rotated = picked(posted(server, "/rope/apply?layout=half", {"x": VECTORS}), "data")
    rope = posted(server, "/rope/config", CONFIG).json()["rope"]["default"]
    links = [rope["table"], rope["file"]]
    assert told == {
        "table": picked(server.get("/encoding?seq_len=2&d_model=4"), "shape", "dtype", "data"),
        "tables": picked(
            server.get("/rope?head_dim=4&seq_len=2&pack=half"), "layout", "shapes", "data"
        ),
        "file": base64.b64encode(file).decode(),
        "problem": {"status": 422, "parameter": "head_dim"},
        "rotated": rotated["data"],
        "config": {"rope_theta": CONFIG["rope_theta"], "links": links},
    }
    assert told["table"]["data"][1][0] == pytest.approx(math.sin(1))
    assert all(server.get(link).is_success for link in told["config"]["links"])


def test_types_without_a_client_describe_an_answer(
    clients: Mapping[str, Future[Client]], server: Server
) -> None:
    compiled = clients["typescript"].result().program[-1]

    told = json.loads(run("node", Path(compiled).with_name("types.js"), server.url("")))

    answer = server.get("/rope?head_dim=4&seq_len=2&pack=half")
    assert told == picked(answer, "layout", "shapes", "data")


RENAMED = re.compile(r"\bfor\b( \(reserved word\))? cannot be used as", re.IGNORECASE)
"""Generators rename the parameter ``for`` of /model, a keyword of several languages."""


@pytest.mark.parametrize("name", CLIENTS)
def test_generator_has_no_complaints(name: str, clients: Mapping[str, Future[Client]]) -> None:
    assert [told for told in clients[name].result().complaints if not RENAMED.search(told)] == []


@pytest.mark.parametrize(
    ("name", "pattern", "method"),
    [
        ("rust", "src/apis/*_api.rs", r"pub async fn (\w+)"),
        ("csharp", "**/*Api.cs", r"(\w+)Async\("),
    ],
)
def test_client_that_is_not_compiled_has_every_operation(
    name: str, pattern: str, method: str, clients: Mapping[str, Future[Client]]
) -> None:
    folder = clients[name].result().folder
    paths = json.loads(DOCUMENT.read_text())["paths"]
    operations = {each["operationId"].lower() for item in paths.values() for each in item.values()}

    text = "\n".join(file.read_text() for file in folder.glob(pattern))

    assert operations <= {found.replace("_", "").lower() for found in re.findall(method, text)}
    listed = (folder / ".openapi-generator" / "FILES").read_text().split()
    assert all((folder / file).stat().st_size for file in listed)
