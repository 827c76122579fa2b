"""Tables that are no sines and cosines: biases, indices, frequencies, grids, operators.

They are compared number by number: with their axes or channels in another order, with fewer rows
or more, times a factor, with rows shifted, printed with a few decimals; and with the tables of
other settings of the request. ``explain_numbers`` returns the shortest list of such mistakes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, permutations, product
from math import isqrt, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import Sample, TableRequest
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.faults import of_length, with_mistakes
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.places import Finding, placed_along
from service.analysis.explanation.views import HALF_STEP, evenly
from service.analysis.precision import narrowest_dtype, rounded, spacing
from service.analysis.round_numbers import round_numbers
from service.errors import plural
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

_MOST_AXES = 4
_MOST_SHIFT = 63
_MOST_MISTAKES = 3
# Fewer numbers than this may have few decimals by chance.
_FEWEST_FRACTIONS = 3
# A narrow type moves a factor of 1 by less.
_SURELY_ONE = 0.01
# Of fewer wrong numbers the place is named; by chance, mistakes explain a part of most tables.
_MOST_WRONG, _MOST_UNEXPLAINED = 0.7, 0.2
# Of larger arrays a few rows are compared first; if more of their numbers are wrong, all may be.
_LARGE, _FEW_ROWS, _HOPELESS = 2**14, 32, 0.9
# More equal rows than these tell no place.
_MOST_PLACES = 8
# Others may explain the same numbers.
_DOUBTFUL = frozenset({"wrong-sign", "wrong-heads"})


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers that are expected, before rounding.

    Attributes:
        arrays: by name.
        dtype: the type to which engines round them.
        axes: the names of the axes; those of a table of rows and channels unless given.
        grid: the lengths of the axes of a grid whose cells are the rows, the fastest last; None
            if they are not.
        are_frequencies: whether they are frequencies, whose powers cost engines a few units.
        first: the position of the first row.
        moved: returns the numbers from another row on; None if nobody knows those.
        slack: an error that each number may have besides rounding.
        are_ids: whether they are position ids, to which an engine may add a number.
        is_whole: whether no other rows than these can be meant.
    """

    arrays: Mapping[str, Sample]
    dtype: DType
    axes: tuple[str, ...] = ()
    grid: tuple[int, int] | None = None
    are_frequencies: bool = False
    first: int = 0
    moved: Callable[[int], "Numbers | None"] | None = None
    slack: float = 0.0
    are_ids: bool = False
    is_whole: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return next(iter(self.arrays.values())).values.shape


Alternative: TypeAlias = tuple[Mistake, TableRequest | None, Numbers]
"""A mistake in the settings, the request with it or None, and the numbers with it."""


@dataclass(frozen=True, eq=False)
class _Order:
    """A way to align the numbers: an order of axes, rows and columns, with its mistakes."""

    mistakes: tuple[Mistake, ...]
    axes: tuple[int, ...]
    rows: Indices
    columns: Indices


@dataclass(frozen=True, eq=False)
class _Attempt:
    mistakes: tuple[Mistake, ...]
    bad: NDArray[np.bool_]
    request: TableRequest | None = None
    dtype: DType | None = None
    shape: tuple[int, ...] = ()


def explain_numbers(
    have: Mapping[str, Sample],
    want: Numbers,
    others: Callable[[], Iterable[Alternative]] = tuple,
) -> Explanation | None:
    """Return what arrays are instead of the expected numbers; None if no shapes fit.

    Args:
        have: the arrays that were sent, by the names of the expected ones.
        want: the expected numbers.
        others: yields the tables of other settings.
    """
    # One row of a table has no axis of rows.
    have = {
        name: replace(each, values=each.values[None])
        if each.values.shape == want.shape[1:]
        else each
        for name, each in have.items()
    }
    nearest: _Attempt | None = None
    has_fitted = False
    attempts = _attempts(have, want, others)
    for attempt in attempts:
        if not attempt.bad.any():
            return _explanation(have, [attempt, *_rivals(attempt, attempts)])
        # Another convention may have other axes, which have no names here.
        if len(attempt.shape) != len(want.shape):
            continue
        has_fitted = True
        most = _MOST_UNEXPLAINED if attempt.mistakes else _MOST_WRONG
        if attempt.bad.mean() < (most if nearest is None else min(most, nearest.bad.mean())):
            nearest = attempt
    if not has_fitted:
        return None
    elements = sum(sample.values.size for sample in have.values())
    found: tuple[Finding, ...] = ()
    if not any(sample.values.any() for sample in have.values()):
        found = (Finding("zero", "all numbers are zero", {"count": elements}),)
    elif nearest is not None:
        found = (with_mistakes(nearest.mistakes, _place(nearest, want)),)
    return Explanation("none", findings=found, elements=elements)


def are_numbers(have: Mapping[str, Sample], want: Numbers) -> bool:
    """Return whether arrays are the expected numbers, in their shape and to their own type."""
    sent = next(iter(have.values()))
    if sent.values.shape != want.shape or have.keys() != want.arrays.keys():
        return False
    axes = tuple(range(sent.values.ndim))
    numbers, predicted = _table(have, axes), _table(want.arrays, axes)
    return not _bad(numbers, predicted, want, _real_dtype(sent), 0.0).any()


def _place(found: _Attempt, want: Numbers) -> Finding:
    """Return where numbers are wrong, by the names of the axes."""
    shape = (*found.shape[:-1], -1)
    return placed_along(found.bad.reshape(shape), _names(want))


def _names(want: Numbers) -> tuple[str, ...]:
    """Return the names of the axes of the expected numbers; rows and channels if none are known."""
    rank = len(want.shape)
    if len(want.axes) == rank:
        return want.axes
    outer = tuple(f"axis {axis}" for axis in range(rank - 3))
    return (*outer, *("block", "row", "channel")[-rank:])


def _rivals(found: _Attempt, others: Iterator[_Attempt]) -> Iterator[_Attempt]:
    """Yield what explains numbers as well that may be made in two ways.

    Distances change sign with their order; slopes of more heads are those of another exponent.

    Args:
        found: what explains the numbers.
        others: what would be tried next.
    """
    doubtful, most = _DOUBTFUL & {each.name for each in found.mistakes}, len(found.mistakes)
    for each in others if doubtful else ():
        is_doubtful = any(wrong.name in doubtful for wrong in each.mistakes)
        if not is_doubtful and len(each.mistakes) <= most and not each.bad.any():
            yield each


def _explanation(have: Mapping[str, Sample], found: Sequence[_Attempt]) -> Explanation:
    """Return what explains the numbers with the fewest mistakes, beside another one of as many."""
    sent = _real_dtype(next(iter(have.values())))
    first = min(found, key=lambda each: len(each.mistakes))
    same = (each for each in found if len(each.mistakes) == len(first.mistakes))
    others = [each for each in same if each.mistakes != first.mistakes][:1]
    mistakes, *alternatives = (each.mistakes + _of_dtype(each, sent) for each in (first, *others))
    return Explanation(
        "diagnosed" if mistakes else "equal",
        mistakes,
        alternatives=tuple(alternatives),
        elements=first.bad.size,
        sampled=len(first.bad),
        request=first.request,
    )


def _of_dtype(found: _Attempt, sent: DType) -> tuple[Mistake, ...]:
    """Return that numbers are rounded to a narrow type, if they were not sent as such."""
    if found.dtype in {BFLOAT16, FLOAT16} and found.dtype is not sent:
        return (mistake("narrow-tables", None, {"dtype": found.dtype.name}),)
    return ()


def _attempts(
    have: Mapping[str, Sample], want: Numbers, others: Callable[[], Iterable[Alternative]]
) -> Iterator[_Attempt]:
    """Yield attempts: the expected numbers, other settings, the mistakes of their order."""
    yield from _aligned(have, want, (), most=0)
    # They are made twice, one by one: all of them together may be large.
    for most in (0, 1):
        for wrong, request, numbers in others():
            # What is missing or left over of a table of another shape is no part of the expected.
            is_open = not most or numbers.shape == want.shape
            if is_open and numbers.arrays.keys() == want.arrays.keys():
                yield from _aligned(have, numbers, (wrong,), most=most, request=request)
        if not most:
            yield from _blocks(have, want)
            yield from _aligned(have, want, (), most=_MOST_MISTAKES)


def _blocks(have: Mapping[str, Sample], want: Numbers) -> Iterator[_Attempt]:
    """Yield the numbers as a later block along the first axis, such as one head, if one is equal.

    Of several equal ones, none is more likely.
    """
    sent = next(iter(have.values()))
    shape, count = sent.values.shape, len(sent.values)
    if shape[1:] != want.shape[1:] or count >= want.shape[0] or want.are_frequencies:
        return
    if count > 1 and not want.axes:
        # They may be positions, which begin elsewhere.
        return
    numbers, known = _rows_of(have), _rows_of(want.arrays)
    if (numbers == numbers[0, 0]).all():
        return
    own = _real_dtype(sent)
    for dtype in dict.fromkeys((own, narrowest_dtype(numbers.reshape(-1), own))):
        differs = [
            _bad(numbers[row], known[row : len(known) - count + 1 + row], want, dtype, 0.0)
            for row in (0, count - 1)
        ]
        places = np.flatnonzero(~(differs[0] | differs[1]).any(axis=1)).tolist()
        if len(places) > _MOST_PLACES:
            return
        blocks = (known[each : each + count] for each in places)
        bad = [_bad(numbers, block, want, dtype, 0.0) for block in blocks]
        equal = [(place, each) for place, each in zip(places, bad, strict=True) if not each.any()]
        if len(equal) == 1 and equal[0][0]:
            first, none = equal[0]
            yield _Attempt((_of_block(_names(want)[0], first, count, want),), none, None, dtype)
        if equal:
            return


def _rows_of(arrays: Mapping[str, Sample]) -> Float64s:
    """Return arrays side by side, with a row for each index of the first axis."""
    return np.hstack(
        [arrays[name].reals().reshape(len(arrays[name].values), -1) for name in sorted(arrays)]
    )


def _of_block(axis: str, first: int, count: int, want: Numbers) -> Mistake:
    """Return the mistake that there are only the places of an axis from a later one on."""
    name = "row" if axis == "position" else axis
    values = {"axis": plural(name), "have": count, "want": want.shape[0], "first": first}
    if count == 1:
        changes = {"head": first} if name == "head" else None
        return mistake("truncated", None, {**values, "item": name}, changes, variant="at")
    return mistake("truncated", None, {**values, "last": first + count - 1}, variant="from")


def _aligned(
    have: Mapping[str, Sample],
    want: Numbers,
    first: tuple[Mistake, ...],
    *,
    most: int,
    request: TableRequest | None = None,
) -> Iterator[_Attempt]:
    """Yield the numbers aligned with the expected ones by at most so many mistakes."""
    sent = next(iter(have.values()))
    own = _real_dtype(sent)
    for order in _orders(sent.values.shape, want):
        if len(order.mistakes) > most:
            continue
        moved = (sent.values.shape[axis] for axis in order.axes)
        shape = tuple(map(min, moved, want.shape))
        numbers = _table(have, order.axes, shape)[order.rows][:, order.columns]
        # Rows beyond those that are compared may be the ones that were sent.
        kept = (None, *shape[1:]) if len(shape) > 1 else shape
        known = _table(want.arrays, tuple(range(len(shape))), kept)
        predicted = known[: len(numbers)]
        mistakes = (*first, *order.mistakes)
        plain = order.mistakes == ()
        unchanged = request if plain or request is None else None
        few = _few_rows(numbers)
        # Biases of one head are often a multiple of those of another one.
        lacks_heads = _names(want)[0] == "head" and shape[0] < want.shape[0]
        dtype = narrowest_dtype(numbers.reshape(-1), own)
        checks = [(own, 0.0, mistakes)]
        if dtype is not own:
            checks.append((dtype, 0.0, mistakes))
        if most and _decimals(numbers[few]) and (decimals := _decimals(numbers)):
            rounding = mistake("rounded-decimals", None, {"decimals": decimals})
            checks.append((own, 0.5 * 10.0**-decimals, (*mistakes, rounding)))
        for judged, slack, named in checks:
            # What is right as it is, but for some numbers, needs the place of each.
            compare = _bad_of_all if named else _bad
            bad = compare(numbers, predicted, want, judged, slack)
            yield _Attempt(named, bad, unchanged, judged, shape)
        if len(order.mistakes) < most:
            for judged in dict.fromkeys((own, dtype)):
                first_factors = _factors(numbers[few], predicted[few], want, judged, mistakes)
                has_factor = not lacks_heads and any(
                    each.bad.mean() <= _HOPELESS for each in first_factors
                )
                changed = (
                    _offset(numbers, predicted, want, judged, mistakes),
                    _factors(numbers, predicted, want, judged, mistakes) if has_factor else (),
                    _moved_rows(numbers, known, want, judged, mistakes),
                )
                for each in chain(*changed):
                    if len(each.mistakes) <= _MOST_MISTAKES:
                        yield replace(each, shape=shape)


def _real_dtype(sample: Sample) -> DType:
    """Return the real type that holds the elements of a sample: float64 for integers."""
    return FLOAT64 if sample.is_integer else sample.element_dtype


def _bad(
    numbers: Float64s, predicted: Float64s, want: Numbers, dtype: DType, slack: float
) -> NDArray[np.bool_]:
    """Return where numbers are not the predicted ones; whole numbers may only be rounded."""
    if (predicted == np.round(predicted)).all() and np.isfinite(predicted).all():
        differs: NDArray[np.bool_] = ~(np.abs(numbers - rounded(predicted, dtype)) <= slack)
        return differs
    allowed = 2 * (spacing(predicted, dtype) + spacing(predicted, want.dtype)) + slack + want.slack
    if want.are_frequencies:
        stiffness = np.abs(np.log(np.maximum(np.abs(predicted), 1e-30)))
        pairs = np.arange(predicted.shape[1])
        allowed = allowed + np.abs(predicted) * (8 + 3 * stiffness + 2 * pairs) * UNIT
    with np.errstate(invalid="ignore"):
        near = np.abs(numbers - predicted) <= allowed
    bad: NDArray[np.bool_] = ~(near | (numbers == predicted))
    return bad


def _few_rows(numbers: Float64s) -> Indices:
    """Return the rows that are compared first: all, unless there are many numbers."""
    return np.array(evenly(len(numbers), _FEW_ROWS if numbers.size > _LARGE else len(numbers)))


def _bad_of_all(
    numbers: Float64s,
    predicted: Float64s,
    want: Numbers,
    dtype: DType,
    slack: float,
) -> NDArray[np.bool_]:
    """Return where numbers are not the predicted ones: everywhere, if a few rows have others."""
    few = _few_rows(numbers)
    bad = _bad(numbers[few], predicted[few], want, dtype, slack)
    if len(few) == len(numbers):
        return bad
    if bad.mean() > _HOPELESS:
        return np.ones(numbers.shape, dtype=np.bool_)
    return _bad(numbers, predicted, want, dtype, slack)


def _factors(
    numbers: Float64s,
    predicted: Float64s,
    want: Numbers,
    dtype: DType,
    mistakes: tuple[Mistake, ...],
) -> Iterator[_Attempt]:
    """Yield a factor of all numbers, the other sign of all that are finite, or both."""
    is_finite = np.isfinite(numbers) & np.isfinite(predicted)
    own, exact = numbers[is_finite], predicted[is_finite]
    weight = float((exact * exact).sum())
    factor = float((own * exact).sum()) / weight if weight else 0.0
    if factor < 0:
        factor, predicted = -factor, np.where(is_finite, -predicted, predicted)
        mistakes = (*mistakes, mistake("wrong-sign"))
        if abs(factor - 1) < _SURELY_ONE:
            yield _Attempt(mistakes, _bad(numbers, predicted, want, dtype, 0.0), dtype=dtype)
    # Any array of one number is a multiple of any other.
    if factor < 1e-6 or (exact == exact[0]).all():
        return
    close = 2 * (HALF_STEP[dtype] + HALF_STEP[want.dtype])
    are_indices = _are_indices(want)
    for each in round_numbers(max(factor, 1 / factor), close):
        # A factor that is printed as 1 says nothing; no code multiplies indices by a fraction.
        if f"{each:.6g}" != "1" and not (are_indices and each % 1):
            ratio = each if factor > 1 else 1 / each
            name = "extra-factor" if factor > 1 else "missing-factor"
            wrong = mistake(name, None, {"factor": each, "ratio": ratio}, variant="numbers")
            bad = _bad(numbers, predicted * ratio, want, dtype, 0.0)
            yield _Attempt((*mistakes, wrong), bad, dtype=dtype)


def _are_indices(want: Numbers) -> bool:
    return all(sample.is_integer for sample in want.arrays.values())


def _offset(
    numbers: Float64s,
    predicted: Float64s,
    want: Numbers,
    dtype: DType,
    mistakes: tuple[Mistake, ...],
) -> Iterator[_Attempt]:
    """Yield one whole number that is added to all position ids, or to all indices."""
    # Of equal indices, any other one is the same plus a number.
    if not want.are_ids and not (_are_indices(want) and np.ptp(predicted)):
        return
    difference = numbers - predicted
    first = float(difference.flat[0]) if difference.size else 0.0
    if first and first % 1 == 0:
        values = {"rows": first, "have": float(numbers.flat[0]), "want": float(predicted.flat[0])}
        variant = "ids" if want.are_ids else "indices"
        wrong = mistake("position-offset", None, values, variant=variant)
        yield _Attempt((*mistakes, wrong), difference != first, dtype=dtype)


def _moved_rows(
    numbers: Float64s,
    known: Float64s,
    want: Numbers,
    dtype: DType,
    mistakes: tuple[Mistake, ...],
) -> Iterator[_Attempt]:
    """Yield the expected rows from another one on; the last ones too, if they are known."""
    is_sequence = not want.axes or want.axes[0] in {"position", "query"}
    rows = len(numbers) if is_sequence and not want.is_whole and want.grid is None else 0
    for shift in range(1, min(_MOST_SHIFT, rows - 2) + 1):
        for sign in (1, -1):
            wanted = known[shift : shift + rows]
            have = numbers[: len(wanted)]
            if sign < 0:
                have, wanted = numbers[shift:], known[: rows - shift]
            if _bad(have[:2], wanted[:2], want, dtype, 0.0).any():
                continue
            if want.moved is not None:
                moved = want.moved(sign * shift)
                if moved is None:
                    continue
                table = _table(moved.arrays, tuple(range(len(moved.shape))))
                if table.shape != numbers.shape:
                    continue
                bad = _bad(numbers, table, want, dtype, 0.0)
            elif sign < 0 or len(want.shape) > 2 or 2 * len(wanted) <= rows:
                # Too few rows are known, or they are not those of positions alone.
                continue
            else:
                bad = _bad(have, wanted, want, dtype, 0.0)
                unknown = np.ones((rows - len(wanted), bad.shape[1]), dtype=np.bool_)
                bad = np.vstack([bad, unknown])
            first = want.first
            values = {"rows": sign * shift, "have": first + sign * shift, "want": first}
            wrong = mistake("position-offset", None, values)
            yield _Attempt((*mistakes, wrong), bad, dtype=dtype)


def _decimals(numbers: Float64s) -> int:
    """Return to how many decimals, 1 to 6, all numbers are rounded; 0 if to none, or too few."""
    finite = numbers[np.isfinite(numbers)]
    fractions = finite[finite % 1 != 0]
    if np.unique(fractions).size < _FEWEST_FRACTIONS:
        return 0
    for decimals in range(1, 7):
        if (np.abs(np.round(fractions, decimals) - fractions) <= UNIT * np.abs(fractions)).all():
            return decimals
    return 0


def _table(
    arrays: Mapping[str, Sample], axes: tuple[int, ...], lengths: Sequence[int | None] = ()
) -> Float64s:
    """Return arrays as rows and columns, side by side.

    Args:
        arrays: the arrays.
        axes: the order of their axes.
        lengths: how much of each axis, in that order; None, or none at all, for all.
    """
    tables = []
    for name in sorted(arrays):
        values = arrays[name].reals().transpose(axes)[tuple(map(slice, lengths))]
        tables.append(values.reshape(prod(values.shape[:-1]) or 1, -1))
    return np.hstack(tables) if len(tables) > 1 else tables[0]


def _orders(shape: tuple[int, ...], want: Numbers) -> list[_Order]:
    """Return the orders that at most three mistakes lead to, the fewest first."""
    blocks = len(want.arrays)
    found: dict[bytes, _Order] = {}
    for axis_mistakes, axes in _axes(shape, want):
        moved = tuple(shape[axis] for axis in axes)
        sizes = tuple(
            of_length(plural(name), have, wanted, beyond="missing")
            for name, have, wanted in zip(_names(want), moved, want.shape, strict=True)
            if have != wanted
        )
        *lengths, width = map(min, moved, want.shape)
        for row_mistakes, row_order in _rows(prod(lengths), want):
            for column_mistakes, column_order in _columns(width * blocks, want):
                mistakes = (*axis_mistakes, *sizes, *row_mistakes, *column_mistakes)
                order = _Order(mistakes, axes, row_order, column_order)
                key = repr(axes).encode() + row_order.tobytes() + order.columns.tobytes()
                if len(mistakes) <= _MOST_MISTAKES and (
                    key not in found or len(mistakes) < len(found[key].mistakes)
                ):
                    found[key] = order
    return sorted(found.values(), key=lambda order: len(order.mistakes))


def _axes(
    shape: tuple[int, ...], want: Numbers
) -> Iterator[tuple[tuple[Mistake, ...], tuple[int, ...]]]:
    rank, wanted = len(shape), want.shape
    names = want.axes if len(want.axes) == len(wanted) else tuple(map(str, range(len(wanted))))
    if rank != len(wanted):
        return
    plain = tuple(range(rank))
    pairs = list(zip(shape, wanted, strict=True))
    is_part = all(one <= other for one, other in pairs)
    if is_part or sum(one != other for one, other in pairs) == 1:
        yield (), plain
    for axes in permutations(range(rank)) if rank <= _MOST_AXES else ():
        if axes == plain or tuple(shape[axis] for axis in axes) != wanted:
            continue
        moved = [names[index] for index, axis in enumerate(axes) if index != axis]
        order = [names[axes.index(index)] for index in range(rank)]
        wrong = mistake("transposed")
        if axes[-1] == rank - 1 and len(moved) == 2:
            wrong = mistake("axes-swapped", None, {"first": moved[0], "second": moved[1]})
        elif rank > 2:
            values = {"order": order, "want": list(names)}
            wrong = mistake("transposed", None, values, variant="axes")
        yield (wrong,), axes


def _rows(rows: int, want: Numbers) -> Iterator[tuple[tuple[Mistake, ...], Indices]]:
    every = np.arange(rows)
    yield (), every
    if rows > 1:
        yield (mistake("positions-reversed"),), every[::-1].copy()
    side = isqrt(rows)
    is_open = side * side == rows and not want.axes
    height, width = want.grid or ((side, side) if is_open else (1, rows))
    if min(height, width) > 1 and height * width == rows:
        swapped = mistake("axes-swapped", None, {"first": "h", "second": "w"})
        yield (swapped,), every.reshape(width, height).T.reshape(-1)


def _columns(columns: int, want: Numbers) -> Iterator[tuple[tuple[Mistake, ...], Indices]]:
    """Yield orders of columns, which are those of channels alone."""
    yield (), np.arange(columns)
    if want.axes and "channel" not in want.axes[-1]:
        return
    single = list(_single_columns(columns, want))
    for one, order in single:
        yield (one,), order
    for (one, inner), (other, outer) in product(single, single):
        if one.name != other.name:
            yield (one, other), inner[outer]


def _single_columns(columns: int, want: Numbers) -> Iterator[tuple[Mistake, Indices]]:
    """Yield orders of columns; what the columns hold is known of cosines and sines alone."""
    blocks, is_pair = len(want.arrays), want.arrays.keys() == {"cos", "sin"}
    for parts in {1, blocks, 2}:
        if columns % (2 * parts) or (parts > 1 and columns // parts <= 2):
            continue
        numbers = np.arange(columns).reshape(parts, -1)
        halves = numbers.reshape(parts, -1, 2).swapaxes(1, 2).reshape(-1)
        pairs = numbers.reshape(parts, 2, -1).swapaxes(1, 2).reshape(-1)
        for have, other, order in (("interleaved", "half", halves), ("half", "interleaved", pairs)):
            yield mistake("layout-swapped", None, {"have": have, "want": other}), order
    if columns % 2 == 0:
        both = mistake("halves-swapped", None, {"how": "the two halves"}, variant="channels")
        swapped = mistake("halves-swapped") if is_pair else both
        yield swapped, np.roll(np.arange(columns), columns // 2)
        if blocks == 1:
            how = {"how": "0 and 1, 2 and 3, and so on"}
            neighbours = mistake("halves-swapped", None, how, variant="channels")
            yield neighbours, np.arange(columns).reshape(-1, 2)[:, ::-1].reshape(-1)
