"""A judge that knows a vector file and the rule of docs/conformance.md, and nothing of posref."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ADAPTERS = Path(__file__).parents[2] / "conformance" / "adapters"
_SECONDS = 60
_TABLES = ("table", "model")
_UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_LEAST = {
    "float64": 12 * 2.0**-53,
    "float32": 2.0**-150,
    "float16": 2.0**-25,
    "bfloat16": 2.0**-134,
}


def answers_of(command: Sequence[str], cases: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the cases that an implementation offers, with its answers; it gets all at once."""
    sent = [{"type": "hello", "protocol": 1, "suite": "0" * 12}]
    for case in cases:
        known = ("id", "kind", "resource", "parameters", "positions", "x", "shape")
        sent.append({"type": "case", **{name: case[name] for name in known if name in case}})
    lines = "".join(f"{json.dumps(each)}\n" for each in [*sent, {"type": "bye"}])
    ended = subprocess.run(
        command, input=lines.encode(), stdout=subprocess.PIPE, timeout=_SECONDS, check=True
    )
    hello, *answers = map(json.loads, ended.stdout.splitlines())
    assert (hello["type"], hello["protocol"]) == ("hello", 1)
    assert {"name", "version", "language"} <= hello.keys()
    for case, answer in zip(cases, answers, strict=True):
        if _is_offered(case, hello):
            yield case, answer


def _is_offered(case: Any, hello: Any) -> bool:
    """Return whether the runner asks a case after this hello."""
    rule = case.get("parameters", {}).get("rope_type", "default")
    given = {"kinds": case["kind"], "rope_types": rule}
    return all(value in hello.get(name, [value]) for name, value in given.items())


def share_of(case: Any, answer: Any) -> float:
    """Return the largest error of an answer in shares of what the rule allows."""
    dtype, tolerance = answer["dtype"], case["tolerance"]
    unit, least = _UNIT[dtype], _UNIT["float32"]
    is_narrow = unit > least
    factor = case["expected"].get("attention_factor", 1)
    share = 0.0
    for name, sent in answer["arrays"].items():
        want = np.array(case["expected"][name])
        relative = (2 if factor == 1 else 4) * min(unit, least) + unit * is_narrow
        is_rotation = isinstance(tolerance["scale"], list) and case["kind"] not in _TABLES
        products = 3 * unit * (is_narrow and is_rotation)
        angle = np.array(tolerance["angle"]) * (2.0**-29 if dtype == "float64" else 1)
        scaled = np.array(tolerance["scale"]) * products
        allowed = angle + np.abs(want) * relative + scaled + _LEAST[dtype]
        apart = np.abs(np.array(sent, dtype=np.float64) - want)
        assert apart.shape == want.shape
        share = max(share, float(np.where(apart == 0, 0, apart / allowed).max()))
    return share
