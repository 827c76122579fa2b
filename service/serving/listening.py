"""The sockets that a server listens on, and how many files it may have open."""

import socket
import sys

from service.settings import Settings

if sys.platform != "win32":
    import resource

_BACKLOG = 2048
_TAKEN_A_TURN = 8

# Listeners, pipes, logs, libraries; and connections beyond their number that are let in.
_OTHER_FILES = 512


class CannotListen(Exception):
    """An address that cannot be listened on; the message names its settings."""


def listen(settings: Settings) -> list[socket.socket]:
    """Listen on every address of a host; raises CannotListen."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        addresses = dict.fromkeys((family, address[:2]) for family, *_, address in found)
        return [
            socket.create_server(address, family=family, backlog=_BACKLOG)
            for family, address in addresses
        ]
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {settings.host} (POSREF_HOST), port {settings.port} "
            f"(POSREF_PORT): {error.strerror or error}"
        ) from error


def repeated(listeners: list[socket.socket]) -> list[socket.socket]:
    """Name every listener several times: an event loop takes one connection a turn from each.

    A turn is long where many requests are answered, and whoever comes then would wait for as many
    turns as others came before (uvloop 0.23).
    """
    return [*listeners, *(each.dup() for each in listeners for _ in range(_TAKEN_A_TURN - 1))]


def addresses(listeners: list[socket.socket]) -> list[str]:
    """Spell where requests can be sent."""
    named = (listener.getsockname()[:2] for listener in listeners)
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}" for host, port in named]


def allow_files(settings: Settings) -> int:
    """Raise the number of files that a process may have open to what its settings ask for.

    Returns:
        How many connections that is too few for; 0 where it is enough.
    """
    if sys.platform == "win32":
        return 0
    wanted = settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return 0 if soft == resource.RLIM_INFINITY else max(0, wanted - soft)
