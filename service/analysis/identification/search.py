"""Identify an array: rank the tables that reproduce it, or report the closest one.

Families propose tables for the array, for the array in the narrowest type that holds its numbers,
and for the array with its axes reversed. A ``Search`` compares the proposed tables with the array
until the work budget is spent.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, ProposalFamily, Sample, Tables
from service.analysis.explanation.sampling import ALL_ROWS
from service.analysis.families import (
    axial_tables,
    bands,
    grid_tables,
    index_matrices,
    kernel_biases,
    log_coordinates,
    mrope_sections,
    rotary_tables,
    shift_operators,
    sinusoid_tables,
    slope_biases,
)
from service.analysis.families.readings import RowReading, readings
from service.analysis.families.requests import digits_of
from service.analysis.identification.ranking import (
    CHANCE_DIGITS,
    are_alike,
    explains,
    form_of,
    is_exact,
    is_rival,
    ranked,
)
from service.analysis.identification.verification import (
    TableMatch,
    Verdict,
    compared,
    rank,
    verdict_of,
)
from service.analysis.precision import narrowest_dtype
from service.grammar import real_positions
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

RowFamily: TypeAlias = Callable[[IdentifyInput, Sequence[RowReading], slice], Iterator[Proposal]]

ROW_FAMILIES: tuple[RowFamily, ...] = (
    rotary_tables.propose_rotary_tables,
    sinusoid_tables.propose_sinusoids,
    sinusoid_tables.propose_relative,
    rotary_tables.propose_rotary_components,
)
"""Families of sines and cosines along the rows, measured in chosen rows."""

SINE_FAMILIES: tuple[ProposalFamily, ...] = (
    rotary_tables.propose_inverse_frequencies,
    rotary_tables.propose_angles,
    bands.propose_bands,
    bands.propose_band_frequencies,
    sinusoid_tables.propose_encoding_frequencies,
    shift_operators.propose_operators,
    shift_operators.propose_similarity,
    grid_tables.propose_grid,
    axial_tables.propose_axial,
    axial_tables.propose_axial_components,
    mrope_sections.propose_mrope,
)
"""Other families of sines and cosines, and of the frequencies and angles they are computed from."""

# The longest last axis, the keys, of an array that the distance families examine.
_MAX_KEYS = 2**20


def propose_distances(inputs: IdentifyInput) -> Iterator[Proposal]:
    """Yield index matrices and biases: their families reject other arrays at once."""
    if inputs.sample.values.shape[-1] <= _MAX_KEYS:
        yield from _proposals(DISTANCE_FAMILIES, inputs)


def propose_rows(inputs: IdentifyInput, chosen: slice = slice(None)) -> Iterator[Proposal]:
    """Yield tables of sines and cosines along the rows, measured in chosen rows."""
    if _may_have_sines(inputs):
        with np.errstate(all="ignore"):
            found = list(readings(inputs))
            proposals = [each for family in ROW_FAMILIES for each in family(inputs, found, chosen)]
        yield from proposals


def propose_others(inputs: IdentifyInput) -> Iterator[Proposal]:
    """Yield the other tables of sines and cosines."""
    if _may_have_sines(inputs):
        yield from _proposals(SINE_FAMILIES, inputs)


def _may_have_sines(inputs: IdentifyInput) -> bool:
    return inputs.sample.values.shape[-1] <= MAX_CHANNELS and not inputs.sample.is_integer


def _proposals(families: Iterable[ProposalFamily], inputs: IdentifyInput) -> Iterator[Proposal]:
    for family in families:
        # A family may compute inf or NaN from other arrays; it then proposes nothing.
        with np.errstate(all="ignore"):
            proposals = list(family(inputs))
        yield from proposals


STAGES: tuple[ProposalFamily, ...] = (propose_distances, propose_rows, propose_others)
"""The families by stages: once a stage has the table, later ones are not asked."""


def propose(inputs: IdentifyInput) -> Iterator[Proposal]:
    """Yield the proposals of all families that the array's dtype and last axis allow."""
    for stage in STAGES:
        yield from stage(inputs)


# Reverse the axes only if the last one has at most this many elements, the longest common context.
_MAX_REVERSED_ROWS = 2**17


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


def unstacked(inputs: IdentifyInput) -> Iterator[tuple[IdentifyInput, int]]:
    """Yield two arrays, cosines and sines, of an array that has an axis of length 2 for them.

    With each comes the index of that axis. Either may be first.
    """
    sample = inputs.sample
    if inputs.is_pair or sample.is_complex or sample.is_integer or sample.values.ndim != 3:
        return
    axes = [axis for axis, length in enumerate(sample.shape) if length != 1]
    for value_axis, axis in enumerate(axes[:-1]):
        if sample.shape[axis] != 2:
            continue
        parts = [
            replace(sample, values=part, shape=(*sample.shape[:axis], 1, *sample.shape[axis + 1 :]))
            for part in np.moveaxis(sample.values, value_axis, 0)
        ]
        for cos, sin in (parts, parts[::-1]):
            yield replace(inputs, arrays={"cos": cos, "sin": sin}), axis


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


MAX_SAMPLED = 160
MAX_VERIFIED = 12

# The budget, in table elements to compute: 5 times the array's elements plus a minimum.
_BUDGET_FACTOR = 5
_LEAST_BUDGET = 2**22

# An array that is exact, or made in float32, is not a table of other numbers.
_PLAIN_RANK = 2

# If a table agrees with this fraction of the sampled elements, no other view is searched.
_NEAR = 0.9
# Rows are measured again in these parts if wrong ones among them may have led astray.
_PARTS = (slice(0, 8), slice(8, 24), slice(24, 56), slice(-32, None))
_FEWEST_ROWS = 4


@dataclass(eq=False)
class Search:
    """A search for the tables that match an array, within a work budget.

    Attributes:
        inputs: the submitted array.
        tables: computes the table of a request.
        stages: yield proposals for an array or a view of it, stage by stage.
        sampled: how many more proposals may be compared on some rows.
        verified: how many more proposals may be compared on all rows.
        budget: how many more table elements may be computed.
        near: the comparisons of proposals that did not match.
    """

    inputs: IdentifyInput
    tables: Tables
    stages: Sequence[ProposalFamily] = STAGES
    sampled: int = MAX_SAMPLED
    verified: int = MAX_VERIFIED
    budget: int = field(init=False)
    near: list[TableMatch] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _found: set[Hashable] = field(default_factory=set)
    _bests: list[tuple[int, int]] = field(default_factory=list)
    _most_digits: float = inf
    _matches: dict[Hashable, TableMatch] = field(default_factory=dict)
    _verdicts: dict[Hashable, Verdict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.budget = _LEAST_BUDGET + _BUDGET_FACTOR * _size(self.inputs)

    def matches(self, inputs: IdentifyInput, *, is_transposed: bool = False) -> list[Verdict]:
        """Return the verdicts of the proposed tables that match every row.

        Args:
            inputs: the submitted array, or the array in a narrower dtype.
            is_transposed: whether to propose tables for the array with its axes reversed.
        """
        view = transposed(inputs) if is_transposed else inputs
        if view is None:
            return []
        for stage in self.stages:
            # A family may itself propose a table with its axes reversed.
            proposals = (
                replace(each, is_transposed=True) if is_transposed else each for each in stage(view)
            )
            verdicts = self.verified_matches(inputs, proposals)
            if verdicts:
                return verdicts
        return []

    def matches_of_parts(self, inputs: IdentifyInput) -> list[Verdict]:
        """Return the verdicts of the tables that are proposed from parts of the rows and match all.

        The search ends at the first part for which any proposal has the right shape.
        """
        if inputs.sample.is_integer or inputs.sample.values.ndim < 2:
            return []
        for part in _PARTS:
            before = len(self.near)
            verdicts = self.verified_matches(inputs, propose_rows(inputs, part))
            if verdicts:
                return verdicts
            if len(self.near) > before and max(each.agreeing for each in self.near) > _NEAR:
                break
        return []

    def verified_matches(
        self, inputs: IdentifyInput, proposals: Iterable[Proposal]
    ) -> list[Verdict]:
        """Return the verdicts of the proposals that match; add the others to ``near``."""
        verdicts = []
        for match in self._sampled_matches(inputs, proposals):
            if self._is_beaten(match):
                continue
            if match.agreeing == 1 and self.verified > 0 and self.budget > 0:
                self.verified -= 1
                verdict = self._verdict(inputs, match)
                if verdict.matches:
                    if rank(verdict.arithmetic[0]) <= _PLAIN_RANK:
                        self._found.add(form_of(match.proposal))
                    if is_exact(verdict):
                        most = digits_of(match.proposal.request) + CHANCE_DIGITS
                        self._most_digits = min(self._most_digits, most)
                    if explains(verdict):
                        verdicts.append(verdict)
                        digits = digits_of(match.proposal.request)
                        self._bests.append((rank(verdict.arithmetic[0]), digits))
                    continue
            self.near.append(match)
        return verdicts

    def _is_beaten(self, match: TableMatch) -> bool:
        """Return whether a table found has plainer parameters and a more exact arithmetic."""
        if match.agreeing < 1:
            return False
        own = rank(match.claims[0].arithmetic), digits_of(match.proposal.request)
        return any(best[0] < own[0] and best[1] < own[1] for best in self._bests)

    def _verdict(self, inputs: IdentifyInput, match: TableMatch) -> Verdict:
        """Return the verdict of a match; that of an equal table is known."""
        key = None if match.waves is None else (inputs.sample.element_dtype, match.key)
        known = self._verdicts.get(key) if key is not None else None
        if known is not None:
            return replace(known, proposal=match.proposal, document=match.document)
        self.budget -= _size(inputs)
        verdict = verdict_of(match, inputs, self.tables)
        if key is not None:
            self._verdicts[key] = verdict
        return verdict

    def _sampled_matches(
        self, inputs: IdentifyInput, proposals: Iterable[Proposal]
    ) -> Iterator[TableMatch]:
        """Yield comparisons of some rows with each new proposal, until the budget is spent."""
        for proposal in proposals:
            if self.sampled <= 0 or self.budget <= 0:
                return
            parameters = sorted(proposal.request.parameters.items())
            key = f"{proposal.is_transposed} {proposal.request.resource} {parameters}"
            if key in self._seen:
                continue
            self._seen.add(key)
            # The plainest numbers come first: others for them add nothing once these are exact.
            if form_of(proposal) in self._found or digits_of(proposal.request) > self._most_digits:
                continue
            self.sampled -= 1
            match = compared(inputs, proposal, self.tables, self._matches)
            if match is not None:
                share = min(1.0, ALL_ROWS / match.row_count)
                self.budget -= int(share * _size(inputs))
                yield match


def _size(inputs: IdentifyInput) -> int:
    return sum(sample.values.size for sample in inputs.arrays.values())


# Report the closest table only if it agrees with at least this fraction of the sampled elements.
_LEAST_AGREEING = 0.05
# A list of frequencies or factors agrees with whatever it was measured from; and no rows of a model
# are this far from position 0.
_LISTS = frozenset({"inv_freq", "freq_factors", "short_factor", "long_factor"})
_FARTHEST = 2**24


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
        other = Search(inputs, tables)
        verdicts = [*verdicts, *other.matches(narrow)]
        search.near += other.near
    if not verdicts and all(match.agreeing < _NEAR for match in search.near):
        verdicts = search.matches_of_parts(inputs) or search.matches(inputs, is_transposed=True)
    if verdicts:
        return _identification(ranked(verdicts), tables)
    single = without_copies(inputs)
    if single is not None:
        one_copy, axis = single
        identification = identify(one_copy, tables)
        count = inputs.sample.shape[axis]
        note = f"axis {axis} repeats one array {count} times; the report describes one copy"
        return replace(identification, notes=(*identification.notes, note))
    for pair, axis in unstacked(inputs):
        identification = identify(pair, tables)
        if identification.hypotheses:
            note = f"cosines and sines are stacked along axis {axis}; the report describes them"
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
    plausible = (each for each in search.near if _is_plausible(each.proposal))
    match = max(plausible, key=lambda each: each.agreeing, default=None)
    if match is None or match.agreeing < _LEAST_AGREEING:
        return None
    return verdict_of(match, search.inputs, search.tables)


def _is_plausible(proposal: Proposal) -> bool:
    """Return whether a table that does not match may still be what is meant."""
    given = proposal.request.parameters
    if _LISTS & given.keys():
        return False
    listed = real_positions(given["positions"]) if "positions" in given else None
    places = [float(str(given.get("start", 0)))] if listed is None else listed.at(0, listed.count)
    return float(np.abs(places).max()) <= _FARTHEST


def _notes(inputs: IdentifyInput) -> tuple[str, ...]:
    """Return a sentence with the index of the first non-finite element, if there is one."""
    for sample in inputs.arrays.values():
        if not sample.is_finite:
            index = ", ".join(map(str, np.argwhere(~np.isfinite(sample.values))[0]))
            return (
                f"the first non-finite element has the index {index} (axes of length 1 left out)",
            )
    return ()
