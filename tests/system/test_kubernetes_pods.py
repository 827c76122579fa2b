"""The pods of the Kubernetes tree: security, resources and settings."""

import fnmatch
import json
import re
from copy import deepcopy
from typing import Any

import pytest

from service import __version__
from service.serving.supervisor import longest_end_seconds
from service.settings import Settings, load_settings
from tests.system import pod_security
from tests.system.engine import EDGE_IMAGE
from tests.system.kubernetes import DEPLOY, Document, Objects, bytes_of, pod_of, ports_of, rendered

pytestmark = pytest.mark.system

GIB = 2**30
PROBES = ("startup", "liveness", "readiness")
OPENAPI = DEPLOY.parent / "openapi.json"
SECURITY = ["containers", 0, "securityContext"]
SPOILED: list[tuple[list[Any], Any, str]] = [
    (["hostNetwork"], True, "hostNetwork"),
    (["hostPID"], True, "hostPID"),
    (["hostIPC"], True, "hostIPC"),
    (["volumes"], [{"name": "host", "hostPath": {"path": "/"}}], "volume host"),
    (["securityContext", "sysctls"], [{"name": "kernel.msgmax"}], "sysctl kernel.msgmax"),
    (["securityContext", "runAsNonRoot"], None, "runAsNonRoot"),
    (["securityContext", "runAsUser"], 0, "runAsUser"),
    (["securityContext", "seccompProfile"], {"type": "Unconfined"}, "seccompProfile"),
    (["securityContext", "appArmorProfile"], {"type": "Unconfined"}, "appArmorProfile"),
    (["securityContext", "seLinuxOptions"], {"user": "root"}, "options of the host's own"),
    ([*SECURITY, "privileged"], True, "privileged"),
    ([*SECURITY, "allowPrivilegeEscalation"], None, "allowPrivilegeEscalation"),
    ([*SECURITY, "procMount"], "Unmasked", "procMount"),
    ([*SECURITY, "capabilities"], {"drop": ["CHOWN"]}, "capabilities that are kept"),
    ([*SECURITY, "capabilities", "add"], ["CHOWN"], "capabilities that are added"),
    ([*SECURITY, "seccompProfile"], {"type": "Unconfined"}, "seccompProfile"),
    (["containers", 0, "ports", 0, "hostPort"], 8000, "hostPort"),
    (["containers", 0, "livenessProbe", "httpGet", "host"], "elsewhere", "host of a probe"),
    (["containers", 0, "lifecycle", "preStop"], {"tcpSocket": {"host": "a"}}, "host of a hook"),
]


@pytest.fixture(scope="module")
def objects() -> Objects:
    return rendered()


@pytest.fixture(params=["posref", "posref-edge"])
def pod(objects: Objects, request: pytest.FixtureRequest) -> Document:
    return pod_of(objects.of("Deployment")[request.param])


@pytest.fixture
def replica(objects: Objects) -> Document:
    return pod_of(objects.of("Deployment")["posref"])


@pytest.fixture
def edge(objects: Objects) -> Document:
    return pod_of(objects.of("Deployment")["posref-edge"])


@pytest.fixture
def settings(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in objects.settings().items():
        monkeypatch.setenv(name, value)
    return load_settings()


def test_pods_satisfy_the_restricted_profile(pod: Document) -> None:
    assert pod_security.faults_of(pod) == []


@pytest.mark.parametrize(("path", "value", "fault"), SPOILED)
def test_privileged_pod_violates_the_restricted_profile(
    replica: Document, path: list[Any], value: Any, fault: str
) -> None:
    spoiled = deepcopy(replica)
    node: Any = spoiled
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value

    assert fault in pod_security.faults_of(spoiled)


def test_pods_write_only_to_volumes_with_a_size_limit(pod: Document) -> None:
    (container,) = pod["containers"]
    written = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert all("sizeLimit" in volume for volume in written)


def test_pods_have_no_service_account_token(objects: Objects, pod: Document) -> None:
    account = objects.of("ServiceAccount")[pod["serviceAccountName"]]

    assert pod["automountServiceAccountToken"] is False
    assert account["automountServiceAccountToken"] is False
    # A service called posref would set POSREF_PORT to tcp://….
    assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_pods_have_resource_requests_and_limits(pod: Document, kind: str) -> None:
    (container,) = pod["containers"]

    assert {"cpu", "memory", "ephemeral-storage"} == set(container["resources"][kind])


def test_image_tag_is_the_version(replica: Document) -> None:
    (container,) = replica["containers"]

    assert container["image"].rpartition(":")[2] == __version__


def test_probes_use_documented_paths_and_declared_ports(replica: Document) -> None:
    (container,) = replica["containers"]
    described = json.loads(OPENAPI.read_text())["paths"]
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in PROBES}
    paths = {kind: probe["path"] for kind, probe in asked.items()}

    assert paths == {"startup": "/readyz", "liveness": "/livez", "readiness": "/readyz"}
    assert set(paths.values()) <= set(described)
    assert {probe["port"] for probe in asked.values()} <= ports_of(replica)


def test_readiness_fails_before_liveness(pod: Document) -> None:
    (container,) = pod["containers"]
    ready, live = (
        container[kind]["periodSeconds"] * container[kind]["failureThreshold"]
        for kind in ("readinessProbe", "livenessProbe")
    )

    assert ready < live


def test_environment_of_pods_is_valid_settings(objects: Objects, settings: Settings) -> None:
    given = objects.settings()
    named = {name for name in given if name.startswith("POSREF_")}

    assert named <= {f"POSREF_{name.upper()}" for name in Settings.model_fields}
    assert str(settings.drain_seconds) == given["POSREF_DRAIN_SECONDS"]


def test_every_worker_has_ended_before_the_grace_period_of_its_pod_has(
    replica: Document, settings: Settings
) -> None:
    (container,) = replica["containers"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert waits + longest_end_seconds(settings) < replica["terminationGracePeriodSeconds"]


def test_api_keys_come_from_an_optional_secret(objects: Objects, replica: Document) -> None:
    (container,) = replica["containers"]
    (keys,) = [given for given in container["env"] if given["name"] == "POSREF_API_KEYS"]

    assert keys["valueFrom"]["secretKeyRef"]["optional"] is True
    assert not objects.of("Secret")


def test_edge_mounts_every_included_file(objects: Objects, edge: Document) -> None:
    (container,) = edge["containers"]
    maps = {volume["name"]: volume.get("configMap") for volume in edge["volumes"]}
    mounted = {
        f"{mount['mountPath'].removeprefix('/etc/nginx')}/{key}".strip("/"): text
        for mount in container["volumeMounts"]
        if maps[mount["name"]]
        for key, text in objects.of("ConfigMap")[maps[mount["name"]]["name"]]["data"].items()
    }
    included = re.findall(r"^\s*include (.+);", "\n".join(mounted.values()), re.MULTILINE)

    assert "nginx.conf" in mounted
    assert included
    assert all(fnmatch.filter(mounted, name) for name in included)


def test_edge_configuration_is_that_of_compose(edge: Document) -> None:
    (container,) = edge["containers"]

    assert container["image"] == EDGE_IMAGE


def test_edge_volume_is_larger_than_its_cache(objects: Objects, edge: Document) -> None:
    (volume,) = [found["emptyDir"] for found in edge["volumes"] if "emptyDir" in found]
    (container,) = edge["containers"]
    rules = objects.texts()["cache.conf"]
    (kept,), (coming,) = (re.findall(rf"{name}=(\d+)g", rules) for name in ("max_size", "min_free"))

    assert (int(kept) + int(coming)) * GIB < bytes_of(volume["sizeLimit"])
    limit = container["resources"]["limits"]["ephemeral-storage"]
    assert bytes_of(volume["sizeLimit"]) < bytes_of(limit)


def test_grace_period_of_the_edge_covers_its_shutdown(objects: Objects, edge: Document) -> None:
    (container,) = edge["containers"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    (rest,) = re.findall(r"worker_shutdown_timeout (\d+)s;", objects.texts()["nginx.conf"])

    assert waits + int(rest) < edge["terminationGracePeriodSeconds"]


def test_edge_probes_use_its_own_health_check(objects: Objects, edge: Document) -> None:
    (container,) = edge["containers"]
    paths = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in PROBES}

    assert paths == {"/edge/healthz"}
    assert "location = /edge/healthz {" in objects.texts()["locations.conf"]
