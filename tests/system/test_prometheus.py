"""A real Prometheus with our configuration, alerts and dashboard."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.system.processes import free_port, run, wait_until
from tests.system.servers import ROOT, Server, running

pytestmark = pytest.mark.system

DEPLOY = ROOT / "deploy"
NPY = "/encoding.npy?seq_len=4&d_model=4"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack Prometheus; if installed it would start by itself."""
    folder = tmp_path_factory.mktemp("prometheus")
    run("apt-get", "--quiet", "update")
    run("sh", "-c", 'cd "$1" && apt-get --quiet download prometheus', "sh", str(folder))
    (package,) = folder.glob("prometheus_*.deb")
    run("dpkg", "-x", package, folder)
    return folder / "usr" / "bin"


def test_promtool_accepts_configuration_and_alerts(programs: Path) -> None:
    told = run(programs / "promtool", "check", "config", DEPLOY / "prometheus" / "prometheus.yml")

    assert "rules found" in told


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana" / "posref.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


class Prometheus:
    """A Prometheus on a port of this machine."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.address}/-/ready", trust_env=False).is_success
        except httpx.TransportError:
            return False

    def ask(self, expression: str) -> list[Any]:
        """Return the current value of an expression, by labels."""
        asked = {"query": expression}
        answer = httpx.get(f"{self.address}/api/v1/query", params=asked, trust_env=False).json()
        assert answer["status"] == "success", (expression, answer)
        values: list[Any] = answer["data"]["result"]
        return values


@contextmanager
def watching(server: Server, programs: Path, folder: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes a server every second, otherwise with our configuration."""
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(DEPLOY / "prometheus" / "alerts.yml")]
    (job,) = settings["scrape_configs"]
    del job["dns_sd_configs"]
    job |= {"scrape_timeout": "1s", "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = free_port()
    words = [
        str(programs / "prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        prometheus = Prometheus(port)
        try:
            wait_until("Prometheus answers", prometheus.is_ready, seconds=60)
            yield prometheus
        finally:
            process.terminate()


def test_every_panel_of_the_dashboard_has_data(programs: Path, tmp_path: Path) -> None:
    with running(workers=2) as server, watching(server, programs, tmp_path) as prometheus:
        targets = [NPY, "/encoding?seq_len=2&d_model=2", "/nowhere"]

        def is_known() -> bool:
            for target in targets:
                server.get(target)
            known = prometheus.ask("count_over_time(posref_workers[20s])")
            return bool(known) and int(known[0]["value"][1]) >= 5

        wait_until("some counts are read", is_known, seconds=60)
        filled = {"$job": "posref", "$__rate_interval": "20s"}
        for expression in expressions():
            for name, value in filled.items():
                expression = expression.replace(name, value)  # noqa: PLW2901
            assert prometheus.ask(expression), expression
        (workers,) = prometheus.ask("posref_workers")
        assert workers["value"][1] == "2"
