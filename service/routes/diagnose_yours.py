"""What somebody has in place of what is wanted, where this server has a table of it."""

from collections.abc import Mapping
from dataclasses import replace

from service.analysis.call import Call
from service.analysis.identifying.identify import identify
from service.analysis.mistakes.catalogue import Diagnosis, Mistake
from service.analysis.question import Question
from service.analysis.sample import Sample
from service.routes.asked import tables, url_of

# Beyond that it takes longer to say what it is than what is wrong with it.
_MOST_ELEMENTS = 2**19


def with_yours(diagnosis: Diagnosis, have: Mapping[str, Sample], wanted: Call | None) -> Diagnosis:
    """Name the table that somebody has; where no mistake explains it, that is what is wrong.

    Args:
        diagnosis: what is known.
        have: the arrays.
        wanted: the table that it should be, where it has a URL.
    """
    if diagnosis.verdict == "equal" or diagnosis.yours is not None:
        return diagnosis
    if sum(sample.values.size for sample in have.values()) > _MOST_ELEMENTS:
        return diagnosis
    found = identify(Question(have), tables)
    if not found.hypotheses:
        return diagnosis
    best = found.hypotheses[0]
    yours = best.proposal.call
    if diagnosis.verdict == "diagnosed":
        return replace(diagnosis, yours=yours)
    return replace(
        diagnosis,
        verdict="diagnosed",
        mistakes=(_another(yours, wanted),),
        residual=best.max_absolute,
        leaves_at=None,
        yours=yours,
    )


def _another(yours: Call, wanted: Call | None) -> Mistake:
    if wanted is None:
        return Mistake("another-table", {"have": url_of(yours), "want": "what is wanted"})
    is_same = yours.resource == wanted.resource
    values = {"have": url_of(yours), "want": url_of(wanted)}
    return Mistake("wrong-rule" if is_same else "another-table", values)
