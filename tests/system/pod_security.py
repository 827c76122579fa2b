"""The restricted profile of Kubernetes' pod security standards, field by field."""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}
_SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"),
    *("net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time"),
    *("net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
_SECCOMP = {"RuntimeDefault", "Localhost"}
_HOOKS = ("startupProbe", "livenessProbe", "readinessProbe")


def faults_of(pod: Document) -> list[str]:
    """List the violations of the restricted profile in a pod specification."""
    containers = [
        container
        for key in ("containers", "initContainers", "ephemeralContainers")
        for container in pod.get(key, [])
    ]
    of_containers = (fault for container in containers for fault in _of_container(pod, container))
    return [*_of_pod(pod), *of_containers]


def _of_pod(pod: Document) -> Iterator[str]:
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key))
    for volume in pod.get("volumes", []):
        if not set(volume) - {"name"} <= _VOLUMES:
            yield f"volume {volume['name']}"
    for sysctl in pod.get("securityContext", {}).get("sysctls", []):
        if sysctl["name"] not in _SYSCTLS:
            yield f"sysctl {sysctl['name']}"


def _of_container(pod: Document, container: Document) -> Iterator[str]:
    own = container.get("securityContext", {})
    both = {**pod.get("securityContext", {}), **own}
    yield from _of_user(both)
    yield from _of_rights(own)
    if both.get("seccompProfile", {}).get("type") not in _SECCOMP:
        yield "seccompProfile"
    if both.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in _SECCOMP:
        yield "appArmorProfile"
    if both.get("seLinuxOptions") or both.get("windowsOptions"):
        yield "options of the host's own"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield "hostPort"
    if any(_names_a_host(container.get(hook, {})) for hook in _HOOKS):
        yield "host of a probe"
    if any(_names_a_host(hook) for hook in container.get("lifecycle", {}).values()):
        yield "host of a hook"


def _of_user(context: Document) -> Iterator[str]:
    if context.get("runAsNonRoot") is not True:
        yield "runAsNonRoot"
    if context.get("runAsUser") == 0:
        yield "runAsUser"


def _of_rights(context: Document) -> Iterator[str]:
    if context.get("privileged"):
        yield "privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if context.get("procMount", "Default") != "Default":
        yield "procMount"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "capabilities that are kept"
    if not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"}:
        yield "capabilities that are added"


def _names_a_host(hook: Document) -> bool:
    return any(isinstance(action, dict) and "host" in action for action in hook.values())
