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
        seconds: duration of the load.
        think_seconds: the mean pause of a client after an answer; 0 for none.
        unloaded_seconds: duration of the probes before and after the load.
        generators: number of client processes.
        seed: random seed.
    """

    connections: int = CONNECTIONS
    seconds: int = SECONDS
    think_seconds: float = THINK_SECONDS
    unloaded_seconds: int = UNLOADED_SECONDS
    generators: int = 1
    seed: int = 1
