"""The conventions of axial rotary tables: the order of axes, their channels and coordinates.

CONVENTIONS lists all of them: the values of the parameter ``convention``, the documentation and the
refusals of parameters are generated from its entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

Share: TypeAlias = Literal["equal", "video", "thirds", "rest"]
Placing: TypeAlias = Literal["blocks", "alternating", "strided"]
Series: TypeAlias = Literal["geometric", "periods", "pixels", "ones", "rising"]
Places: TypeAlias = Literal[
    "counted", "spread", "pixels", "centred", "timed", "halves", "floored", "fractions"
]

PARAMETERS_OF_PLACES: Mapping[Places, tuple[str, ...]] = {
    "counted": ("grid_offset", "grid_step", "reference_grid"),
    "spread": ("grid_start", "grid_stop", "reference_grid"),
    "pixels": ("grid_offset",),
    "centred": ("grid_offset", "normalize_coords"),
    "timed": ("grid_offset", "grid_step", "fps"),
    "halves": ("grid_offset",),
    "floored": ("reference_grid",),
    "fractions": ("grid_offset", "grid_step", "fps", "reference_grid"),
}
COUNTED: frozenset[Places] = frozenset({"counted", "halves", "timed"})
"""The places whose coordinates are integers, which may be given."""
PARAMETERS_OF_SERIES: Mapping[Series, tuple[str, ...]] = {
    "geometric": ("rope_theta", "ntk_scale"),
    "periods": ("rope_theta", "min_period", "max_period"),
    "pixels": ("max_freq", "linear_bands"),
    "ones": (),
    "rising": ("rope_theta",),
}


@dataclass(frozen=True)
class AxialConvention:
    """A published convention of axial rotary tables.

    Attributes:
        source: the library and its version.
        formula: text for the documentation: the order of the axes in the channels, the frequencies
            ω_k of an axis with w channels (k = 0, 1, …; b = rope_theta) and the coordinates.
        axes: the accepted numbers of grid axes.
        series: the name of the formula of an axis's frequencies.
        places: the name of the formula of the coordinates of tokens along an axis.
        is_reversed: whether the first two grid axes are swapped in the channels.
        share: the rule that divides the channels of a head among the axes.
        placing: the order of frequencies in the channels. blocks: contiguous for each axis;
            alternating: one frequency of each axis in turn; strided: contiguous for each axis, and
            axis a of n axes has the frequencies a, a + n, a + 2n, … of one series over the head.
        rope_theta: the default base.
        offset: the default number added to coordinates.
        max_freq: the default of max_freq, twice the highest band.
        linear_bands: the default of linear_bands: whether bands are evenly spaced.
        repeats_frames: whether a third axis, time, repeats the table of one frame.
        halves_axes: whether the halves of a pack are those of each axis, [t, t, h, h, w, w].
        is_padded: whether pairs that do not rotate precede those of the axes, up to head_dim.
        base_fps: the frames per second at which time is counted as 0, 1, …
        reference: the default of reference_grid.
        has_midpoints: whether a token is in the middle between its coordinate and the next.
        example: the example query, without the parameter ``convention``.
        published: the sizes of a published model.
        models: names of models with such a table.
    """

    source: str
    formula: str
    axes: tuple[int, ...] = (2,)
    series: Series = "geometric"
    places: Places = "counted"
    is_reversed: bool = False
    share: Share = "equal"
    placing: Placing = "blocks"
    rope_theta: float = 10000.0
    offset: int = 0
    max_freq: float = 224.0
    linear_bands: bool = False
    repeats_frames: bool = False
    halves_axes: bool = False
    is_padded: bool = False
    base_fps: int = 1
    reference: tuple[int, ...] = ()
    has_midpoints: bool = False
    example: str = "head_dim=8&grid=2,3"
    published: str = ""
    models: str = ""

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the parameters that its coordinates and its frequencies accept."""
        return *PARAMETERS_OF_PLACES[self.places], *PARAMETERS_OF_SERIES[self.series]

    def refused_axes(self, name: str, axes: int) -> str:
        """Return the rule that refuses a number of axes, for the convention's name."""
        counts = " or ".join(map(str, sorted(self.axes)))
        return f"convention={name} has {counts} axes, not {axes}"

    def widths(self, head_dim: int, axes: int) -> tuple[int, ...]:
        """Return the number of channels of each axis, in the order of the axes in the channels."""
        if self.share == "video":
            return head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3
        if self.share == "thirds":
            return (2 * (head_dim // axes // 2),) * axes
        if self.share == "rest":
            return head_dim - 4 * (head_dim // 6), *(2 * (head_dim // 6),) * 2
        return (head_dim // axes,) * axes


_TIMM_AXES = (2, 1, 3)
_ANY_AXES = (2, 1, 3, 4)

_LTX = AxialConvention(
    "diffusers 0.42.1 LTXVideoRotaryPosEmbed",
    "axes t, h, w, alternating from one frequency to the next, with n = ⌊head_dim/6⌋ "
    "frequencies each, after pairs that do not rotate; ω_k = π·b^(k/(n − 1)); coordinates "
    "max(i·grid_step + grid_offset, 0)/reference_grid − ½, where fps divides t first; "
    "head_dim counts the channels of all heads, which one table serves",
    axes=(3, 1),
    series="rising",
    places="fractions",
    share="thirds",
    placing="alternating",
    is_padded=True,
    reference=(20, 2048, 2048),
    example="head_dim=14&grid=1,1,2&grid_step=8,32,32&fps=25",
    published="head_dim=2048&grid_step=8,32,32&fps=25",
    models="LTX-Video",
)

CONVENTIONS: Mapping[str, AxialConvention] = {
    "qwen2_vl": AxialConvention(
        "transformers 5.23.0 Qwen2-VL vision and its kin",
        "axes h, w; ω_k = b^(−2k/w); coordinates 0, 1, …; a third grid axis, frames, "
        "repeats the table of one frame",
        repeats_frames=True,
        models="qwen2_5_vl qwen3_vl glm4v",
    ),
    "pixtral": AxialConvention(
        "transformers 5.23.0 Pixtral",
        "axes h, w; frequencies b^(−2k/head_dim), one series for the head: h has the even k, "
        "w the odd k; coordinates 0, 1, …",
        placing="strided",
        models="mistral3",
    ),
    "llama4": AxialConvention(
        "transformers 5.23.0 Llama 4, Inkling 2 and Muse vision, vLLM 0.33.0 llama4_vision_rope.py",
        "axes w, h; ω_k = b^(−2k/w); coordinates 1, 2, …; class_token adds a token at 0, "
        "last in Llama 4; a third grid axis, frames, repeats the table of one frame",
        is_reversed=True,
        offset=1,
        repeats_frames=True,
    ),
    "dinov3": AxialConvention(
        "dinov3 commit 6876159, timm 1.0.31",
        "axes h, w; ω_k = 2π/period, periods b^(2k/w) with b = 100, or min_period to "
        "max_period; coordinates: centres of patches scaled to −1 to 1, by normalize_coords",
        series="periods",
        places="centred",
        rope_theta=100.0,
    ),
    "timm": AxialConvention(
        "timm 1.0.31, in_pixels=False",
        "axes h, w; ω_k = b^(−2k/w); coordinates 0, 1, …, or scaled to a reference_grid (EVA-02)",
        axes=_TIMM_AXES,
    ),
    "timm_pixels": AxialConvention(
        "timm 1.0.31, in_pixels=True",
        "axes h, w; ω_k from π·1 to π·max_freq/2 in equal ratios, or evenly with "
        "linear_bands=true; coordinates −1 to 1",
        axes=_TIMM_AXES,
        series="pixels",
        places="pixels",
    ),
    "rotary_embedding_torch": AxialConvention(
        "rotary-embedding-torch 0.9.1, freqs_for=lang",
        "axes as in the grid; ω_k = b^(−2k/w); coordinates 0, 1, …",
        axes=_ANY_AXES,
    ),
    "rotary_embedding_torch_pixel": AxialConvention(
        "rotary-embedding-torch 0.9.1, freqs_for=pixel",
        "axes as in the grid; ω_k evenly from π·1 to π·max_freq/2; coordinates −1 to 1",
        axes=_ANY_AXES,
        series="pixels",
        places="pixels",
        max_freq=10.0,
        linear_bands=True,
    ),
    "rotary_embedding_torch_constant": AxialConvention(
        "rotary-embedding-torch 0.9.1, freqs_for=constant",
        "axes as in the grid; ω_k = 1; coordinates 0, 1, …",
        axes=_ANY_AXES,
        series="ones",
    ),
    "diffusers_2d": AxialConvention(
        "diffusers 0.42.1 get_2d_rotary_pos_embed",
        "axes w, h; ω_k = b^(−2k/w); n coordinates evenly from grid_start to grid_stop·(n − 1)/n",
        places="spread",
        is_reversed=True,
    ),
    "lumina": AxialConvention(
        "diffusers 0.42.1 get_2d_rotary_pos_embed_lumina",
        "axes h, w, alternating from one frequency to the next; ω_k = b^(−2k/w); "
        "coordinates 0, 1, …",
        placing="alternating",
    ),
    "cogvideox": AxialConvention(
        "diffusers 0.42.1 get_3d_rotary_pos_embed",
        "axes t, h, w with 1/4, 3/8 and 3/8 of the channels; ω_k = b^(−2k/w); "
        "coordinates as diffusers_2d",
        axes=(3,),
        places="spread",
        share="video",
        example="head_dim=16&grid=1,2,2",
        models="Cog-VideoX",
    ),
    "allegro": AxialConvention(
        "diffusers 0.42.1 get_3d_rotary_pos_embed_allegro",
        "axes t, h, w, or a single axis; ω_k = b^(−2k/w); coordinates as diffusers_2d, "
        "divided by interpolation_scale; packs in halves have the halves of each axis side by "
        "side, [t, t, h, h, w, w]",
        axes=(3, 1),
        places="spread",
        halves_axes=True,
        example="head_dim=12&grid=1,2,2",
        published="head_dim=96",
    ),
    "flux": AxialConvention(
        "diffusers 0.42.1 FluxPosEmbed",
        "axes as in axes_dim; ω_k = b^(−2k/w); coordinates are the given positions",
        axes=(3, 2, 1, 4),
        example="axes_dim=2,4,4&positions_t=0,0&positions_h=0,1&positions_w=0,2",
        published="axes_dim=16,56,56",
        models="Hunyuan-Video Hunyuan-Image Motif-Video Lumina2 Z-Image Chroma Helios",
    ),
    "sam2": AxialConvention(
        "transformers 5.23.0 SAM 2, SAM 3 and EdgeTAM, Gemma 4 vision, Step-3.7 vision",
        "axes w, h; ω_k = b^(−2k/w); coordinates 0, 1, …, divided by interpolation_scale (SAM 3)",
        is_reversed=True,
    ),
    "kimi_k25": AxialConvention(
        "transformers 5.23.0 Kimi K2.5 vision",
        "axes w, h, alternating from one frequency to the next; ω_k = b^(−2k/w); "
        "coordinates 0, 1, …; a third grid axis, frames, repeats the table of one frame",
        placing="alternating",
        is_reversed=True,
        repeats_frames=True,
    ),
    "efficientloftr": AxialConvention(
        "transformers 5.23.0 EfficientLoFTR",
        "axes h, w, alternating from one frequency to the next; ω_k = b^(−2k/w); "
        "coordinates 1, 2, …",
        placing="alternating",
        offset=1,
    ),
    "minimax_m3": AxialConvention(
        "transformers 5.23.0 MiniMax-M3 vision, V-JEPA 2",
        "axes t, h, w with 2·⌊head_dim/6⌋ channels each; ω_k = b^(−2k/w); coordinates 0, 1, …",
        axes=(3,),
        share="thirds",
        example="head_dim=14&grid=1,2,2",
    ),
    "wan": AxialConvention(
        "diffusers 0.42.1 WanRotaryPosEmbed",
        "axes t, h, w; h and w have 2·⌊head_dim/6⌋ channels each, t the others; ω_k = b^(−2k/w); "
        "coordinates 0, 1, …",
        axes=(3,),
        share="rest",
        example="head_dim=14&grid=1,2,2",
        models="SkyReelsV2 Sana-Video",
    ),
    "cosmos": AxialConvention(
        "diffusers 0.42.1 CosmosRotaryPosEmbed",
        "axes t, h, w with the channels of wan; ω_k = B^(−2k/w) with B = b·ntk_scale^(w/(w − 2)); "
        "coordinates 0, 1, …; with fps t is i·24/fps",
        axes=(3,),
        places="timed",
        share="rest",
        base_fps=24,
        example="head_dim=14&grid=2,1,2&fps=30",
    ),
    "qwen_image": AxialConvention(
        "diffusers 0.42.1 QwenEmbedRope, scale_rope",
        "axes t, h, w as in axes_dim; ω_k = b^(−2k/w); t is 0, 1, …; h and w are −⌈n/2⌉ … "
        "⌊n/2⌋ − 1 for n rows or columns",
        axes=(3,),
        places="halves",
        example="axes_dim=2,4,4&grid=1,2,3",
        published="axes_dim=16,56,56",
    ),
    "cogview4": AxialConvention(
        "diffusers 0.42.1 CogView4RotaryPosEmbed",
        "axes h, w; ω_k = b^(−2k/w); coordinates ⌊i·R/n⌋ of n, with R = reference_grid",
        places="floored",
        reference=(256, 256),
    ),
    "ltx": _LTX,
    "ltx2": replace(
        _LTX,
        source="diffusers 0.42.1 LTX2AudioVideoRotaryPosEmbed",
        formula="as ltx; the coordinate of a token is the mean of ltx's for it and for the next; "
        "with one axis, of audio or of time alone, n = ⌊head_dim/2⌋",
        has_midpoints=True,
        example="head_dim=14&grid=2,1,1&grid_step=8,32,32&grid_offset=-7,0,0&fps=24",
        published="grid_step=8,32,32&grid_offset=-7,0,0&fps=24",
        models="LTX2-Video",
    ),
}

if TYPE_CHECKING:
    ConventionName: TypeAlias = str
else:
    ConventionName: TypeAlias = Literal[tuple(CONVENTIONS)]
