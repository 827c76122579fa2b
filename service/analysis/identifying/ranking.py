"""Which of several tables that give the same numbers comes first, and which say nothing new."""

from collections.abc import Hashable, Iterable

import numpy as np

from service.analysis.call import Call, Tables
from service.analysis.identifying.verification import Verdict
from service.errors import InvalidParameters
from service.tables.dtypes import REAL_DTYPES, Elements, widened
from service.tables.table import size

_MORE_ROWS = 16
_MOST_COMPARED = 2**16
_SAME = 2.0**-40
_LENGTHS = ("seq_len", "num_timesteps")

# Of so many digits together some number is plain enough to have been written down.
_PLAIN_DIGITS = 6
# A table that needs so many digits more to give the same numbers does so by chance.
_CHANCE_DIGITS = 2


def ranked(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Order what holds: the plainest parameters and the most exact arithmetic first.

    A table that is there already under another name is left out, and so is one that differs from
    another in no more than the size of numbers: nobody wrote down the less plain ones.
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
    return tuple(kept)


def exactness(verdict: Verdict) -> int:
    """Give the rank of the most exact arithmetic that explains an array."""
    return verdict.arithmetic[0].rank


def is_rival(first: Verdict, other: Verdict) -> bool:
    """Tell whether another table explains an array as well as the first, and about as plainly."""
    if exactness(other) > exactness(first):
        return False
    return _digits(other) <= _digits(first) + _CHANCE_DIGITS


def _order(verdict: Verdict) -> tuple[int, int, bool, int, int]:
    parameters = verdict.proposal.call.parameters
    spelled = sum(len(str(value)) for value in parameters.values())
    digits = _digits(verdict)
    rank = exactness(verdict) + max(0, digits - _PLAIN_DIGITS)
    return rank, digits, verdict.proposal.is_transposed, len(parameters), spelled


def _digits(verdict: Verdict) -> int:
    """Count the digits of all real parameters that are no defaults."""
    values = verdict.proposal.call.parameters.values()
    reals = [
        number
        for value in values
        for number in (set(value) if isinstance(value, tuple) else (value,))
        if isinstance(number, float)
    ]
    return sum(map(_significant, reals))


def _significant(number: float) -> int:
    """Count the digits of a number without the zeros around them."""
    digits = repr(abs(number)).partition("e")[0].replace(".", "").strip("0")
    return len(digits)


def _form(verdict: Verdict) -> Hashable:
    """Give what a call says beside its real numbers."""
    call = verdict.proposal.call
    said = {
        (name, value)
        for name, value in call.parameters.items()
        if not isinstance(value, float | tuple)
    }
    return call.resource, verdict.proposal.is_transposed, frozenset(said)


def are_alike(one: Call, other: Call, tables: Tables) -> bool:
    """Tell whether two tables are one in float64, the rows that would follow as well."""
    is_long = all(_length(call) for call in (one, other))
    first, second = (_numbers(_longer(call) if is_long else call, tables) for call in (one, other))
    if first is None or second is None or first.shape != second.shape:
        return False
    # Parameters that mean the same number may be spelled as two neighbours of it.
    return bool(np.allclose(first, second, rtol=0, atol=_SAME * float(np.abs(first).max())))


def _length(call: Call) -> str | None:
    """Name the parameter that says how many rows a table has."""
    return next((name for name in _LENGTHS if isinstance(call.parameters.get(name), int)), None)


def _longer(call: Call) -> Call:
    name = _length(call) or ""
    return call.having(**{name: int(str(call.parameters[name])) + _MORE_ROWS})


def _numbers(call: Call, tables: Tables) -> Elements | None:
    """Compute the end of a table, in float64 where it has real numbers."""
    for wanted in (call.having(dtype="float64"), call):
        try:
            document = tables(wanted)
        except InvalidParameters:
            continue
        ends = []
        for table in document.arrays.values():
            count = size(table)
            elements = table.read(max(0, count - _MOST_COMPARED), count)
            real = table.dtype.name in REAL_DTYPES
            ends.append(widened(elements, table.dtype) if real else _parts(elements))
        return np.concatenate(ends)
    return None


def _parts(elements: Elements) -> Elements:
    """Give complex numbers as two each, and integers as they are."""
    return elements.view(np.float64) if elements.dtype == np.complex128 else elements
