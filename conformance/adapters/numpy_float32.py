"""Rotary tables and rotations in NumPy's float32, as an engine without a library writes them."""

import numpy as np
from loop import Unsupported, parameters_of, serve, width_of

F = np.float32
TABLE = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor")
BAND = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def frequencies(given):
    width = width_of(given)
    omega = 1 / F(given.get("rope_theta", 10000.0)) ** (np.arange(0, width, 2, dtype=F) / F(width))
    if given.get("rope_type") == "linear":
        return omega / F(given["factor"])
    if given.get("rope_type") == "llama3":
        low, high, length = (F(given[name]) for name in BAND)
        turns = length * omega / F(2 * np.pi)
        share = np.clip((turns - low) / (high - low), 0, 1)
        return (1 - share) * omega / F(given["factor"]) + share * omega
    return omega


def answer(case):
    given = parameters_of(case, *TABLE, *BAND, "layout")
    if case["resource"] not in {"/rope", "/rope/apply"}:
        raise Unsupported(case["resource"])
    angle = np.array(case["positions"], dtype=F)[:, None] * frequencies(given)
    cos, sin = np.cos(angle), np.sin(angle)
    if case["kind"] == "table":
        return {"dtype": "float32", "pack": "compact", "arrays": {"cos": cos, "sin": sin}}
    x, width = np.array(case["x"], dtype=F), 2 * cos.shape[1]
    half = given["layout"] == "half"
    first = np.arange(width // 2) * (1 if half else 2)
    second, y = first + (width // 2 if half else 1), x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return {"dtype": "float32", "arrays": {"rotated": y}}


offers = {"kinds": ["table", "rotate"], "rope_types": ["default", "linear", "llama3"]}
serve("NumPy float32", np.__version__, answer, **offers)
