"""Expectations of numbers that are copied, which are exact, and of learned tables, resized."""

from collections.abc import Mapping

import numpy as np

from service.conformance.questions import Question, arrays_of
from service.conformance.tolerance import UNIT, Expectation, Expected, rounded_up

# The place of a new row is a sum, a quotient, a product and a difference, relative to the side.
_PLACE = 4.0
# The kernel is a polynomial of degree 3 in Horner's form, and its slope is at most 1.5; a new
# number is a sum of products, along both axes.
_KERNEL, _SLOPE, _SUMS = 8.0, 1.5, 12.0


def _copied(question: Question) -> Expectation:
    """Return numbers that are copied from an array; raises PosrefError."""
    return Expectation(arrays_of(question.request))


def _positions(question: Question) -> Expectation:
    """Return position ids, which are exact; raises PosrefError."""
    return Expectation({"position_ids": arrays_of(question.request)["position_ids"]})


def _weights(question: Question) -> Expectation:
    """Return the weights of one axis: a place, which is relative to the side, and the kernel."""
    ((name, weights),) = arrays_of(question.request).items()
    sides = [*question.parameters["old_size"], *question.parameters["size"]]
    errors = np.full(weights.shape, (_SLOPE * _PLACE * max(sides) + _KERNEL) * UNIT)
    return Expectation({name: weights}, rounded_up(errors))


def _resized(question: Question) -> Expectation:
    """Return a learned table, resized: each weight is wrong by that of its place.

    Rows of class tokens are copied.
    """
    ((name, numbers),) = arrays_of(question.request).items()
    keys, x = question.parameters, np.asarray(question.x, dtype=np.float64)
    largest = np.abs(x).max()
    sides = [*keys["size"], *x.shape[:-1], *keys.get("old_size", ())]
    taps = 2 if keys.get("mode") in {"linear", "bilinear"} else 4
    place = _SLOPE * _PLACE * max(sides) + _KERNEL
    errors = np.full(numbers.shape, (2 * taps * place + _SUMS) * largest * UNIT)
    kept = keys.get("num_prefix_tokens", 0)
    if kept:
        errors[:kept] = 0
    scale = np.full(numbers.shape, 2 * largest)
    return Expectation({name: numbers}, rounded_up(errors), scale, is_rotation=True)


EXPECTED: Mapping[str, Expected] = {
    "/relative/t5/bias": _copied,
    "/relative/swin/bias": _copied,
    "/relative/shaw/embeddings": _copied,
    "/relative/transformer-xl/shift": _copied,
    "/positions": _positions,
    "/resize": _weights,
    "/resize/apply": _resized,
}
