"""Parameters of the conventions of absolute encodings, under the names of who has them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, spelled
from service.routes.parameters import AbsoluteLayout, impossible
from service.tables.angle import MAX_FREQUENCY, MAX_POSITION
from service.tables.conventions import ALIASES, CONVENTIONS, Convention
from service.tables.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_FACTOR,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)
from service.tables.recipe import Recipe
from service.tables.recipes import bands, ends, recipe

# Slower ones, counted in the smallest fraction of a position there is, have no exact angle.
_SLOWEST_OF_FRACTIONS = 1e-250

_WHOSE = "; ".join(f"{name} ({convention.source})" for name, convention in CONVENTIONS.items())
_ALSO = ", ".join(f"{alias} ({name})" for alias, name in ALIASES.items())


class FrequencyParameters(Parameters):
    """Which convention's frequencies."""

    convention: Literal[
        "vaswani",
        "positional-encodings",
        "tensor2tensor",
        "tf-models",
        "fairseq",
        "m2m100",
        "xglm",
        "ddpm",
        "whisper",
        "marian",
        "mae",
        "diffusers",
        "x-transformers",
        "transformer-xl",
        "mlx",
        "perceiver",
        "keras",
        "xlm",
        "distilbert",
        "pegasus",
        "roformer",
        "speech-to-text",
        "xlnet",
    ] = Field(
        default="vaswani",
        description=f"Published recipe: {_WHOSE}. The same by another name: {_ALSO}.",
        examples=["vaswani"],
    )
    base: Real | None = Field(
        default=None,
        ge=1,
        le=MAX_BASE,
        description="Base n of the frequencies n^(-2i/d_model); 10000 unless given.",
        examples=[10000],
    )
    min_timescale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="What frequencies are multiplied by; 1 unless given (tensor2tensor).",
        examples=[1],
    )
    max_timescale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_SCALED_BASE,
        description="The base, by the name it has where frequencies are timescales.",
        examples=[10000],
    )
    min_freq: Real | None = Field(
        default=None,
        ge=1 / MAX_SCALED_BASE,
        le=MAX_FACTOR,
        description="The lowest frequency; 0.0001 unless given (mlx).",
        examples=[0.0001],
    )
    max_freq: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="The highest frequency; 1 unless given (mlx).",
        examples=[1],
    )
    full_turns: Boolean | None = Field(
        default=None, description="Whether frequencies count turns (mlx).", examples=[True]
    )
    max_resolution: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_FACTOR,
        description="Twice the highest of the bands, which begin at 1; required (perceiver).",
        examples=[224],
    )
    concat_pos: Boolean | None = Field(
        default=None,
        description="Whether a row begins with its place from -1 to 1; true unless given "
        "(perceiver).",
        examples=[False],
    )
    sine_only: Boolean | None = Field(
        default=None, description="Whether there are no cosines (perceiver).", examples=[True]
    )

    @property
    def recipe_name(self) -> str:
        """Name the convention by the one name that it goes by here."""
        return ALIASES.get(self.convention, self.convention)

    def recipe(self, d_model: int) -> Recipe:
        """Fill the convention in; raises InvalidParameters for what it does not have."""
        convention = CONVENTIONS[self.recipe_name]
        given = self._given()
        self._check_taken(convention, given)
        self._check_ends(convention, given)
        if convention.spacing == "bands":
            self._check_bands(d_model)
        else:
            _check_d_model(self.convention, convention, d_model)
        return recipe(self.recipe_name, d_model, given)

    def check_slowest(self) -> None:
        """Refuse frequencies that are too slow for fractions of a position."""
        given = self._given()
        between = ends(CONVENTIONS[self.recipe_name], given)
        if between.frequencies[0] < _SLOWEST_OF_FRACTIONS:
            names = (between.greatest_name, between.least_name)
            name = next(name for name in names if name in given)
            rule = f"frequencies below {_SLOWEST_OF_FRACTIONS:g} go with whole positions only"
            raise impossible(name, given[name], rule)

    def _given(self) -> Mapping[str, Any]:
        named = ((name, getattr(self, name, None)) for name in _NAMES)
        return {name: value for name, value in named if value is not None}

    def _check_taken(self, convention: Convention, given: Mapping[str, Any]) -> None:
        known = {*convention.takes, *(("base",) if convention.has_base else ()), "layout"}
        faults = [
            Fault(name, spelled(value), f"{name} does not go with convention={self.convention}")
            for name, value in given.items()
            if name not in known
        ]
        layout = given.get("layout", convention.layout)
        if layout != convention.layout and not (
            convention.is_free and self.convention in CONVENTIONS
        ):
            rule = f"convention={self.convention} is {convention.layout}"
            faults.append(Fault("layout", layout, rule))
        if faults:
            raise InvalidParameters(*faults)

    def _check_bands(self, d_model: int) -> None:
        if self.max_resolution is None:
            rule = f"max_resolution is required with convention={self.convention}"
            raise impossible("max_resolution", None, rule)
        has_coordinates = self.concat_pos is not False
        if not bands(d_model, concat_pos=has_coordinates, sine_only=bool(self.sine_only)):
            made = ("" if self.sine_only else "2·") + "num_bands" + (" + 1" * has_coordinates)
            rule = f"convention={self.convention} has {made} channels here, of one band or more"
            raise impossible("d_model", d_model, rule)

    def _check_ends(self, convention: Convention, given: Mapping[str, Any]) -> None:
        if "base" in given and "max_timescale" in given:
            rule = "base and max_timescale are the same: give one of them"
            raise impossible("base", self.base, rule)
        between = ends(convention, given)
        name = between.greatest_name if between.greatest_name in given else between.least_name
        if between.frequencies[1] > MAX_FREQUENCY:
            rule = f"frequencies must stay below {MAX_FREQUENCY:g}"
            raise impossible(name, given[name], rule)
        if between.least != 1 and between.greatest > MAX_SCALED_BASE:
            rule = f"{name} must be at most {MAX_SCALED_BASE:g} beside {between.least_name}"
            raise impossible(name, given[name], rule)


class ConventionParameters(FrequencyParameters):
    """Which convention, with everything that it lets one choose."""

    layout: AbsoluteLayout | None = Field(
        default=None,
        description="Sine and cosine in turn, or all sines and then all cosines; only vaswani "
        "leaves it open, and is interleaved unless told.",
        examples=["interleaved"],
    )
    cos_first: Boolean | None = Field(
        default=None, description="Whether cosines come before sines (mlx).", examples=[True]
    )
    flip_sin_to_cos: Boolean | None = Field(
        default=None, description="The same by another name (diffusers).", examples=[True]
    )
    scale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_ATTENTION_FACTOR,
        description="What sines and cosines are multiplied by; √(2/d_model) (mlx) or 1/√d_model "
        "(x-transformers) unless given.",
        examples=[1],
    )
    offset: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="What is added to a position to find its row; 0 (fairseq), padding_idx + 1 "
        "(m2m100) or 2 (xglm) unless given.",
        examples=[2],
    )
    padding_idx: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="The row that is zero, counted with the offset; 1 unless given (fairseq, "
        "m2m100, xglm).",
        examples=[1],
    )


_NAMES = (*(name for name in ConventionParameters.model_fields if name != "convention"),)


def _check_d_model(name: str, convention: Convention, d_model: int) -> None:
    if convention.odd == "refused" and d_model % 2:
        raise impossible("d_model", d_model, f"convention={name} has an even d_model only")
    if convention.width(d_model) < 1:
        raise impossible("d_model", d_model, f"convention={name} has no channels for it")
    if convention.span(d_model) == 0:
        rule = f"convention={name} divides by zero for so few channels: it takes 4 and more"
        raise impossible("d_model", d_model, rule)
