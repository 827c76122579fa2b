"""Rank the tables that match an array: simple parameters and exact arithmetics first.

Because elements are rounded, tables with slightly different parameters match as well. ``explains``
rejects tables with parameter lists that are fitted to the array. ``ranked`` drops tables that
differ from a better one only in the values of real parameters.
"""

from collections.abc import Hashable, Iterable
from math import log10

import numpy as np

from service.analysis.array import Proposal, TableRequest, Tables, real_numbers
from service.analysis.explanation.measured import UNIT
from service.analysis.families.requests import decimal_digits, digits_of, real_values
from service.analysis.identification.verification import Verdict, float64_document, rank
from service.numerics.dtypes import REAL_DTYPES, Elements, rounding_bound
from service.numerics.tables import size

# Two tables are compared with this many more rows than requested, by their last elements.
_MORE_ROWS = 16
_MOST_COMPARED = 2**14
# Equal tables may differ by this much: two ways to compute a frequency have a relative difference
# of 2^-53, which is 2^-40 in an angle of 2^13.
_SAME = 2.0**-40

# Up to this many digits in all, simple and less simple parameters are equally likely in a config.
_SIMPLE_DIGITS = 4
CHANCE_DIGITS = 2
"""A table with more than this many additional parameter digits matches by chance."""

# A list value with more than this fraction of the decimal digits that an element has is fitted.
_MOST_FREE = 0.9
# With at least this many table elements for each value, a list is measured, not fitted: these are a
# cosine and a sine in each of eight rows.
_ELEMENTS_PER_VALUE = 16
_FREQUENCY_LOSS = 32 * UNIT
_EXACT_RANK = 1

_UNUSUAL = 2


def ranked(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return matching verdicts, the simplest parameters and the most exact arithmetic first.

    Of several verdicts on the same document, or on tables that differ only in real parameters, only
    the best is kept. If the best verdict is exact or in float64, verdicts in less exact arithmetics
    are dropped: they are similar, but different tables.
    """
    kept: list[Verdict] = []
    documents, forms = set(), set()
    for verdict in sorted(verdicts, key=_order):
        document = (verdict.document.kind, tuple(verdict.document.parameters.items()))
        form = form_of(verdict.proposal)
        if document not in documents and form not in forms:
            kept.append(verdict)
        documents.add(document)
        forms.add(form)
    if kept and is_exact(kept[0]):
        kept = [verdict for verdict in kept if is_exact(verdict)]
    return tuple(kept)


def explains(verdict: Verdict) -> bool:
    """Return whether a match shows that an array is this table; False if its lists are fitted.

    A parameter list is fitted if a value has nearly as many digits as an element of the array, and
    there are fewer than ``_ELEMENTS_PER_VALUE`` elements per value: such lists match any array.
    """
    values = verdict.proposal.request.parameters.values()
    lists = [value for value in values if isinstance(value, tuple)]
    digits = max(
        (decimal_digits(value) for each in lists for value in real_values(each)), default=0
    )
    tables = verdict.document.arrays.values()
    dtype = next(iter(tables)).dtype
    if not digits or dtype.name not in REAL_DTYPES:
        return True
    if sum(map(size, tables)) >= _ELEMENTS_PER_VALUE * max(map(len, lists)):
        return True
    loss = rounding_bound(dtype, 1.0)
    if not is_exact(verdict):
        loss += _FREQUENCY_LOSS
    return digits <= _MOST_FREE * -log10(2 * loss)


def is_exact(verdict: Verdict) -> bool:
    """Return whether the verdict's arithmetic is exact or float64."""
    return rank(verdict.arithmetic[0]) <= _EXACT_RANK


def is_rival(first: Verdict, other: Verdict) -> bool:
    """Return whether another table matches as well as the first.

    It matches with an arithmetic at least as exact and with about as many parameter digits.
    """
    if rank(other.arithmetic[0]) > rank(first.arithmetic[0]):
        return False
    return digits_of(other.proposal.request) <= digits_of(first.proposal.request) + CHANCE_DIGITS


def _order(verdict: Verdict) -> tuple[int, int, bool, int, int, int]:
    """Return the sort key of a verdict; the best verdict has the smallest key."""
    request = verdict.proposal.request
    digits = digits_of(request)
    # A usual URL may need a simple parameter that an unusual one does not.
    distance = _distance_from_usual(request)
    return (
        rank(verdict.arithmetic[0]) + max(0, digits - _SIMPLE_DIGITS),
        digits + CHANCE_DIGITS * (distance == _UNUSUAL),
        verdict.proposal.is_transposed,
        distance,
        len(request.parameters),
        sum(len(str(value)) for value in request.parameters.values()),
    )


def _distance_from_usual(request: TableRequest) -> int:
    """Return 0 if the resource is the usual one for the layout of the table, else 1 or 2.

    Tables with cosines before sines are usually rotary tables, and those with sines first are
    encodings. Timestep tables get 2: their rows are also rows of a rotary table or an encoding.
    """
    if request.resource == "encoding/timesteps":
        return _UNUSUAL
    if request.resource == "encoding":
        return int(request.parameters.get("flip_sin_to_cos") is True)
    is_sine_first = str(request.parameters.get("pack")).startswith("sin")
    return int(request.resource == "rope" and is_sine_first)


def form_of(proposal: Proposal) -> Hashable:
    """Return the resource, whether it is transposed, and all parameters except floats and lists."""
    parameters = {
        (name, value)
        for name, value in proposal.request.parameters.items()
        if not isinstance(value, float | tuple)
    }
    return proposal.request.resource, proposal.is_transposed, frozenset(parameters)


def are_alike(one: TableRequest, other: TableRequest, tables: Tables) -> bool:
    """Return whether two tables and their next 16 rows are equal in float64."""
    longer = _longer(one), _longer(other)
    requests = (one, other) if None in longer else longer
    first, second = (_last_numbers(request, tables) for request in requests)
    if first is None or second is None or first.shape != second.shape:
        return False
    # A causal mask is infinite.
    largest = float(np.abs(first[np.isfinite(first)]).max(initial=0.0))
    return bool(np.allclose(first, second, rtol=0, atol=_SAME * largest))


def _longer(request: TableRequest) -> TableRequest | None:
    """Return a request with 16 more rows; None if no parameter sets the number of rows."""
    for name in ("seq_len", "num_timesteps"):
        rows = request.parameters.get(name)
        if isinstance(rows, int):
            return request.with_parameters(**{name: rows + _MORE_ROWS})
    return None


def _last_numbers(request: TableRequest | None, tables: Tables) -> Elements | None:
    """Return the last elements of a table, flat; None if the request is None or refused."""
    document = None if request is None else float64_document(request, tables)
    if document is None:
        return None
    ends = []
    for table in document.arrays.values():
        elements = table.read(max(0, size(table) - _MOST_COMPARED), size(table))
        ends.append(real_numbers(elements, table.dtype).reshape(-1))
    return np.concatenate(ends)
