"""Who the client of a request is: its API key, else its address, for a fair order of work.

The address is that of the connection, or the one in X-Forwarded-For that a trusted proxy reports.
"""

from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import filterfalse

from starlette.types import Scope

from service.settings import Networks

FORWARDED_FOR = b"x-forwarded-for"

UNKNOWN = "unknown"
"""The name of all clients without an address, as those of a Unix socket."""

CLIENT: ContextVar[str] = ContextVar("client", default=UNKNOWN)
"""The name of the client whose request is answered.

It is an address, an IPv6 network of 64 bits, which is what one subscriber has, or the digest of an
API key.
"""

PIPELINED = "posref.pipelined"
"""The name of the ASGI extension of a request that came before the response to the last one."""

IS_PIPELINED: ContextVar[bool] = ContextVar("is_pipelined", default=False)
"""Whether the request that is answered is pipelined."""


def ordered_client() -> str:
    """Return the name by which the work of the current request is ordered.

    The pipelined requests of a client count as those of another one, so that its other requests,
    each of which somebody waits for, do not wait for all of them.
    """
    return f"{CLIENT.get()} pipelined" if IS_PIPELINED.get() else CLIENT.get()


# Each name takes about 300 bytes.
_MAX_NAMES = 4096
_MAX_ADDRESS_LENGTH = 64
# Each proxy adds one address; no chain of proxies is longer.
_MAX_FORWARDED = 16


class ClientAddresses:
    """Finds the addresses of clients, behind trusted proxies or not.

    Args:
        trusted: the networks of the proxies whose X-Forwarded-For is believed.
    """

    def __init__(self, trusted: Networks) -> None:
        self._trusted = trusted
        # Parsing takes several microseconds.
        self._is_trusted = lru_cache(_MAX_NAMES)(self._is_proxy)

    def name_of(self, scope: Scope) -> str:
        """Return the name of a request's client.

        It is the rightmost address of X-Forwarded-For that is not a trusted proxy itself; the
        leftmost if all are. The proxy is the client if that header is missing or invalid.
        """
        peer = scope["client"][0] if scope.get("client") else ""
        hosts = [peer, *_forwarded(scope)] if self._is_trusted(peer) else [peer]
        name = name_of_address(next(filterfalse(self._is_trusted, hosts), hosts[-1]))
        return name_of_address(peer) if name == UNKNOWN else name

    def _is_proxy(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in each for each in self._trusted)


@lru_cache(_MAX_NAMES)
def name_of_address(host: str) -> str:
    """Return the name of all clients that share an address or its network."""
    address = _address(host)
    if isinstance(address, IPv6Address):
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return UNKNOWN if address is None else str(address)


def _forwarded(scope: Scope) -> list[str]:
    """Return the last addresses in X-Forwarded-For, the last first."""
    sent = b",".join(value for name, value in scope["headers"] if name == FORWARDED_FOR)
    if not sent:
        return []
    hosts = sent.decode("latin-1").rsplit(",", _MAX_FORWARDED)[-_MAX_FORWARDED:]
    # Longer texts are no addresses, and would fill the memory of names.
    return [host.strip()[:_MAX_ADDRESS_LENGTH] for host in reversed(hosts)]


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Read an address; the IPv4 address that an IPv6 address stands for; None if it is none."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
