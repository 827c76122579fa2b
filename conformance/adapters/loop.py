"""The loop of an adapter in Python: one JSON object a line comes in, one goes out.

Import this before the library: what that prints is not to reach standard output, which is the
runner's alone.
"""

import json
import math
import os
import sys

_runner = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


class Unsupported(Exception):
    """The library does not offer what a case asks; the message says which part."""


def parameters_of(case, *known):
    """Return the parameters of a case; raise Unsupported if there are others than known ones."""
    others = sorted(set(case["parameters"]) - set(known))
    if others:
        raise Unsupported(f"no {', '.join(others)}")
    return case["parameters"]


def serve(name, version, answer, **offers):
    """Answer the messages of the runner until it says bye.

    Args:
        name: of the library.
        version: of the library.
        answer: returns the message members of a case: dtype, pack and arrays (lists or anything
            with ``tolist``); raises Unsupported.
        offers: kinds, rope_types and resources; the runner asks for no others.
    """
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "bye":
            return
        if message["type"] == "hello":
            about = {"name": name, "version": version, "language": "Python"}
            _say({"type": "hello", "protocol": 1, **about, **offers})
            continue
        try:
            _say({"type": "answer", **_plain(answer(message))})
        except Unsupported as error:
            _say({"type": "unsupported", "reason": str(error)})
        except Exception as error:
            _say({"type": "error", "message": repr(error)})


def _plain(value):
    """Return arrays as lists, and null for what is not finite."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _say(message):
    _runner.write(json.dumps(message) + "\n")
    _runner.flush()
