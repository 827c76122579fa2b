"""M-RoPE: the frequencies of one rule, each multiplied by one of several positions of a token.

"Qwen2-VL" (Wang et al. 2024), §2.1.

LAYOUTS lists which frequencies each axis has, by the name of the layout: the values of the
parameter ``mrope_layout``, the documentation and the refusals are generated from its entries.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from service.encodings.grid.grids import Tokens
from service.encodings.rotary.angles import AxesAngles
from service.encodings.rotary.rules import RotaryFrequencies
from service.numerics.axes import AngleRounding, Axis
from service.numerics.phase import Picked
from service.numerics.tables import ParameterValue

SEQUENCE_AXIS = "p"


def _chunked(section: tuple[int, ...], axes: str) -> str:
    return "".join(axis * length for axis, length in zip(axes, section, strict=True))


def _interleaved(section: tuple[int, ...], axes: str) -> str:
    cycle = (axes[k % 3] if k < 3 * section[k % 3] else axes[0] for k in range(sum(section)))
    return "".join(cycle)


def _pairs_first(section: tuple[int, ...], axes: str) -> str:
    return axes[:2] * section[0] + axes[2:] * sum(section[2:])


def _twice(section: tuple[int, ...], axes: str) -> str:
    return "".join(axis * 2 * length for axis, length in zip(axes, section, strict=True))


@dataclass(frozen=True)
class MropeLayout:
    """A published assignment of frequencies to axes.

    Attributes:
        source: the library and its version.
        formula: text for the documentation.
        axes: the names of the axes in the order of mrope_section; with fewer sections, the last
            ones.
        ids: the names in the order of the model's position_ids, where it is another.
        letters: returns the axis of each frequency, as a string with a letter for each, for a
            section and its axes.
        sections: the accepted lengths of mrope_section.
        first_two_equal: whether the first two sections must be equal.
        by_channel: whether it assigns channels instead: channel j of r has the frequency
            j mod r/2, and the two channels of a pair may have different axes.
    """

    source: str
    formula: str
    axes: str
    letters: Callable[[tuple[int, ...], str], str]
    sections: tuple[int, ...] = (3,)
    first_two_equal: bool = False
    by_channel: bool = False
    ids: str = ""

    def fault(self, section: tuple[int, ...], count: int) -> str | None:
        """Return what is wrong with a section for so many frequencies; None if nothing is."""
        numbers = " or ".join(map(str, self.sections))
        if len(section) not in self.sections or min(section) < 0 or sum(section) != count:
            return f"must be {numbers} numbers, none below 0, with a sum of {count}"
        if self.first_two_equal and section[0] != section[1]:
            return "must have two equal numbers first"
        return None

    def axes_of(self, section: tuple[int, ...]) -> str:
        """Return the axes of a section, in its order."""
        return self.axes[len(self.axes) - len(section) :]

    def ids_of(self, section: tuple[int, ...]) -> str:
        """Return the axes of a section, in the order of position_ids."""
        return self.ids or self.axes_of(section)

    def axis_of_each(self, section: tuple[int, ...]) -> str:
        """Return the axis of each frequency, or of each channel if by_channel."""
        return self.letters(section, self.axes_of(section))


LAYOUTS: Mapping[str, MropeLayout] = {
    "chunked": MropeLayout(
        "transformers 5.23.0 Qwen2-VL and its kin",
        "the first section of frequencies has axis t, the next h, the last w",
        "thw",
        _chunked,
    ),
    "interleaved": MropeLayout(
        "transformers 5.23.0 Qwen3-VL and its kin",
        "frequency k has axis h if k mod 3 is 1 and k < 3·section[1], w if k mod 3 is 2 and "
        "k < 3·section[2], otherwise t",
        "thw",
        _interleaved,
    ),
    "ernie4_5_vl": MropeLayout(
        "transformers 5.23.0 ERNIE 4.5 VL",
        "the section is h,w,t: h and w alternate, then come the frequencies of t",
        "hwt",
        _pairs_first,
        first_two_equal=True,
        ids="thw",
    ),
    "neomme": MropeLayout(
        "transformers 5.23.0 NeoMME",
        "the section is h,w: even frequencies have axis h, odd ones w",
        "hw",
        _pairs_first,
        sections=(2,),
        first_two_equal=True,
    ),
    "hunyuan_vl": MropeLayout(
        "transformers 5.23.0 HunYuan-VL, xdrope",
        "the section is p,w,h,t or w,h,t, of the 2·n channels [f, f] of n frequencies: the first "
        "2·section[0] channels have axis p, and so on, so that the two channels of a pair differ",
        "pwht",
        _twice,
        sections=(3, 4),
        by_channel=True,
    ),
}

if TYPE_CHECKING:
    MropeLayoutName: TypeAlias = str
else:
    MropeLayoutName: TypeAlias = Literal[tuple(LAYOUTS)]


def mrope_angles(
    rule: RotaryFrequencies,
    section: tuple[int, ...],
    tokens: Tokens,
    rounding: AngleRounding = "exact",
    *,
    layout: str,
) -> AxesAngles:
    """Return the angles of M-RoPE: each frequency times one of the positions of its row.

    Args:
        rule: the frequencies.
        section: the numbers of frequencies of the axes, whose sum is that of the rule.
        tokens: the positions of each token along each axis.
        rounding: how angles are rounded.
        layout: a key of LAYOUTS.
    """
    count, chosen = rule.count, LAYOUTS[layout]
    names = chosen.axis_of_each(section)
    axes = []
    for start in range(0, len(names), count):
        for axis in dict.fromkeys(chosen.axes_of(section)):
            places = tuple(k for k in range(start, start + count) if names[k] == axis)
            if places:
                picked = Picked(rule, tuple(k - start for k in places))
                axes.append(Axis(picked, tokens.axes[axis], places))
    order: dict[str, ParameterValue] = {"mrope_layout": layout}
    if layout in {"chunked", "interleaved"}:
        order = {"mrope_interleaved": layout == "interleaved"}
    canonical = {**rule.parameters(), "mrope_section": section, **order, **tokens.canonical}
    by_channel = chosen.by_channel
    return AxesAngles(tuple(axes), tokens.shape, canonical, rounding, rule.scale, by_channel)
