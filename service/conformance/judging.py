"""Judging an answer: its arrays are read and unpacked, and every number is held to the rule.

Copies of a cosine or of a sine, as some packings have, must be equal.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.conformance.questions import NOT_MADE, Question
from service.conformance.recorded_cases import RecordedCase
from service.conformance.tolerance import UNIT_ROUNDOFF
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.rotary.angles import CONSUMERS, PACKS, Pack, PackedTable
from service.errors import PosrefError, plural, shortened
from service.formats.format import MAX_RANK
from service.formats.npy import NPY
from service.numerics.dtypes import (
    INT64,
    REAL_DTYPES,
    Elements,
    round_into,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable, axis_names
from service.routes import ENDPOINTS

Copies: TypeAlias = Mapping[str, Elements]
"""Arrays by name, each with a leading axis of its copies."""

# A file for a case, of which the largest has a few thousand numbers.
_MOST_FILE_BYTES = 2**24
# Of a few ulp: cosines and sines of a good library, rounded once or twice.
_FEW_ULP = 4
# The names of axes for which another noun stands.
_NOUNS = {"batch": "sequence", "seq": "position", "height": "row", "width": "column"}
_OF_ROTATIONS = ("head", "seq", "channel")
# Parameters that list the numbers of an axis.
_LISTED = {"position": "positions", "query": "query_positions", "key": "key_positions"}
# More numbers than these tell a reader nothing.
_MOST_LISTED = 4


class InvalidAnswer(Exception):
    """The answer has no numbers that could be judged."""


@dataclass(frozen=True, eq=False)
class AnswerArrays:
    """The arrays of an answer.

    Attributes:
        dtype: the name of their element type.
        sent: as they were sent, by name, rounded to that type.
        copies: unpacked, under the names of the case.
    """

    dtype: str
    sent: Mapping[str, Elements]
    copies: Copies

    @property
    def arrays(self) -> dict[str, Elements]:
        """The first copy of each array."""
        return {name: each[0] for name, each in self.copies.items()}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays."""
        return next(iter(self.arrays.values())).shape


def read_answer(message: Mapping[str, Any], case: RecordedCase) -> AnswerArrays:
    """Return the answer to a case; raises InvalidAnswer."""
    if (given := message.get("id", case.id)) != case.id:
        raise InvalidAnswer(f"its id is {shortened(given)}, and {case.id} was asked")
    dtype = message.get("dtype")
    if case.expected.angle is None:
        # Integers are exact, whatever holds them.
        dtype = dtype if isinstance(dtype, str) and dtype in UNIT_ROUNDOFF else INT64.name
    elif not isinstance(dtype, str) or dtype not in UNIT_ROUNDOFF:
        rule = f"and must be one of {', '.join(UNIT_ROUNDOFF)}"
        raise InvalidAnswer(f"dtype is {shortened(dtype)}, {rule}")
    listed, files = message.get("arrays", {}), message.get("npy", {})
    if not (isinstance(listed, dict) and isinstance(files, dict)):
        raise InvalidAnswer("arrays and npy must be objects")
    sent = {name: _numbers(name, each) for name, each in listed.items()}
    sent |= {name: _from_file(name, each) for name, each in files.items()}
    for name, each in sent.items():
        if not each.size:
            raise InvalidAnswer(f"{shortened(name)} has no numbers")
    sent = {name: _rounded(each, dtype) for name, each in sent.items()}
    if case.question.is_table:
        pack = message.get("pack", "compact")
        return AnswerArrays(dtype, sent, unpacked(pack, sent, case))
    named, shape = _named(sent, case.expected.arrays, "must be"), case.expected.shape
    copies = {name: without_batch(each, shape)[None] for name, each in named.items()}
    return AnswerArrays(dtype, named, copies)


def _named(sent: Mapping[str, Elements], names: Iterable[str], rule: str) -> Mapping[str, Elements]:
    """Return the arrays of these names; a single one may be sent under any name."""
    given, wanted = [*sent], [*names]
    if len(given) == len(wanted) == 1:
        return {wanted[0]: sent[given[0]]}
    if {*given} != {*wanted}:
        found, needed = (shortened(", ".join(each)) or "none" for each in (given, wanted))
        raise InvalidAnswer(f"arrays are {found}, and {rule} {needed}")
    return sent


def _numbers(name: str, value: Any) -> Elements:
    """Return the numbers of nested lists; null is NaN."""
    array = np.array(value, dtype=object)
    numbers = array.ravel().tolist()
    if array.ndim > MAX_RANK or not {*map(type, numbers)} <= {float, int, NoneType}:
        raise InvalidAnswer(f"{shortened(name)} must be lists of numbers, all of one length")
    # float64 has not every integer, and int64 not every large one.
    are_exact = all(type(each) is int and abs(each) < 2**63 for each in numbers)
    return array.astype(np.int64 if are_exact else np.float64)


def _from_file(name: str, path: Any) -> Elements:
    """Return the array of an npy file, complex numbers as pairs; nothing is ever unpickled."""
    place = f"{shortened(name)}: {shortened(path)}"
    try:
        # Opening a pipe would wait for its writer.
        if not (isinstance(path, str) and Path(path).is_file()):
            raise InvalidAnswer(f"{place} is no file")
        with Path(path).open("rb") as file:
            body = file.read(_MOST_FILE_BYTES + 1)
        if len(body) > _MOST_FILE_BYTES:
            raise InvalidAnswer(f"{place} has more than {_MOST_FILE_BYTES} bytes")
        ((_, table),) = NPY.read(body, ()).arrays.items()
    except (OSError, ValueError, PosrefError) as error:
        raise InvalidAnswer(f"{place}: {error}") from error
    elements = table.elements
    if elements.dtype.kind == "c":
        return np.stack([elements.real, elements.imag], axis=-1)
    return elements


def _rounded(array: Elements, dtype: str) -> Elements:
    """Return numbers rounded to the type that an answer has: few digits are enough for that."""
    if dtype not in REAL_DTYPES or array.dtype.kind in "iub":
        return array
    held = stored(array, dtype)
    return to_float64(held.elements, held.dtype)


def stored(array: Elements, dtype: str) -> StoredTable:
    """Return numbers as a table of a real type."""
    real = REAL_DTYPES[dtype]
    elements = np.empty(array.size, dtype=real.storage)
    with np.errstate(over="ignore", invalid="ignore"):
        round_into(np.array(array, dtype=np.float64).ravel(), elements, real)
    return StoredTable(elements.reshape(array.shape), real)


def without_batch(array: Elements, shape: tuple[int, ...]) -> Elements:
    """Return an array without leading axes of length 1 that the expected shape has not."""
    while array.ndim > len(shape) and array.shape[0] == 1:
        array = array[0]
    return array


def unpacked(pack: Any, sent: Mapping[str, Elements], case: RecordedCase) -> Copies:
    """Return cosines and sines, (copies, …, pairs) each, of a packing; raises InvalidAnswer."""
    name = CONSUMERS.get(pack, pack) if isinstance(pack, str) else ""
    packing = PACKS.get(name)
    if not isinstance(packing, Pack):
        known = ", ".join(each for each, other in PACKS.items() if isinstance(other, Pack))
        raise InvalidAnswer(f"pack is {shortened(pack)}, and must be one of {known}")
    parts = packing.parts
    sent = _named(sent, parts, f"of pack={name}")
    copies: dict[str, list[Elements]] = {"cos": [], "sin": []}
    for each, components in parts.items():
        try:
            split = _lanes(packing, len(components), sent[each], case.question)
        except (LookupError, ValueError, PosrefError) as error:
            rule = f"has the shape {sent[each].shape}, and not that of pack={name}"
            raise InvalidAnswer(f"{each} {rule}") from error
        for lane in range(split.shape[-2]):
            copy = without_batch(split[..., lane, :], case.expected.shape)
            copies[components[lane // packing.repeats]].append(copy)
    stacked = {part: np.stack(several) for part, several in copies.items()}
    if stacked["cos"].shape[1:] != stacked["sin"].shape[1:]:
        raise InvalidAnswer("cosines and sines have different shapes")
    return stacked


def _lanes(packing: Pack, components: int, array: Elements, question: Question) -> Elements:
    """Return an array as (…, lanes, pairs), a lane for each copy of each component.

    Raises ValueError for another shape.
    """
    lanes = components * packing.repeats
    if packing.paired:
        if array.shape[-1:] != (lanes,):
            raise ValueError
        array = array.reshape(*array.shape[:-2], -1)
    rows, width = array.shape[:-1], (array.shape or (0,))[-1]
    pairs = width // lanes or -1
    if packing.by_axis:
        array = array[..., _pair_by_pair(question, pairs)]
    if packing.interleaved or packing.by_axis:
        return np.moveaxis(array.reshape(*rows, pairs, lanes), -1, -2)
    split = array.reshape(*rows, components, pairs, packing.repeats)
    return np.moveaxis(split, -1, -2).reshape(*rows, lanes, pairs)


def _pair_by_pair(question: Question, pairs: int) -> Elements:
    """Return the channels of ``half_by_axis`` in the order of ``interleaved``.

    Raises ValueError for another number of pairs.
    """
    order = [*range(pairs)] * 2
    if question.kind == "table":
        query = question.request.url.partition("?")[2]
        parameters = read_parameters(
            ENDPOINTS[question.resource].parameters, parse_query(query.encode())
        )
        if not isinstance(parameters, PackedTable):
            raise ValueError
        axes = parameters.rotary_angles().along()
        order = [*chain.from_iterable(axis.places * 2 for axis in axes)]
    if len(order) != 2 * pairs:
        raise ValueError
    return np.argsort(order, kind="stable")


@dataclass(frozen=True, eq=False)
class Judgement:
    """An answer, held to what is expected.

    Attributes:
        case: the case.
        answer: the answer.
    """

    case: RecordedCase
    answer: AnswerArrays

    @property
    def has_shape(self) -> bool:
        """True if the arrays have the expected shape."""
        return self.answer.shape == self.case.expected.shape

    @cached_property
    def shares(self) -> Float64s:
        """The distances in shares of what is allowed, of the worst copy; (arrays, …)."""
        return self.case.expected.distances(self.answer.copies, self.answer.dtype)

    @cached_property
    def wrong(self) -> NDArray[np.bool_]:
        """True of each number that is wrong, or has a copy that is not equal to it; (arrays, …)."""
        return (self.shares > 1) | _differing(self.answer)

    @cached_property
    def has_passed(self) -> bool:
        """True if the answer is right."""
        return self.has_shape and not self.wrong.any()

    @property
    def untold(self) -> int:
        """The count of numbers that are allowed any phase, so that nothing can be told of them."""
        return int(self._is_untold.sum()) * len(self.case.expected.arrays)

    @property
    def _is_untold(self) -> NDArray[np.bool_]:
        expected = self.case.expected
        angle = np.zeros(expected.shape) if expected.angle is None else expected.angle
        return np.asarray(angle >= np.maximum(expected.scale, 1))

    @property
    def worst_share(self) -> float:
        """The largest share of what is allowed, of the numbers of which something can be told."""
        return float(self.shares[:, ~self._is_untold].max(initial=0.0))

    @property
    def grade(self) -> str:
        """``exact``, ``ulp`` or ``float32``, for an answer that passes.

        Exact is the expected number, rounded once; ulp is within four units in the last place.
        """
        dtype, expected = self.answer.dtype, self.case.expected
        pairs = [(self.answer.arrays[name], want) for name, want in expected.arrays.items()]
        is_exact = all(np.array_equal(got, _rounded(want, dtype)) for got, want in pairs)
        if is_exact or expected.angle is None:
            return "exact"
        # An ulp is two units of the power of two below a number.
        few = 2 * _FEW_ULP * UNIT_ROUNDOFF[dtype]
        is_near = all(
            (np.abs(got - want) <= few * 2.0 ** (np.frexp(want)[1] - 1)).all()
            for got, want in pairs
        )
        return "ulp" if is_near else "float32"

    @property
    def first_wrong(self) -> "WrongNumber":
        """The first wrong number: of the first position where there is one, if rows have them."""
        expected, positions = self.case.expected, self.case.question.positions
        places = np.argwhere(self.wrong)
        has_rows = positions is not None and self.wrong.shape[-2] == len(positions)
        order = places[:, -2].argsort(kind="stable") if has_rows else [0]
        array, *index = (int(each) for each in places[order[0]])
        name = [*expected.arrays][array]
        got = np.moveaxis(self.answer.copies[name], 0, -1)[*index]
        want = expected.arrays[name][*index]
        worst = np.nan_to_num(np.abs(got - want), nan=np.inf).argmax()
        return WrongNumber(
            name,
            tuple(index),
            positions[index[-2]] if has_rows and positions is not None else None,
            float(got[worst]),
            float(want),
            float(expected.allowed(name, self.answer.dtype)[*index]),
        )

    @property
    def summary(self) -> str:
        """A line about the first wrong number: its position and value, and how many are wrong."""
        if not self.has_shape:
            return f"the shape is {self.answer.shape}, and must be {self.case.expected.shape}"
        first, several = self.first_wrong, f"{self.wrong.sum()} of {self.wrong.size} numbers"
        are_equal = not _differing(self.answer).any()
        verb = "is" if self.wrong.sum() == 1 else "are"
        parts = (
            first.text,
            f"{several} {verb} wrong",
            self.places,
            "" if are_equal else "copies differ",
        )
        return "; ".join(filter(None, parts))

    @property
    def places(self) -> str:
        """The places of the wrong numbers, as ``only pairs 15 to 17``; "" if they are all."""
        return _places_of(self.case.question, self.wrong, [*self.case.expected.arrays])


@dataclass(frozen=True)
class WrongNumber:
    """A number that is further from what is expected than is allowed.

    Attributes:
        array: its array.
        index: its place there.
        position: that of its row, if rows have positions.
        got: the number.
        want: what is expected.
        allowed: how far it may be from that.
    """

    array: str
    index: tuple[int, ...]
    position: int | None
    got: float
    want: float
    allowed: float

    @property
    def text(self) -> str:
        """The place, and the numbers."""
        place = f"at {[*self.index]}"
        if self.position is not None and len(self.index) == 2:
            unit = "of pair" if self.array in {"cos", "sin"} else "in channel"
            place = f"{unit} {self.index[-1]}"
        start = "" if self.position is None else f"position {self.position}, "
        within = f" ± {self.allowed:.2g}" if self.allowed else ""
        numbers = f"got {self.got:.9g}, want {self.want:.9g}{within}"
        return f"first wrong: {start}{self.array} {place}: {numbers}"


def _differing(answer: AnswerArrays) -> NDArray[np.bool_]:
    """Return where copies differ, (arrays, …)."""
    found = []
    for each in answer.copies.values():
        is_same = (each == each[0]) | (np.isnan(each) & np.isnan(each[0]))
        found.append(~is_same.all(axis=0))
    return np.stack(found)


def _places_of(question: Question, wrong: NDArray[np.bool_], arrays: Sequence[str]) -> str:
    """Return where the wrong numbers are, as ``only pairs 15 to 17``; "" if everywhere, or at one.

    Args:
        question: the question, which names the axes.
        wrong: true of each wrong number, (arrays, …).
        arrays: the names of the arrays.
    """
    parts = [*_parts(question, wrong, arrays)] if wrong.sum() > 1 else []
    return f"only {', '.join(parts)}" if parts else ""


def _parts(question: Question, wrong: NDArray[np.bool_], arrays: Sequence[str]) -> Iterator[str]:
    rank = wrong.ndim - 1
    are_wrong = [bool(each.any()) for each in wrong]
    if not all(are_wrong):
        yield ", ".join(name for name, each in zip(arrays, are_wrong, strict=True) if each)
    for axis, name in enumerate(_axes(question, rank)):
        rest = tuple(each for each in range(rank + 1) if each != axis + 1)
        is_row = axis == rank - 2 and question.positions is not None
        known = "position" if is_row else name
        numbers: Any = np.arange(wrong.shape[axis + 1])
        listed = question.positions if is_row else question.parameters.get(_LISTED.get(name, ""))
        if listed is not None and len(listed) == len(numbers):
            numbers = np.array(listed)
        elif name in {"position", "seq"}:
            known = "row"
        if told := _told(known, numbers, np.asarray(wrong.any(axis=rest))):
            yield told


def _axes(question: Question, rank: int) -> tuple[str, ...]:
    """Return the names of the axes of an answer."""
    known: Sequence[str] = ()
    if question.kind == "rotate":
        known = question.parameters.get("axes", _OF_ROTATIONS[-rank:])
    else:
        with suppress(*NOT_MADE):
            known = question.as_table.request.document().axes
    return tuple(each.partition("(")[0] for each in axis_names(known, rank))


def _told(name: str, numbers: NDArray[np.int64], is_wrong: NDArray[np.bool_]) -> str:
    """Return which numbers of an axis are wrong; "" if all are, or if it is no simple pattern."""
    one = _NOUNS.get(name, name)
    several = plural(one)
    bad = sorted(set(numbers[is_wrong].tolist()))
    good = set(numbers[~is_wrong].tolist()) - set(bad)
    between = [each for each in good if bad[0] < each < bad[-1]]
    # Position 0 agrees of most mistakes.
    if not good or (name == "position" and good == {0}):
        return ""
    if len(bad) == 1:
        return f"{one} {bad[0]}"
    if not between:
        is_end = all(each < bad[0] for each in good)
        return f"{several} from {bad[0]} on" if is_end else f"{several} {bad[0]} to {bad[-1]}"
    for rest, parity in enumerate(("even", "odd")):
        if all(each % 2 == rest for each in bad) and all(each % 2 != rest for each in good):
            return f"{parity} {several}"
    if len(bad) <= _MOST_LISTED:
        return f"{several} {', '.join(map(str, bad[:-1]))} and {bad[-1]}"
    return ""
