"""Parameters of axial rotary tables, under the names of the libraries that make them."""

from typing import Any, Literal

from pydantic import Field

from service.grammar import Boolean, Integer, Real
from service.routes.axis_positions import AxisParameters
from service.routes.parameters import Integers, Reals, impossible
from service.routes.rope_packs import PackParameters
from service.tables.axes import AngleRounding
from service.tables.axial import CONVENTIONS
from service.tables.document import ParameterValue
from service.tables.limits import MAX_AXES_CHANNELS, MAX_FACTOR, MAX_SCALED_BASE, MIN_FACTOR

AXES = "nthw"
"""The axes of a grid, of which one of fewer has the last."""


def _each(description: str, example: str) -> Any:
    return Field(
        default=None,
        max_length=len(AXES),
        description=f"{description} One number for every axis, or one for all.",
        examples=[example],
    )


# What means the same as nothing.
_AS_UNLESS_GIVEN = ("ij", "separate")


class AxialParameters(PackParameters, AxisParameters):
    """Parameters of an axial rotary table."""

    convention: Literal[
        "qwen2_vl",
        "pixtral",
        "llama4",
        "dinov3",
        "timm",
        "timm_pixels",
        "rotary_embedding_torch",
        "rotary_embedding_torch_pixel",
        "rotary_embedding_torch_constant",
        "diffusers_2d",
        "lumina",
        "cogvideox",
        "allegro",
        "flux",
        "minimax_m3",
    ] = Field(
        description="Whose table it is: "
        + "; ".join(f"{name} ({convention.source})" for name, convention in CONVENTIONS.items()),
        examples=["qwen2_vl"],
    )
    head_dim: Integer | None = Field(
        default=None,
        ge=2,
        le=MAX_AXES_CHANNELS,
        multiple_of=2,
        description="Channels that turn, of all axes together; the sum of axes_dim unless given.",
        examples=[64],
    )
    axes_dim: Integers | None = Field(
        default=None,
        max_length=len(AXES),
        description="Channels of each axis, in the order of the channels; by the convention "
        "unless given.",
        examples=["16,56,56"],
    )
    grid: Integers | None = Field(
        default=None,
        max_length=len(AXES),
        description="Tokens along each axis, as height and width or time, height and width; the "
        "last runs fastest. Required unless positions are given.",
        examples=["4,6"],
    )
    spatial_merge_size: Integer | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Tokens come in blocks of so many rows and columns, as vision towers that "
        "merge patches have them (Qwen-VL: 2); row by row unless given.",
        examples=[2],
    )
    grid_indexing: Literal["ij", "xy"] | None = Field(
        default=None,
        description="xy has the first two axes change places in the channels, where ij leaves "
        "them in the order of the grid.",
        examples=["xy"],
    )
    rope_theta: Real | None = Field(
        default=None,
        gt=1,
        le=MAX_SCALED_BASE,
        description="Base of the frequencies, or of the periods; by the convention unless given.",
        examples=[10000],
    )
    inv_freq: Reals | None = Field(
        default=None,
        max_length=MAX_AXES_CHANNELS // 2,
        description="The frequencies of every axis outright, in radians per coordinate: an "
        "engine's own, as of weights that hold rounded periods.",
        examples=["1,0.1"],
    )
    grid_offset: Reals | None = _each("What is added to coordinates.", "0.5")
    reference_grid: Reals | None = _each("The grid that coordinates are scaled to.", "16,16")
    grid_start: Reals | None = _each("The first coordinate; 0 unless given.", "0,0")
    grid_stop: Reals | None = _each(
        "Where coordinates end, itself left out; the number of tokens unless given.", "30,45"
    )
    interpolation_scale: Reals | None = _each("What coordinates are divided by.", "1,2,2")
    normalize_coords: Literal["separate", "max", "min"] | None = Field(
        default=None,
        description="The side that is 2 long: each its own, the longer or the shorter.",
        examples=["max"],
    )
    min_period: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="The shortest period, with max_period in place of rope_theta.",
        examples=[0.5],
    )
    max_period: Real | None = Field(
        default=None, ge=MIN_FACTOR, le=MAX_FACTOR, description="The longest period.", examples=[20]
    )
    max_freq: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="Twice the highest band (max_res of timm); by the convention unless given.",
        examples=[256],
    )
    linear_bands: Boolean | None = Field(
        default=None,
        description="Whether bands are evenly spaced, not in equal ratios; by the convention "
        "unless given.",
        examples=[True],
    )
    class_token: Literal["first", "last"] | None = Field(
        default=None,
        description="Where there is one more token, at position 0 of every axis.",
        examples=["last"],
    )
    angle: AngleRounding = Field(
        default="exact",
        description="exact, or float32: frequencies and angles rounded as engines do.",
        examples=["float32"],
    )

    @property
    def channels(self) -> int:
        """How many channels turn, of all axes together."""
        if self.head_dim is not None:
            return self.head_dim
        if self.axes_dim is None:
            raise impossible("head_dim", None, "head_dim is required, unless axes_dim is given")
        return sum(self.axes_dim)

    def canonical(self) -> dict[str, ParameterValue]:
        """Spell what fixes the angles; what the convention gives is spelled, too."""
        convention = CONVENTIONS[self.convention]
        spelled: dict[str, ParameterValue] = {
            "convention": self.convention,
            "head_dim": self.channels,
        }
        defaults: dict[str, ParameterValue] = {}
        series = None if self.inv_freq is not None else convention.series
        if series in {"geometric", "periods"} and self.min_period is None:
            defaults["rope_theta"] = convention.rope_theta
        if series == "pixels":
            defaults["max_freq"] = convention.max_freq
            defaults["linear_bands"] = convention.linear_bands
        if convention.offset and self.grid is not None:
            defaults["grid_offset"] = (float(convention.offset),)
        names = (
            "axes_dim",
            "grid",
            *(f"positions_{axis}" for axis in AXES[1:]),
            "spatial_merge_size",
            "grid_indexing",
            "rope_theta",
            "inv_freq",
            "min_period",
            "max_period",
            "max_freq",
            "linear_bands",
            "grid_offset",
            "reference_grid",
            "grid_start",
            "grid_stop",
            "interpolation_scale",
            "normalize_coords",
            "class_token",
        )
        for name in names:
            value: Any = getattr(self, name)
            value = defaults.get(name) if value is None else value
            if value not in {None, *_AS_UNLESS_GIVEN}:
                spelled[name] = str(value) if name.startswith("positions") else value
        return spelled
