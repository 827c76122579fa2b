"""Mistakes of tables that are not rotary: the answer to a question with other settings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from math import sqrt
from typing import Any

import numpy as np

from service.conformance.expected import expectation
from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation

_BASES: Mapping[str, str] = {
    "/encoding": "base",
    "/encoding/apply": "base",
    "/encoding/boxes": "temperature",
    "/encoding/mask": "base",
    "/encoding/timesteps": "max_period",
    "/encoding/tokens": "base",
    "/relative/conformer": "base",
    "/relative/similarity": "base",
    "/relative/transformer-xl": "base",
    "/relative/xlnet": "base",
}
_USUAL = (10000.0, 1000.0, 100.0)

# Other settings that implementations have in the place of the right ones.
_OTHERS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "/attention/temperature": (
        {"floor_scale": 16384},
        {"attn_scale": 0.2},
        {"original_max_position_embeddings": 8192},
    ),
    "/encoding": ({"max_resolution": 12}, {"flip_sin_to_cos": False}),
    "/encoding/apply": ({"scale_embeddings": True}, {"scale_embeddings": False}),
    "/encoding/fourier": (
        {"log": True},
        {"log": False},
        {"flip_sin_to_cos": True},
        {"flip_sin_to_cos": False},
    ),
    "/encoding/grid": (
        {"base": 1000.0},
        {"convention": "simple-vit"},
        {"channels_first": False},
        {"interleave_sin_cos": True},
        {"max_timescale": 1000.0},
        {"max_resolution": [20, 20]},
    ),
    "/encoding/mask": ({"normalize": False}, {"normalize": True}),
    "/relative": (
        {"base": 10000.0},
        {"base": 1000.0},
        {"layout": "interleaved"},
        {"layout": "concatenated"},
    ),
    "/relative/alibi": (
        {"alibi_bias_max": 16.0},
        {"form": "symmetric"},
        {"form": "linear"},
        {"convention": "mpt"},
        {"convention": "bloom"},
    ),
    "/relative/alibi/slopes": ({"convention": "paper"}, {"alibi_bias_max": 16.0}),
    "/relative/deberta": ({"max_position": 1024}, {"bucket_size": 128}),
    "/relative/dynamic": ({"log_distance": True},),
    "/relative/fire": ({"c": 1.0}, {"threshold": 0.0}),
    "/relative/kerple": (
        {"convention": "power"},
        {"convention": "log"},
        {"causal": False},
        {"clamp": True},
    ),
    "/relative/kerple/bias": ({"clamp": False},),
    "/relative/sandwich": ({"base": 10000.0}, {"base": 1000.0}, {"causal": False}),
    "/relative/shaw": ({"max_relative_position": 2},),
    "/relative/swin-v2": ({"mode": "cr"},),
    "/relative/t5": ({"bidirectional": False}, {"max_distance": 256}),
    "/relative/t5/bias": ({"bidirectional": False}, {"max_distance": 64}),
    "/relative/transformer-xl/shift": ({"convention": "xlnet"}, {"convention": "transformer-xl"}),
    "/resize": ({"mode": "bilinear"}, {"align_corners": True}),
    "/resize/apply": (
        {"align_corners": True},
        {"align_corners": False},
        {"antialias": True},
        {"antialias": False},
        {"mode": "bicubic"},
    ),
}
# Without these a request names another table, or shows a mistake of another name.
_NEEDED = frozenset(
    {
        *_BASES.values(),
        *("clamp_len", "convention", "depth", "downscale_freq_shift", "flip_sin_to_cos", "layout"),
        *("height", "min_freq", "min_timescale", "mode", "padding_idx", "part", "scale", "start"),
    }
)
# Tables whose base alone tells the exponents of their frequencies.
_SERIES = frozenset({*_BASES} - {"/encoding/boxes", "/relative/similarity"})


def _wrong_base(question: Question, _: Expectation) -> Iterator[Wrong]:
    key = _BASES.get(question.resource)
    if key is not None:
        slipped = _slipped(float(question.parameters.get(key, 10000.0)))
        bases = (base for base in _USUAL if base not in slipped)
        yield from answers_to(*(question.changed(**{key: base}) for base in bases))


def _wrong_parameter(question: Question, _: Expectation) -> Iterator[Wrong]:
    others = _OTHERS.get(question.resource, ())
    yield from answers_to(*(question.changed(**each) for each in others))
    if question.resource in {"/relative/swin", "/relative/swin-v2"}:
        yield from answers_to(_other_way_round(question))
    if {"a", "p"} <= question.parameters.keys():
        a, p = (question.parameters[name] for name in "ap")
        yield from answers_to(question.changed(a=p, p=a))


def _other_way_round(question: Question) -> Question:
    """Return the question for a window with height and width exchanged."""
    return question.changed(window_size=question.parameters["window_size"][::-1])


def _config_key_ignored(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource in _BASES.keys() | _OTHERS.keys() and not question.is_posted:
        given = [each for each in question.parameters if each not in _NEEDED]
        yield from answers_to(*(question.changed(each) for each in given))


def _another_table(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Of another timescale, of fewer axes, or of another model."""
    if question.resource == "/encoding" and "min_timescale" in question.parameters:
        yield from answers_to(question.changed("min_timescale"))
    if question.resource == "/encoding/grid" and "depth" in question.parameters:
        yield from answers_to(question.changed("depth"))
    if question.resource == "/attention/temperature":
        kept = question.parameters["positions"]
        for convention in ("llama4", "beam"):
            other = {"convention": convention, "positions": kept}
            yield from answers_to(replace(question, parameters=other))


def _tutorial_slip(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Other exponents are those of another base: log10 for ln, k/(n − 1) for k/n, k/d or 4k/d."""
    if question.resource not in _SERIES:
        return
    key, d_model = (
        _BASES[question.resource],
        int(question.parameters.get("d_model", right.shape[-1])),
    )
    base, pairs = float(question.parameters.get(key, 10000.0)), d_model // 2
    bases = [float((Decimal(base).ln() / Decimal(10).ln()).exp())]
    if pairs > 1 and question.resource != "/encoding/timesteps":
        bases += [_power(base, pairs, pairs - 1), _power(base, pairs - 1, pairs)]
    # Such a base of another formula is more often just another base.
    others = [each for each in bases if d_model % 2 == 0 and round(each, 6) not in _USUAL]
    others += _slipped(base)
    yield from answers_to(*(question.changed(**{key: each}) for each in others))


def _slipped(base: float) -> tuple[float, float]:
    """Return the bases that have exponents of half or twice their size."""
    return sqrt(base), base * base


def _exponents_of_channels(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Channel i has the exponent i/d, or 2i/d: those of pairs of a table twice as wide."""
    keys = question.parameters
    if keys.get("convention") != "vaswani":
        return
    base, width = float(keys.get("base", 10000.0)), keys["d_model"]
    is_split = keys.get("layout") == "concatenated"
    channels = np.array(sorted(range(width), key=lambda i: i % 2 if is_split else 0))
    columns = 2 * channels + channels % 2
    for each in (base, base * base):
        wide = expectation(question.changed("layout", d_model=2 * width, base=each))
        assert wide.angle is not None
        arrays = {name: numbers[:, columns] for name, numbers in wide.arrays.items()}
        yield Wrong(replace(right, arrays=arrays, angle=wide.angle[:, columns]))


def _power(base: float, numerator: int, denominator: int) -> float:
    """Return base^(numerator/denominator), the same on every machine."""
    return float((Decimal(base).ln() * numerator / denominator).exp())


def _downscale_shift(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource == "/encoding/timesteps":
        shifts = (question.changed(downscale_freq_shift=each) for each in (0.0, 1.0))
        yield from answers_to(*shifts)


def _halves_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    name = {"/encoding": "cos_first", "/encoding/timesteps": "flip_sin_to_cos"}
    if question.resource in name and int(keys["d_model"]) % 2 == 0:
        each = name[question.resource]
        yield from answers_to(question.changed(**{each: not keys.get(each, False)}))


def _layout_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource == "/encoding":
        for layout in ("interleaved", "concatenated"):
            yield from answers_to(question.changed(layout=layout))


def _axes_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if question.resource == "/encoding/grid" and "height" in keys:
        swaps = {"mae": ("transformers", "moco-v3"), "transformers": ("mae",), "moco-v3": ("mae",)}
        names = swaps.get(keys["convention"], ())
        yield from answers_to(*(question.changed(convention=each) for each in names))
        yield from answers_to(
            question.changed(reverse_coord=True),
            question.changed(height=keys["width"], width=keys["height"]),
        )
    if question.resource == "/relative/swin/bias":
        yield from answers_to(_other_way_round(question))


def _missing_factor(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource == "/encoding":
        yield from answers_to(question.changed(scale=1.0))


def _linear_factor(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Positions are multiplied once too often, or not at all."""
    if question.resource == "/encoding/timesteps":
        yield from answers_to(*(question.changed(scale=each) for each in (1.0, 0.25)))
    if question.parameters.get("convention") == "mlx":
        yield from answers_to(question.changed(full_turns=True))


def _rotated_twice(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource == "/encoding/timesteps":
        scale = float(question.parameters.get("scale", 1.0))
        yield from answers_to(question.changed(scale=2 * scale))


def _other_positions(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Far distances are clamped, or are not."""
    if question.resource in {"/relative/transformer-xl", "/relative/xlnet"}:
        yield from answers_to(question.changed("clamp_len"), question.changed(clamp_len=2))


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "wrong-base": (_wrong_base,),
    "config-key-ignored": (_config_key_ignored,),
    "wrong-parameter": (_wrong_parameter,),
    "another-table": (_another_table,),
    "tutorial-slip": (_tutorial_slip, _exponents_of_channels),
    "downscale-shift": (_downscale_shift,),
    "halves-swapped": (_halves_swapped,),
    "layout-swapped": (_layout_swapped,),
    "axes-swapped": (_axes_swapped,),
    "missing-factor": (_missing_factor,),
    "linear-factor": (_linear_factor,),
    "rotated-twice": (_rotated_twice,),
    "other-positions": (_other_positions,),
}
