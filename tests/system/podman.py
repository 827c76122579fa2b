"""Kubernetes pods, run by podman without any published port."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.system import debian
from tests.system.kubernetes import Document, pod_of
from tests.system.processes import run

_PACKAGES = ("podman", "catatonit", "curl", "util-linux")
# podman's defaults may need more rights than the machine gives.
_CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


@dataclass(frozen=True)
class Container:
    """The container of a running pod with a network of its own."""

    podman: "Podman"
    pod: str
    name: str

    def state(self) -> Mapping[str, Any]:
        """Return the container's state."""
        return self.podman.state_of(f"{self.pod}-{self.name}")

    def status(self) -> dict[str, str]:
        """Return /proc/PID/status of its first process."""
        lines = Path(f"/proc/{self.state()['Pid']}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def log(self) -> str:
        """Return its output."""
        return self.podman.run("logs", f"{self.pod}-{self.name}")

    def execute(self, *command: str) -> str:
        """Run a command in the container, with its rights."""
        return self.podman.run("exec", f"{self.pod}-{self.name}", *command).strip()

    def stop(self, seconds: int) -> None:
        """Stop it, and kill it after some seconds."""
        self.podman.run("stop", f"--time={seconds}", f"{self.pod}-{self.name}")

    def start(self) -> None:
        """Restart it in the same pod."""
        self.podman.run("start", f"{self.pod}-{self.name}")

    def network(self) -> int:
        """Return a process in the pod's network namespace that lives as long as the pod."""
        holder = self.podman.run("pod", "inspect", "--format={{.InfraContainerID}}", self.pod)
        pid: int = self.podman.state_of(holder.strip())["Pid"]
        return pid

    def beside(self, *command: str) -> list[str]:
        """Return the command prefix that runs a host command in the pod's network."""
        return ["nsenter", f"--net=/proc/{self.network()}/ns/net", *command]

    def curl(self, *arguments: str) -> str:
        """GET from the pod's network."""
        quiet = ["--silent", "--show-error", "--noproxy", "*"]
        return run(*self.beside("curl", *quiet, *arguments))


@dataclass(frozen=True)
class Podman:
    """A podman with images, pods and state in a folder."""

    folder: Path

    def run(self, *arguments: str | Path) -> str:
        """Run a podman command and return its output."""
        folders = [f"--{name}={self.folder / name}" for name in ("root", "runroot", "tmpdir")]
        environment = {"CONTAINERS_CONF": str(self.folder / "containers.conf")}
        return run("podman", *folders, *arguments, environment=environment)

    def state_of(self, container: str) -> Mapping[str, Any]:
        """Return the state of a container."""
        inspected = self.run("inspect", "--format={{json .State}}", container)
        state: Mapping[str, Any] = json.loads(inspected)
        return state

    @contextmanager
    def playing(self, deployment: Document, *others: Document) -> Iterator[Container]:
        """Run one pod of a deployment with the objects that it references, and remove it."""
        name = deployment["metadata"]["name"]
        (only,) = pod_of(deployment)["containers"]
        played = self.folder / f"{name}.yaml"
        played.write_text(yaml.safe_dump_all([_alone(deployment), *others]))
        pod = f"{name}-pod-0"
        try:
            self.run("play", "kube", "--network=none", played)
            yield Container(self, pod, only["name"])
        finally:
            self.run("pod", "rm", "--force", "--time=0", pod)


@contextmanager
def running_podman() -> Iterator[Podman]:
    """Install podman with a folder of its own, and restore the machine afterwards."""
    debian.install(_PACKAGES)
    folder = Path(tempfile.mkdtemp(prefix="posref-podman-"))
    podman = Podman(folder)
    (folder / "containers.conf").write_text(_CONFIGURATION)
    try:
        yield podman
    finally:
        podman.run("system", "reset", "--force")
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if line.split()[1].startswith(str(folder)):
                run("umount", line.split()[1])
        shutil.rmtree(folder)


def _alone(deployment: Document) -> Document:
    """Return the objects without published ports and all but one pod."""
    changed = deepcopy(deployment)
    changed["spec"]["replicas"] = 1
    for container in pod_of(changed)["containers"]:
        del container["ports"]
    return changed
