"""What somebody has in place of what is wanted, where this server has a table of it."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from service.analysis.call import Call
from service.analysis.identifying import arithmetic
from service.analysis.identifying.identify import identify
from service.analysis.identifying.ranking import are_alike
from service.analysis.identifying.verification import Verdict
from service.analysis.mistakes.catalogue import Diagnosis, Mistake
from service.analysis.mistakes.turns import Narrowing
from service.analysis.question import Question
from service.analysis.sample import Sample
from service.errors import shortened
from service.grammar import spelled
from service.routes.asked import tables, url_of
from service.tables.dtypes import BFLOAT16, FLOAT16
from service.tables.table import size

# Beyond that it takes longer to say what it is than what is wrong with it.
_MOST_ELEMENTS = 2**19

_PLACES = ("seq_len", "start", "positions")

# What explains numbers that are not those of the table, but what a narrow type makes of them.
_NARROW = {
    made(dtype.name): narrowing.mistakes
    for dtype in (BFLOAT16, FLOAT16)
    for made, narrowing in (
        (arithmetic.narrow_positions, Narrowing(dtype, positions=True)),
        (arithmetic.narrow_frequencies, Narrowing(dtype, frequencies=True)),
        (arithmetic.narrow_angles, Narrowing(dtype, angles=True)),
        (arithmetic.narrow_throughout, Narrowing(dtype, angles=True)),
    )
}


def with_yours(diagnosis: Diagnosis, have: Mapping[str, Sample], wanted: Call | None) -> Diagnosis:
    """Name the table that somebody has; where no mistake explains it, that is what is wrong.

    Args:
        diagnosis: what is known.
        have: the arrays.
        wanted: the table that it should be, where it has a URL.
    """
    if diagnosis.verdict == "equal" or diagnosis.yours is not None:
        return diagnosis
    best = _found(have)
    if best is None:
        return diagnosis
    yours, beside = best.proposal.call, _beside(best)
    named = None if beside else yours
    if diagnosis.verdict == "diagnosed":
        return replace(diagnosis, yours=named)
    mistakes = (*_another(yours, wanted), *beside)
    if not mistakes:
        return diagnosis
    return replace(
        diagnosis,
        verdict="diagnosed",
        mistakes=mistakes,
        residual=best.max_absolute,
        leaves_at=None,
        yours=named,
    )


def _found(have: Mapping[str, Sample]) -> Verdict | None:
    """Find the table that all of the arrays are."""
    elements = sum(prod(sample.shape) for sample in have.values())
    if elements > _MOST_ELEMENTS:
        return None
    hypotheses = identify(Question(have), tables).hypotheses
    # Of copies of a table, one was looked at.
    if not hypotheses or sum(map(size, hypotheses[0].document.arrays.values())) != elements:
        return None
    return hypotheses[0]


def _beside(found: Verdict) -> tuple[Mistake, ...]:
    """Say why numbers are not just those of the table that they were found to be."""
    order = range(len(found.index))
    exchanged = Mistake("transposed", {"order": ", ".join(map(str, reversed(order)))})
    turned = (exchanged,) if found.proposal.is_transposed else ()
    return (*turned, *_NARROW.get(found.arithmetic[0], ()))


def _another(yours: Call, wanted: Call | None) -> tuple[Mistake, ...]:
    """Name the table; it is no other where the one that is wanted was found."""
    if wanted is None:
        return (Mistake("another-table", {"have": url_of(yours), "want": "what is wanted"}),)
    if are_alike(yours, wanted, tables):
        return ()
    moved = _moved(wanted, yours)
    if moved is not None and are_alike(yours, moved, tables):
        have, want = (shortened(_positions(call)) for call in (moved, wanted))
        return (Mistake("other-positions", {"have": have, "want": want}),)
    is_same = yours.resource == wanted.resource
    values = {"have": url_of(yours), "want": url_of(wanted)}
    return (Mistake("wrong-rule" if is_same else "another-table", values),)


def _moved(wanted: Call, yours: Call) -> Call | None:
    """Give what is wanted at the positions of another table; None where it lists none."""
    if "positions" not in yours.parameters:
        return None
    kept = {name: value for name, value in wanted.parameters.items() if name not in _PLACES}
    return Call(wanted.resource, {**kept, "positions": yours.parameters["positions"]})


def _positions(call: Call) -> str:
    """Spell the positions of a table."""
    given = {name: call.parameters[name] for name in _PLACES if name in call.parameters}
    if "positions" in given:
        return str(spelled(given["positions"]))
    start = int(str(given.get("start", 0)))
    return f"{start}:{start + int(str(given['seq_len']))}" if "seq_len" in given else "one by one"
