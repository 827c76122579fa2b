"""Arrays by the names that they have in dumps: the layer of each, and which go together.

A name is that of a module, as ``model.layers.3.self_attn.q_rotated`` or ``blk.3.q``. What was
rotated has the name of what it was before, and ``_rotated``; ``a.`` or another prefix tells engines
apart.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.errors import InvalidBody, shortened
from service.numerics.tables import StoredTable

_LAYER = re.compile(r"(?:^|\.)(?:layers?|blk|blocks?|h)\.([0-9]{1,6})\.(?=[^.])")
_ROTATED, _BEFORE = "_rotated", ("q", "k", "query", "key")
IN_DUMPS = rf"{_LAYER.pattern}|{_ROTATED}$|(?:^|\.)(?:{'|'.join(_BEFORE)})$"
"""The pattern of names in dumps, which examinations of one array do not have."""

INV_FREQ = "inv_freq"
"""The last part of the name of frequencies."""

_PART = re.compile(r"(?P<start>(?:.*_)?(?<!cos_)(?<!sin_))(?P<part>cos|sin)(?P<end>(?:_cached?)?)")


@dataclass(frozen=True)
class _Name:
    """A name of an array in parts.

    Attributes:
        sent: the name.
        layer: the number in it; None if there is none.
        pattern: the name with ``*`` for that number.
        last: its last part.
    """

    sent: str
    layer: int | None
    pattern: str
    last: str

    @classmethod
    def of(cls, sent: str) -> "_Name":
        found, last = _LAYER.search(sent), sent.rpartition(".")[2]
        if found is None:
            return cls(sent, None, sent, last)
        pattern = f"{sent[: found.start(1)]}*{sent[found.end(1) :]}"
        return cls(sent, int(found[1]), pattern, last)

    @property
    def path(self) -> str:
        """The pattern without the last part."""
        return self.pattern.removesuffix(self.last)

    @property
    def base(self) -> str | None:
        """The last part of the name of what was rotated to this; None if it is not rotated."""
        if self.last == "rotated":
            return "x"
        own = self.last.removesuffix(_ROTATED)
        return own if own and own != self.last else None


@dataclass(frozen=True)
class LayerArray:
    """An array to examine, with what goes with it.

    Attributes:
        name: the name that was sent.
        pattern: the name with ``*`` for the number of the layer.
        layer: that number; None if the name has none.
        arrays: by what they are: ``x`` and ``rotated``; ``cos`` and ``sin``, or one of these; or a
            table ``x``.
        axes: the names of the axes of ``x`` where positions are not the last but one; else empty.
    """

    name: str
    pattern: str
    layer: int | None
    arrays: Mapping[str, StoredTable]
    axes: tuple[str, ...] = ()

    @property
    def is_rotation(self) -> bool:
        return "rotated" in self.arrays

    @property
    def is_of_frequencies(self) -> bool:
        return self.name.rpartition(".")[2] == INV_FREQ


def is_in_dump(name: str) -> bool:
    """Return whether a name is that of an array in a dump."""
    return re.search(IN_DUMPS, name) is not None


def are_of_a_module(names: Iterable[str]) -> bool:
    """Return whether all names end as those of rotary modules: cosines, sines, frequencies."""
    lasts = [_Name.of(name).last for name in names]
    return all(_PART.fullmatch(last) or last == INV_FREQ for last in lasts)


def layer_arrays(arrays: Mapping[str, StoredTable]) -> list[LayerArray]:
    """Return the arrays to examine, those of the first layer first.

    Raises:
        InvalidBody: an array has none that it goes with, or it may go with several.
    """
    names = [_Name.of(name) for name in arrays]
    rotated = {own.sent: _before(own, names) for own in names if own.base is not None}
    used = {own.sent for own in rotated.values()}
    rest = [own for own in names if own.sent not in rotated and own.sent not in used]
    found = [
        LayerArray(
            own.sent,
            own.pattern,
            own.layer,
            {"x": arrays[rotated[own.sent].sent], "rotated": arrays[own.sent]},
        )
        for own in names
        if own.sent in rotated
    ]
    found += _tables(rest, arrays, has_rotated=bool(rotated))
    return sorted(found, key=lambda each: (-1 if each.layer is None else each.layer, each.name))


def _before(own: _Name, names: Sequence[_Name]) -> _Name:
    """Return the array that was rotated: of the same module, or the only one of the layer."""
    alike = [each for each in names if each.last == own.base]
    near = [each for each in alike if each.layer == own.layer]
    near = near or [each for each in alike if each.layer is None]
    same = [each for each in near if each.path == own.path] or near
    if len(same) == 1:
        return same[0]
    shown = shortened(own.sent)
    if not same:
        wanted = f"{own.sent.removesuffix(own.last)}{own.base}"
        raise InvalidBody(f"{shown} goes with {shortened(wanted)}: send both", f"/{shown}")
    several = ", ".join(shortened(each.sent) for each in same[:4])
    raise InvalidBody(f"{shown} may have been any of {several}: send one of them", f"/{shown}")


def _tables(
    rest: Iterable[_Name], arrays: Mapping[str, StoredTable], *, has_rotated: bool
) -> Iterator[LayerArray]:
    """Yield the tables: cosines with their sines, and single arrays."""
    parts: dict[tuple[str, str, str], dict[str, _Name]] = {}
    for own in rest:
        shown, part = shortened(own.sent), _PART.fullmatch(own.last)
        if own.last in _BEFORE or (has_rotated and own.last == "x"):
            raise InvalidBody(f"{shown} goes with {shown}{_ROTATED}: send both", f"/{shown}")
        if own.last.startswith("want"):
            raise InvalidBody(f"{shown} and model are both the expected table: send one of them")
        if part is None:
            yield LayerArray(own.sent, own.pattern, own.layer, {"x": arrays[own.sent]})
        else:
            place = own.sent.removesuffix(own.last), part["start"], part["end"]
            parts.setdefault(place, {})[part["part"]] = own
    for pair in parts.values():
        own = next(iter(pair.values()))
        held = {part: arrays[pair[part].sent] for part in sorted(pair)}
        yield LayerArray(own.sent, own.pattern, own.layer, held)


def layers_text(layers: Iterable[int]) -> str:
    """Return numbers of layers as text: ``0-4, 6``."""
    numbers = sorted(set(layers))
    edges = [place for place, (one, other) in enumerate(pairwise(numbers), 1) if other > one + 1]
    runs = (numbers[a:b] for a, b in pairwise([0, *edges, len(numbers)]) if a < b)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
