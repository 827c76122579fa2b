"""The number of clients, the duration and the pauses of a run."""

from dataclasses import dataclass

HOST = "127.0.0.1"

# The load of minutes that a server must stand on two cores shared with the clients.
CONNECTIONS = 1000
SECONDS = 300
THINK_SECONDS = 4.0
UNLOADED_SECONDS = 20


@dataclass(frozen=True)
class Plan:
    """One run.

    Attributes:
        connections: clients, each with one connection at a time.
        seconds: for how long they ask.
        think_seconds: the mean pause of a client after an answer; 0 for none.
        unloaded_seconds: for how long a server that nobody else asks is probed before and after.
        generators: processes that the clients are shared out among.
        seed: of everything that is left to chance.
    """

    connections: int = CONNECTIONS
    seconds: int = SECONDS
    think_seconds: float = THINK_SECONDS
    unloaded_seconds: int = UNLOADED_SECONDS
    generators: int = 1
    seed: int = 1
