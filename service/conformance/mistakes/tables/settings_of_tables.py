"""Mistakes of tables that are not rotary: the answer to a question with other settings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from math import sqrt
from typing import Any

import numpy as np

from service.conformance.expected import expectation
from service.conformance.mistakes.wrong import Wrong, answers_to, at, changed, makes
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation

_BASES: Mapping[str, str] = {
    **dict.fromkeys(("/encoding", "/encoding/apply", "/encoding/mask", "/encoding/tokens"), "base"),
    **dict.fromkeys(("/relative/conformer", "/relative/similarity"), "base"),
    **dict.fromkeys(("/relative/transformer-xl", "/relative/xlnet"), "base"),
    "/encoding/boxes": "temperature",
    "/encoding/timesteps": "max_period",
}
_USUAL = (10000.0, 1000.0, 100.0)

_EITHER = (True, False)
# Other settings that implementations have in the place of the right ones.
_OTHERS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "/attention/temperature": {
        "floor_scale": (16384,),
        "attn_scale": (0.2,),
        "original_max_position_embeddings": (8192,),
    },
    "/encoding": {"max_resolution": (12,), "flip_sin_to_cos": (False,)},
    "/encoding/apply": {"scale_embeddings": _EITHER},
    "/encoding/fourier": {"log": _EITHER, "flip_sin_to_cos": _EITHER},
    "/encoding/grid": {
        "base": (1000.0,),
        "convention": ("simple-vit",),
        "channels_first": (False,),
        "interleave_sin_cos": (True,),
        "max_timescale": (1000.0,),
        "max_resolution": ([20, 20],),
    },
    "/encoding/mask": {"normalize": _EITHER},
    "/relative": {"base": (10000.0, 1000.0), "layout": ("interleaved", "concatenated")},
    "/relative/alibi": {
        "alibi_bias_max": (16.0,),
        "form": ("symmetric", "linear"),
        "convention": ("mpt", "bloom"),
    },
    "/relative/alibi/slopes": {"convention": ("paper",), "alibi_bias_max": (16.0,)},
    "/relative/deberta": {"max_position": (1024,), "bucket_size": (128,)},
    "/relative/dynamic": {"log_distance": (True,)},
    "/relative/fire": {"c": (1.0,), "threshold": (0.0,)},
    "/relative/kerple": {"convention": ("power", "log"), "causal": (False,), "clamp": (True,)},
    "/relative/kerple/bias": {"clamp": (False,)},
    "/relative/sandwich": {"base": (10000.0, 1000.0), "causal": (False,)},
    "/relative/shaw": {"max_relative_position": (2,)},
    "/relative/swin-v2": {"mode": ("cr",)},
    "/relative/t5": {"bidirectional": (False,), "max_distance": (256,)},
    "/relative/t5/bias": {"bidirectional": (False,), "max_distance": (64,)},
    "/relative/transformer-xl/shift": {"convention": ("xlnet", "transformer-xl")},
    "/resize": {"mode": ("bilinear",), "align_corners": (True,)},
    "/resize/apply": {"align_corners": _EITHER, "antialias": _EITHER, "mode": ("bicubic",)},
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


@makes("wrong-base", at(*_BASES))
def _wrong_base(question: Question, _: Expectation) -> Iterator[Wrong]:
    key = _BASES[question.resource]
    slipped = _slipped(float(question.parameters.get(key, 10000.0)))
    yield from changed(question, **{key: (base for base in _USUAL if base not in slipped)})


@makes("wrong-parameter", at(*_OTHERS))
def _wrong_parameter(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from changed(question, **_OTHERS[question.resource])
    if {"a", "p"} <= question.parameters.keys():
        a, p = (question.parameters[name] for name in "ap")
        yield from answers_to(question.changed(a=p, p=a))


def _other_way_round(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Height and width of a window are exchanged."""
    yield from changed(question, window_size=[question.parameters["window_size"][::-1]])


_window = makes("wrong-parameter", at("/relative/swin", "/relative/swin-v2"))(_other_way_round)
_window_of_biases = makes("axes-swapped", at("/relative/swin/bias"))(_other_way_round)


@makes("config-key-ignored", at(*_BASES, *_OTHERS))
def _config_key_ignored(question: Question, _: Expectation) -> Iterator[Wrong]:
    if not question.is_posted:
        given = [each for each in question.parameters if each not in _NEEDED]
        yield from answers_to(*(question.changed(each) for each in given))


@makes("another-table", at("/encoding", "/encoding/grid"))
def _another_table(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Of another timescale, or of fewer axes."""
    for name in ("min_timescale", "depth"):
        if name in question.parameters:
            yield from answers_to(question.changed(name))


@makes("another-table", at("/attention/temperature"))
def _another_model(question: Question, _: Expectation) -> Iterator[Wrong]:
    only = replace(question, parameters={"positions": question.parameters["positions"]})
    yield from changed(only, convention=("llama4", "beam"))


@makes("tutorial-slip", at(*_SERIES))
def _tutorial_slip(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Other exponents are those of another base: log10 for ln, k/(n − 1) for k/n, k/d or 4k/d."""
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
    yield from changed(question, **{key: others})


def _slipped(base: float) -> tuple[float, float]:
    """Return the bases that have exponents of half or twice their size."""
    return sqrt(base), base * base


@makes("tutorial-slip", at("/encoding"))
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


@makes("downscale-shift", at("/encoding/timesteps"))
def _downscale_shift(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from changed(question, downscale_freq_shift=(0.0, 1.0))


@makes("halves-swapped", at("/encoding", "/encoding/timesteps"))
def _halves_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    name = "cos_first" if question.resource == "/encoding" else "flip_sin_to_cos"
    if int(question.parameters["d_model"]) % 2 == 0:
        yield from changed(question, **{name: _EITHER})


@makes("layout-swapped", at("/encoding"))
def _layout_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from changed(question, layout=("interleaved", "concatenated"))


@makes("axes-swapped", at("/encoding/grid"))
def _axes_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if "height" in keys:
        swaps = {"mae": ("transformers", "moco-v3"), "transformers": ("mae",), "moco-v3": ("mae",)}
        yield from changed(question, convention=swaps.get(keys["convention"], ()))
        yield from answers_to(
            question.changed(reverse_coord=True),
            question.changed(height=keys["width"], width=keys["height"]),
        )


@makes("missing-factor", at("/encoding"))
def _missing_factor(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from answers_to(question.changed(scale=1.0))


@makes("linear-factor", at("/encoding", "/encoding/timesteps"))
def _linear_factor(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Positions are multiplied once too often, or not at all."""
    if question.resource == "/encoding/timesteps":
        yield from changed(question, scale=(1.0, 0.25))
    if question.parameters.get("convention") == "mlx":
        yield from answers_to(question.changed(full_turns=True))


@makes("rotated-twice", at("/encoding/timesteps"))
def _rotated_twice(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from answers_to(question.changed(scale=2 * question.parameters.get("scale", 1.0)))


@makes("other-positions", at("/relative/transformer-xl", "/relative/xlnet"))
def _other_positions(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Far distances are clamped, or are not."""
    yield from answers_to(question.changed("clamp_len"), question.changed(clamp_len=2))
