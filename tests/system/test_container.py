"""The image and the compose file in a real engine."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.system.engine import Engine
from tests.system.processes import free_port, wait_until

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
COMPOSE = ["compose", f"--file={ROOT / 'docker-compose.yml'}"]
RESTRICTIONS = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
ROBOT = "/encoding.npy?seq_len=4&d_model=4&base=100"
PICTURE = ROBOT.replace("npy", "png")
I_AM_A_ROBOT = [
    [0.0, 1.0, 0.0, 1.0],
    [0.84147098, 0.54030231, 0.09983342, 0.99500417],
    [0.90929743, -0.41614684, 0.19866933, 0.98006658],
    [0.14112001, -0.9899925, 0.29552021, 0.95533649],
]


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    engine.docker("build", "--tag=posref-test", ROOT)
    return "posref-test"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def container(engine: Engine, image: str, port: int) -> Iterator[str]:
    publish = f"--publish=127.0.0.1:{port}:8000"
    name = engine.docker("run", "--detach", *RESTRICTIONS, publish, image)
    yield name
    engine.docker("rm", "--force", name)


def state_of(engine: Engine, container: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(
        engine.docker("inspect", "--format={{json .State}}", container)
    )
    return state


def wait_until_healthy(engine: Engine, container: str) -> None:
    wait_until(
        "the container is healthy",
        lambda: state_of(engine, container)["Health"]["Status"] == "healthy",
    )


def assert_answers(port: int) -> None:
    response = httpx.get(f"http://127.0.0.1:{port}{ROBOT}", trust_env=False)
    assert response.status_code == httpx.codes.OK
    np.testing.assert_allclose(np.load(io.BytesIO(response.content)), I_AM_A_ROBOT, atol=1e-7)


def test_container_serves_without_capabilities(engine: Engine, container: str, port: int) -> None:
    wait_until_healthy(engine, container)

    assert_answers(port)
    assert engine.docker("exec", container, "id", "--user") == "10001"
    assert engine.docker("exec", container, "id", "--group") == "10001"


def test_pictures_need_no_writable_disk(engine: Engine, container: str, port: int) -> None:
    wait_until_healthy(engine, container)

    picture = httpx.get(f"http://127.0.0.1:{port}{PICTURE}", trust_env=False, timeout=60)

    assert picture.status_code == httpx.codes.OK
    assert picture.content.startswith(b"\x89PNG")


def test_container_exits_with_code_0_on_stop(engine: Engine, container: str) -> None:
    wait_until_healthy(engine, container)

    engine.docker("stop", container)

    assert state_of(engine, container)["ExitCode"] == 0


def test_image_has_the_command_line_and_no_pip(engine: Engine, image: str) -> None:
    run = ["run", "--rm", *RESTRICTIONS, image]

    assert engine.docker(*run, "posref", "--version").startswith("posref ")
    installed = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    assert not {"pip", "setuptools", "wheel"} & set(
        engine.docker(*run, "python", "-c", installed).split()
    )


def test_compose_up_serves_and_down_removes_everything(engine: Engine, port: int) -> None:
    compose = [*COMPOSE, "--project-name=posref-test"]
    networks = engine.docker("network", "ls")
    variables = {"POSREF_PORT": str(port)}
    try:
        engine.docker(*compose, "up", "--build", "--pull=never", "--wait", **variables)
        assert_answers(port)
    finally:
        engine.docker(*compose, "down", **variables)

    assert engine.docker("ps", "--all", "--quiet") == ""
    assert engine.docker("volume", "ls", "--quiet") == ""
    assert engine.docker("network", "ls") == networks


def test_compose_publishes_port_8000_on_loopback(engine: Engine) -> None:
    configuration = json.loads(engine.docker(*COMPOSE, "config", "--format=json", POSREF_PORT=""))
    ports = configuration["services"]["posref"]["ports"]

    assert [(port["host_ip"], port["published"]) for port in ports] == [("127.0.0.1", "8000")]
