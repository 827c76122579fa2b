"""A log writer that keeps its lines in memory."""

import json
from typing import Any

from service.delivery.telemetry.log import LineWriter


class Lines(LineWriter):
    """A writer whose lines stay in its queue."""

    def __init__(self) -> None:
        super().__init__(-1)

    def read(self) -> list[dict[str, Any]]:
        """Return the lines since the last call."""
        joined, self._lines = [b"".join(line) for line in self._lines], []
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in joined)
        return [json.loads(line) for line in joined]
