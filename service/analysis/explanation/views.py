"""Views: an array, in any wrapper, read as the cosines and sines of K frequencies in S rows.

``views`` undoes what is around the numbers, each step with a note: axes of length 1, equal batches
or heads, stacked components, duplicated channels, any packing, a transposed table, rows of padding
at the end. It selects columns and copies nothing: numbers become float64 in ``View.at``, of the
rows that are examined. Readings cost bits, the less plausible the more: see ``catalogue``.

This module is long because every wrapper is one more way to build the same view.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import LARGEST
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    REAL_DTYPES,
    DType,
    decimal_view,
)
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component, Indices
from service.numerics.tables import StoredTable

Numbers: TypeAlias = NDArray[Any]
Complexes: TypeAlias = NDArray[np.complex128]

COMPLEX_PARTS: Mapping[DType, DType] = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
"""The type of the real and imaginary parts of each complex type."""

HALF_STEP: Mapping[DType, float] = {
    BFLOAT16: 2.0**-8,
    FLOAT16: 2.0**-11,
    FLOAT32: 2.0**-24,
    FLOAT64: 2.0**-53,
}
"""The largest relative error of rounding to each real type."""

# Duplicated channels and equal batches are looked for in this many rows; the last pass, which
# compares every number, finds the others.
_FIRST_ROWS = 64
# So large a share of the pairs of a table is of one size; to save time, some rows give that size.
_MOST, _STRIDE = 0.9, 5
_FEWEST_BEFORE_A_TAIL = 2
# Fewer rows have even steps by chance, cosines times a factor reach so far, and the cosines of more
# angles take too long.
_FEWEST_ANGLES, _LEAST_ANGLE, _MOST_ANGLES = 3, 1.5, 2**22


@dataclass(frozen=True)
class Packing:
    """The order of cosines and sines in the channels of one array.

    Attributes:
        components: the components in their order; None in place of them if there is one array of
            each.
        interleaved: whether they alternate channel by channel.
        repeats: the number of consecutive channels of one frequency.
    """

    components: tuple[Component, ...]
    interleaved: bool = False
    repeats: int = 1

    def channels(self, width: int) -> Channels | None:
        """Return the channels of a row of this width; None if they do not fill it."""
        parts = len(self.components) * self.repeats
        if width < 2 or (width % parts and (parts != 2 or self.repeats > 1)):
            return None
        return Channels(self.components, self.interleaved, width, self.repeats)


PACKINGS: Mapping[str, Packing] = {
    "concat": Packing(("cos", "sin")),
    "flat": Packing(("cos", "sin"), interleaved=True),
    "sin_concat": Packing(("sin", "cos")),
    "sin_flat": Packing(("sin", "cos"), interleaved=True),
    "half_concat": Packing(("cos", "cos", "sin", "sin")),
    "sin_half_concat": Packing(("sin", "sin", "cos", "cos")),
    "interleaved_concat": Packing(("cos", "sin"), repeats=2),
    "sin_interleaved_concat": Packing(("sin", "cos"), repeats=2),
}
"""The packings of one array, by name; those of ``/rope`` have the same names there."""

_COPIES: Mapping[str, Packing] = {
    "half": Packing(("cos", "cos")),
    "interleaved": Packing(("cos",), repeats=2),
}


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of the cosines and sines of each frequency in a row; copies come later.

    Attributes:
        cosine, sine: the column of frequency 0, 1, 2, …; either may be empty.
        copies: pairs of columns that hold the same numbers, (n, 2).
        zeros: columns that are zero.
    """

    cosine: Indices
    sine: Indices
    copies: Indices
    zeros: Indices

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, channels: Channels) -> "Columns":
        return cls.of_indices(*channels.indices(), channels.zeros)

    @classmethod
    def of_indices(
        cls, frequency: Indices, is_sine: NDArray[np.bool_], zeros: int = 0
    ) -> "Columns":
        """Return the columns of channels, given the frequency and the component of each."""
        kept = len(frequency) - zeros
        first: list[Indices] = []
        copies = []
        for of_sine in (False, True):
            own = np.flatnonzero(is_sine[:kept] == of_sine)
            order = own[np.argsort(frequency[own], kind="stable")]
            _, start, of = np.unique(frequency[order], return_index=True, return_inverse=True)
            first.append(order[start])
            again = np.setdiff1d(np.arange(len(order)), start)
            copies.append(np.stack([order[start][of[again]], order[again]], axis=1))
        cosine, sine = first
        return cls(cosine, sine, np.concatenate(copies), np.arange(kept, len(frequency)))


@dataclass(frozen=True)
class Note:
    """A note about something that was undone to read an array, such as a batch axis.

    Attributes:
        name: of the note, such as ``batch``.
        text: a sentence about it.
        values: numbers that go with it.
    """

    name: str
    text: str
    values: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class View:
    """Cosines and sines of K frequencies in S rows, as an array was read.

    Attributes:
        cosine, sine: the numbers, (S, K), in the type in which they were sent; None where the
            array has only the other; the sines may be one column less, or more, than the cosines.
        dtype: the type of the numbers.
        packing: the name of the packing.
        notes: what was undone.
        bits: the cost of this reading.
        weights: the weight of each number, (S, K); None if all are the same.
        slack: an additional absolute error of each number, as of printed decimals.
        rest: the copies and zeros that the last pass checks, as pairs of arrays.
        zeros: how many channels of zeros were read as such.
    """

    cosine: Numbers | None
    sine: Numbers | None
    dtype: DType
    packing: str
    notes: tuple[Note, ...] = ()
    bits: float = 0.0
    weights: Float64s | None = None
    slack: float = 0.0
    rest: tuple[tuple[Numbers, Numbers], ...] = ()
    zeros: int = 0

    @property
    def channels(self) -> int:
        """The number of channels, without copies."""
        return sum(int(part.shape[1]) for part in self.parts) + self.zeros

    @property
    def parts(self) -> tuple[Numbers, ...]:
        """The arrays of numbers: cosines, sines, or both."""
        return tuple(part for part in (self.cosine, self.sine) if part is not None)

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of these arrays: cos, sin, or both."""
        return ("cos",) * (self.cosine is not None) + ("sin",) * (self.sine is not None)

    @property
    def rows(self) -> int:
        return len(self.parts[0])

    @property
    def count(self) -> int:
        """The number of frequencies."""
        return max(int(part.shape[1]) for part in self.parts)

    @property
    def has_pairs(self) -> bool:
        """True if both cosines and sines are there."""
        return self.cosine is not None and self.sine is not None

    @property
    def is_paired(self) -> bool:
        """True if each cosine has a sine, and each sine a cosine."""
        return self.has_pairs and len({part.shape[1] for part in self.parts}) == 1

    @cached_property
    def phasors(self) -> Complexes:
        """Cosine + i·sine of each frequency that has both, (S, K)."""
        assert self.cosine is not None
        assert self.sine is not None
        count = min(self.cosine.shape[1], self.sine.shape[1])
        return np.asarray(self.cosine[:, :count] + 1j * self.sine[:, :count], dtype=np.complex128)

    def at(self, rows: Indices | slice) -> "View":
        """Return some rows, as float64."""
        cosine, sine = (
            None if part is None else np.asarray(part[rows], dtype=np.float64)
            for part in (self.cosine, self.sine)
        )
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, cosine=cosine, sine=sine, weights=weights, rest=())

    def part(self, rows: slice, slack: float) -> "View":
        """Return some rows in the type in which they were sent."""
        cosine, sine = (None if part is None else part[rows] for part in (self.cosine, self.sine))
        return replace(self, cosine=cosine, sine=sine, slack=slack, weights=None, rest=())

    def beginning(self, rows: int) -> "View":
        """Return the first rows, as they are."""
        cosine, sine = (None if part is None else part[:rows] for part in (self.cosine, self.sine))
        rest = tuple((one[:rows], other[:rows]) for one, other in self.rest)
        return replace(self, cosine=cosine, sine=sine, rest=rest)


@dataclass(frozen=True, eq=False)
class Wanted:
    """The packing that the expected table has.

    Attributes:
        packing: its name, such as ``half`` or ``interleaved``.
        shape: the shape of each array, without axes of length 1; its first lengths are rows.
        columns: where cosines and sines stand, by the name of the array.
        row_axes: how many axes of the shape count rows; a length that is not given is 0.
    """

    packing: str
    shape: tuple[int, ...]
    columns: Mapping[str, Columns]
    row_axes: int = 1

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the table has: cos, sin, or both."""
        every = self.columns.values()
        has_cosines = any(len(columns.cosine) for columns in every)
        has_sines = any(len(columns.sine) for columns in every)
        return ("cos",) * has_cosines + ("sin",) * has_sines

    @property
    def channels(self) -> int:
        """The number of channels, without copies."""
        every = self.columns.values()
        return sum(len(part) for own in every for part in (own.cosine, own.sine, own.zeros))


def views(arrays: Mapping[str, StoredTable], wanted: Wanted | None = None) -> Iterator[View]:
    """Yield the readings of one array, or of ``cos`` and ``sin``, the most plausible first.

    Args:
        arrays: the arrays by name.
        wanted: the packing of the expected table, which is read first; None if there is none.
    """
    found = _as_wanted(arrays, wanted) if wanted else None
    if found is not None:
        yield found
    groups: Iterable[Iterable[View]] = ()
    if set(arrays) == {"cos", "sin"}:
        groups = (_pairs(arrays),)
    elif len(arrays) == 1:
        ((name, table),) = arrays.items()
        groups = _singles(name, table)
    own = wanted.packing if wanted else ""
    for group in groups:
        priced = [
            replace(view, bits=view.bits + OTHER_PACKING_BITS * (bool(own) and view.packing != own))
            for view in group
            if found is None or view.packing != own or view.notes != found.notes
        ]
        yield from sorted(priced, key=lambda view: view.bits)
    if found is None and wanted is not None:
        # Copies that differ: the last pass says where.
        torn = _as_wanted(arrays, wanted, has_equal_copies=False)
        if torn is not None:
            yield replace(torn, bits=torn.bits + _TORN_BITS)


OTHER_PACKING_BITS = 4.0
_SINE_FIRST_BITS, _EXCHANGED_BITS, _TRANSPOSED_BITS, _ALONE_BITS = 1.0, 6.0, 9.0, 2.0
_ANGLE_BITS = 6.0
_TORN_BITS = 12.0


def numbers_of(table: StoredTable) -> tuple[Numbers, DType]:
    """Return the numbers of an array, and their real type; complex ones get a last axis of 2."""
    if table.dtype in COMPLEX_PARTS:
        part = COMPLEX_PARTS[table.dtype]
        flat = np.ascontiguousarray(table.elements).view(part.storage)
        return flat.reshape(*table.elements.shape, 2), part
    if table.dtype.name not in REAL_DTYPES:
        return table.elements, FLOAT64
    return decimal_view(table.elements, table.dtype), table.dtype


def _as_wanted(
    arrays: Mapping[str, StoredTable], wanted: Wanted, *, has_equal_copies: bool = True
) -> View | None:
    """Return the reading by the columns of the expected table, if the shape allows it."""
    names = dict(zip(wanted.columns, arrays.values(), strict=False))
    if len(arrays) != len(wanted.columns) or (
        len(arrays) > 1 and set(arrays) != set(wanted.columns)
    ):
        return None
    by_name = arrays if len(arrays) > 1 else names
    cosine = sine = None
    rest: list[tuple[Numbers, Numbers]] = []
    notes: tuple[Note, ...] = ()
    dtype, zeros = FLOAT32, 0
    for name, columns in wanted.columns.items():
        numbers, dtype = numbers_of(by_name[name])
        width = prod(wanted.shape[wanted.row_axes :])
        plain, notes = _without_copies(numbers, len(wanted.shape))
        lengths = plain.shape[-(len(wanted.shape) - wanted.row_axes) :]
        is_row = plain.ndim == len(wanted.shape) - wanted.row_axes and prod(plain.shape) == width
        if is_row:
            plain = plain.reshape(1, width)
        elif plain.ndim != len(wanted.shape) or prod(lengths) != width:
            return None
        rows = plain.reshape(-1, width)
        if len(columns.cosine):
            cosine = _select(rows, columns.cosine)
        if len(columns.sine):
            sine = _select(rows, columns.sine)
        rest += [(_select(rows, columns.copies[:, 0]), _select(rows, columns.copies[:, 1]))]
        zeros += len(columns.zeros)
        rest += [(_select(rows, columns.zeros), np.zeros((len(rows), len(columns.zeros))))]
    kept = tuple((one, other) for one, other in rest if one.shape[1])
    if has_equal_copies and not all(
        np.array_equal(one[:_FIRST_ROWS], other[:_FIRST_ROWS], equal_nan=True)
        for one, other in kept
    ):
        return None
    return View(cosine, sine, dtype, wanted.packing, notes, rest=kept, zeros=zeros)


def _select(rows: Numbers, columns: Indices) -> Numbers:
    """Return columns of rows, as a view where they are evenly spaced."""
    if len(columns) == 0:
        return rows[:, :0]
    steps = np.diff(columns)
    if len(columns) == 1 or ((steps == steps[0]).all() and steps[0] > 0):
        step = int(steps[0]) if len(steps) else 1
        return rows[:, int(columns[0]) : int(columns[-1]) + 1 : step]
    return rows[:, columns]


def _without_copies(numbers: Numbers, axes: int) -> tuple[Numbers, tuple[Note, ...]]:
    """Return an array without axes of length 1, and, down to so many, without equal slices."""
    squeezed, notes = _squeezed(numbers)
    while squeezed.ndim > axes:
        axis = next(
            (each for each in range(squeezed.ndim - 1) if _is_repeated(squeezed, each)), None
        )
        if axis is None:
            break
        count = squeezed.shape[axis]
        text = f"axis {axis} has {count} equal slices"
        notes.append(Note("batch", text, {"axis": axis, "count": count}))
        squeezed = squeezed.take(0, axis=axis)
    return squeezed, tuple(notes)


def _squeezed(numbers: Numbers) -> tuple[Numbers, list[Note]]:
    squeezed = numbers.reshape([length for length in numbers.shape if length != 1] or [1])
    if squeezed.ndim == numbers.ndim or numbers.ndim <= 2:
        return squeezed, []
    text = f"axes of length 1 were left out of {numbers.shape}"
    return squeezed, [Note("squeezed", text, {"shape": list(numbers.shape)})]


def _is_repeated(numbers: Numbers, axis: int) -> bool:
    first = numbers.take(0, axis=axis)
    others = (numbers.take(each, axis=axis) for each in range(1, numbers.shape[axis]))
    return all(np.array_equal(first, other, equal_nan=True) for other in others)


def _pairs(arrays: Mapping[str, StoredTable]) -> list[View]:
    """Return the readings of an array of cosines and one of sines."""
    (cosine, dtype), (sine, _) = (numbers_of(arrays[name]) for name in ("cos", "sin"))
    (cosine, notes), (sine, _) = (_without_copies(each, 2) for each in (cosine, sine))
    if cosine.ndim == 1:
        cosine, sine = (each.reshape(1, -1) for each in (cosine, sine))
    if cosine.ndim != 2 or cosine.shape != sine.shape:
        return []
    found = []
    for is_transposed in (False, True)[: 1 + (len(cosine) > 1)]:
        one, other = (cosine.T, sine.T) if is_transposed else (cosine, sine)
        more, bits = _transposed(notes, is_transposed=is_transposed)
        for name in _copies_of(one, other):
            (first, rest), (second, rest_of_second) = (_once(each, name) for each in (one, other))
            both = (*rest, *rest_of_second)
            found.append(View(first, second, dtype, name, more, bits, rest=both))
            note = Note("exchanged", "cosines and sines were exchanged", {})
            exchanged = (*more, note)
            cost = bits + _EXCHANGED_BITS
            found.append(View(second, first, dtype, name, exchanged, cost, rest=both))
    return found


def _transposed(notes: tuple[Note, ...], *, is_transposed: bool) -> tuple[tuple[Note, ...], float]:
    if not is_transposed:
        return notes, 0.0
    return (*notes, Note("transposed", "rows and columns were exchanged", {})), _TRANSPOSED_BITS


def _copies_of(*arrays: Numbers) -> list[str]:
    """Return how the channels of (S, C) repeat: half, interleaved, or compact if they do not."""
    width = arrays[0].shape[1]
    found = []
    for name, packing in _COPIES.items():
        channels = packing.channels(width) if width > 1 else None
        if channels is None or width % 2:
            continue
        copies = Columns.of(channels).copies
        if all(
            np.array_equal(
                each[:_FIRST_ROWS, copies[:, 0]], each[:_FIRST_ROWS, copies[:, 1]], equal_nan=True
            )
            for each in arrays
        ):
            found.append(name)
    if all((each == each[:, :1]).all() for each in arrays):
        # Rows that do not turn are copies in any packing.
        return [*found[:1], "compact"]
    return found[:1] or ["compact"]


def _once(numbers: Numbers, copies: str) -> tuple[Numbers, tuple[tuple[Numbers, Numbers], ...]]:
    """Return each channel once, and the pairs of channels that are copies."""
    width = numbers.shape[1]
    if copies == "compact":
        return numbers, ()
    if copies == "half":
        half = width // 2
        return numbers[:, :half], ((numbers[:, :half], numbers[:, half:]),)
    return numbers[:, 0::2], ((numbers[:, 0::2], numbers[:, 1::2]),)


def _singles(name: str, table: StoredTable) -> Iterator[Iterable[View]]:
    """Yield groups of readings of one array, each more costly than the one before."""
    numbers, dtype = numbers_of(table)
    plain, notes = _without_copies(numbers, 2 if table.dtype not in COMPLEX_PARTS else 3)
    if plain.ndim == 3:
        yield _stacked(plain, dtype, notes)
    elif (whole := _squeezed(numbers)[0]).ndim == 3:
        # Rows of a table that does not turn are equal slices, too.
        yield _stacked(whole, dtype, ())
    if plain.ndim == 1:
        plain = plain.reshape(1, -1)
    if plain.ndim != 2:
        return
    for is_transposed in (False, True)[: 1 + (len(plain) > 1)]:
        rows = plain.T if is_transposed else plain
        more, bits = _transposed(notes, is_transposed=is_transposed)
        yield _packed(rows, dtype, more, bits)
        yield _alone(name, rows, dtype, more, bits)
        if not is_transposed:
            yield _of_angles(rows, dtype, more)


_TWICE = {
    "half": "each pair is there twice: the second half of the pairs is that of the first",
    "interleaved": "each pair is there twice in a row",
}


def _stacked(numbers: Numbers, dtype: DType, notes: tuple[Note, ...]) -> list[View]:
    """Return the readings of an array with an axis of cosine and sine: last, first, or between."""
    found = []
    for axis in (2, 0, 1):
        if numbers.shape[axis] != 2:
            continue
        one, other = np.moveaxis(numbers, axis, 0)
        place = {0: "first", 1: "middle", 2: "last"}[axis]
        note = Note(
            "stacked", f"cosines and sines are stacked along the {place} axis", {"axis": axis}
        )
        for copies in _copies_of(one, other):
            (first, rest), (second, more) = (_once(each, copies) for each in (one, other))
            name = "pair" if axis == 2 else copies
            twice = (Note("twice", _TWICE[copies], {}),) if axis == 2 and copies in _TWICE else ()
            for cosine, sine, prefix in ((first, second, ""), (second, first, "sin_")):
                bits = _SINE_FIRST_BITS * bool(prefix)
                noted = (*notes, note) if axis != 2 else (*notes, *twice)
                view = View(cosine, sine, dtype, prefix + name, noted, bits, rest=(*rest, *more))
                found.append(view)
    return found


def _packed(rows: Numbers, dtype: DType, notes: tuple[Note, ...], bits: float) -> Iterator[View]:
    """Yield the readings of rows that hold cosines and sines in any packing."""
    for name, packing in PACKINGS.items():
        channels = packing.channels(rows.shape[1])
        if channels is None:
            continue
        columns = Columns.of(channels)
        rest: tuple[tuple[Numbers, Numbers], ...] = ()
        if len(columns.copies):
            first, second = (rows[:_FIRST_ROWS, columns.copies[:, each]] for each in (0, 1))
            if not np.array_equal(first, second, equal_nan=True):
                continue
            rest = tuple(
                (_select(rows, part[:, 0]), _select(rows, part[:, 1]))
                for part in np.array_split(columns.copies, 2)
            )
        cosine, sine = _select(rows, columns.cosine), _select(rows, columns.sine)
        cost = bits + _SINE_FIRST_BITS * name.startswith("sin_")
        yield View(cosine, sine, dtype, name, notes, cost, rest=rest)


def _alone(
    name: str, rows: Numbers, dtype: DType, notes: tuple[Note, ...], bits: float
) -> Iterator[View]:
    """Yield the readings of rows that hold cosines alone, or sines alone."""
    named = [part for part in ("cos", "sin") if part in name.lower()]
    for copies in _copies_of(rows):
        once, rest = _once(rows, copies)
        for part in named if len(named) == 1 else ("cos", "sin"):
            cost = bits + (0 if len(named) == 1 else _ALONE_BITS)
            note = Note("alone", f"{part} alone", {"part": part})
            cosine, sine = (once, None) if part == "cos" else (None, once)
            yield View(cosine, sine, dtype, copies, (*notes, note), cost, rest=rest)


def _of_angles(rows: Numbers, dtype: DType, notes: tuple[Note, ...]) -> Iterator[View]:
    """Yield the cosines and sines of rows that seem angles: in even steps, and beyond 1."""
    first = np.asarray(rows[:_FIRST_ROWS], dtype=np.float64)
    largest = float(np.abs(first).max(initial=0))
    if (
        len(first) < _FEWEST_ANGLES
        or not _LEAST_ANGLE < largest < LARGEST
        or rows.size > _MOST_ANGLES
    ):
        return
    close = 4 * max(HALF_STEP[dtype], HALF_STEP[FLOAT32]) * largest
    if not (np.abs(np.diff(first, 2, axis=0)) <= close).all():
        return
    note = Note("angles", "the numbers are angles; their cosines and sines are compared", {})
    for copies in _copies_of(rows):
        once, rest = _once(np.asarray(rows, dtype=np.float64), copies)
        wide = dtype if dtype is FLOAT64 else FLOAT32
        cosine, sine = np.cos(once), np.sin(once)
        yield View(cosine, sine, wide, copies, (*notes, note), _ANGLE_BITS, rest=rest)


def without_tail(view: View) -> tuple[View, Note | None]:
    """Return the view without rows of padding, NaN or zero, at its end, and a note about them."""

    def is_padding(part: View) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        lost = np.ones(part.rows, dtype=np.bool_)
        zero = lost.copy()
        for each in part.parts:
            lost &= ~np.isfinite(each).any(axis=1)
            zero &= ~each.any(axis=1)
        return lost | zero, zero

    if view.rows < 2 or not is_padding(view.at(slice(-1, None)))[0][0]:
        return view, None
    bad, is_zero = is_padding(view)
    if bad.all():
        return view, None
    first = int(len(bad) - np.argmin(bad[::-1]))
    is_one_row = first == view.rows - 1 and view.cosine is None
    if is_zero[first] and (first < _FEWEST_BEFORE_A_TAIL or is_one_row):
        # One row before zeros may as well be the cosines of position 0, and their sines; and sines
        # alone are zero where the position is.
        return view, None
    what = _contents(view, first)
    values = {"from": first, "to": view.rows - 1, "are": what}
    note = Note("tail", f"rows from {first} on are {what}", values)
    return view.beginning(first), note


def _contents(view: View, first: int) -> str:
    """Return what the rows of padding from one on are: zero, NaN, infinite, or several of these."""
    tail = [part[first:] for part in view.parts]
    kinds = {
        "zero": any((part == 0).any() for part in tail),
        "NaN": any(np.isnan(part).any() for part in tail),
        "infinite": any(np.isinf(part).any() for part in tail),
    }
    return " or ".join(name for name, is_there in kinds.items() if is_there)


def is_constant(view: View, tolerance: float) -> bool:
    """Return whether cos² + sin² is the same in nine of ten pairs, as if read right."""
    if not view.has_pairs:
        return True
    few = view.at(np.array(evenly(view.rows, _FIRST_ROWS)))
    pairs = min(part.shape[1] for part in few.parts)
    cosine, sine = (part[:, :pairs] for part in few.parts)
    sizes = np.sqrt(cosine * cosine + sine * sine)
    middle = float(np.median(sizes[::_STRIDE]))
    near = np.abs(sizes - middle) <= tolerance * max(middle, 1e-30)
    return bool(near.mean() >= _MOST)


def step_bound(values: Float64s, dtype: DType) -> Float64s:
    """Return a bound of a step of a type at each value."""
    least = {FLOAT16: 2.0**-14, FLOAT64: 2.0**-1000}.get(dtype, 2.0**-100)
    bound: Float64s = np.maximum(np.abs(values), least) * (2 * HALF_STEP[dtype])
    return bound


def evenly(count: int, most: int) -> Sequence[int]:
    """Return at most ``most`` evenly spaced indices from 0 to count − 1, both included."""
    return [int(each) for each in np.unique(np.linspace(0, count - 1, most).astype(np.int64))]
