"""Places of wrong numbers, by pattern: one element, rows from n on, every k-th pair.

``placed`` reads the pattern from a mask of rows and pairs, and ``placed_along`` from one of any
axes, by their names; its text goes on a sentence that ends in "right but for". A pattern may have
holes, where garbage happens to be right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import plural
from service.numerics.phasors import Indices

_MOST_LISTED = 8
# Shares of the pairs in a place that are wrong: of a full one, and of one that is no place.
_FULL, _THIN = 0.8, 0.3


@dataclass(frozen=True)
class Finding:
    """Something that the data shows.

    Attributes:
        name: of the finding, such as ``rows``.
        text: a sentence about it.
        values: numbers that go with it, of JSON types.
    """

    name: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlaceSpan:
    """Some of the indices from 0 on, by their pattern: text, JSON values, and whether it is one."""

    text: str
    values: Mapping[str, Any]
    is_pattern: bool = True
    is_all: bool = False


def span_of(where: Indices, length: int, noun: str) -> PlaceSpan:
    """Return the pattern of rising indices below a length: a range, every k-th, or a list."""
    first, last, count = int(where[0]), int(where[-1]), len(where)
    many = plural(noun)
    if count == length:
        return PlaceSpan(f"all {many}", {"from": first, "to": last}, is_all=True)
    if count == 1:
        return PlaceSpan(f"{noun} {first}", {"from": first, "to": first})
    step = gcd(*np.diff(where).tolist())
    fill = count / ((last - first) // step + 1)
    if step == 1 and fill >= 0.9:
        ends = "from {0} on" if last == length - 1 else "{0} to {1}"
        if last == first + 1 and last < length - 1:
            ends = "{0} and {1}"
        holes = {"count": count} if fill < 1 else {}
        return PlaceSpan(f"{many} {ends.format(first, last)}", {"from": first, "to": last, **holes})
    is_to_end = last + step >= length
    if step > 1 and fill >= 0.8 and (count > 2 or is_to_end):
        ends = f"from {first} on" if is_to_end else f"from {first} to {last}"
        text = (
            f"every {_ordinal(step)} {noun} {ends}" if count > 2 else f"{many} {first} and {last}"
        )
        return PlaceSpan(text, {"from": first, "to": last, "every": step, "count": count})
    listed = [int(each) for each in where[:_MOST_LISTED]]
    values: dict[str, Any] = {"count": count, "first": listed}
    if count <= _MOST_LISTED:
        text = ", ".join(map(str, listed[:-1])) + f" and {listed[-1]}"
        return PlaceSpan(f"{many} {text}", values, is_pattern=False)
    text = ", ".join(map(str, listed))
    return PlaceSpan(f"{count} of {length} {many}, {text}, …", values, is_pattern=False)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def placed(bad: NDArray[np.bool_]) -> Finding:
    """Return where faults lie, by their pattern: bad (S, K), at least one of them true."""
    if int(bad.sum()) == 1:
        row, lane = (int(each) for each in np.argwhere(bad)[0])
        return Finding("element", f"pair {lane} of row {row}", {"row": row, "lane": lane})
    rows, lanes = (
        span_of(np.flatnonzero(bad.any(axis=axis)), length, noun)
        for axis, length, noun in ((1, bad.shape[0], "row"), (0, bad.shape[1], "pair"))
    )
    many, wide = (int(np.count_nonzero(bad.any(axis=axis))) for axis in (1, 0))
    fill = int(bad.sum()) / (many * wide)
    if fill < _FULL and (crossed := _crossed(bad)) is not None:
        return crossed
    is_spread = rows.is_all and lanes.is_all and fill < 1
    if is_spread or (fill < _THIN and min(many, wide) > _MOST_LISTED):
        return _scattered(bad, rows)
    if lanes.is_all:
        return Finding("rows", rows.text, rows.values)
    if rows.is_all:
        return Finding("lanes", lanes.text, lanes.values)
    return Finding("rows", f"{lanes.text} in {rows.text}", {**rows.values, "lanes": lanes.values})


def _crossed(bad: NDArray[np.bool_]) -> Finding | None:
    """Return pairs that are wrong in nearly all rows, and rows that are wrong in others too."""
    thick = bad.mean(axis=0) > 0.8
    others = np.count_nonzero(bad[:, ~thick], axis=1) > 0
    if not thick.any() or thick.all() or not others.any():
        return None
    lanes = span_of(np.flatnonzero(thick), len(thick), "pair")
    rows = span_of(np.flatnonzero(others), len(others), "row")
    if not rows.is_pattern or rows.is_all:
        return None
    values = {"rows": rows.values, "lanes": lanes.values}
    return Finding("rows-and-lanes", f"{lanes.text}, and {rows.text}", values)


def _scattered(bad: NDArray[np.bool_], rows: PlaceSpan) -> Finding:
    share = float(f"{bad.mean():.3g}")
    count, first = int(bad.sum()), [int(each) for each in np.argwhere(bad)[0]]
    text = f"{count} of {bad.size} pairs ({share:.3g} of all), scattered over {rows.text}"
    return Finding("scattered", text, {"count": count, "share": share, "first": first})


def placed_along(bad: NDArray[np.bool_], axes: tuple[str, ...]) -> Finding:
    """Return where faults lie along axes of these names: bad of any shape, one of them true."""
    if int(bad.sum()) == 1:
        index = [int(each) for each in np.argwhere(bad)[0]]
        text = ", ".join(f"{name} {place}" for name, place in zip(axes, index, strict=True))
        return Finding("element", text, {"index": index})
    spans = []
    for axis, (name, length) in enumerate(zip(axes, bad.shape, strict=True)):
        others = tuple(each for each in range(bad.ndim) if each != axis)
        spans.append(span_of(np.flatnonzero(bad.any(axis=others)), length, name))
    count, text = int(bad.sum()), ", ".join(each.text for each in spans if not each.is_all)
    values = {
        "numbers": count,
        "axes": {name: each.values for name, each in zip(axes, spans, strict=True)},
    }
    filled = prod(
        int(np.count_nonzero(bad.any(axis=tuple({*range(bad.ndim)} - {axis}))))
        for axis in range(bad.ndim)
    )
    if count < filled:
        text = f"{count} of {bad.size} numbers" + (f", in {text}" if text else "")
    return Finding("numbers", text, values)


def is_everywhere(bad: NDArray[np.bool_]) -> bool:
    """Return whether faults have no place: they are in all rows and pairs, or scattered."""
    is_in_all = all(bool(bad.any(axis=axis).all()) for axis in (0, 1))
    return is_in_all or (bool(bad.any()) and placed(bad).name == "scattered")
