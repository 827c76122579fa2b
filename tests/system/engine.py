"""A private container engine for the tests."""

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system import debian
from tests.system.processes import run, wait_until

BASE_IMAGE = "python:3.13-slim"
EDGE_IMAGE = "nginxinc/nginx-unprivileged:1.30-alpine"

_ENGINE_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "docker-compose")
_PACKAGES = (
    *(f"{name}/{debian.SUITE}" for name in _ENGINE_PACKAGES),
    *("iptables", "iproute2", "mmdebstrap"),
)
_BASE_PACKAGES = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates,netbase,tzdata"
_CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_BRIDGE = Path("/sys/class/net/docker0")
_STOP_SECONDS = 60


@dataclass(frozen=True)
class Engine:
    """A running engine with the base image of the Dockerfile."""

    environment: Mapping[str, str]

    def docker(self, *arguments: str | Path, **variables: str) -> str:
        """Run a docker command and return its output."""
        environment = {**self.environment, **variables}
        return run("/usr/bin/docker", *arguments, environment=environment).strip()


@contextmanager
def running_engine() -> Iterator[Engine]:
    """Install and run an engine, and restore the machine afterwards."""
    debian.install(_PACKAGES)
    with ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix="posref-engine-"))
        undo.callback(_remove, folder)
        undo.enter_context(_network_kept())
        undo.enter_context(_daemon(folder))
        environment = {
            "DOCKER_HOST": f"unix://{folder}/docker.sock",
            "DOCKER_CONFIG": str(folder / "client"),
        }
        engine = Engine(environment)
        engine.docker("import", *_base_changes(), _base_archive(), BASE_IMAGE)
        yield engine


def import_edge(engine: Engine) -> None:
    """Build a substitute for the image of the edge: an nginx of the same release."""
    engine.docker("import", '--change=CMD ["nginx"]', _edge_archive(), EDGE_IMAGE)


@contextmanager
def _daemon(folder: Path) -> Iterator[None]:
    words = [
        "/usr/sbin/dockerd",
        f"--host=unix://{folder}/docker.sock",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/dockerd.pid",
    ]
    log = folder / "dockerd.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True) as daemon,
    ):
        try:
            wait_until(
                "the engine listens or gives up",
                lambda: (folder / "docker.sock").exists() or daemon.poll() is not None,
            )
            if daemon.poll() is not None:
                pytest.fail(f"dockerd gave up:\n{log.read_text()[-4000:]}")
            yield
        finally:
            _stop(daemon, folder)


def _stop(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    daemon.terminate()
    try:
        daemon.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()
        raise
    wait_until("nothing of the engine runs any more", lambda: not _has_processes(folder))


def _has_processes(folder: Path) -> bool:
    """Return whether the command line of any process has the folder's name."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in command.read_bytes():
                return True
    return False


@contextmanager
def _network_kept() -> Iterator[None]:
    """Restore the machine's network settings that an engine changes."""
    had_bridge, forwarding = _BRIDGE.exists(), _IP_FORWARD.read_text()
    rules = [run("iptables-save", "--table", table) for table in ("filter", "nat")]
    try:
        yield
    finally:
        if _BRIDGE.exists() and not had_bridge:
            run("ip", "link", "delete", _BRIDGE.name)
        for table in rules:
            run("iptables-restore", stdin=table)
        _IP_FORWARD.write_text(forwarding)


def _remove(folder: Path) -> None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mounted = line.split()[1]
        if mounted.startswith(str(folder)):
            run("umount", mounted)
    shutil.rmtree(folder)


def _base_archive() -> Path:
    """Build a substitute for the base image, without a registry."""
    machine_bundle = ssl.get_default_verify_paths().cafile or _CA_BUNDLE
    return debian.bootstrapped(
        "base.tar",
        "--variant=minbase",
        f"--include={_BASE_PACKAGES}",
        '--customize-hook=rm --force "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
        f"--customize-hook=upload {machine_bundle} {_CA_BUNDLE}",
    )


def _edge_archive() -> Path:
    cache, conf = '"$1"/var/cache/nginx', '"$1"/etc/nginx'
    return debian.bootstrapped(
        "edge.tar",
        "--variant=minbase",
        "--include=nginx,wget",
        f"--customize-hook=rm --recursive --force {conf}/*",
        f"--customize-hook=install --directory --owner=101 --group=0 {cache}",
        suite="forky",
    )


def _base_changes() -> list[str]:
    """Make pip in the container trust this machine's certificates; the real image needs none."""
    changes = [f"ENV SSL_CERT_FILE={_CA_BUNDLE} PIP_CERT={_CA_BUNDLE}", 'CMD ["python3"]']
    return [f"--change={change}" for change in changes]
