"""The compose stack of edge and replicas in the tests' engine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from tests.system.engine import Engine, import_edge
from tests.system.processes import free_port, wait_until
from tests.system.servers import ROOT, counted

PROJECT = "posref-edge-test"

_FILES = ("docker-compose.yml", "docker-compose.edge.yml")
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Stack:
    """A running stack.

    Attributes:
        port: of the edge on this machine.
    """

    engine: Engine
    port: int

    def compose(self, *words: str, files: tuple[str, ...] = _FILES, **variables: str) -> str:
        """Run a compose command of this stack."""
        named = [f"--file={ROOT / file}" for file in files]
        settings = {"POSREF_PORT": str(self.port), **variables}
        project = f"--project-name={PROJECT}"
        return self.engine.docker("compose", *named, project, *words, **settings)

    def url(self, target: str) -> str:
        return f"http://127.0.0.1:{self.port}{target}"

    def get(self, target: str, **headers: str) -> httpx.Response:
        """GET from the edge on a new connection."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(self.url(target), headers=named, timeout=_ANSWER_SECONDS, trust_env=False)

    def containers(self, service: str = "posref") -> list[str]:
        """Return the containers of a service."""
        return self.compose("ps", "--quiet", service).split()

    def replica_urls(self) -> list[str]:
        """Return the addresses of the replicas."""
        template = "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        addresses = [self.engine.docker("inspect", template, each) for each in self.containers()]
        return [f"http://{address}:8000" for address in addresses]

    def counts(self, name: str, **labels: str) -> list[int]:
        """Return a metric of each replica."""
        return [counted(url, name, labels) for url in self.replica_urls()]

    def restart(self, container: str) -> None:
        """Restart a container and wait until it is healthy."""
        self.engine.docker("restart", container)
        wait_until("it is healthy again", lambda: self._is_healthy(container), seconds=300)

    def _is_healthy(self, container: str) -> bool:
        state = json.loads(self.engine.docker("inspect", "--format={{json .State}}", container))
        return bool(state["Health"]["Status"] == "healthy")


@contextmanager
def running_stack(engine: Engine) -> Iterator[Stack]:
    """Start the edge and three replicas, and remove everything afterwards."""
    import_edge(engine)
    stack = Stack(engine, free_port())
    try:
        stack.compose("up", "--build", "--pull=never", "--wait")
        yield stack
    finally:
        stack.compose("down", "--volumes")
