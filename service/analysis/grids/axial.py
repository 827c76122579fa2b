"""``/rope/axial``: rotary tables of images and videos, whose frequencies are shared out to axes.

Which frequencies turn along which axis of a grid says which conventions share them out so; how fast
they turn, and from where on, says what these must have been given.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from service.analysis.call import Call
from service.analysis.grids.axial_packs import Packed, packed
from service.analysis.grids.axial_places import fits
from service.analysis.grids.axial_shares import Made, Shares, Values
from service.analysis.grids.axial_tokens import AxialTokens, axial_tokens
from service.analysis.grids.grid_series import AxisTurns, axis_turns
from service.analysis.grids.grid_ways import nearest
from service.analysis.question import Proposal, Question, Turning
from service.analysis.waves import Complexes
from service.tables.axial import CONVENTIONS, Convention
from service.tables.dtypes import FLOAT32

_MOST = 24

# Who has the first two axes change places; what others would make of it, some other has as its own.
_INDEXED = frozenset(("timm", "timm_pixels", "dinov3"))


def propose(question: Question) -> Iterator[Proposal]:
    """Propose the axial tables that an array, or two, may be."""
    given: list[Call] = []
    for table in packed(question):
        if table.scale != 1.0:
            continue
        known = len(given)
        for tokens in axial_tokens(table.turns, table.rounding):
            # A first token at 0 is like a class token: only where there is no other way.
            if tokens.class_token is not None and len(given) > known:
                break
            for proposal in _of_tokens(table, tokens):
                if proposal.call not in given:
                    given.append(proposal.call)
                    yield proposal
                if len(given) == _MOST:
                    return


def _of_tokens(table: Packed, tokens: AxialTokens) -> Iterator[Proposal]:
    found: list[tuple[int, Proposal]] = []
    measured = _Measured(tokens, table.rounding)
    for name, convention in CONVENTIONS.items():
        if len(tokens.lengths) not in convention.axes:
            continue
        if tokens.frames > 1 and not convention.repeats_frames:
            continue
        for own, shares, axis_of in _shared(name, tokens, measured):
            for made in _nearest(shares, tokens, axis_of, table.rounding):
                values: Values = {**own, **made.values}
                proposal = _proposal(name, values, made, shares, (table, tokens, axis_of))
                found.append((len(repr(values)), proposal))
    # What is asked for with fewer words is plainer.
    yield from (proposal for _, proposal in sorted(found, key=lambda each: each[0]))


class _Measured:
    """Measures frequencies along an axis, the same ones once."""

    def __init__(self, tokens: AxialTokens, rounding: float) -> None:
        self._tokens, self._rounding = tokens, rounding
        self._of = lru_cache(maxsize=None)(self._measure)

    def along(self, axis: int, places: tuple[int, ...]) -> AxisTurns | None:
        """Measure some of the frequencies."""
        return self._of(axis, places)

    def _measure(self, axis: int, places: tuple[int, ...]) -> AxisTurns | None:
        return axis_turns(self._tokens.lines[axis][:, list(places)], self._rounding)


@dataclass(frozen=True)
class _Share:
    own: Values
    widths: tuple[int, ...]
    order: tuple[int, ...]
    axis_of: NDArray[np.intp]


def _shared(
    name: str, tokens: AxialTokens, measured: _Measured
) -> Iterator[tuple[Values, Shares, NDArray[np.intp]]]:
    """Share the frequencies out as a convention may, where those of an axis turn along it only."""
    for share in _shares(name, tokens):
        if not tokens.may_be(share.axis_of):
            continue
        turns = []
        for axis in share.order:
            places = tuple(np.flatnonzero(share.axis_of == axis).tolist())
            turns.append(measured.along(axis, places) if places else None)
        known = tuple(each for each in turns if each is not None)
        if len(known) == len(turns):
            lengths = tuple(tokens.lengths[axis] for axis in share.order)
            own: Values = {**share.own, **tokens.parameters()}
            yield own, Shares(name, known, lengths, share.widths, share.order), share.axis_of


def _shares(name: str, tokens: AxialTokens) -> Iterator[_Share]:
    convention = CONVENTIONS[name]
    axes, count = len(tokens.lengths), tokens.count
    for indexing in ("ij", "xy"):
        order = tuple(range(axes))
        if convention.is_reversed != (indexing == "xy"):
            order = (*order[1::-1], *order[2:])
        if indexing == "xy" and (axes == 1 or name not in _INDEXED):
            return
        own: Values = {} if indexing == "ij" else {"grid_indexing": "xy"}
        usual = convention.widths(2 * count, axes)
        is_usual = sum(usual) == 2 * count and all(w >= 2 and w % 2 == 0 for w in usual)
        if is_usual or convention.placing == "dealt":
            yield _Share(own, usual, order, _axis_of(convention, usual, order, count))
        if convention.placing == "blocks" and convention.series == "geometric":
            widths = tokens.block_widths(order)
            if widths is not None and widths != usual:
                axis_of = _axis_of(convention, widths, order, count)
                yield _Share({**own, "axes_dim": widths}, widths, order, axis_of)


def _axis_of(
    convention: Convention, widths: tuple[int, ...], order: tuple[int, ...], count: int
) -> NDArray[np.intp]:
    """Say which axis of the grid each frequency turns along."""
    if convention.placing == "alternating":
        return np.array([order[k % len(order)] for k in range(count)])
    if convention.placing == "dealt":
        axes = len(order)
        return np.array([order[a] for a in range(axes) for _ in range(a, count, axes)])
    return np.array([axis for axis, w in zip(order, widths, strict=True) for _ in range(w // 2)])


def _nearest(
    shares: Shares, tokens: AxialTokens, axis_of: NDArray[np.intp], rounding: float
) -> Iterator[Made]:
    """Give what parameters make that is near the axes, the plainest of what is as near first."""
    made = list(fits(shares))
    apart = [_residual(each, shares, tokens, axis_of) for each in made]
    said = [repr(each.values) for each in made]
    yield from (made[way] for way in nearest(apart, said, rounding))


def _residual(made: Made, shares: Shares, tokens: AxialTokens, axis_of: NDArray[np.intp]) -> float:
    apart = 0.0
    for index, axis in enumerate(shares.order):
        line: Complexes = tokens.lines[axis][:, axis_of == axis]
        coordinates = made.firsts[index] + made.steps[index] * np.arange(len(line))
        expected = np.exp(1j * np.outer(coordinates, made.omega[index]))
        apart = max(apart, float(np.abs(line - expected).max(initial=0)))
    return apart


def _proposal(
    name: str,
    values: Values,
    made: Made,
    shares: Shares,
    found: tuple[Packed, AxialTokens, NDArray[np.intp]],
) -> Proposal:
    table, tokens, axis_of = found
    parameters: Values = {
        "convention": name,
        "head_dim": 2 * tokens.count,
        "grid": tokens.grid,
        **values,
    }
    if table.pack != "pair":
        parameters["pack"] = table.pack
    if table.dtype is not FLOAT32:
        parameters["dtype"] = table.dtype.name
    support = tuple(_support(shares, tokens))
    proposal = Proposal(Call("rope/axial", parameters), support)
    channels = table.channels()
    if not channels:
        return proposal
    omega = np.empty(tokens.count)
    coordinates = np.empty((tokens.rows, len(shares.order)))
    for index, axis in enumerate(shares.order):
        omega[axis_of == axis] = made.omega[index]
        coordinates[:, axis] = tokens.coordinates(axis, made.firsts[index], made.steps[index])
    turning = Turning(coordinates, tuple(axis_of.tolist()), omega, channels)
    return replace(proposal, turning=turning)


def _support(shares: Shares, tokens: AxialTokens) -> Iterator[str]:
    yield (
        "each frequency turns along one axis of a grid of "
        f"{' x '.join(map(str, tokens.grid))} tokens"
    )
    for axis, turns in zip(shares.order, shares.turns, strict=True):
        if turns.length > 1:
            yield (
                f"along axis {axis} {len(turns.rates)} frequencies turn, the first by "
                f"{turns.rates[0]:.7g} radians from token to token"
            )
