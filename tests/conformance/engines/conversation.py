"""What the commands of the tests of the protocol share: each runs its script after this one."""

import json
import os
import sys
import time
from math import cos, sin
from typing import Any

HELLO: dict[str, Any] = {"type": "hello", "protocol": 1, "name": "test"}
PIPE = sys.argv[2] if len(sys.argv) > 2 else ""


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    message: dict[str, Any] = json.loads(line) if line else {"type": "bye"}
    return message


def say(**message: Any) -> None:
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


def right(message: dict[str, Any]) -> dict[str, Any]:
    """Return the right answer to a table of one pair of channels, which turns by the position."""
    arrays = {name: [[wave(p)] for p in message["positions"]] for name, wave in WAVES.items()}
    return {"type": "answer", "dtype": "float32", "arrays": arrays}


def answering(**changes: Any) -> None:
    """Greet and answer, with changes to each answer, until there is nothing to answer."""
    hear()
    say(**HELLO)
    while (message := hear())["type"] == "case":
        say(**{**right(message), **changes})


WAVES = {"cos": cos, "sin": sin}

if __name__ == "__main__":
    scope = {"os": os, "sys": sys, "time": time, "HELLO": HELLO, "PIPE": PIPE, "hear": hear}
    exec(sys.argv[1], {**scope, "say": say, "right": right, "answering": answering})
