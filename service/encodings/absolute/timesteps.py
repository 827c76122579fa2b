"""Embeddings of diffusion timesteps: sinusoids of real numbers, with diffusers' frequencies."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from service.encodings.family import (
    ChannelCount,
    ChannelTable,
    RealDType,
    Reals,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import ChannelColumns, Meaning
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.limits import MAX_FACTOR, MAX_LENGTH, MAX_SCALED_BASE, MIN_FACTOR
from service.numerics.phase import (
    MAX_FREQUENCY,
    ConstantFrequencies,
    FrequencyRule,
    ScaledFrequencies,
    exact_arithmetic,
    exact_series,
    powers,
)
from service.numerics.phasors import Channels, Component, sinusoid_table
from service.numerics.positions import (
    MIN_REAL_POSITION,
    AnyPositions,
    Positions,
    RealPositions,
    first_out_of_range,
)
from service.numerics.tables import Table

_USUAL_PERIOD, _MIN_PERIOD = 10000.0, 1 / MAX_SCALED_BASE


class TimestepEmbedding(ChannelTable, path="/encoding/timesteps"):
    """A row of sinusoids for each timestep, as for Stable Diffusion: (timesteps, d_model).

    Formula: sin(s·t·ω_k) for all k, then cos(s·t·ω_k), with s = scale, n = ⌊d_model/2⌋ and
        ω_k = exp(−ln(max_period)·k/(n − downscale_freq_shift)), k = 0 … n − 1; with
        flip_sin_to_cos=true the cosines come first; an odd d_model has a last channel of zeros.
    Source: "Denoising Diffusion Probabilistic Models" (Ho et al. 2020); diffusers 0.42.1
        ``get_timestep_embedding``.
    Bound: 5u, u = 2^-53, at whole timesteps and u at others, before the single rounding to the
        element type; for angles below 1, also 6u relative. Timesteps are 0 or 1e-30 to 2^62 in
        size; a scale is 0 or 1e-9 to 1e9 in size; frequencies times the scale are between 1e-251
        and 1e18.
    Trap: the defaults are those of DDPM (sines first, shift 1); Stable Diffusion was trained with
        flip_sin_to_cos=true and downscale_freq_shift=0. If the shift equals n (d_model=2 with the
        default shift), the library divides by zero and returns NaN; the service refuses it.
    """

    example: ClassVar[str] = "timesteps=0,2.5,999&d_model=4&downscale_freq_shift=0"
    models: ClassVar[str] = "musicgen musicgen_melody sdxl"
    array: ClassVar[str] = "timesteps"

    timesteps: Reals | None = optional(
        "The timesteps, which may be fractions; required unless num_timesteps is given.",
        "0,2.5,999",
    )
    num_timesteps: Integer | None = optional(
        "In place of timesteps: the timesteps are 0 … num_timesteps - 1.",
        1000,
        ge=1,
        le=MAX_LENGTH,
    )
    d_model: ChannelCount
    flip_sin_to_cos: Boolean = about("Whether the cosines come first.", True, default=False)
    downscale_freq_shift: Real = about(
        "The shift in the exponent k/(n - shift) of frequency k of n.",
        0,
        default=1.0,
    )
    scale: Real = about(
        "Factor of every timestep; it may be negative or 0.",
        1,
        default=1.0,
        ge=-MAX_FACTOR,
        le=MAX_FACTOR,
    )
    max_period: Real = about(
        "Base of the frequencies max_period^(-k/(n - shift)); below 1, frequencies rise with k.",
        10000,
        default=_USUAL_PERIOD,
        ge=_MIN_PERIOD,
        le=MAX_SCALED_BASE,
    )
    dtype: RealDType = "float32"

    @property
    def axes(self) -> tuple[str, ...]:
        return ("timestep", "channel")

    @cached_property
    def steps(self) -> AnyPositions:
        """The timesteps; raises InvalidParameters if one is out of range."""
        listed, count = self.timesteps, self.num_timesteps
        if listed is None:
            if count is None:
                rule = "give timesteps, or num_timesteps for 0, 1, …"
                raise impossible("timesteps", None, rule)
            return Positions.contiguous(0, count)
        if count is not None:
            raise impossible("num_timesteps", count, "num_timesteps does not go with timesteps")
        steps = np.array(listed)
        if (invalid := first_out_of_range(steps)) is not None:
            rule = f"timesteps must be 0, or {MIN_REAL_POSITION:g} to 2^62 in size"
            raise impossible("timesteps", invalid, rule)
        return RealPositions(steps)

    def table(self) -> Table:
        steps = _negated(self.steps) if self.scale < 0 else self.steps
        self._check_frequencies()
        shape = steps.count, self.d_model
        return sinusoid_table(self._scaled(), self.row_channels, steps, self.element_type, shape)

    @property
    def row_channels(self) -> Channels:
        """The order of sines and cosines in a row."""
        parts: tuple[Component, Component] = (
            ("cos", "sin") if self.flip_sin_to_cos else ("sin", "cos")
        )
        return Channels(parts, interleaved=False, width=self.d_model, zeros=self.d_model % 2)

    def meaning(self) -> Meaning:
        return Meaning(ChannelColumns.of(self.row_channels), (-1, 1))

    @property
    def _rule(self) -> "TimestepFrequencies":
        count = max(1, self.d_model // 2)
        return TimestepFrequencies(self.max_period, self.downscale_freq_shift, count)

    def _scaled(self) -> FrequencyRule:
        """Return the frequencies times |scale|."""
        if self.scale == 0:
            return ScaledFrequencies(ConstantFrequencies(self._rule.count), Fraction(0))
        size = abs(self.scale)
        return self._rule if size == 1 else ScaledFrequencies(self._rule, Fraction(size))

    def _check_frequencies(self) -> None:
        shift, count = self.downscale_freq_shift, self.d_model // 2
        if count and shift == count:
            rule = (
                f"downscale_freq_shift must not be {count}, the number of frequencies for d_model="
                f"{self.d_model}: the exponent k/(n - shift) divides by zero"
            )
            raise impossible("downscale_freq_shift", shift, rule)
        if 0 < abs(self.scale) < MIN_FACTOR:
            rule = f"scale must be 0, or at least {MIN_FACTOR:g} in size"
            raise impossible("scale", self.scale, rule)
        if not self._rule.has_exact_angles(self.scale):
            span = to_query(count - shift)
            rule = f"the frequencies |scale|·max_period^(-k/{span}) must be 1e-251 to 1e18"
            name = self._out_of_range()
            raise impossible(name, getattr(self, name), rule)

    def _out_of_range(self) -> str:
        """Return the name of the parameter that makes frequencies too high or too low."""
        if self._rule.has_exact_angles(1.0):
            return "scale"
        usual = replace(self._rule, max_period=_USUAL_PERIOD)
        return "max_period" if usual.has_exact_angles(1.0) else "downscale_freq_shift"


def _negated(steps: AnyPositions) -> AnyPositions:
    if isinstance(steps, RealPositions):
        return RealPositions(0.0 - steps.numbers)
    first, step, more = steps.columns
    return Positions.of_columns(-first, -step, more)


# This frequency times the last bit of the smallest timestep is still in the range of phases.
_MIN_FREQUENCY = 1e-251

# It exceeds the logarithm of the ratio between any two frequencies in the range of phases.
_LARGEST_LOGARITHM = 2000


@dataclass(frozen=True)
class TimestepFrequencies:
    """The frequencies exp(−ln(max_period)·k/(count − shift)) for k = 0 … count − 1.

    Attributes:
        max_period: the base, above 0; below 1 the frequencies rise with k.
        shift: the shift of the denominator; it differs from count, unless count is 1.
        count: the number of frequencies, at least 1.
    """

    max_period: float
    shift: float
    count: int

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        yield from powers(self._logarithm().exp(), self.count)

    @exact_arithmetic
    def has_exact_angles(self, scale: float) -> bool:
        """Return whether the frequencies times scale are in range for every timestep."""
        if scale == 0:
            return True
        logarithm = self._logarithm() * (self.count - 1)
        if abs(logarithm) > _LARGEST_LOGARITHM:
            return False
        size = Decimal(abs(scale))
        ends = size, logarithm.exp() * size
        return Decimal(_MIN_FREQUENCY) <= min(ends) <= max(ends) <= Decimal(MAX_FREQUENCY)

    def _logarithm(self) -> Decimal:
        """Return ln(ω_1/ω_0), the same for each next frequency; 0 if there is one frequency."""
        if self.count == 1:
            return Decimal(0)
        return Decimal(self.max_period).ln() / (Decimal(self.shift) - self.count)
