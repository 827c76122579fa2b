"""Rotary tables in NumPy, honest or with one mistake.

``python rotary.py MISTAKE DTYPE PACK LABEL``: a mistake of the catalogue, "iterated", "nan", or ""
for none; the type of the numbers; the packing, compact or half; the type that answers say.
"""

import json
import sys
from typing import Any

import ml_dtypes
import numpy as np

MISTAKE, DTYPE, PACK = (*sys.argv[1:4], *("", "float32", "compact")[len(sys.argv) - 1 :])
LABEL = sys.argv[4] if len(sys.argv) > 4 else DTYPE
NARROW = {"bfloat16": ml_dtypes.bfloat16}
REAL: Any = np.float64 if DTYPE == "float64" else np.float32


def frequencies(base: float, width: int) -> Any:
    exponents = np.arange(0, width, 2, dtype=REAL) / REAL(width)
    return REAL(1) / REAL(base) ** exponents


def angles_of(keys: dict[str, Any], listed: list[int]) -> Any:
    width, base = keys["head_dim"], float(keys["rope_theta"])
    positions = np.array(listed, REAL)
    if MISTAKE == "wrong-base":
        base = 10000.0
    if MISTAKE == "twice-the-base":
        base *= 2
    if MISTAKE == "position-offset":
        positions += 1
    if MISTAKE == "not-rotated":
        positions *= 0
    if MISTAKE == "narrow-positions":
        positions = positions.astype(ml_dtypes.bfloat16).astype(REAL)
    if MISTAKE == "iterated":
        ratio, steps = np.float32(base ** (-2 / width)), [positions]
        for _ in range(width // 2 - 1):
            steps.append(steps[-1] * ratio)
        return np.stack(steps, axis=-1)
    return positions[:, None] * frequencies(base, width)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    angles = angles_of(message["parameters"], message["positions"]).astype(np.float64)
    cos, sin = np.cos(angles), np.sin(angles)
    if MISTAKE == "sine-sign":
        sin = -sin
    if MISTAKE == "halves-swapped":
        cos, sin = sin, cos
    if MISTAKE == "nan":
        cos[1, 0] = np.nan
    if MISTAKE == "truncated":
        cos, sin = cos[:-1], sin[:-1]
    if MISTAKE == "wrong-pairs":
        cos[:, 1:3] = cos[:, 1:3] ** 3
    if MISTAKE == "slightly-off":
        cos = cos * (1 + 1e-3)
    arrays = {}
    for name, array in (("cos", cos), ("sin", sin)):
        numbers = array.astype(NARROW.get(DTYPE, DTYPE)).astype(np.float64)
        if PACK == "half":
            is_mixed = MISTAKE == "layout-swapped"
            numbers = np.repeat(numbers, 2, axis=1) if is_mixed else np.tile(numbers, 2)
        if MISTAKE == "transposed":
            numbers = numbers.T
        arrays[name] = [[None if np.isnan(each) else each for each in row] for row in numbers]
    return {"type": "answer", "id": message["id"], "dtype": LABEL, "pack": PACK, "arrays": arrays}


def main() -> None:
    greeting = {"type": "hello", "protocol": 1, "name": "rotary", "version": "1"}
    greeting |= {"language": "Python", "kinds": ["table"], "rope_types": ["default"]}
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] != "bye":
            content = greeting if message["type"] == "hello" else answer(message)
            sys.stdout.write(f"{json.dumps(content)}\n")
            sys.stdout.flush()


main()
