"""Expectations of what is made of sent arrays: boxes, noise levels, masks; copies and resizes."""

from collections.abc import Mapping

import numpy as np

from service.conformance.expectations.sinusoids import RoundedRates, allowed
from service.conformance.questions import Question, arrays_of, numbers_of
from service.conformance.tolerance import UNIT, Expectation, Expected, rounded_up
from service.numerics.phase import Float64s, Geometric, TimesTwoPi

# The place of a new row is a sum, a quotient, a product and a difference, relative to the side.
_PLACE = 4.0
# The kernel is a polynomial of degree 3 in Horner's form, and its slope is at most 1.5; a new
# number is a sum of products, along both axes.
_KERNEL, _SLOPE, _SUMS = 8.0, 1.5, 12.0


def _boxes(question: Question) -> Expectation:
    """Return the features of boxes: for each frequency, four sines and four cosines."""
    name, table = question.single_table
    keys = question.parameters
    count = keys["embed_dim"]
    boxes = np.array(keys["boxes"], dtype=np.float64).reshape(-1, 4)
    # The frequencies rise by the same factors by which those of the reciprocal base fall.
    falling = RoundedRates.of(Geometric(keys.get("temperature", 100.0), 2 * count, count))
    rising = RoundedRates(1 / falling.frequencies, falling.roundings)
    # Coordinates are exact, although they are fractions.
    errors = np.stack([rising.errors(boxes[:, place]) for place in range(4)], axis=-1)
    both = np.concatenate([errors, errors], axis=-1)
    return Expectation({name: numbers_of(table)}, allowed(both.reshape(table.shape)))


def _fourier(question: Question) -> Expectation:
    """Return the features of numbers: a logarithm, two products, and 2π cost 6 roundings."""
    name, table = question.single_table
    keys = question.parameters
    numbers = np.array(keys["x"], dtype=np.float64)
    if keys.get("log", True):
        numbers = np.log(numbers)
    angles = 2 * np.pi * np.abs(numbers[:, np.newaxis] * np.array(keys["weight"]))
    errors = np.concatenate([angles, angles], axis=-1) * 6 * UNIT
    return Expectation({name: numbers_of(table)}, allowed(errors))


def _mask(question: Question) -> Expectation:
    """Return the sinusoids of masked images: counts of pixels, which may be normalized."""
    name, table = question.single_table
    keys = question.parameters
    half = keys["d_model"] // 2
    rule = Geometric(keys.get("base", 10000.0), half, half // 2)
    valid = 1 - np.array(keys["padding_mask"]) if "padding_mask" in keys else keys["valid_mask"]
    images = np.array(valid, dtype=np.float64)
    images = images.reshape(-1, *images.shape[-2:])
    parts = [_along(images.cumsum(axis), axis, keys, rule) for axis in (1, 2)]
    return Expectation({name: numbers_of(table)}, allowed(np.concatenate(parts, axis=1)))


def _along(counts: Float64s, axis: int, keys: Mapping[str, object], rule: Geometric) -> Float64s:
    """Return the errors of one half of the channels, (image, channel, height, width)."""
    waves = RoundedRates.of(rule)
    if keys.get("normalize"):
        scale = keys.get("scale")
        last = np.take(counts, [-1], axis=axis)
        counts = counts / (last + 1e-6) * (1.0 if scale is None else float(str(scale)))
        waves = RoundedRates.of(TimesTwoPi(rule)) if scale is None else waves
    # A normalized count is a sum, a quotient and a product with the scale.
    errors = waves.errors(counts.reshape(-1), 4.0 if keys.get("normalize") else 0.0)
    shaped = np.repeat(errors, 2, axis=-1).reshape(*counts.shape, -1)
    return np.moveaxis(shaped, -1, 1)


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
    "/encoding/boxes": _boxes,
    "/encoding/fourier": _fourier,
    "/encoding/mask": _mask,
    "/relative/t5/bias": _copied,
    "/relative/swin/bias": _copied,
    "/relative/shaw/embeddings": _copied,
    "/relative/transformer-xl/shift": _copied,
    "/positions": _positions,
    "/resize": _weights,
    "/resize/apply": _resized,
}
