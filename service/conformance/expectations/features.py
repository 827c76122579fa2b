"""Expectations of sinusoids whose angles come from arrays: boxes, noise levels, masked images."""

from collections.abc import Mapping

import numpy as np

from service.conformance.expectations.sinusoids import RoundedRates, allowed
from service.conformance.questions import Question, numbers_of
from service.conformance.tolerance import UNIT, Expectation, Expected
from service.numerics.phase import Float64s, Geometric, TimesTwoPi


def _boxes(question: Question) -> Expectation:
    """Return the features of boxes: for each frequency, four sines and four cosines."""
    ((name, table),) = question.request.document().arrays.items()
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
    ((name, table),) = question.request.document().arrays.items()
    keys = question.parameters
    numbers = np.array(keys["x"], dtype=np.float64)
    if keys.get("log", True):
        numbers = np.log(numbers)
    angles = 2 * np.pi * np.abs(numbers[:, np.newaxis] * np.array(keys["weight"]))
    errors = np.concatenate([angles, angles], axis=-1) * 6 * UNIT
    return Expectation({name: numbers_of(table)}, allowed(errors))


def _mask(question: Question) -> Expectation:
    """Return the sinusoids of masked images: counts of pixels, which may be normalized."""
    ((name, table),) = question.request.document().arrays.items()
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


EXPECTED: Mapping[str, Expected] = {
    "/encoding/boxes": _boxes,
    "/encoding/fourier": _fourier,
    "/encoding/mask": _mask,
}
