"""nginx's consistent hash: the replica of a URL."""

import zlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]

POINTS = 160
"""Points of each replica on the ring."""


def replicas_of(urls: Sequence[str], servers: Sequence[str]) -> Numbers:
    """Return the index of each URL's server.

    Args:
        urls: the hash keys.
        servers: ``HOST:PORT`` of each replica, as the configuration has them.
    """
    places = np.array([_places(server) for server in servers], dtype=np.uint32)
    owners = np.repeat(np.arange(len(servers)), POINTS)
    order = np.argsort(places, axis=None, kind="stable")
    hashes = np.array([zlib.crc32(url.encode()) for url in urls], dtype=np.uint32)
    at = np.searchsorted(places.ravel()[order], hashes)
    found: Numbers = owners[order][at % len(owners)]
    return found


def _places(server: str) -> list[int]:
    """Return a server's points: each is the CRC-32 of its address and the point before."""
    host, _, port = server.rpartition(":")
    base = zlib.crc32(f"{host}\0{port}".encode())
    places = [0]
    for _ in range(POINTS):
        places.append(zlib.crc32(places[-1].to_bytes(4, "little"), base))
    return places[1:]
