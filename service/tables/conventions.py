"""The sinusoids of libraries and models: one series of sines and cosines in many conventions.

A convention says how frequencies are spaced, in which order sines and cosines lie, what becomes of
an odd number of channels, and what rows count. Sources name library, version and function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

Spacing: TypeAlias = Literal["paired", "ends", "guarded_ends", "bands"]
Odd: TypeAlias = Literal["sine", "zero", "more", "fewer", "cut", "refused"]
Layout: TypeAlias = Literal["interleaved", "concatenated"]

_TIMESCALES = ("min_timescale", "max_timescale")
_ROWS = ("offset", "padding_idx")


@dataclass(frozen=True)
class Convention:
    """How a library or a model makes an absolute encoding.

    Attributes:
        source: library, version and name there.
        spacing: the exponent of frequency k of n: ``paired``, 2k/d, or ``ends``, k/(n − 1), from
            one end of the range to the other; ``guarded_ends`` has one frequency of 1 for n = 1.
            ``bands`` are no powers of a base, but evenly spaced.
        layout: what comes unless another layout is asked for.
        odd: what an odd d_model has: one sine more, a channel of zeros at the end, one channel
            more or fewer, the even table above it without its last channel, or no table at all.
        takes: parameters that it has beside base.
        is_free: whether another layout may be asked for.
        offset: what is added to positions unless given otherwise; None for what leads to the row
            after that of padding.
        skips_padding: whether tokens are numbered with padding left out of the count.
        padding_idx: the row, counted with the offset, that is zero unless given otherwise.
        scale: what the encoding is multiplied by unless given otherwise: the square root of this
            over d_model; None for 1.
    """

    source: str
    spacing: Spacing = "paired"
    layout: Layout = "concatenated"
    odd: Odd = "refused"
    takes: tuple[str, ...] = ()
    is_free: bool = False
    offset: int | None = 0
    padding_idx: int | None = None
    skips_padding: bool = False
    scale: int | None = None

    @property
    def has_bounds(self) -> bool:
        """Tell whether its frequencies lie between two that may be given."""
        return "max_freq" in self.takes

    @property
    def has_base(self) -> bool:
        """Tell whether its frequencies are powers of a base."""
        return self.spacing != "bands" and not self.has_bounds

    def count(self, d_model: int) -> int:
        """Count the frequencies of d_model channels."""
        if self.odd in {"sine", "more", "cut"}:
            return -(-d_model // 2)
        return d_model // 2

    def width(self, d_model: int) -> int:
        """Count the channels of the table that is asked for with d_model."""
        return d_model + {"more": 1, "fewer": -1}.get(self.odd, 0) * (d_model % 2)

    def zeros(self, d_model: int) -> int:
        """Count the channels of zeros at the end."""
        return d_model % 2 if self.odd == "zero" else 0

    def span(self, d_model: int) -> int:
        """Give s of the exponents 2k/s; 0 where the library divides by zero."""
        if self.spacing == "paired":
            return d_model + d_model % 2 if self.odd == "cut" else d_model
        steps = self.count(d_model) - 1
        return 2 * (max(steps, 1) if self.spacing == "guarded_ends" else abs(steps))


CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "vaswani": Convention(
            '"Attention Is All You Need" (2017), §3.5',
            layout="interleaved",
            odd="sine",
            is_free=True,
        ),
        "positional-encodings": Convention(
            "positional-encodings 6.0.3 PositionalEncoding1D", layout="interleaved", odd="cut"
        ),
        "tensor2tensor": Convention(
            "tensor2tensor 1.15.7 get_timing_signal_1d",
            spacing="guarded_ends",
            odd="zero",
            takes=_TIMESCALES,
        ),
        "tf-models": Convention(
            "tf-models-official 2.20.0 RelativePositionEmbedding",
            spacing="ends",
            odd="fewer",
            takes=_TIMESCALES,
        ),
        "fairseq": Convention(
            "fairseq 0.12.2 SinusoidalPositionalEmbedding.get_embedding",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            padding_idx=1,
            skips_padding=True,
        ),
        "m2m100": Convention(
            "transformers 5.23.0 M2M100SinusoidalPositionalEmbedding",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            offset=None,
            padding_idx=1,
            skips_padding=True,
        ),
        "xglm": Convention(
            "transformers 5.23.0 XGLMSinusoidalPositionalEmbedding",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            offset=2,
            padding_idx=1,
        ),
        "ddpm": Convention(
            "DDPM (Ho et al. 2020) get_timestep_embedding", spacing="ends", odd="zero"
        ),
        "whisper": Convention(
            "transformers 5.23.0 whisper sinusoids", spacing="ends", takes=("max_timescale",)
        ),
        "marian": Convention("transformers 5.23.0 MarianSinusoidalPositionalEmbedding", odd="sine"),
        "mae": Convention("mae commit efb2a80 get_1d_sincos_pos_embed_from_grid"),
        "diffusers": Convention(
            "diffusers 0.42.1 get_1d_sincos_pos_embed_from_grid", takes=("flip_sin_to_cos",)
        ),
        "x-transformers": Convention(
            "x-transformers 2.31.10 ScaledSinusoidalEmbedding", takes=("scale",), scale=1
        ),
        "transformer-xl": Convention(
            "transformer-xl commit 44781ed PositionalEmbedding", odd="more"
        ),
        "mlx": Convention(
            "mlx 0.32.4 SinusoidalPositionalEncoding",
            spacing="guarded_ends",
            takes=("min_freq", "max_freq", "full_turns", "cos_first", "scale"),
            scale=2,
        ),
        "perceiver": Convention(
            "transformers 5.23.0 PerceiverFourierPositionEncoding",
            spacing="bands",
            odd="sine",
            takes=("max_resolution", "concat_pos", "sine_only"),
        ),
    }
)

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "keras": "vaswani",
        "xlm": "vaswani",
        "distilbert": "vaswani",
        "pegasus": "marian",
        "roformer": "marian",
        "speech-to-text": "m2m100",
        "xlnet": "transformer-xl",
    }
)
"""Libraries and models whose convention goes by another's name: keras-hub 0.32.0
SinePositionEncoding, and classes of transformers 5.23.0."""
