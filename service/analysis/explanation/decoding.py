"""Decode the position of each row, and name the pattern of positions that are not expected.

The phase of the slowest pair gives a coarse position, each faster pair a finer one.
"""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.catalogue import Changes, Mistake, mistake, too_narrow
from service.analysis.explanation.measured import UNIT, fold
from service.analysis.explanation.views import HALF_STEP, View
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

_MOST_LISTED = 8
# A longer list of positions is cut in sentences.
_MOST_TEXT = 80
# Rows are matched with positions so far beyond the wanted ones, but not with more than so many, in
# blocks of rows; squared distances that differ by less than the last number are equal.
_MOST_SHIFT, _MOST_MATCHED, _BLOCK, _EQUALLY = 64, 4096, 256, 1e-9
_MOST_MATCHED_ROWS = 2048
# A position within this of a wanted one is that; others are rounded to so many decimals.
_NEAR, _DECIMALS = 0.01, 3
# Phases less exact than this, in radians, are not read.
_MOST_NOISE = 0.5


def decoded(view: View, omega: Float64s, dtype: DType) -> Float64s | None:
    """Return the whole position of each row, (S,); None if a row has none.

    Args:
        view: cosines and sines, as float64.
        omega: the frequencies, (K,).
        dtype: the type of the numbers.
    """
    place, is_one = nearest(view, omega, dtype)
    return place if is_one.all() else None


def near_wanted(view: View, omega: Float64s, dtype: DType, wanted: Float64s) -> Float64s | None:
    """Return the position of each row, (S,): a wanted or a whole one where it is near.

    Return None if a row has none.

    Args:
        view: cosines and sines, as float64.
        omega: the frequencies, (K,).
        dtype: the type of the numbers.
        wanted: the positions, of which some are not whole, (S,).
    """
    place, is_one = nearest(view, omega, dtype, whole=False)
    if not is_one.all():
        return None
    rising = np.sort(wanted)
    after = np.searchsorted(rising, place).clip(max=len(rising) - 1)
    ends = np.stack([rising[after], rising[np.maximum(after - 1, 0)], np.round(place)])
    best = ends[np.argmin(np.abs(ends - place), axis=0), np.arange(len(place))]
    return np.where(np.abs(best - place) < _NEAR, best, np.round(place, _DECIMALS))


def longest_run(view: View, dtype: DType) -> Indices:
    """Return the most rows in sequence, each of which turns by the same angles from the last."""
    phasors = view.phasors
    turned = phasors[1:] * phasors[:-1].conj()
    close = (16 * HALF_STEP[dtype] + 1e-3 + 4 * view.slack) * np.abs(turned).max(initial=1e-300)
    moves = (np.abs(turned - np.abs(turned)) > close).any(axis=1)
    alike = moves[1:] & (np.abs(np.diff(turned, axis=0)) <= close).all(axis=1)
    ends = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False]))))
    if not len(ends):
        return np.arange(0)
    starts, stops = ends[::2], ends[1::2]
    longest = int(np.argmax(stops - starts))
    return np.arange(starts[longest], stops[longest] + 2)


def matched(view: View, omega: Float64s, scale: float, wanted: Float64s) -> Float64s | None:
    """Return the position whose cosines and sines each row comes nearest to, (S,).

    Where phases show no position, rows are compared with those of all positions near the wanted
    ones; where two come as near, the wanted one is returned, or else the lowest. Return None if
    there are too many rows, or wanted positions too far apart, not whole or below 0.

    Args:
        view: cosines and sines, or one of them, as float64.
        omega: the frequencies, (K,).
        scale: the size of the numbers.
        wanted: the position that each row should have, (S,).
    """
    if view.rows > _MOST_MATCHED_ROWS or (wanted % 1).any() or (wanted < 0).any():
        return None
    part = np.concatenate(view.parts, axis=1) / scale
    low, high = float(wanted.min()), float(wanted.max())
    most = 2 * high + _MOST_SHIFT
    if most > _MOST_MATCHED:
        most = high - low + _MOST_SHIFT
    if most > _MOST_MATCHED:
        return None
    around = np.arange(-most, most + 1)
    places = around if most > high else np.concatenate((around, around + low))
    places = np.unique(np.abs(places) if view.sine is None else places)
    waves = ((view.cosine, np.cos), (view.sine, np.sin))
    table = np.concatenate(
        [wave(places[:, None] * omega[: one.shape[1]]) for one, wave in waves if one is not None],
        axis=1,
    )
    size, order = (table * table).sum(axis=1), np.argsort(np.abs(places), kind="stable")
    found = np.empty(len(part))
    for start in range(0, len(part), _BLOCK):
        rows = slice(start, start + _BLOCK)
        apart = size - 2 * (part[rows] @ table.T)
        best = order[np.argmin(apart[:, order], axis=1)]
        each = np.arange(len(apart))
        own = apart[each, np.searchsorted(places, wanted[rows])]
        found[rows] = np.where(own <= apart[each, best] + _EQUALLY, wanted[rows], places[best])
    return found


def nearest(
    view: View, omega: Float64s, dtype: DType, *, whole: bool = True
) -> tuple[Float64s, NDArray[np.bool_]]:
    """Return the position that each row comes nearest to, (S,), and whether it is of that one."""
    phases = np.angle(view.phasors)
    omega = omega[: phases.shape[1]]
    close = np.full(phases.shape, 16 * HALF_STEP[dtype] + 1e-3 + 4 * view.slack)
    if view.weights is not None:
        close /= np.clip(view.weights[:, : phases.shape[1]], 1e-9, 1)
    position = np.zeros(len(phases))
    for k in np.argsort(np.abs(omega)):
        if omega[k]:
            step = fold(phases[:, k] - position * omega[k]) / omega[k]
            position += np.where(close[:, k] < _MOST_NOISE, step, 0)
    place = np.round(position) if whole else position
    distance = np.abs(fold(phases - place[:, None] * omega))
    more = 64 * UNIT if whole else 0.0
    is_one = (distance < close + more * np.abs(place)[:, None]).all(axis=1)
    return place, np.asarray(is_one)


def pattern(found: Float64s, wanted: Float64s) -> Mistake | None:
    """Return the mistake that gives these positions; None if they are the wanted ones.

    Args:
        found: the position of each row, (S,).
        wanted: the position that each should have, (S,).
    """
    if np.array_equal(found, wanted):
        return None
    shift = found - wanted
    if (shift == shift[0]).all():
        return _moved(float(shift[0]), wanted)
    if np.array_equal(found, wanted[::-1]):
        return mistake("positions-reversed")
    return (
        _rounded(found, wanted)
        or _of_padding(found, wanted)
        or _not_reset(found, wanted)
        or _of_next_sequence(found, wanted)
        or _listed(found, wanted)
    )


def _not_reset(found: Float64s, wanted: Float64s) -> Mistake | None:
    """Return the mistake that positions count on where they should start again, if they do."""
    breaks = np.flatnonzero(np.diff(wanted) <= 0) + 1
    starts = np.r_[0, breaks]
    counted = wanted + np.repeat(starts, np.diff(np.r_[starts, len(wanted)]))
    if not len(breaks) or (wanted[starts] != wanted[0]).any() or not np.array_equal(found, counted):
        return None
    rows = [int(each) for each in breaks[:_MOST_LISTED]]
    changes: Changes = {"positions": text_of(found)}
    return mistake("positions-reset", None, {"rows": rows}, changes, variant="missing")


def _of_padding(found: Float64s, wanted: Float64s) -> Mistake | None:
    """Return the mistake that sequences are counted from their padding on, if they are."""
    again = np.flatnonzero(found[1:] == found[0])
    length = int(again[0]) + 1 if len(again) else len(found)
    if len(found) % length or not np.array_equal(found[:length], np.arange(length)):
        return None
    each, own = found.reshape(-1, length), wanted.reshape(-1, length)
    pads = (each - own)[:, -1]
    is_live = np.arange(length) >= pads[:, None]
    # Rows of padding have one position, such as 0 or 1; those of another sequence have several.
    is_right = np.where(is_live, each - own == pads[:, None], own == own[:, :1])
    if (pads < 0).any() or not is_right.all() or not (each == np.arange(length)).all():
        return None
    counts = [int(count) for count in pads[:_MOST_LISTED]]
    return mistake("padding-counted", None, {"rows": counts}, {"positions": text_of(found)})


def _of_next_sequence(found: Float64s, wanted: Float64s) -> Mistake | None:
    """Return the mistake that each sequence of a batch has the positions of the next, if it has."""
    steps = np.diff(wanted)
    for rows in np.flatnonzero(wanted == found[0]).tolist():
        is_part = 1 < rows < len(wanted) and len(wanted) % rows == 0
        # Positions that go on from one part to the next are those of one sequence.
        if (
            is_part
            and (steps[rows - 1 :: rows] != 1).all()
            and np.array_equal(found, np.roll(wanted, -rows))
        ):
            changes: Changes = {"positions": text_of(found)}
            return mistake("next-sequence", None, {"rows": rows}, changes)
    return None


def _rounded(found: Float64s, wanted: Float64s) -> Mistake | None:
    """Return the mistake that the positions are rounded to a narrow type, if they are."""
    for dtype in (BFLOAT16, FLOAT16):
        if np.array_equal(found, rounded(wanted, dtype)):
            return too_narrow("positions", dtype)
    return None


def _listed(found: Float64s, wanted: Float64s) -> Mistake:
    """Return the mistake that the positions start again, stay, or are any others."""
    text = text_of(found)
    listed: Changes = {"positions": text}
    steps = np.diff(found)
    breaks = np.flatnonzero(steps != 1) + 1
    first = int(breaks[0]) if len(breaks) else len(found)
    if len(breaks) and (found[breaks] == found[0]).all() and (steps[breaks - 1] != 0).all():
        rows = [int(each) for each in breaks[:_MOST_LISTED]]
        return mistake("positions-reset", 6.0, {"rows": rows}, listed)
    if len(breaks) and (steps[first - 1 :] == 0).all():
        values = {"position": found[first - 1], "row": first - 1}
        return mistake("positions-stuck", 5.0 + (first > 1), values, listed)
    few = 0 < len(breaks) <= 4 and (steps[breaks - 1] > 1).all()
    repeats = ((steps == 0) | (steps == 1)).all()
    texts = {"have": _shortened(text), "want": _shortened(text_of(wanted))}
    # A list of many pieces is less plausible than a pattern and another mistake.
    bits = 8.0 if few or repeats else 12.0 + np.log2(1 + text.count(","))
    return mistake("other-positions", bits, texts, listed)


def is_continued(places: Float64s) -> bool:
    """Return whether positions count up from an offset, as those after cached ones do."""
    return bool(places[0] > 0 and (np.diff(places) == 1).all())


def _moved(rows: float, wanted: Float64s) -> Mistake:
    """Return the mistake that all rows are those of positions so many further on."""
    first = float(wanted[0])
    changes: Changes | None = {"start": int(first + rows)} if (first + rows) % 1 == 0 else None
    values = {"rows": rows, "have": first + rows, "want": first}
    if abs(rows) != abs(first) or not is_continued(wanted):
        return mistake("position-offset", 4 + np.log2(abs(rows) + 1), values, changes)
    how = "twice" if rows == first else "not at all"
    return mistake("cache-offset", None, {**values, "offset": first, "how": how}, changes)


def other_axes(axis: Indices) -> Iterator[tuple[Mistake, Indices]]:
    """Yield other assignments of axes to frequencies: exchanged or repeated axes, other sections.

    Sections follow each other (Qwen2-VL), or alternate from one frequency to the next while an axis
    has any left (Qwen3-VL); see ``encodings.rotary.mrope``.

    Args:
        axis: the axis of each frequency, (K,).
    """
    count = int(axis.max()) + 1
    plain = tuple(range(count))
    for order in permutations(plain):
        if order != plain:
            values = {"have": list(order), "want": list(plain)}
            yield mistake("sections-exchanged", None, values), np.array(order)[axis]
    sizes = np.bincount(axis, minlength=count)
    chunked = np.repeat(plain, sizes)
    k = np.arange(len(axis))
    alternating = np.where((k % count > 0) & (k < count * sizes[k % count]), k % count, 0)
    for one, other in permutations(plain, 2):
        order = tuple(other if each == one else each for each in plain)
        values = {"have": list(order), "want": list(plain)}
        yield mistake("sections-exchanged", None, values), np.array(order)[axis]
    for have, want, assigned in (
        ("alternating", "one after the other", alternating),
        ("one after the other", "alternating", chunked),
    ):
        if not np.array_equal(assigned, axis):
            yield mistake("sections-interleaved", None, {"have": have, "want": want}), assigned


def moved_axes(axis: Indices, places: Float64s) -> Iterator[tuple[Mistake, Float64s]]:
    """Yield the positions of other axes, and of all rows backwards, (S, K).

    Args:
        axis: the axis of each frequency, (K,).
        places: the position of each row and frequency, (S, K).
    """
    coordinates = _coordinates(axis, places)
    for wrong, assigned in other_axes(axis):
        yield wrong, coordinates[:, assigned]
    yield mistake("positions-reversed"), places[::-1]


def offset_axes(axis: Indices, places: Float64s) -> Iterator[tuple[Mistake, Float64s]]:
    """Yield positions that are off by half a step or one along every axis, (S, K).

    Args:
        axis: the axis of each frequency, (K,).
        places: the position of each row and frequency, (S, K).
    """
    coordinates = _coordinates(axis, places)
    gaps = (np.diff(np.unique(each)) for each in coordinates.T)
    steps = np.array([np.median(each) if len(each) else 1.0 for each in gaps])
    for offset in (-0.5, 0.5, -1.0, 1.0):
        changes = {"grid_offset": f"{offset:g}"}
        wrong = mistake("position-offset", None, {"rows": offset}, changes, variant="axes")
        yield wrong, (coordinates + offset * steps)[:, axis]


def _coordinates(axis: Indices, places: Float64s) -> Float64s:
    """Return the position of each row along each axis."""
    _, first = np.unique(axis, return_index=True)
    return places[:, first]


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT].rpartition(',')[0]}, …"


def text_of(positions: Float64s) -> str:
    """Return positions as a list of numbers and ranges, as URLs have them."""
    parts, row = [], 0
    # A step is part of a range if it is as long as the one before, whole, and not back.
    steps = np.append(np.diff(positions), 0)
    while row < len(positions):
        last, start, step = row, positions[row], steps[row]
        is_range = start == round(start) and step == round(step) > 0
        while is_range and last + 1 < len(positions) and steps[last] == step:
            last += 1
        if last - row >= 2:
            by = "" if step == 1 else f":{step:.0f}"
            parts.append(f"{start:.0f}:{positions[last] + 1:.0f}{by}")
            row = last + 1
        else:
            parts.append(f"{start:.12g}")
            row += 1
    return ",".join(parts)
