"""Rank the tables that an array matches: simple parameters and exact arithmetics first.

Rounding makes tables of other parameters match as well. ``explains`` drops lists that were fitted
to the array, ``ranked`` those that differ from a better one only in their real numbers.
"""

import re
from collections.abc import Hashable, Iterable
from math import log10

import numpy as np

from service.analysis.array import TableRequest, Tables, real_numbers
from service.analysis.identification.arithmetic import FLOAT32_FREQUENCY_LOSS, FLOAT64_ARITHMETIC
from service.analysis.identification.verification import Verdict, float64_document
from service.analysis.measure import USUAL_BASE
from service.numerics.dtypes import REAL_DTYPES, Elements, rounding_bound
from service.numerics.tables import size

_MORE_ROWS = 16
_MOST_COMPARED = 2**16
# Two ways to compute a frequency differ by 2^-53 of it, so an angle of 2^13 by 2^-40.
_SAME = 2.0**-40

# Up to this many digits, parameters with more digits are as likely in a config as with fewer.
_SIMPLE_DIGITS = 6
# A table that needs more than this many further digits matches by chance.
_CHANCE_DIGITS = 2

# A fitted list has numbers of as many digits as those of the array, up to this share of them.
_MOST_FREE = 0.9
# With this many elements for each of its numbers, a list is measured, not fitted: a cosine and a
# sine in each of eight rows.
_ELEMENTS_PER_NUMBER = 16

_FRACTION = re.compile(r"\d+\.\d+")
_UNUSUAL = 2


def ranked(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Sort verdicts that match, the simplest parameters and the most exact arithmetic first.

    A table that is there already under another name is dropped, and so is one that differs from a
    better one only in its real numbers. Where the best explains the array in float64 or exactly,
    those that do not are dropped: they are other tables nearby.
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
    if kept and is_exact(kept[0]):
        kept = [verdict for verdict in kept if is_exact(verdict)]
    return tuple(kept)


def explains(verdict: Verdict) -> bool:
    """Return whether a table explains an array better than lists of numbers fitted to it.

    A list with a number of as many digits as those of the array fits any array, unless each of its
    numbers has several elements.
    """
    values = verdict.proposal.request.parameters.values()
    lists = [value for value in values if isinstance(value, tuple)]
    digits = max((_digits(number) for each in lists for number in _reals(each)), default=0)
    tables = verdict.document.arrays.values()
    dtype = next(iter(tables)).dtype
    if not digits or dtype.name not in REAL_DTYPES:
        return True
    if sum(map(size, tables)) >= _ELEMENTS_PER_NUMBER * max(map(len, lists)):
        return True
    loss = rounding_bound(dtype, 1.0)
    if not is_exact(verdict):
        loss += FLOAT32_FREQUENCY_LOSS
    return digits <= _MOST_FREE * -log10(2 * loss)


def is_exact(verdict: Verdict) -> bool:
    """Return whether an array matches exactly or in float64."""
    return verdict.arithmetic[0].rank <= FLOAT64_ARITHMETIC.rank


def is_rival(first: Verdict, other: Verdict) -> bool:
    """Return whether another table explains an array as well as the first, with similar digits."""
    if other.arithmetic[0].rank > first.arithmetic[0].rank:
        return False
    return _all_digits(other) <= _all_digits(first) + _CHANCE_DIGITS


def _order(verdict: Verdict) -> tuple[int, int, bool, int, int, int]:
    request = verdict.proposal.request
    digits = _all_digits(verdict)
    rank = verdict.arithmetic[0].rank + max(0, digits - _SIMPLE_DIGITS)
    # A usual name may need a simple number that an unusual one does not.
    distance = _distance_from_usual(request)
    return (
        rank,
        digits + _CHANCE_DIGITS * (distance == _UNUSUAL),
        verdict.proposal.is_transposed,
        distance,
        len(request.parameters),
        sum(len(str(value)) for value in request.parameters.values()),
    )


def _distance_from_usual(request: TableRequest) -> int:
    """Return how far a name is from what a table of its layout is usually called: 0, 1 or 2.

    Cosines before sines are rotary tables, sines before cosines are encodings. Timesteps may be
    any rows of either, so nothing speaks for them alone.
    """
    if request.resource == "encoding/timesteps":
        return _UNUSUAL
    if request.resource == "encoding":
        return int(request.parameters.get("flip_sin_to_cos") is True)
    is_sine_first = str(request.parameters.get("pack")).startswith("sin")
    return int(request.resource == "rope" and is_sine_first)


def _all_digits(verdict: Verdict) -> int:
    """Count the digits of all real parameters but the usual base.

    Some resources state that base, some leave it out as a default.
    """
    values = verdict.proposal.request.parameters.values()
    listed = {
        number for value in values if isinstance(value, tuple | str) for number in _reals(value)
    }
    single = [value for value in values if isinstance(value, float) and value != USUAL_BASE]
    return sum(map(_digits, (*listed, *single)))


def _reals(numbers: tuple[object, ...] | str) -> Iterable[float]:
    """Return the real numbers of a list, or the fractions among listed positions."""
    if isinstance(numbers, str):
        return map(float, _FRACTION.findall(numbers))
    return (number for number in numbers if isinstance(number, float))


def _digits(number: float) -> int:
    """Count the digits of a number without the zeros around them."""
    return len(repr(abs(number)).partition("e")[0].replace(".", "").strip("0"))


def _form(verdict: Verdict) -> Hashable:
    """Return the resource and the parameters other than real numbers."""
    request = verdict.proposal.request
    parameters = {
        (name, value)
        for name, value in request.parameters.items()
        if not isinstance(value, float | tuple)
    }
    return request.resource, verdict.proposal.is_transposed, frozenset(parameters)


def are_alike(one: TableRequest, other: TableRequest, tables: Tables) -> bool:
    """Return whether two tables are equal in float64, with the rows that would follow."""
    longer = _longer(one), _longer(other)
    requests = (one, other) if None in longer else longer
    first, second = (_last_numbers(request, tables) for request in requests)
    if first is None or second is None or first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=0, atol=_SAME * float(np.abs(first).max())))


def _longer(request: TableRequest) -> TableRequest | None:
    """Request more rows; None where no parameter is the number of rows."""
    for name in ("seq_len", "num_timesteps"):
        rows = request.parameters.get(name)
        if isinstance(rows, int):
            return request.with_parameters(**{name: rows + _MORE_ROWS})
    return None


def _last_numbers(request: TableRequest | None, tables: Tables) -> Elements | None:
    """Compute the end of a table, in float64 where it has real numbers."""
    document = None if request is None else float64_document(request, tables)
    if document is None:
        return None
    ends = []
    for table in document.arrays.values():
        elements = table.read(max(0, size(table) - _MOST_COMPARED), size(table))
        ends.append(real_numbers(elements, table.dtype).reshape(-1))
    return np.concatenate(ends)
