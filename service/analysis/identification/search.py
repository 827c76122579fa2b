"""Identify an array: rank the tables that reproduce it, or report the closest one.

Families propose tables for the array and for views of it: its first rows, the array with its axes
reversed, the array in a narrower dtype, and parts of its rows. A ``Search`` compares the proposed
tables with the array until one matches or the work budget is spent.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, ProposalFamily, Sample, Tables
from service.analysis.families import (
    axial_tables,
    grid_tables,
    index_matrices,
    kernel_biases,
    log_coordinates,
    mrope_sections,
    rotary_tables,
    sinusoid_tables,
    slope_biases,
)
from service.analysis.identification.ranking import are_alike, explains, is_exact, is_rival, ranked
from service.analysis.identification.verification import (
    SAMPLED_ROWS,
    SampledMatch,
    Verdict,
    sample_match,
    verdict_of,
)
from service.analysis.measure import EARLY_ROWS
from service.analysis.precision import narrowest_dtype
from service.numerics.limits import MAX_CHANNELS

DISTANCE_FAMILIES: tuple[ProposalFamily, ...] = (
    index_matrices.propose_t5,
    index_matrices.propose_deberta,
    index_matrices.propose_shaw,
    index_matrices.propose_swin,
    index_matrices.propose_permutation,
    slope_biases.propose_slopes,
    slope_biases.propose_alibi,
    kernel_biases.propose_kerple,
    kernel_biases.propose_sandwich,
    log_coordinates.propose_fire,
    log_coordinates.propose_swin_v2,
    log_coordinates.propose_dynamic,
)
"""Families of index matrices and biases, which depend on the offset of query and key."""

SINE_FAMILIES: tuple[ProposalFamily, ...] = (
    rotary_tables.propose_rotary_tables,
    rotary_tables.propose_rotary_components,
    rotary_tables.propose_inverse_frequencies,
    rotary_tables.propose_angles,
    sinusoid_tables.propose_sinusoids,
    grid_tables.propose_grid,
    axial_tables.propose_axial,
    mrope_sections.propose_mrope,
)
"""Families of sines and cosines, and of the frequencies and angles they are computed from."""

# The longest last axis, the keys, of an array that the distance families examine.
_MAX_KEYS = 2**20


def propose(inputs: IdentifyInput) -> Iterator[Proposal]:
    """Yield the proposals of all families that the array's dtype and last axis allow.

    The distance families come first: they reject other arrays at once.
    """
    width = inputs.sample.values.shape[-1]
    takes_sines = width <= MAX_CHANNELS and not inputs.sample.is_integer
    families = DISTANCE_FAMILIES if width <= _MAX_KEYS else ()
    for family in (*families, *(SINE_FAMILIES if takes_sines else ())):
        # A family may compute inf or NaN from other arrays; it then proposes nothing.
        with np.errstate(all="ignore"):
            proposals = list(family(inputs))
        yield from proposals


# Reverse the axes only if the last one has at most this many elements, the longest common context.
_MAX_REVERSED_ROWS = 2**17

# Long arrays are searched by their first rows alone, the head: as many as families measure. An
# array is long if it has more than twice as many rows.
_HEAD_ROWS = EARLY_ROWS
_FEWEST_ROWS = 4
# Parts to search have a half, a quarter or a sixteenth of the rows.
_DIVISORS = (2, 4, 16)


def transposed(inputs: IdentifyInput) -> IdentifyInput | None:
    """Return the input with reversed axes; None unless all arrays are real with two axes.

    Also return None if the last axis is longer than ``_MAX_REVERSED_ROWS``.
    """
    if inputs.sample.values.shape[-1] > _MAX_REVERSED_ROWS or any(
        sample.values.ndim != 2 or sample.is_complex for sample in inputs.arrays.values()
    ):
        return None
    arrays = {
        name: replace(sample, values=sample.values.T.copy(), shape=sample.values.T.shape)
        for name, sample in inputs.arrays.items()
    }
    return replace(inputs, arrays=arrays)


def without_copies(inputs: IdentifyInput) -> tuple[IdentifyInput, int] | None:
    """Return the input without a repeated axis, and the index of that axis, or None.

    A repeated axis, such as a batch axis, has equal elements at all its indices. Return None if no
    axis repeats.
    """
    samples = inputs.arrays.values()
    values = inputs.sample.values
    if values.ndim < 3 or any(sample.values.shape != values.shape for sample in samples):
        return None
    axes = [axis for axis, length in enumerate(inputs.sample.shape) if length != 1]
    for value_axis, axis in enumerate(axes[:-1]):
        if all((each.values == each.values.take([0], value_axis)).all() for each in samples):
            arrays = {
                name: _first_copy(each, value_axis, axis) for name, each in inputs.arrays.items()
            }
            return replace(inputs, arrays=arrays), axis
    return None


def _first_copy(sample: Sample, value_axis: int, axis: int) -> Sample:
    shape = (*sample.shape[:axis], 1, *sample.shape[axis + 1 :])
    return replace(sample, values=np.moveaxis(sample.values, value_axis, 0)[0], shape=shape)


def narrowed(inputs: IdentifyInput) -> IdentifyInput | None:
    """Return the input in the narrowest dtype that holds every element exactly.

    Return None if the input already has that dtype, or has complex numbers or integers.
    """
    samples = inputs.arrays.values()
    if any(sample.is_complex or sample.is_integer for sample in samples):
        return None
    elements = np.concatenate([sample.reals().reshape(-1) for sample in samples])
    dtype = narrowest_dtype(elements, inputs.sample.dtype)
    if dtype is inputs.sample.dtype:
        return None
    arrays = {name: replace(each, dtype=dtype) for name, each in inputs.arrays.items()}
    return replace(inputs, arrays=arrays)


def _has_head(inputs: IdentifyInput) -> bool:
    shape = inputs.sample.values.shape
    return len(shape) > 1 and shape[0] > 2 * _HEAD_ROWS


def windows(rows: int) -> list[tuple[int, int]]:
    """Return (first row, row count) of the parts to search.

    Parts get shorter and shorter, and are taken from the start and from the end. A long array's
    start is left out, since it was searched before.
    """
    parts: dict[tuple[int, int], None] = {}
    for divisor in _DIVISORS:
        count = min(rows // divisor, _HEAD_ROWS)
        for first in (0, rows - rows // divisor):
            is_head = rows > 2 * _HEAD_ROWS and first == 0
            if count >= _FEWEST_ROWS and not is_head:
                parts[first, count] = None
    return list(parts)


def _window(inputs: IdentifyInput, first: int, count: int) -> IdentifyInput:
    arrays = {}
    for name, sample in inputs.arrays.items():
        values = sample.values[first : first + count]
        shape = values.shape[:-1] if sample.is_complex else values.shape
        arrays[name] = replace(sample, values=values, shape=shape)
    positions = inputs.positions
    if positions is not None:
        positions = positions[first : first + count]
    return replace(inputs, arrays=arrays, positions=positions)


def extended(proposal: Proposal, first: int, rows: int) -> Proposal | None:
    """Extend a proposal for some rows to the whole array.

    Return None if the positions of the rows are not consecutive integers.

    Args:
        proposal: a proposal for the rows ``first``, ``first + 1``, … of the array.
        first: the index of its first row in the array.
        rows: the number of rows of the array.
    """
    request, angles = proposal.request, proposal.angles
    if "seq_len" not in request.parameters or angles is None or angles.coordinates.shape[1] != 1:
        return None
    start = request.parameters.get("start", 0)
    if not isinstance(start, int) or not (np.diff(angles.coordinates[:, 0]) == 1).all():
        return None
    parameters = {name: value for name, value in request.parameters.items() if name != "start"}
    parameters["seq_len"] = rows
    if start != first:
        parameters["start"] = start - first
    positions = angles.coordinates[0, 0] - first + np.arange(rows, dtype=np.float64)
    return replace(
        proposal,
        request=replace(request, parameters=parameters),
        angles=replace(angles, coordinates=positions[:, None]),
    )


MAX_SAMPLED = 160
MAX_VERIFIED = 12

# The budget, in table elements to compute: 5 times the array's elements plus a minimum.
_BUDGET_FACTOR = 5
_LEAST_BUDGET = 2**22

# If a table agrees with this fraction of the sampled elements, no other view is searched.
_NEAR = 0.9


@dataclass(eq=False)
class Search:
    """A search for the tables that match an array, within a work budget.

    Attributes:
        inputs: the submitted array.
        tables: computes the table of a request.
        propose: yields proposals for an array or a view of it.
        sampled: how many more proposals may be compared on some rows.
        verified: how many more proposals may be compared on all rows.
        budget: how many more table elements may be computed.
        near: the comparisons of proposals that did not match.
    """

    inputs: IdentifyInput
    tables: Tables
    propose: ProposalFamily = propose
    sampled: int = MAX_SAMPLED
    verified: int = MAX_VERIFIED
    budget: int = field(init=False)
    near: list[SampledMatch] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.budget = _LEAST_BUDGET + _BUDGET_FACTOR * _size(self.inputs)

    def matches(self, inputs: IdentifyInput, *, is_transposed: bool = False) -> list[Verdict]:
        """Return the verdicts of the proposed tables that match every row.

        Proposals from the first rows of a long array come first: measuring them costs less, and
        errors in later rows do not affect them.

        Args:
            inputs: the submitted array, or the array in a narrower dtype.
            is_transposed: whether to propose tables for the array with its axes reversed.
        """
        view = transposed(inputs) if is_transposed else inputs
        if view is None:
            return []
        sources = [self.propose(view)]
        if _has_head(view):
            sources.insert(0, self._extended_proposals(view, 0, _HEAD_ROWS))
        for source in sources:
            # A family may itself propose a table with its axes reversed.
            proposals = (
                replace(each, is_transposed=True) if is_transposed else each for each in source
            )
            verdicts = self._verified_matches(inputs, proposals)
            if verdicts:
                return verdicts
        return []

    def matches_of_parts(self, inputs: IdentifyInput) -> list[Verdict]:
        """Return the verdicts of the tables that are proposed from parts of the rows and match all.

        The search ends at the first part for which any proposal has the right shape.
        """
        if inputs.sample.values.ndim < 2:
            return []
        for first, count in windows(inputs.sample.values.shape[0]):
            before = len(self.near)
            proposals = self._extended_proposals(inputs, first, count)
            verdicts = self._verified_matches(inputs, proposals)
            if verdicts or len(self.near) > before:
                return verdicts
        return []

    def _extended_proposals(
        self, inputs: IdentifyInput, first: int, count: int
    ) -> Iterator[Proposal]:
        """Yield the proposals for ``count`` rows from row ``first``, extended to all rows.

        Integer arrays have none.
        """
        if inputs.sample.is_integer:
            return
        rows = inputs.sample.values.shape[0]
        for proposal in self.propose(_window(inputs, first, count)):
            whole = extended(proposal, first, rows)
            if whole is not None:
                yield whole

    def _verified_matches(
        self, inputs: IdentifyInput, proposals: Iterable[Proposal]
    ) -> list[Verdict]:
        """Return the verdicts of the proposals that match; add the others to ``near``."""
        verdicts = []
        for match in self._sampled_matches(inputs, proposals):
            if match.agreeing == 1 and self.verified > 0 and self.budget > 0:
                self.verified -= 1
                self.budget -= _size(inputs)
                verdict = verdict_of(match)
                if verdict.matches:
                    verdicts += [verdict] if explains(verdict) else []
                    continue
            self.near.append(match)
        return verdicts

    def _sampled_matches(
        self, inputs: IdentifyInput, proposals: Iterable[Proposal]
    ) -> Iterator[SampledMatch]:
        """Yield comparisons of some rows with each new proposal, until the budget is spent."""
        for proposal in proposals:
            if self.sampled <= 0 or self.budget <= 0:
                return
            parameters = sorted(proposal.request.parameters.items())
            key = f"{proposal.is_transposed} {proposal.request.resource} {parameters}"
            if key in self._seen:
                continue
            self._seen.add(key)
            self.sampled -= 1
            match = sample_match(inputs, proposal, self.tables)
            if match is not None:
                share = min(1.0, SAMPLED_ROWS / match.row_count)
                self.budget -= int(share * _size(inputs))
                yield match


def _size(inputs: IdentifyInput) -> int:
    return sum(sample.values.size for sample in inputs.arrays.values())


# Report the closest table only if it agrees with at least this fraction of the sampled elements.
_LEAST_AGREEING = 0.05


@dataclass(frozen=True)
class Identification:
    """The result of an identification.

    Attributes:
        outcome: ``identified``; ``ambiguous`` if several tables match and their next rows differ;
            or ``none``.
        hypotheses: the verdicts of the tables that match, the best first.
        nearest: if no table matches, the verdict of the closest one, if any is close.
        notes: sentences for the report.
    """

    outcome: Literal["identified", "ambiguous", "none"]
    hypotheses: tuple[Verdict, ...] = ()
    nearest: Verdict | None = None
    notes: tuple[str, ...] = ()


def identify(inputs: IdentifyInput, tables: Tables) -> Identification:
    """Return the tables that match an array, or the closest one.

    Args:
        inputs: the submitted array, or the cosines and sines of a rotary table.
        tables: computes the table of a request.
    """
    if all((each.values == each.values.flat[0]).all() for each in inputs.arrays.values()):
        return Identification("none", notes=("all elements are equal, as in many tables",))
    search = Search(inputs, tables)
    verdicts = search.matches(inputs)
    narrow = None if any(map(is_exact, verdicts)) else narrowed(inputs)
    if narrow is not None:
        verdicts = [*verdicts, *search.matches(narrow)]
    if not verdicts and all(match.agreeing < _NEAR for match in search.near):
        verdicts = search.matches(inputs, is_transposed=True) or search.matches_of_parts(inputs)
    if verdicts:
        return _identification(ranked(verdicts), tables)
    single = without_copies(inputs)
    if single is not None:
        one_copy, axis = single
        identification = identify(one_copy, tables)
        count = inputs.sample.shape[axis]
        note = f"axis {axis} repeats one array {count} times; the report describes one copy"
        return replace(identification, notes=(*identification.notes, note))
    return Identification("none", nearest=_nearest(search), notes=_notes(inputs))


def _identification(hypotheses: tuple[Verdict, ...], tables: Tables) -> Identification:
    first = hypotheses[0]
    rivals = [verdict for verdict in hypotheses[1:] if is_rival(first, verdict)]
    if not rivals:
        return Identification("identified", hypotheses)
    count = 1 + len(rivals)
    if all(are_alike(first.proposal.request, each.proposal.request, tables) for each in rivals):
        note = f"{count} URLs describe the same table: all elements are equal"
        return Identification("identified", hypotheses, notes=(note,))
    note = f"{count} tables match this array, but their next rows differ"
    return Identification("ambiguous", hypotheses, notes=(note,))


def _nearest(search: Search) -> Verdict | None:
    match = max(search.near, key=lambda each: each.agreeing, default=None)
    if match is None or match.agreeing < _LEAST_AGREEING:
        return None
    return verdict_of(match)


def _notes(inputs: IdentifyInput) -> tuple[str, ...]:
    """Return a sentence with the index of the first non-finite element, if there is one."""
    for sample in inputs.arrays.values():
        if not sample.is_finite:
            index = ", ".join(map(str, np.argwhere(~np.isfinite(sample.values))[0]))
            return (
                f"the first non-finite element has the index {index} (axes of length 1 left out)",
            )
    return ()
