"""The parts of a cluster that two pods need: a network between them, and a DNS server."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.system import debian
from tests.system.podman import Container
from tests.system.processes import run

_PACKAGES = ("iproute2", "dnsmasq-base")
_LINK = "pods"
_STOP_SECONDS = 30


@dataclass(frozen=True)
class Addresses:
    """The network namespace of two pods."""

    replica: str = "10.99.0.1"
    edge: str = "10.99.0.2"


@contextmanager
def joined(replica: Container, edge: Container, *, name: str, dns: str) -> Iterator[Addresses]:
    """Make a replica known to an edge by name, with a DNS server of the test."""
    debian.install(_PACKAGES)
    addresses = Addresses()
    # It ends with the pods.
    one, other = str(replica.network()), str(edge.network())
    run(*f"ip link add {_LINK} netns {one} type veth peer name {_LINK} netns {other}".split())
    for pod, address in ((replica, addresses.replica), (edge, addresses.edge)):
        run(*pod.beside("ip", "address", "add", f"{address}/24", "dev", _LINK))
        run(*pod.beside("ip", "link", "set", _LINK, "up"))
    with _answering(edge, {name: addresses.replica, dns: "127.0.0.1"}):
        yield addresses


@contextmanager
def _answering(pod: Container, names: dict[str, str]) -> Iterator[None]:
    """Answer DNS queries in the network of a pod, at the addresses of its resolver."""
    nameservers = _nameservers()
    for address in nameservers:
        run(*pod.beside("ip", "address", "add", address, "dev", "lo"))
    words = [
        *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root"),
        *("--no-resolv", "--no-hosts", "--pid-file=", "--bind-interfaces"),
        *("--local=/cluster.local/", f"--listen-address={','.join(['127.0.0.1', *nameservers])}"),
        *(f"--host-record={name},{address}" for name, address in names.items()),
    ]
    with subprocess.Popen(pod.beside(*words)) as server:
        try:
            yield
        finally:
            server.terminate()
            server.wait(_STOP_SECONDS)


def _nameservers() -> list[str]:
    """Return this machine's DNS servers; podman gives the same to a pod without a network."""
    lines = (line.split() for line in Path("/etc/resolv.conf").read_text().splitlines())
    found = {words[1] for words in lines if words[:1] == ["nameserver"]}
    return sorted(found - {"127.0.0.1", "::1"})
