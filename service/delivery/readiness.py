"""Whether requests are welcome: until the process is told to end."""

from dataclasses import dataclass


@dataclass
class Readiness:
    """What a process says to those who ask whether to send it requests.

    Attributes:
        is_draining: whether it is about to end; it answers, and asks for no more.
    """

    is_draining: bool = False
