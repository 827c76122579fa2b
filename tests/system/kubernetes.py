"""The objects of the Kubernetes tree, rendered by kustomize."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.system import debian
from tests.system.processes import run

Document = dict[str, Any]

DEPLOY = Path(__file__).parents[2] / "deploy"
TREE = DEPLOY / "kubernetes"


@dataclass(frozen=True)
class Objects:
    """All objects of a rendered tree."""

    documents: tuple[Document, ...]

    def of(self, kind: str) -> dict[str, Document]:
        """Return the objects of a kind by name."""
        return {
            document["metadata"]["name"]: document
            for document in self.documents
            if document["kind"] == kind
        }

    def texts(self) -> dict[str, str]:
        """Return the contents of all ConfigMaps by key."""
        return {
            key: text
            for configuration in self.of("ConfigMap").values()
            for key, text in configuration["data"].items()
        }

    def settings(self) -> dict[str, str]:
        """Return the environment variables of the servers."""
        (container,) = pod_of(self.of("Deployment")["posref"])["containers"]
        (source,) = container["envFrom"]
        variables: dict[str, str] = self.of("ConfigMap")[source["configMapRef"]["name"]]["data"]
        return variables

    def selected(self, selector: Mapping[str, Any]) -> list[Document]:
        """Return the pods that match a label selector."""
        return [
            pod_of(deployment)
            for deployment in self.of("Deployment").values()
            if selector.get("matchLabels", {}).items() <= labels_of(deployment).items()
        ]


@cache
def rendered(folder: Path = TREE) -> Objects:
    """Render a tree like `kubectl apply -k`."""
    debian.install([f"kubectl/{debian.SUITE}"])
    text = run("kubectl", "kustomize", folder)
    return Objects(tuple(yaml.safe_load_all(text)))


def pod_of(deployment: Document) -> Document:
    """Return the pod specification of a deployment."""
    specification: Document = deployment["spec"]["template"]["spec"]
    return specification


def labels_of(deployment: Document) -> dict[str, str]:
    """Return the pod labels of a deployment."""
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return labels


def ports_of(pod: Document) -> set[str]:
    """Return the port names of a pod."""
    return {port["name"] for container in pod["containers"] for port in container["ports"]}


def names_mentioned(node: Any, key: str) -> Iterator[tuple[str, bool]]:
    """Yield every object referenced under a key, and whether it is optional."""
    if isinstance(node, list):
        for item in node:
            yield from names_mentioned(item, key)
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        if name == key and isinstance(value, dict):
            named = value["secretName"] if "secretName" in value else value["name"]
            yield str(named), bool(value.get("optional", False))
        else:
            yield from names_mentioned(value, key)


def bytes_of(quantity: str) -> int:
    """Return a memory quantity in bytes."""
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    return int(quantity[:-2]) * units[quantity[-2:]]
