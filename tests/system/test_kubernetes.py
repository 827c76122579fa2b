"""The Kubernetes tree is valid and its references resolve."""

import re
from copy import deepcopy
from pathlib import Path

import kubernetes_validate
import pytest
from kubernetes_validate.utils import all_versions

from tests.system.kubernetes import (
    DEPLOY,
    Document,
    Objects,
    labels_of,
    names_mentioned,
    pod_of,
    ports_of,
    rendered,
)

pytestmark = pytest.mark.system

# The oldest version in which preStop can sleep by default.
OLDEST = (1, 30)
VERSIONS = [
    version
    for version in all_versions()
    if tuple(int(part) for part in version.split(".")[:2]) >= OLDEST
]
WORKLOADS = ["posref", "posref-edge"]


@pytest.fixture(scope="module")
def objects() -> Objects:
    return rendered()


@pytest.fixture(params=WORKLOADS)
def deployment(objects: Objects, request: pytest.FixtureRequest) -> Document:
    return objects.of("Deployment")[request.param]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(objects: Objects, version: str) -> None:
    for document in objects.documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_unknown_field_is_invalid(objects: Objects) -> None:
    document = deepcopy(objects.of("Deployment")["posref"])
    pod_of(document)["containers"][0]["memory"] = "1Gi"

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_documented_overlay_renders(tmp_path: Path) -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    (text,) = re.findall(r"```yaml\n(apiVersion: kustomize.+?)```", page, re.DOTALL)
    (tmp_path / "posref").symlink_to(DEPLOY.parent)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(text)

    objects = rendered(tmp_path / "mine")

    (container,) = pod_of(objects.of("Deployment")["posref"])["containers"]
    (ingress,) = objects.of("Ingress").values()
    assert container["image"].startswith("registry.example.com/posref:")
    assert ingress["spec"]["rules"][0]["host"] == "tables.example.com"
    assert ingress["spec"]["tls"][0]["hosts"] == ["tables.example.com"]
    assert objects.settings()["POSREF_LOG_LEVEL"] == "warning"


def test_namespace_enforces_the_restricted_profile(objects: Objects) -> None:
    ((name, namespace),) = objects.of("Namespace").items()

    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    spaces = {
        document["metadata"].get("namespace")
        for document in objects.documents
        if document["kind"] != "Namespace"
    }
    assert spaces == {name}


def test_objects_referenced_by_pods_exist(objects: Objects, deployment: Document) -> None:
    pod = pod_of(deployment)
    maps = [*names_mentioned(pod, "configMapRef"), *names_mentioned(pod, "configMap")]
    keys = [*names_mentioned(pod, "secretKeyRef"), *names_mentioned(pod, "secret")]

    assert maps
    assert {name for name, _ in maps} <= set(objects.of("ConfigMap"))
    assert all(may_be_missing for _, may_be_missing in keys)
    mounted = {
        mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]
    }
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_selectors_match_pod_labels(objects: Objects, deployment: Document) -> None:
    pod = pod_of(deployment)

    assert objects.selected(deployment["spec"]["selector"]) == [pod]
    for constraint in pod["topologySpreadConstraints"]:
        assert objects.selected(constraint["labelSelector"]) == [pod]


def test_service_ports_exist_in_their_pods(objects: Objects) -> None:
    led_to = []
    for service in objects.of("Service").values():
        (pod,) = objects.selected({"matchLabels": service["spec"]["selector"]})
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports_of(pod)
        led_to.append(pod["serviceAccountName"])

    assert sorted(led_to) == WORKLOADS


def test_ingress_routes_to_the_edge_over_tls(objects: Objects) -> None:
    (ingress,) = objects.of("Ingress").values()
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service = objects.of("Service")[path["backend"]["service"]["name"]]

    assert objects.selected({"matchLabels": service["spec"]["selector"]}) == [
        pod_of(objects.of("Deployment")["posref-edge"])
    ]
    assert path["backend"]["service"]["port"]["name"] in {
        port["name"] for port in service["spec"]["ports"]
    }
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]


def test_replicas_have_a_headless_service(objects: Objects) -> None:
    service = objects.of("Service")["posref-replicas"]
    (port,) = service["spec"]["ports"]
    space = service["metadata"]["namespace"]
    found = f"server posref-replicas.{space}.svc.cluster.local:{port['port']} resolve"

    assert service["spec"]["clusterIP"] == "None"
    assert found in objects.texts()["replicas.conf"]


def test_budgets_and_autoscalers_target_existing_deployments(objects: Objects) -> None:
    budgets = objects.of("PodDisruptionBudget")
    scalers = objects.of("HorizontalPodAutoscaler")

    for name in WORKLOADS:
        pod = pod_of(objects.of("Deployment")[name])
        assert objects.selected(budgets[name]["spec"]["selector"]) == [pod]
    for scaler in scalers.values():
        target = objects.of("Deployment")[scaler["spec"]["scaleTargetRef"]["name"]]
        assert "replicas" not in target["spec"], "applying the tree would undo the scaling"
        assert scaler["spec"]["minReplicas"] > budgets["posref"]["spec"]["maxUnavailable"]


def test_rolling_update_keeps_all_replicas(deployment: Document) -> None:
    rolling = deployment["spec"]["strategy"]["rollingUpdate"]

    assert rolling["maxUnavailable"] == 0
    assert rolling["maxSurge"] >= 1


def test_network_policy_denies_by_default(objects: Objects) -> None:
    everything = objects.of("NetworkPolicy")["deny-all"]["spec"]

    assert everything == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_replicas_accept_the_edge_only(objects: Objects) -> None:
    policy = objects.of("NetworkPolicy")["posref"]["spec"]
    (rule,) = policy["ingress"]

    assert objects.selected(policy["podSelector"]) == [pod_of(objects.of("Deployment")["posref"])]
    assert policy["egress"] == []
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    edge = objects.selected(rule["from"][0]["podSelector"])
    assert edge == [pod_of(objects.of("Deployment")["posref-edge"])]


def test_edge_may_reach_dns_and_replicas_only(objects: Objects) -> None:
    policy = objects.of("NetworkPolicy")["posref-edge"]["spec"]
    replicas, names = policy["egress"]
    posref = pod_of(objects.of("Deployment")["posref"])

    assert objects.selected(replicas["to"][0]["podSelector"]) == [posref]
    assert {port["port"] for port in replicas["ports"]} <= ports_of(posref)
    assert {(port["port"], port["protocol"]) for port in names["ports"]} == {
        (53, "UDP"),
        (53, "TCP"),
    }


def test_pods_have_the_recommended_labels(objects: Objects) -> None:
    components = [
        labels_of(objects.of("Deployment")[name])["app.kubernetes.io/component"]
        for name in WORKLOADS
    ]

    assert components == ["server", "edge"]
