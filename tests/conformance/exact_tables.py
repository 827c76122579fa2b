"""The cases of tables that are not rotary, evaluated in 45 digits by code of the tests alone.

Where the evaluations of the parity tests know a table, their parameters are spelled here; the rest
is evaluated here.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor
from typing import Any, TypeAlias

import mpmath
import numpy as np

from service.conformance.files import all_files
from service.conformance.questions import Question
from tests.conformance.core_cases import core_of
from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.exact import COMPOSINGS, EVALUATIONS
from tests.parity.golden import Array
from tests.parity.truth import Truth, truths

mpf = mpmath.mpf
FILES = tuple(file for file in all_files.FILES if not file.name.startswith("rope/"))
CASES = core_of(FILES)

_Exact: TypeAlias = Callable[[Query], Array]
_DIGITS = 45
_SINE, _ONCE = 6 * UNIT, 2 * UNIT


def exact(question: Question) -> Array:
    """Return the only array of a question, of Truth."""
    query = dict(question.parameters)
    if question.positions is not None:
        query["positions"] = question.positions
    if question.x is not None:
        query["x"] = question.x
    with mpmath.workdps(_DIGITS):
        return _EVALUATED[question.resource](query)


_INPUTS = (
    *("input_ids", "position_ids", "padding_mask", "valid_mask", "x", "boxes", "attention_mask"),
    *("weight", "slopes", "a", "b", "p"),
)


def _known(path: str, **defaults: Any) -> _Exact:
    """Return the evaluation of the parity tests, with defaults of parameters that it needs."""

    def evaluate(query: Query) -> Array:
        given = {**defaults, **query}
        part = given.pop("part", None)
        if path in EVALUATIONS:
            found = EVALUATIONS[path](given)
        else:
            arrays = {name: np.array(given.pop(name)) for name in _INPUTS if name in given}
            found = COMPOSINGS[path](given, arrays)
        return found[part] if part else next(iter(found.values()))

    return evaluate


# Conventions of the service, by those of the parity tests with the same channels.
_SAME = {"vaswani": "keras", "x-transformers": "mae", "mlx": "mae"}


def _encoding(query: Query) -> Array:
    name, width = query["convention"], query["d_model"]
    if name == "perceiver":
        return _bands(query)
    if name == "mlx":
        # From 1 to min_freq, both included.
        rates = [mpf(query["min_freq"]) ** (mpf(k) / (width // 2 - 1)) for k in range(width // 2)]
        waves = [_sines(p, rates) for p in query["positions"]]
        return _times(waves, mpmath.sqrt(mpf(2) / width))
    known = query | {"convention": _SAME.get(name, name)}
    if query.get("layout") == "concatenated":
        known["convention"] = "marian"
    if name in {"m2m100", "fairseq"}:
        known["padding_idx"] = padding = query.get("padding_idx", 1)
        offset = padding + 1 if name == "m2m100" else 0
        known["positions"] = [each + offset for each in query["positions"]]
    rows = EVALUATIONS["/encoding"](known)["encoding"]
    return _times(rows, 1 / mpmath.sqrt(width)) if name == "x-transformers" else rows


def _sines(position: Any, rates: list[Any]) -> list[Truth]:
    angles = [position * rate for rate in rates]
    return [Truth(each(a), _SINE) for each in (mpmath.sin, mpmath.cos) for a in angles]


def _times(rows: Any, factor: Any) -> Array:
    array = np.array(rows, dtype=object)
    flat = [Truth(each.value * factor, each.bound) for each in array.flat]
    return truths(flat, *array.shape)


def _bands(query: Query) -> Array:
    count, length = query["d_model"] // 2, query["seq_len"]
    top = mpf(query["max_resolution"]) / 2
    bands = [mpmath.pi * (1 + k * (top - 1) / (count - 1)) for k in range(count)]
    places = [mpf(-1) + mpf(2 * place) / (length - 1) for place in range(length)]
    rows = [[Truth(place, UNIT), *_sines(place, bands)] for place in places]
    return truths([each for row in rows for each in row], length, len(rows[0]))


def _grid(query: Query) -> Array:
    """Evaluate also the conventions that are another one with parts exchanged."""
    name, evaluate = query["convention"], EVALUATIONS["/encoding/grid"]
    if name == "transformers":
        table = evaluate(query | {"convention": "mae"})["encoding"]
        return np.roll(table, query["d_model"] // 2, axis=-1)
    if name == "moco-v3":
        table = evaluate(query | {"convention": "mae"})["encoding"]
        sides = query["height"], query["width"]
        return table.reshape(*sides, -1).swapaxes(0, 1).reshape(table.shape)
    if name == "simple-vit":
        # The frequencies of n − 1 for n are those of another base.
        count = query["d_model"] // 4
        base = mpf(query.get("base", 10000)) ** (mpf(count) / (count - 1))
        return evaluate(query | {"convention": "mae", "base": base})["encoding"]
    resolution = query.get("max_resolution")
    return evaluate(query if resolution is None else query | {"max_resolution": list(resolution)})[
        "encoding"
    ]


def _rates(query: Query) -> list[Any]:
    width, base = query["d_model"], mpf(query.get("base", 10000))
    return [base ** (mpf(-2 * k) / width) for k in range(width // 2)]


def _sum(query: Query) -> Array:
    x = np.array(query["x"])
    width = x.shape[-1]
    table = _encoding({**query, "convention": "vaswani", "d_model": width})
    factor = mpmath.sqrt(width) if query.get("scale_embeddings") else mpf(1)
    sums = [
        Truth(added.value + factor * mpf(float(own)), 12 * UNIT)
        for added, own in zip(table.flat, x.flat, strict=True)
    ]
    return truths(sums, *x.shape)


def _operator(query: Query) -> Array:
    """The matrix that gives the sine and the cosine of a sum of angles from those of one."""
    rates, width = _rates(query), query["d_model"]
    offsets = query.get("offsets", [query.get("offset")])
    found = np.empty((len(offsets), width, width), dtype=object)
    found[:] = Truth(0, 0.0)
    for place, offset in enumerate(offsets):
        for pair, rate in enumerate(rates):
            is_concatenated = query.get("layout") == "concatenated"
            s, c = (pair, pair + len(rates)) if is_concatenated else (2 * pair, 2 * pair + 1)
            sine, cosine = mpmath.sin(offset * rate), mpmath.cos(offset * rate)
            found[place, s, s] = found[place, c, c] = Truth(cosine, _SINE)
            found[place, s, c], found[place, c, s] = Truth(sine, _SINE), Truth(-sine, _SINE)
    return found if "offsets" in query else found[0]


def _similarity(query: Query) -> Array:
    rates = _rates(query)
    bound = len(rates) * (5 + 2 * len(rates).bit_length()) * UNIT
    sums = [mpmath.fsum(mpmath.cos(k * rate) for rate in rates) for k in query["offsets"]]
    return truths([Truth(each, bound) for each in sums], len(sums))


def _temperature(query: Query) -> Array:
    name, found = query.get("convention", "llama4"), []
    for position in query["positions"]:
        if name == "beam":
            value = (1 + mpf(position + 1) / 2048) ** (mpf(1) / 10)
        else:
            steps = (position + 1) // query.get("floor_scale", 8192)
            factor = query.get("attn_scale", 0.1)
            if name == "ministral3":
                steps = position // query["original_max_position_embeddings"]
                factor = query.get("llama_4_scaling_beta", 0.1)
            value = 1 + mpf(factor) * mpmath.log(1 + steps)
        found.append(Truth(value, 2 * UNIT * float(value)))
    return truths(found, len(found))


def _whole(numbers: Any) -> Array:
    array = np.array(numbers)
    return truths([Truth(each, 0.0) for each in array.flat], *array.shape)


def _ids(query: Query) -> Array:
    """Count tokens one by one, by the rule of each convention."""
    match query["convention"]:
        case "mask":
            return _whole([_counted(row, 0, query["masked"]) for row in query["attention_mask"]])
        case "opt":
            return _whole([_counted(row, 2, 1) for row in query["attention_mask"]])
        case "padding_idx":
            pad = query["padding_idx"]
            rows = [[int(each != pad) for each in row] for row in query["input_ids"]]
            return _whole([_counted(row, pad + 1, pad) for row in rows])
        case "packed":
            return _whole([[place for length in query["lengths"] for place in range(length)]])
        case "arange":
            ((segment,),) = query["rows"]
            return _whole([[query["past"] + place for place in range(segment["text"])]])
    return _of_media(query)


def _counted(kept: list[int], first: int, masked: int) -> list[int]:
    """Return first plus the number of tokens before each one; masked for those that are none."""
    return [first + sum(kept[:place]) if each else masked for place, each in enumerate(kept)]


def _of_media(query: Query) -> Array:
    """Qwen's ids: a picture moves on by its longest merged side; a frame by its time."""
    merged, rows = query.get("spatial_merge_size", 2), []
    for segments in query["rows"]:
        row: list[tuple[int, int, int]] = []
        start = 0
        for segment in segments:
            if "text" in segment:
                row += [(start + place,) * 3 for place in range(segment["text"])]
            else:
                ((_, (frames, height, width)),) = [
                    (name, grid) for name, grid in segment.items() if name in {"image", "video"}
                ]
                a_second = query.get("tokens_per_second", 2) if "video" in segment else 1
                step = Fraction(segment.get("seconds_per_grid", 1)) * a_second
                row += [
                    (start + floor(frame * step), start + y, start + x)
                    for frame in range(frames)
                    for y in range(height // merged)
                    for x in range(width // merged)
                ]
            start = 1 + max(max(each) for each in row)
        rows.append(row)
    return _whole(np.moveaxis(np.array(rows), -1, 0))


def _keys(x: Fraction, a: Fraction) -> Fraction:
    """Return Keys' cubic kernel, of distances below 2."""
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else Fraction(0)


def _tent(x: Fraction, _: Fraction) -> Fraction:
    return max(1 - abs(x), Fraction(0))


def _taps(old: int, new: int, query: Query) -> list[dict[int, Fraction]]:
    """Return the weights of the old places in each new one."""
    is_cubic = "bicubic" in query.get("mode", "bicubic")
    kernel, reach = (_keys, 2) if is_cubic else (_tent, 1)
    found = []
    for place in range(new):
        if query.get("align_corners"):
            x = Fraction(place * (old - 1), new - 1)
        else:
            x = (place + Fraction(1, 2)) * old / new - Fraction(1, 2)
        weights: dict[int, Fraction] = {}
        if query.get("antialias"):
            stretch = max(Fraction(old, new), Fraction(1))
            for each in range(old):
                weight = kernel((each - x) / stretch, Fraction(-1, 2))
                if weight:
                    weights[each] = weight
            whole = sum(weights.values())
            weights = {each: weight / whole for each, weight in weights.items()}
        else:
            for each in range(floor(x) - reach + 1, floor(x) + reach + 1):
                inside = min(max(each, 0), old - 1)
                weight = kernel(each - x, Fraction(-3, 4))
                weights[inside] = weights.get(inside, Fraction(0)) + weight
        found.append(weights)
    return found


def _resized(query: Query) -> Array:
    x = np.array(query["x"])
    prefix = query.get("num_prefix_tokens", 0)
    kept, rows = x[:prefix], x[prefix:]
    side = round(len(rows) ** 0.5)
    grid = rows.reshape(side, side, -1) if prefix else rows
    height, width = (
        _taps(old, new, query) for old, new in zip(grid.shape[:2], query["size"], strict=True)
    )
    values = [
        sum(
            Fraction(float(grid[i, j, channel])) * down[i] * across[j] for i in down for j in across
        )
        for down in height
        for across in width
        for channel in range(grid.shape[-1])
    ]
    bound = 16 * 2 * UNIT * float(np.abs(x).max())
    flat = [Truth(each, 0.0) for each in kept.flat]
    flat += [Truth(mpf(each.numerator) / each.denominator, bound) for each in values]
    shape = (-1,) if prefix else tuple(query["size"])
    return truths(flat, *shape, grid.shape[-1])


def _weights(query: Query) -> Array:
    """The matrix of the weights of one axis."""
    (old,), (new,) = query["old_size"], query["size"]
    rows = _taps(old, new, query)
    flat = [row.get(each, Fraction(0)) for row in rows for each in range(old)]
    return truths([Truth(mpf(f.numerator) / f.denominator, _ONCE) for f in flat], new, old)


_EVALUATED: Mapping[str, _Exact] = {
    "/encoding": _encoding,
    "/encoding/apply": _sum,
    "/encoding/boxes": _known("/encoding/boxes"),
    "/encoding/fourier": _known("/encoding/fourier", log=True, flip_sin_to_cos=False),
    "/encoding/grid": _grid,
    "/encoding/mask": _known("/encoding/mask"),
    "/encoding/timesteps": _known(
        "/encoding/timesteps",
        downscale_freq_shift=1.0,
        max_period=10000,
        scale=1,
        flip_sin_to_cos=False,
    ),
    "/encoding/tokens": _known("/encoding/tokens", padding_idx=1, past=0),
    "/attention/temperature": _temperature,
    "/positions": _ids,
    "/relative": _operator,
    "/relative/similarity": _similarity,
    "/relative/xlnet": _known("/relative/xlnet", attn_type="bi", query_len=1, bi_data=False),
    "/resize": _weights,
    "/resize/apply": _resized,
    **{
        path: _known(path)
        for path in (*EVALUATIONS, *COMPOSINGS)
        if path.startswith("/relative/") and path != "/relative/xlnet"
    },
}
