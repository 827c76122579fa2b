"""Distances and their logarithms: what Swin V2 and dynamic position biases take in."""

from collections.abc import Iterator

import numpy as np

from service.analysis.call import Call
from service.analysis.distances.strips import alike
from service.analysis.lone_arrays import lone_finite
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters, share_of
from service.tables.angle import Float64s
from service.tables.document import ParameterValue

# Swin V2: sign(Δ)·log2(1 + 8·|Δ|/(W − 1))/log2(8), arXiv:2111.09883.
_NORM = 8.0
_LEAST_LENGTH = 3


def dynamic(question: Question) -> Iterator[Proposal]:
    """Propose the distances of a sequence, or their logarithms."""
    sample, values = question.sample, lone_finite(question, (1,))
    share = share_of(sample)
    if values is None or len(values) < _LEAST_LENGTH or len(values) % 2 == 0:
        return
    count = len(values) // 2 + 1
    distances = np.arange(1 - count, count, dtype=np.float64)
    for is_log, expected in ((False, distances), (True, _logarithms(distances))):
        if alike(values, expected, share):
            more: dict[str, ParameterValue] = {"log_distance": True} if is_log else {}
            parameters = {"seq_len": count, **more, **dtype_parameters(sample)}
            said = "sign(d)·ln(1 + |d|)" if is_log else "d"
            support = f"numbers are {said} for d from {1 - count} to {count - 1}"
            yield Proposal(Call("relative/dynamic", parameters), (support,))


def swin_v2(question: Question) -> Iterator[Proposal]:
    """Propose the coordinates of a window, both of them or one alone."""
    sample, values = question.sample, lone_finite(question, (2, 3))
    share = share_of(sample)
    if values is None:
        return
    for axis, height, width in _axes(values):
        found = _window((height, width), share)
        if found is not None:
            alone: dict[str, ParameterValue] = {} if axis is None else {"axis": axis}
            parameters = {**found, **alone, **dtype_parameters(sample)}
            yield Proposal(Call("relative/swin-v2", parameters), (_said(parameters),))


def _said(parameters: dict[str, ParameterValue]) -> str:
    if parameters.get("mode") == "cr":
        return "coordinates are sign(d)·ln(1 + |d|)"
    by = parameters.get("pretrained_window_size", parameters["window_size"])
    return f"coordinates are sign(d)·log2(1 + |8d/(W - 1)|)/log2 8 for windows W of {by}"


def _axes(values: Float64s) -> Iterator[tuple[str | None, Float64s, Float64s]]:
    """Read one line of each coordinate, where the other one does not matter to it."""
    if not all(length % 2 for length in values.shape[:2]):
        return
    if values.ndim == 3 and values.shape[2] == 2:
        down, across = values[:, :1, 0], values[:1, :, 1]
        if (values[:, :, 0] == down).all() and (values[:, :, 1] == across).all():
            yield None, down[:, 0], across[0]
    elif values.ndim == 2:
        if (values == values[:, :1]).all():
            yield "y", values[:, 0], np.zeros(values.shape[1])
        if (values == values[:1]).all():
            yield "x", np.zeros(values.shape[0]), values[0]


def _window(lines: tuple[Float64s, Float64s], share: float) -> dict[str, ParameterValue] | None:
    """Find the window, and what distances are normalised by, of the lines down and across."""
    distances = [np.arange(-(len(line) // 2), len(line) // 2 + 1.0) for line in lines]
    sides = [len(line) // 2 + 1 for line in lines]
    window: dict[str, ParameterValue] = {"window_size": tuple(sides)}
    pairs = [pair for pair in zip(lines, distances, strict=True) if pair[0].any()]
    if not pairs:
        return None
    if all(alike(line, _logarithms(own), share) for line, own in pairs):
        return {**window, "mode": "cr"}
    trained = []
    for line, own, side in zip(lines, distances, sides, strict=True):
        normalizer = _normalizer(line) if line.any() else max(side, 2)
        if line.any() and not alike(line, _scaled(own, normalizer), 2 * share):
            return None
        trained.append(normalizer)
    return window if trained == sides else {**window, "pretrained_window_size": tuple(trained)}


def _normalizer(line: Float64s) -> int:
    """Give the W whose coordinate of the farthest distance is the last."""
    distance = len(line) // 2
    quotient = _NORM ** min(float(line[-1]), 16.0) - 1
    return max(2, round(1 + _NORM * distance / quotient)) if quotient > 0 else 2


def _logarithms(distances: Float64s) -> Float64s:
    return np.asarray(np.sign(distances) * np.log1p(np.abs(distances)))


def _scaled(distances: Float64s, window: int) -> Float64s:
    scaled = np.log1p(_NORM * np.abs(distances) / (window - 1)) / np.log(_NORM)
    return np.asarray(np.sign(distances) * scaled)
