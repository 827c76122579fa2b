"""Which of several tables that give the same numbers comes first, and which say nothing new."""

import re
from collections.abc import Hashable, Iterable
from math import log10

import numpy as np

from service.analysis.array import TableRequest, Tables
from service.analysis.identification.arithmetic import FLOAT32_FREQUENCY_LOSS, FLOAT64_ARITHMETIC
from service.analysis.identification.verification import Verdict
from service.errors import InvalidParameters
from service.numerics.dtypes import REAL_DTYPES, Elements, rounding_bound, to_float64
from service.numerics.tables import size

_MORE_ROWS = 16
_MOST_COMPARED = 2**16
# Two spellings of a frequency differ by 2^-53 of it, and an angle of 2^13 by as many times more.
_SAME = 2.0**-40
_LENGTHS = ("seq_len", "num_timesteps")

# Of so many digits together some number is plain enough to have been written down.
_PLAIN_DIGITS = 6
# A table that needs so many digits more to give the same numbers does so by chance.
_CHANCE_DIGITS = 2

# It says nothing of a table that it is spelled out for one resource and left out for another.
_USUAL_BASE = 10000.0

# Of the digits that a number of an array has, so many may be in one of a list.
_MOST_FREE = 0.9
# A number that is the only free one of so many elements is measured, and not made to fit: a cosine
# and a sine in each of eight rows.
_SERVED = 16

_FRACTION = re.compile(r"\d+\.\d+")
_FARTHEST = 2


def ranked(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Order what holds: the plainest parameters and the most exact arithmetic first.

    A table that is there already under another name is left out, and so is one that differs from
    another in no more than the size of numbers: nobody wrote down the less plain ones. Where the
    first gives every number of the array, what does not is another table that happens to be near.
    """
    kept: list[Verdict] = []
    documents, forms = set(), set()
    for verdict in sorted(verdicts, key=_order):
        document = (verdict.document.kind, tuple(verdict.document.parameters.items()))
        form = _form(verdict)
        if document not in documents and form not in forms:
            kept.append(verdict)
        documents.add(document)
        forms.add(form)
    if kept and exactness(kept[0]) <= FLOAT64_ARITHMETIC.rank:
        kept = [verdict for verdict in kept if exactness(verdict) <= FLOAT64_ARITHMETIC.rank]
    return tuple(kept)


def explains(verdict: Verdict) -> bool:
    """Tell whether a table says more of an array than lists of numbers that were made to fit it.

    A list with a number of as many digits as those of the array fits whatever array there is,
    unless each of its numbers has to serve several elements.
    """
    values = verdict.proposal.request.parameters.values()
    lists = [value for value in values if isinstance(value, tuple)]
    digits = max((_significant(number) for each in lists for number in _of(each)), default=0)
    tables = verdict.document.arrays.values()
    dtype = next(iter(tables)).dtype
    if not digits or dtype.name not in REAL_DTYPES:
        return True
    if sum(map(size, tables)) >= _SERVED * max(map(len, lists)):
        return True
    loss = rounding_bound(dtype, 1.0)
    if exactness(verdict) > FLOAT64_ARITHMETIC.rank:
        loss += FLOAT32_FREQUENCY_LOSS
    return digits <= _MOST_FREE * -log10(2 * loss)


def exactness(verdict: Verdict) -> int:
    """Give the rank of the most exact arithmetic that explains an array."""
    return verdict.arithmetic[0].rank


def is_rival(first: Verdict, other: Verdict) -> bool:
    """Tell whether another table explains an array as well as the first, and about as plainly."""
    if exactness(other) > exactness(first):
        return False
    return _digits(other) <= _digits(first) + _CHANCE_DIGITS


def _order(verdict: Verdict) -> tuple[int, int, bool, int, int, int]:
    call = verdict.proposal.request
    spelled = sum(len(str(value)) for value in call.parameters.values())
    digits = _digits(verdict)
    rank = exactness(verdict) + max(0, digits - _PLAIN_DIGITS)
    # As natural a name as another may need a plain number that the other does not.
    detour = _detour(call)
    digits += _CHANCE_DIGITS * (detour == _FARTHEST)
    return rank, digits, verdict.proposal.is_transposed, detour, len(call.parameters), spelled


def _detour(call: TableRequest) -> int:
    """Tell how far a name is from what a table of its layout is commonly called.

    Cosines before sines are rotary tables, sines before cosines are encodings. Timesteps are any
    rows of either, and nothing that speaks for them does not speak for the others.
    """
    if call.resource == "encoding/timesteps":
        return _FARTHEST
    if call.resource == "encoding":
        return int(call.parameters.get("flip_sin_to_cos") is True)
    return int(call.resource == "rope" and str(call.parameters.get("pack")).startswith("sin"))


def _digits(verdict: Verdict) -> int:
    """Count the digits of all real parameters, but for those of the base that all have."""
    values = verdict.proposal.request.parameters.values()
    reals = {number for value in values if isinstance(value, tuple | str) for number in _of(value)}
    singles = [value for value in values if isinstance(value, float) and value != _USUAL_BASE]
    return sum(map(_significant, (*reals, *singles)))


def _of(numbers: tuple[object, ...] | str) -> Iterable[float]:
    """Give the real numbers of a list, or the fractions among the positions that a text lists."""
    if isinstance(numbers, str):
        return (float(part) for part in _FRACTION.findall(numbers))
    return (number for number in numbers if isinstance(number, float))


def _significant(number: float) -> int:
    """Count the digits of a number without the zeros around them."""
    digits = repr(abs(number)).partition("e")[0].replace(".", "").strip("0")
    return len(digits)


def _form(verdict: Verdict) -> Hashable:
    """Give what a call says beside its real numbers."""
    call = verdict.proposal.request
    said = {
        (name, value)
        for name, value in call.parameters.items()
        if not isinstance(value, float | tuple)
    }
    return call.resource, verdict.proposal.is_transposed, frozenset(said)


def are_alike(one: TableRequest, other: TableRequest, tables: Tables) -> bool:
    """Tell whether two tables are one in float64, the rows that would follow as well."""
    is_long = all(_length(call) for call in (one, other))
    first, second = (_numbers(_longer(call) if is_long else call, tables) for call in (one, other))
    if first is None or second is None or first.shape != second.shape:
        return False
    # Parameters that mean the same number may be spelled as two neighbours of it.
    return bool(np.allclose(first, second, rtol=0, atol=_SAME * float(np.abs(first).max())))


def _length(call: TableRequest) -> str | None:
    """Name the parameter that says how many rows a table has."""
    return next((name for name in _LENGTHS if isinstance(call.parameters.get(name), int)), None)


def _longer(call: TableRequest) -> TableRequest:
    name = _length(call) or ""
    return call.with_parameters(**{name: int(str(call.parameters[name])) + _MORE_ROWS})


def _numbers(call: TableRequest, tables: Tables) -> Elements | None:
    """Compute the end of a table, in float64 where it has real numbers."""
    for wanted in (call.with_parameters(dtype="float64"), call):
        try:
            document = tables(wanted)
        except InvalidParameters:
            continue
        ends = []
        for table in document.arrays.values():
            count = size(table)
            elements = table.read(max(0, count - _MOST_COMPARED), count)
            real = table.dtype.name in REAL_DTYPES
            ends.append(to_float64(elements, table.dtype) if real else _parts(elements))
        return np.concatenate(ends)
    return None


def _parts(elements: Elements) -> Elements:
    """Give complex numbers as two each, and integers as they are."""
    return elements.view(np.float64) if elements.dtype == np.complex128 else elements
