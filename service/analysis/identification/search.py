"""Other ways to look at an array: axes in reverse order, a narrower type, a part of its rows.

A search among what families propose, which ends when so much was read.

The families of tables whose rows are tokens along several axes.

Families of integers and of biases that distances between queries and keys decide.

Every kind of table that an array is taken for.

What an array is: hypotheses that hold, ranked, or the nearest table and where it is left.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from service.analysis.array import (
    AngleModel,
    IdentifyInput,
    Proposal,
    ProposalFamily,
    Sample,
    Tables,
)
from service.analysis.families import axial_tables as axial
from service.analysis.families import grid_tables as grid_sincos
from service.analysis.families import index_matrices, kernel_biases
from service.analysis.families import index_matrices as bucket_matrices
from service.analysis.families import kernel_biases as sandwich_biases
from service.analysis.families import log_coordinates as fire_coordinates
from service.analysis.families import log_coordinates as log_tables
from service.analysis.families import mrope_sections as sections
from service.analysis.families import rotary_tables as rotary
from service.analysis.families import sinusoid_tables as sinusoids
from service.analysis.families import slope_biases as alibi_biases
from service.analysis.families import slope_biases as slopes
from service.analysis.identification.arithmetic import FLOAT64_ARITHMETIC
from service.analysis.identification.claims import INTEGERS
from service.analysis.identification.ranking import are_alike, exactness, explains, is_rival, ranked
from service.analysis.identification.verification import (
    GLANCED_ROWS,
    SampledMatch,
    Verdict,
    glance,
    verdict_of,
)
from service.analysis.measure import EARLY_ROWS
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from service.numerics.limits import MAX_CHANNELS

_NARROWER = (BFLOAT16, FLOAT16, FLOAT32)
_SHARES = (2, 4, 16)

# Tables with their rows in the last axis are looked for up to the longest of common contexts.
_MOST_REVERSED = 2**17
_LEAST_ROWS = 4

# As many as frequencies are measured in; twice as many are worth the detour.
_HEAD_ROWS = EARLY_ROWS


def transposed(question: IdentifyInput) -> IdentifyInput | None:
    """Turn the axes of an array round, where it has two of which the last may be its rows."""
    if question.sample.values.shape[-1] > _MOST_REVERSED or any(
        sample.values.ndim != 2 or sample.is_complex for sample in question.arrays.values()
    ):
        return None
    arrays = {name: _reversed(sample) for name, sample in question.arrays.items()}
    return replace(question, arrays=arrays)


def _reversed(sample: Sample) -> Sample:
    if sample.values.dtype == np.int64:
        return replace(sample, values=sample.values.T.astype(np.int64), shape=sample.values.T.shape)
    return replace(sample, values=sample.reals().T.copy(), shape=sample.values.T.shape)


def without_copies(question: IdentifyInput) -> tuple[IdentifyInput, int] | None:
    """Take one of the copies that an axis holds, the batch of a table, and say which axis it is."""
    samples = question.arrays.values()
    values = question.sample.values
    if values.ndim < 3 or any(sample.values.shape != values.shape for sample in samples):
        return None
    lengths = [axis for axis, length in enumerate(question.sample.shape) if length != 1]
    for place, axis in enumerate(lengths[:-1]):
        if all(_is_copied(sample.values, place) for sample in samples):
            arrays = {name: _one(each, place, axis) for name, each in question.arrays.items()}
            return replace(question, arrays=arrays), axis
    return None


def _is_copied(values: np.ndarray, axis: int) -> bool:
    return bool((values == values.take([0], axis)).all())


def _one(sample: Sample, place: int, axis: int) -> Sample:
    shape = (*sample.shape[:axis], 1, *sample.shape[axis + 1 :])
    values = np.moveaxis(sample.values, place, 0)[0]
    return replace(sample, values=values, shape=shape)


def narrowed(question: IdentifyInput) -> IdentifyInput | None:
    """Take arrays for those of the narrowest type that holds all their numbers, if there is one."""
    if any(sample.is_complex or sample.dtype in INTEGERS for sample in question.arrays.values()):
        return None
    for dtype in _NARROWER:
        if dtype is question.sample.dtype:
            return None
        if all(_holds(dtype, sample) for sample in question.arrays.values()):
            arrays = {
                name: replace(sample, dtype=dtype) for name, sample in question.arrays.items()
            }
            return replace(question, arrays=arrays)
    return None


def _holds(dtype: DType, sample: Sample) -> bool:
    values = sample.reals()
    some = values.reshape(-1)[:1024]
    return bool((rounded(some, dtype) == some).all() and (rounded(values, dtype) == values).all())


def head(question: IdentifyInput) -> IdentifyInput | None:
    """Give the first rows of an array that has many more."""
    shape = question.sample.values.shape
    if len(shape) < 2 or shape[0] <= 2 * _HEAD_ROWS:
        return None
    return _window(question, 0, _HEAD_ROWS)


def windows(question: IdentifyInput) -> Iterator[tuple[IdentifyInput, int]]:
    """Give parts of the rows of an array, ever later or fewer, with their first row's number.

    No part has more rows than frequencies are measured in, and none is what ``head`` gives.
    """
    rows = question.sample.values.shape[0]
    parts: dict[tuple[int, int], None] = {}
    for share in _SHARES:
        count = min(rows // share, _HEAD_ROWS)
        for first in (0, rows - rows // share):
            is_head = rows > 2 * _HEAD_ROWS and first == 0
            if count >= _LEAST_ROWS and not is_head:
                parts[first, count] = None
    for first, count in parts:
        yield _window(question, first, count), first


def _window(question: IdentifyInput, first: int, count: int) -> IdentifyInput:
    arrays = {}
    for name, sample in question.arrays.items():
        values = sample.values[first : first + count]
        shape = values.shape[:-1] if sample.is_complex else values.shape
        arrays[name] = replace(sample, values=values, shape=shape)
    positions = question.positions
    if positions is not None:
        positions = positions[first : first + count]
    return replace(question, arrays=arrays, positions=positions)


def extended(proposal: Proposal, first: int, rows: int) -> Proposal | None:
    """Let a proposal for rows from one on go on over all rows; None if they do not follow."""
    call, turning = proposal.request, proposal.angles
    if "seq_len" not in call.parameters or turning is None or turning.coordinates.shape[1] != 1:
        return None
    if not (np.diff(turning.coordinates[:, 0]) == 1).all():
        return None
    start = call.parameters.get("start", 0)
    if not isinstance(start, int):
        return None
    moved = {"start": start - first} if start != first else {}
    kept = {name: value for name, value in call.parameters.items() if name != "start"}
    whole = replace(call, parameters={**kept, "seq_len": rows, **moved})
    places = turning.coordinates[0, 0] - first + np.arange(rows, dtype=np.float64)
    return replace(proposal, request=whole, angles=_at(turning, places))


def _at(turning: AngleModel, places: np.ndarray) -> AngleModel:
    return replace(turning, coordinates=places[:, None])


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

    question: IdentifyInput
    tables: Tables
    families: Sequence[ProposalFamily]
    glances: int = MAX_GLANCES
    verified: int = MAX_VERIFIED
    budget: int = field(init=False)
    near: list[SampledMatch] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.budget = _LEAST_BUDGET + _WHOLE_READS * _size(self.question)

    @property
    def is_near(self) -> bool:
        """Tell whether something was looked at that all but a few numbers agree with."""
        return any(looked.agreeing >= _NEAR for looked in self.near)

    def found(self, question: IdentifyInput) -> list[Verdict]:
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

    def found_reversed(self, question: IdentifyInput) -> list[Verdict]:
        """List what holds of what is proposed for an array with its axes in reverse order."""
        turned = transposed(question)
        if turned is None:
            return []
        beginning = head(turned)
        if beginning is not None:
            proposals = self._continued(beginning, turned, 0)
            verdicts = self.holding(question, map(_with_reversed_rows, proposals))
            if verdicts:
                return verdicts
        return self.holding(question, map(_with_reversed_rows, self._proposals(turned)))

    def found_in_parts(self, question: IdentifyInput) -> list[Verdict]:
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

    def holding(self, question: IdentifyInput, proposals: Iterable[Proposal]) -> list[Verdict]:
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

    def _proposals(self, question: IdentifyInput) -> Iterator[Proposal]:
        for family in self.families:
            # What families measure in an array of another kind may overflow, or be no number at
            # all: then it is not near anything, and nothing is proposed.
            with np.errstate(all="ignore"):
                proposals = list(family(question))
            yield from proposals

    def _continued(
        self, part: IdentifyInput, question: IdentifyInput, first: int
    ) -> Iterator[Proposal]:
        """Propose for all rows what is proposed for some, from one on: angles go on, no others."""
        if question.sample.dtype in INTEGERS:
            return
        rows = question.sample.values.shape[0]
        for proposal in self._proposals(part):
            whole = extended(proposal, first, rows)
            if whole is not None:
                yield whole

    def _glances(
        self, question: IdentifyInput, proposals: Iterable[Proposal]
    ) -> Iterator[SampledMatch]:
        """Look at proposals, each table once, for as long as there is something left to read."""
        for proposal in proposals:
            if self.glances <= 0 or self.budget <= 0:
                return
            key = f"{proposal.is_transposed} {proposal.request.resource} "
            key += str(sorted(proposal.request.parameters.items()))
            if key in self._seen:
                continue
            self._seen.add(key)
            self.glances -= 1
            looked = glance(question, proposal, self.tables)
            if looked is not None:
                share = min(1.0, GLANCED_ROWS / looked.row_count)
                self.budget -= int(share * _size(question))
                yield looked


def _size(question: IdentifyInput) -> int:
    return sum(sample.values.size for sample in question.arrays.values())


def _with_reversed_rows(proposal: Proposal) -> Proposal:
    return replace(proposal, is_transposed=True)


GRID_FAMILIES: tuple[ProposalFamily, ...] = (grid_sincos.propose, axial.propose, sections.propose)
"""``/encoding/grid``, ``/rope/axial``, and ``/rope`` with mrope_section."""


DISTANCE_FAMILIES: tuple[ProposalFamily, ...] = (
    bucket_matrices.t5,
    bucket_matrices.deberta,
    index_matrices.shaw,
    index_matrices.swin,
    index_matrices.permutations,
    slopes.slopes,
    alibi_biases.alibi,
    kernel_biases.kerple,
    sandwich_biases.sandwich,
    fire_coordinates.fire,
    log_tables.swin_v2,
    log_tables.dynamic,
)
"""One for each resource, whose proposals are about it alone."""


# A row of distances has as many numbers as the longest context has tokens, and no more.
_MAX_KEYS = 2**20


def _up_to(most: int, family: ProposalFamily) -> ProposalFamily:
    """Ask a family about no array whose last axis is longer than that of any table of its kind."""

    def asked(question: IdentifyInput) -> Iterator[Proposal]:
        if question.sample.values.shape[-1] <= most:
            yield from family(question)

    return asked


def _of_reals(family: ProposalFamily) -> ProposalFamily:
    """Ask a family of sines about no integers."""

    def asked(question: IdentifyInput) -> Iterator[Proposal]:
        if question.sample.dtype not in INTEGERS:
            yield from family(question)

    return asked


_SINES = (*rotary.FAMILIES, *sinusoids.FAMILIES, *GRID_FAMILIES)


FAMILIES: tuple[ProposalFamily, ...] = (
    *(_up_to(_MAX_KEYS, family) for family in DISTANCE_FAMILIES),
    *(_up_to(MAX_CHANNELS, _of_reals(family)) for family in _SINES),
)
"""In the order in which they are asked: those that see at a glance that it is not theirs first."""


Outcome: TypeAlias = Literal["identified", "ambiguous", "none"]

# A table of which less agrees is no nearer than any other.
_LEAST_AGREEING = 0.05


@dataclass(frozen=True)
class Identified:
    """What an array was found to be.

    Attributes:
        outcome: ``identified``; ``ambiguous`` if tables that go on differently give these numbers;
            or ``none``.
        hypotheses: what holds, the best first.
        nearest: where nothing does: the table that agrees with most of the array.
        notes: what else is to be said, in sentences.
    """

    outcome: Outcome
    hypotheses: tuple[Verdict, ...] = ()
    nearest: Verdict | None = None
    notes: tuple[str, ...] = ()


def identify(
    question: IdentifyInput, tables: Tables, families: Sequence[ProposalFamily] = FAMILIES
) -> Identified:
    """Say what an array is.

    Args:
        question: the array, and what is known of it.
        tables: finds what a call names.
        families: what proposes tables that it may be.
    """
    if all(_is_constant(sample.values) for sample in question.arrays.values()):
        return Identified("none", notes=("every number is the same: that may be anything",))
    search = Search(question, tables, families)
    found = search.found(question)
    narrow = narrowed(question) if not _is_sure(found) else None
    if narrow is not None:
        found = [*found, *search.found(narrow)]
    if not found and not search.is_near:
        found = search.found_reversed(question) or search.found_in_parts(question)
    if found:
        return _outcome(ranked(found), tables)
    single = without_copies(question)
    if single is not None:
        alone = identify(single[0], tables, families)
        copies = question.sample.shape[single[1]]
        note = f"axis {single[1]} holds {copies} copies of one array, which is what is looked at"
        return replace(alone, notes=(*alone.notes, note))
    return Identified("none", nearest=_nearest(search), notes=_notes(question))


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values.flat[0]).all())


def _is_sure(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether something explains an array by no less than float64."""
    return any(exactness(verdict) <= FLOAT64_ARITHMETIC.rank for verdict in verdicts)


def _outcome(hypotheses: tuple[Verdict, ...], tables: Tables) -> Identified:
    first = hypotheses[0]
    others = [verdict for verdict in hypotheses[1:] if is_rival(first, verdict)]
    if not others:
        return Identified("identified", hypotheses)
    count = 1 + len(others)
    if all(are_alike(first.proposal.request, other.proposal.request, tables) for other in others):
        note = f"{count} names of one table: every number of it is the same under each"
        return Identified("identified", hypotheses, notes=(note,))
    note = f"{count} tables give these numbers, and would go on differently"
    return Identified("ambiguous", hypotheses, notes=(note,))


def _nearest(search: Search) -> Verdict | None:
    looked = max(search.near, key=lambda each: each.agreeing, default=None)
    if looked is None or looked.agreeing < _LEAST_AGREEING:
        return None
    return verdict_of(looked)


def _notes(question: IdentifyInput) -> tuple[str, ...]:
    """Name the first number that is none."""
    for sample in question.arrays.values():
        if not sample.is_finite:
            at = np.argwhere(~np.isfinite(sample.values))[0]
            place = ", ".join(str(int(part)) for part in at)
            return (f"not every number is finite: the first is at {place}, axes of 1 left out",)
    return ()
