"""The loop of an adapter in Python: one JSON object a line comes in, one goes out.

Import this before the library: what that prints is not to reach standard output, which is the
runner's alone.
"""

import importlib.util
import inspect
import json
import math
import os
import sys
from types import ModuleType

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


def called(function, *args, **parameters):
    """Return what a function answers; raise Unsupported if it has no such parameters."""
    try:
        inspect.signature(function).bind(*args, **parameters)
    except TypeError as error:
        raise Unsupported(str(error)) from error
    return function(*args, **parameters)


# Parameters that no config of a model has.
_FOREIGN = ("freq_factors", "inv_freq", "rotary_dim", "mixed_b", "alpha", "xpos", "mrope_section")
_FOREIGN += ("rotary_offset", "output_layout", "axes", "start", "inverse", "convention")


def config_of(case):
    """Return the parameters of a rotary case; raise Unsupported if no config has some of them."""
    return parameters_of(case, *(set(case["parameters"]) - set(_FOREIGN)))


def width_of(given):
    """Return the number of channels that turn."""
    return given.get("rotary_dim", int(given["head_dim"] * given.get("partial_rotary_factor", 1)))


def without_imports(*packages):
    """Let modules of packages be imported without what the packages import themselves."""
    for name in packages:
        module = ModuleType(name)
        module.__path__ = importlib.util.find_spec(name).submodule_search_locations
        sys.modules[name] = module


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
