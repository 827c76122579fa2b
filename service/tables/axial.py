"""Axial rotary tables: tokens of images and videos, whose channels are shared out to axes.

A convention says which axis comes first in the channels, how many frequencies each gets, in which
order they lie, which series they are, and where on an axis the tokens are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from service.tables.angle import Int64s
from service.tables.axes import AngleRounding, Axis, RowPositions
from service.tables.document import ParameterValue
from service.tables.frequencies import FrequencyRule, Geometric
from service.tables.grid import Picked
from service.tables.turns import Turns, rounding_parameters

Share: TypeAlias = Literal["equal", "video", "thirds"]
Placing: TypeAlias = Literal["blocks", "alternating", "dealt"]
Series: TypeAlias = Literal["geometric", "periods", "pixels", "ones"]
Places: TypeAlias = Literal["counted", "spread", "pixels", "centred"]


@dataclass(frozen=True)
class Convention:
    """How a library or a model makes an axial table.

    Attributes:
        axes: how many axes the grid may have.
        series: which frequencies an axis has.
        places: where on an axis the tokens are.
        source: library and version.
        is_reversed: whether the last axis of the grid comes first in the channels.
        share: how the channels are shared out.
        placing: whether the frequencies of an axis lie together, take turns with those of the
            others, or lie together and were dealt in turn from one series for all.
        rope_theta: the base unless given.
        offset: what is added to the coordinates unless given.
        max_freq: twice the highest band of pixels unless given.
        linear_bands: whether bands of pixels are evenly spaced unless given.
        repeats_frames: whether a third axis, of time, repeats the table of one frame.
    """

    axes: tuple[int, ...]
    series: Series
    places: Places
    source: str
    is_reversed: bool = False
    share: Share = "equal"
    placing: Placing = "blocks"
    rope_theta: float = 10000.0
    offset: int = 0
    max_freq: float = 224.0
    linear_bands: bool = False
    repeats_frames: bool = False

    def widths(self, head_dim: int, axes: int) -> tuple[int, ...]:
        """Give the channels of each axis, in the order of the channels."""
        if self.share == "video":
            return head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3
        if self.share == "thirds":
            return (2 * (head_dim // axes // 2),) * axes
        return (head_dim // axes,) * axes


CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "qwen2_vl": Convention(
            (2,),
            "geometric",
            "counted",
            "transformers 5.23.0 Qwen2-VL vision and its kin",
            repeats_frames=True,
        ),
        "pixtral": Convention(
            (2,), "geometric", "counted", "transformers 5.23.0 Pixtral", placing="dealt"
        ),
        "llama4": Convention(
            (2,),
            "geometric",
            "counted",
            "vLLM 0.33.0 llama4_vision_rope.py",
            is_reversed=True,
            offset=1,
        ),
        "dinov3": Convention(
            (2,), "periods", "centred", "dinov3 commit 6876159, timm 1.0.31", rope_theta=100.0
        ),
        "timm": Convention((2, 1, 3), "geometric", "counted", "timm 1.0.31, in_pixels=False"),
        "timm_pixels": Convention((2, 1, 3), "pixels", "pixels", "timm 1.0.31, in_pixels=True"),
        "rotary_embedding_torch": Convention(
            (2, 1, 3, 4), "geometric", "counted", "rotary-embedding-torch 0.9.1, freqs_for=lang"
        ),
        "rotary_embedding_torch_pixel": Convention(
            (2, 1, 3, 4),
            "pixels",
            "pixels",
            "rotary-embedding-torch 0.9.1, freqs_for=pixel",
            max_freq=10.0,
            linear_bands=True,
        ),
        "rotary_embedding_torch_constant": Convention(
            (2, 1, 3, 4), "ones", "counted", "rotary-embedding-torch 0.9.1, freqs_for=constant"
        ),
        "diffusers_2d": Convention(
            (2,),
            "geometric",
            "spread",
            "diffusers 0.42.1 get_2d_rotary_pos_embed",
            is_reversed=True,
        ),
        "lumina": Convention(
            (2,),
            "geometric",
            "counted",
            "diffusers 0.42.1 get_2d_rotary_pos_embed_lumina",
            placing="alternating",
        ),
        "cogvideox": Convention(
            (3,), "geometric", "spread", "diffusers 0.42.1 get_3d_rotary_pos_embed", share="video"
        ),
        "allegro": Convention(
            (3, 1), "geometric", "spread", "diffusers 0.42.1 get_3d_rotary_pos_embed_allegro"
        ),
        "flux": Convention((3, 2, 1, 4), "geometric", "counted", "diffusers 0.42.1 FluxPosEmbed"),
        "minimax_m3": Convention(
            (3,), "geometric", "counted", "transformers 5.23.0 MiniMax-M3 vision", share="thirds"
        ),
    }
)


@dataclass(frozen=True)
class AxialTurns(Turns):
    """Frequencies shared out to the axes of a grid.

    Attributes:
        axes: what turns with what.
        tokens: how many there are.
        spelled: canonical parameters.
        rounding: of the angles.
    """

    axes: tuple[Axis, ...]
    tokens: int
    spelled: Mapping[str, ParameterValue]
    rounding: AngleRounding = "exact"

    @property
    def count(self) -> int:
        """Frequencies in a row."""
        return sum(len(axis.places) for axis in self.axes)

    @property
    def rows(self) -> int:
        """Rows: one for each token."""
        return self.tokens

    @property
    def scale(self) -> float:
        """None: images have no attention factor."""
        return 1.0

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell convention and grid."""
        return {**self.spelled, **rounding_parameters(self.rounding)}

    def along(self) -> tuple[Axis, ...]:
        """Let each frequency turn with the position of its axis."""
        return self.axes


def placed(
    rules: Sequence[FrequencyRule], positions: Sequence[RowPositions], placing: Placing
) -> tuple[Axis, ...]:
    """Lay the frequencies of axes out in a row, in blocks or in turns."""
    axes, first = [], 0
    for index, (rule, along) in enumerate(zip(rules, positions, strict=True)):
        places = range(first, first + rule.count)
        if placing == "alternating":
            places = range(index, index + rule.count * len(rules), len(rules))
        axes.append(Axis(rule, along, tuple(places)))
        first += rule.count
    return tuple(axes)


def dealt(rope_theta: float, head_dim: int, axes: int) -> tuple[FrequencyRule, ...]:
    """Deal the frequencies of one series over the whole head to axes in turn."""
    count = head_dim // 2
    series = Geometric(rope_theta, head_dim, count)
    return tuple(Picked(series, tuple(range(axis, count, axes))) for axis in range(axes))


@dataclass(frozen=True)
class WithClassToken:
    """Positions of tokens, and 0 for one more: a class token, before or after them.

    Attributes:
        positions: those of the other tokens.
        rows: how many of them there are.
        is_first: whether it comes before them.
    """

    positions: RowPositions
    rows: int
    is_first: bool

    @property
    def farthest(self) -> int:
        """The largest magnitude of them."""
        return self.positions.farthest

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions of the rows start to stop, shape (stop - start,)."""
        shift = 1 if self.is_first else 0
        first, last = max(start - shift, 0), min(stop - shift, self.rows)
        others = self.positions.at(first, max(first, last))
        before = np.zeros(max(0, min(shift, stop) - start), dtype=np.int64)
        after = np.zeros(stop - start - len(before) - len(others), dtype=np.int64)
        return np.concatenate([before, others, after])
