"""The pods of the Kubernetes tree, run by podman."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.system.cluster import Addresses, joined
from tests.system.engine import Engine, import_edge
from tests.system.kubernetes import Objects, pod_of, rendered
from tests.system.podman import Container, Podman, running_podman

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
URL = "http://127.0.0.1:8000"
TABLE = f"{URL}/encoding.npy?seq_len=2&d_model=2"
PICTURE = f"{URL}/encoding.png?seq_len=2&d_model=2"
# More than the pod's settings allow: 320 MiB of cache, 512 MiB of working memory.
KEPT = f"{URL}/encoding.npy?seq_len=[4096-4135]&d_model=512"
SENT = f"{URL}/rope/apply?layout=half&start=[1-8]"
SENT_SHAPE = (131_000, 128)
READ_ONLY = ["/", "/opt/posref", "/etc"]
WAITING = ["--retry", "60", "--retry-delay", "1", "--retry-connrefused", "--fail"]
STATUS = ["--output", "/dev/null", "--write-out", "%{http_code} "]
CACHE = ["--output", "/dev/null", "--write-out", "%{http_code} %header{x-cache}"]
KEPT_AT_THE_EDGE = f"{URL}/rope.npy?head_dim=8&seq_len=2"
REPLICAS = "posref-replicas.posref.svc.cluster.local"
NAMES = "kube-dns.kube-system.svc.cluster.local"


@pytest.fixture(scope="module")
def objects() -> Objects:
    return rendered()


@pytest.fixture(scope="module")
def podman(engine: Engine, objects: Objects) -> Iterator[Podman]:
    import_edge(engine)
    engine.docker("build", f"--tag={image_of(objects, 'posref')}", ROOT)
    with running_podman() as podman:
        for name in ("posref", "posref-edge"):
            archive = podman.folder / f"{name}.tar"
            engine.docker("save", f"--output={archive}", image_of(objects, name))
            podman.run("load", "--quiet", f"--input={archive}")
            archive.unlink()
        yield podman


@pytest.fixture(scope="module")
def replica(podman: Podman, objects: Objects) -> Iterator[Container]:
    deployment = objects.of("Deployment")["posref"]
    with podman.playing(deployment, *objects.of("ConfigMap").values()) as container:
        container.curl(*WAITING, f"{URL}/readyz")
        yield container


@pytest.fixture(scope="module")
def edge(podman: Podman, objects: Objects) -> Iterator[Container]:
    deployment = objects.of("Deployment")["posref-edge"]
    with podman.playing(deployment, *objects.of("ConfigMap").values()) as container:
        yield container


@pytest.fixture(scope="module")
def addresses(replica: Container, edge: Container) -> Iterator[Addresses]:
    with joined(replica, edge, name=REPLICAS, dns=NAMES) as addresses:
        edge.curl(*WAITING, f"{URL}/readyz")
        yield addresses


def image_of(objects: Objects, name: str) -> str:
    (container,) = pod_of(objects.of("Deployment")[name])["containers"]
    image: str = container["image"]
    return image


def assert_it_has_no_rights(container: Container, user: int) -> None:
    status = container.status()
    assert status["Uid"].split() == [str(user)] * 4
    assert status["Gid"].split() == [str(user)] * 4
    assert int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_container_serves_without_capabilities(replica: Container, tmp_path: Path) -> None:
    replica.curl("--fail", "--output", str(tmp_path / "table.npy"), TABLE)

    assert np.load(tmp_path / "table.npy").shape == (2, 2)
    assert_it_has_no_rights(replica, 10001)


def test_pod_can_write_only_to_its_own_folder(replica: Container) -> None:
    places = " ".join(READ_ONLY)
    attempts = (
        f"for place in {places}; do touch $place/file 2>&1; done; touch $TMPDIR/file; echo $?"
    )

    *refusals, own = replica.execute("sh", "-c", attempts).splitlines()

    assert len(refusals) == len(READ_ONLY)
    assert all("Read-only file system" in refusal for refusal in refusals)
    assert own == "0"


def test_pictures_need_no_writable_disk(replica: Container) -> None:
    assert replica.curl(*STATUS, PICTURE) == "200 "


def test_pod_memory_covers_all_limits_of_its_settings(replica: Container, tmp_path: Path) -> None:
    body = tmp_path / "body.npy"
    np.save(body, np.ones(SENT_SHAPE, np.float32))
    sending = ["--request", "POST", "--header", "Content-Type: application/x-npy"]

    process = replica.state()["Pid"]
    kept = replica.curl(*STATUS, KEPT)
    sent = replica.curl(*STATUS, "--parallel", *sending, "--upload-file", str(body), SENT)

    assert set(kept.split()) == {"200"}
    assert set(sent.split()) <= {"200", "503"}
    assert "200" in sent.split()
    assert replica.curl(*STATUS, TABLE) == "200 "
    assert replica.state()["Pid"] == process, "it was killed and started anew"


def test_pod_exits_with_code_0_within_its_grace_period(
    replica: Container, objects: Objects
) -> None:
    replica.stop(grace_of(objects, "posref"))

    assert replica.state()["ExitCode"] == 0
    replica.start()
    replica.curl(*WAITING, f"{URL}/readyz")


@pytest.mark.usefixtures("addresses")
def test_edge_resolves_replicas_and_caches_their_answers(edge: Container) -> None:
    first, second = (edge.curl(*CACHE, f"{URL}/rope.npy?head_dim=4&seq_len=2") for _ in range(2))

    assert (first, second) == ("200 MISS", "200 HIT")
    assert_it_has_no_rights(edge, 101)


def test_edge_limits_apply_per_client_behind_the_ingress(
    edge: Container, replica: Container, addresses: Addresses
) -> None:
    forwarded = ["--header", "X-Forwarded-For: 192.0.2.7"]

    replica.curl("--fail", *STATUS, *forwarded, f"http://{addresses.edge}:8000/docs")

    lines = [json.loads(line) for line in edge.log().splitlines() if line.startswith("{")]
    assert lines[-1]["path"] == "/docs"
    assert lines[-1]["client"] == "192.0.2.7"


@pytest.mark.usefixtures("addresses")
def test_edge_without_replicas_is_healthy_and_serves_its_cache(
    edge: Container, replica: Container, objects: Objects
) -> None:
    edge.curl("--fail", *STATUS, KEPT_AT_THE_EDGE)

    replica.stop(grace_of(objects, "posref"))

    assert edge.curl(*STATUS, f"{URL}/edge/healthz") == "200 "
    assert edge.curl(*CACHE, KEPT_AT_THE_EDGE) == "200 HIT"
    assert edge.curl(*STATUS, f"{URL}/rope.npy?head_dim=6&seq_len=2") == "502 "
    replica.start()


@pytest.mark.usefixtures("addresses")
def test_edge_exits_with_code_0_within_its_grace_period(edge: Container, objects: Objects) -> None:
    edge.stop(grace_of(objects, "posref-edge"))

    assert edge.state()["ExitCode"] == 0


def grace_of(objects: Objects, name: str) -> int:
    seconds: int = pod_of(objects.of("Deployment")[name])["terminationGracePeriodSeconds"]
    return seconds
