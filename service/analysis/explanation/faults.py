"""Every number against a candidate: which are wrong, what is wrong with them, and how to say it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.arithmetic import Waves, mismatches
from service.analysis.explanation.candidates import Candidate
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.places import Finding, placed
from service.analysis.explanation.sampling import Reading
from service.analysis.explanation.views import Numbers, View
from service.numerics.dtypes import DType

Compare: TypeAlias = Callable[[View, Waves, DType], list[Numbers]]
"""Returns where cosines, and where sines, differ from waves: ``mismatches`` of an arithmetic."""

IsNear: TypeAlias = Callable[[View, Waves, DType], bool]
"""Returns whether numbers, in the type in which they were sent, are all near waves."""

_BLOCK_ELEMENTS = 2**18
# Numbers beyond these are no sines.
_HUGE, _TINY = 1e3, 1e-30
# A pair within this of the size 1 is a cosine and a sine.
_TURNING = 1e-3
# So many of the wrong numbers are looked at.
_MOST_NUMBERS = 2**15


@dataclass(frozen=True, eq=False)
class Faults:
    """The numbers that differ from a candidate, as masks (S, K); at least one is true.

    Attributes:
        cosines, sines: where these do.
        copies: where copies differ from each other, and where zeros are not.
    """

    cosines: NDArray[np.bool_]
    sines: NDArray[np.bool_]
    copies: NDArray[np.bool_]

    @cached_property
    def all(self) -> NDArray[np.bool_]:
        together: NDArray[np.bool_] = self.cosines | self.sines | self.copies
        return together

    @cached_property
    def place(self) -> Finding:
        """The place of all, and whether only cosines, sines, or copies of them differ."""
        found = placed(self.all)
        counts = {name: int(getattr(self, name).sum()) for name in ("cosines", "sines", "copies")}
        parts = [name for name, count in counts.items() if count]
        text, values = found.text, found.values
        if len(parts) == 1:
            (part,) = parts
            noun = {"cosines": "cosine", "sines": "sine", "copies": "second copy"}[part]
            text = f"the {noun if found.name == 'element' else f'{noun}s'} of {text}"
            text, values = text.replace("copys", "copies"), {**values, "part": part}
        numbers = sum(counts.values())
        if found.name in {"rows", "lanes"} and _has_holes(self.all):
            text, values = f"{text}: {numbers} numbers", {**values, "numbers": numbers}
        return Finding(found.name, text, values)


def _has_holes(bad: NDArray[np.bool_]) -> bool:
    """Return whether most pairs of the rows and lanes that have faults are right."""
    rows, lanes = (int(np.count_nonzero(bad.any(axis=axis))) for axis in (1, 0))
    return 2 * int(bad.sum()) < rows * lanes


def faults(
    reading: Reading,
    candidate: Candidate,
    dtype: DType,
    *,
    compare: Compare = mismatches,
    is_near: IsNear | None = None,
    offset: int = 0,
    only_copies: bool = False,
) -> Faults | None:
    """Return where numbers differ from a candidate, looking at every one; None if nowhere.

    Args:
        reading: the numbers.
        candidate: what they should be.
        dtype: their type.
        compare: the comparison.
        is_near: a quicker comparison, of all numbers at once, that may be less exact.
        offset: the number of rows by which sines are ahead of cosines.
        only_copies: whether all cosines and sines are known to agree.
    """
    view = reading.view
    shape = (view.rows, view.count)
    found: dict[str, NDArray[np.bool_]] = {}

    def note(part: str, block: slice, differs: NDArray[np.bool_]) -> None:
        if differs.any():
            mask = found.setdefault(part, np.zeros(shape, dtype=np.bool_))
            mask[block, : differs.shape[1]] |= differs[:, : view.count]

    for one, other in view.rest:
        for block in _blocks(view.rows, one.shape[1]):
            same = (one[block] != one[block]) & (other[block] != other[block])
            note("copies", block, (one[block] != other[block]) & ~same)
    for block in () if only_copies else _blocks(*shape):
        waves = moved_sines(reading.waves(candidate, block), offset)
        if is_near is not None and is_near(view.part(block, reading.sample.slack), waves, dtype):
            continue
        part = replace(view.at(block), slack=reading.sample.slack)
        for name, bad in differing(part, waves, dtype, compare):
            note(name, block, bad)
    if not found:
        return None
    none = np.zeros(shape, dtype=np.bool_)
    return Faults(*(found.get(name, none) for name in ("cosines", "sines", "copies")))


def moved_sines(waves: Waves, offset: int) -> Waves:
    """Return waves whose sines are those of other rows: of row s + offset beside row s."""
    return replace(waves, sine_places=waves.places + offset) if offset else waves


def differing(
    view: View, waves: Waves, dtype: DType, compare: Compare = mismatches
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield where cosines, and where sines, differ from waves, with the name of each."""
    names = [
        name for name, part in (("cosines", view.cosine), ("sines", view.sine)) if part is not None
    ]
    with np.errstate(all="ignore"):
        found = compare(view, waves, dtype)
    for name, part, bad in zip(names, view.parts, found, strict=True):
        yield name, bad | ~np.isfinite(part)


def _blocks(rows: int, width: int) -> Iterator[slice]:
    length = max(1, _BLOCK_ELEMENTS // max(width, 1))
    for start in range(0, rows, length):
        yield slice(start, min(start + length, rows))


def of_length(axis: str, have: int, want: int, **more: Any) -> Mistake:
    """Return the mistake that an axis, whose name is in the plural, has another length."""
    name, variant = ("longer", "") if have > want else ("truncated", "one" if have == 1 else "")
    values = {"axis": axis, "have": have, "want": want, **more}
    return mistake(name, None, values, variant=variant)


def but_for(mistakes: Sequence[Mistake], found: Faults) -> Finding:
    """Return what explains most numbers, and where those lie that it does not explain."""
    return with_mistakes(mistakes, found.place)


def with_mistakes(mistakes: Sequence[Mistake], place: Finding) -> Finding:
    """Return that mistakes, or none, explain all but a place."""
    if not mistakes:
        return Finding(place.name, f"right but for {place.text}", place.values)
    sentences = " ".join(each.sentence for each in mistakes)
    text = f"{sentences} This explains all numbers but for {place.text}"
    return Finding(place.name, text, {**place.values, "mistakes": named(mistakes)})


def named(mistakes: Sequence[Mistake]) -> list[Mapping[str, Any]]:
    """Return mistakes with their values, as JSON has them."""
    return [{"name": each.name, **each.values} for each in mistakes]


def kinds(view: View, bad: NDArray[np.bool_] | None) -> Iterator[Finding]:
    """Yield what wrong numbers are: NaN, zero, or memory that nobody wrote.

    Args:
        view: all rows.
        bad: which numbers are wrong, (S, K); None for all.
    """
    lost = np.zeros((view.rows, view.count), dtype=np.bool_)
    for part in view.parts:
        finite = np.isfinite(part)
        if not finite.all():
            lost[:, : part.shape[1]] |= ~finite
    if lost.any():
        place = placed(lost)
        values = {**place.values, "place": place.name}
        yield Finding("not-finite", f"NaN or infinity in {place.text}", values)
    wrong = ~lost if bad is None else bad & ~lost
    rows = slice(None, None, 1 + int(wrong.sum()) // _MOST_NUMBERS)
    chosen = wrong[rows]
    some = np.concatenate(
        [np.abs(part[rows][chosen[:, : part.shape[1]]]).astype(np.float64) for part in view.parts]
    )
    if not len(some):
        return
    if not some.any():
        if bad is None and not any(one.any() or other.any() for one, other in view.rest):
            count = sum(part.size for part in view.parts)
            yield Finding("zero", "all numbers are zero", {"count": count})
        else:
            text = "the numbers that are wrong are zero"
            yield Finding("zero", text, {"count": len(some)})
        return
    strange = (some > _HUGE) | ((some < _TINY) & (some > 0))
    if view.is_paired:
        # Beside a 1, a number near 0 is the cosine or the sine of an angle.
        one, other = np.split(some, 2)
        strange &= np.tile(np.abs(np.hypot(one, other) - 1) > _TURNING, 2)
    if strange.mean() > 0.002 and strange.sum() > 1:
        share = float(f"{strange.mean():.3g}")
        sizes = some[strange]
        large, small = f"larger than {_HUGE:.0f}", f"smaller than {_TINY:g}"
        text = f"{100 * share:.3g} % of the numbers are {small if sizes.max() < 1 else large}"
        name = "sizes"
        if sizes.min() < 1 < sizes.max():
            # Bytes of something else, read as numbers, have all sizes.
            name = "uninitialised"
            text = (
                f"the numbers look like memory that was never written: {100 * share:.3g} % of them "
                f"are {large} or {small}"
            )
        values = {"share": share, "largest": float(f"{some.max():.3g}")}
        yield Finding(name, f"{text}, the largest {some.max():.3g}", values)
