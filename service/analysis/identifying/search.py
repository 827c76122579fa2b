"""A search among what families propose, which ends when so much was read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from service.analysis.call import Tables
from service.analysis.identifying.ranking import explains
from service.analysis.identifying.verification import Verdict, verdict_of
from service.analysis.identifying.verification_glance import GLANCED_ROWS, Glance, glance
from service.analysis.identifying.verification_rows import INTEGERS
from service.analysis.identifying.views import extended, head, transposed, windows
from service.analysis.question import Family, Proposal, Question

MAX_GLANCES = 160
MAX_VERIFIED = 12

# A whole array is read so often at most, in glances and verifications together.
_WHOLE_READS = 5
_LEAST_BUDGET = 2**22

# A table that so much of an array agrees with is what it is near, whatever else there is.
_NEAR = 0.9


@dataclass(eq=False)
class Search:
    """A search with what it may still do, and what came near so far.

    Attributes:
        question: the array.
        tables: finds what a call names.
        families: what proposes tables.
        glances: how many tables may still be looked at.
        verified: how many may still be read whole.
        budget: how many numbers of tables may still be computed.
        near: what was looked at and does not hold.
    """

    question: Question
    tables: Tables
    families: Sequence[Family]
    glances: int = MAX_GLANCES
    verified: int = MAX_VERIFIED
    budget: int = field(init=False)
    near: list[Glance] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.budget = _LEAST_BUDGET + _WHOLE_READS * _size(self.question)

    @property
    def is_near(self) -> bool:
        """Tell whether something was looked at that all but a few numbers agree with."""
        return any(looked.agreeing >= _NEAR for looked in self.near)

    def found(self, question: Question) -> list[Verdict]:
        """List what holds of what is proposed for the array, or for a view of its numbers.

        The first rows of a long array are asked about first: they cost less, and are still right
        where later ones are not.
        """
        beginning = head(question)
        if beginning is not None:
            verdicts = self.holding(question, self._continued(beginning, question, 0))
            if verdicts:
                return verdicts
        return self.holding(question, self._proposals(question))

    def found_reversed(self, question: Question) -> list[Verdict]:
        """List what holds of what is proposed for an array with its axes in reverse order."""
        turned = transposed(question)
        if turned is None:
            return []
        beginning = head(turned)
        if beginning is not None:
            proposals = self._continued(beginning, turned, 0)
            verdicts = self.holding(question, map(_reversed, proposals))
            if verdicts:
                return verdicts
        return self.holding(question, map(_reversed, self._proposals(turned)))

    def found_in_parts(self, question: Question) -> list[Verdict]:
        """List what holds, or at least is near, of what is proposed for some of the rows."""
        if question.sample.values.ndim < 2:
            return []
        for part, first in windows(question):
            proposals = self._continued(part, question, first)
            before = len(self.near)
            verdicts = self.holding(question, proposals)
            if verdicts or len(self.near) > before:
                return verdicts
        return []

    def holding(self, question: Question, proposals: Iterable[Proposal]) -> list[Verdict]:
        """List the verdicts of the proposals that hold, and keep the others."""
        verdicts = []
        for looked in self._glances(question, proposals):
            if looked.agreeing == 1 and self.verified > 0 and self.budget > 0:
                self.verified -= 1
                self.budget -= _size(question)
                verdict = verdict_of(looked)
                if verdict.holds:
                    verdicts += [verdict] if explains(verdict) else []
                    continue
            self.near.append(looked)
        return verdicts

    def _proposals(self, question: Question) -> Iterator[Proposal]:
        for family in self.families:
            # What families measure in an array of another kind may overflow, or be no number at
            # all: then it is not near anything, and nothing is proposed.
            with np.errstate(all="ignore"):
                proposals = list(family(question))
            yield from proposals

    def _continued(self, part: Question, question: Question, first: int) -> Iterator[Proposal]:
        """Propose for all rows what is proposed for some, from one on: angles go on, no others."""
        if question.sample.dtype in INTEGERS:
            return
        rows = question.sample.values.shape[0]
        for proposal in self._proposals(part):
            whole = extended(proposal, first, rows)
            if whole is not None:
                yield whole

    def _glances(self, question: Question, proposals: Iterable[Proposal]) -> Iterator[Glance]:
        """Look at proposals, each table once, for as long as there is something left to read."""
        for proposal in proposals:
            if self.glances <= 0 or self.budget <= 0:
                return
            key = f"{proposal.is_transposed} {proposal.call.resource} "
            key += str(sorted(proposal.call.parameters.items()))
            if key in self._seen:
                continue
            self._seen.add(key)
            self.glances -= 1
            looked = glance(question, proposal, self.tables)
            if looked is not None:
                share = min(1.0, GLANCED_ROWS / looked.row_count)
                self.budget -= int(share * _size(question))
                yield looked


def _size(question: Question) -> int:
    return sum(sample.values.size for sample in question.arrays.values())


def _reversed(proposal: Proposal) -> Proposal:
    return replace(proposal, is_transposed=True)
