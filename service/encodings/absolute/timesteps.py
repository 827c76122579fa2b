"""Embeddings of diffusion timesteps: sinusoids of real positions with the library's own spacing."""

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from service.encodings.family import (
    ChannelCount,
    RealDType,
    Reals,
    TableFamily,
    about,
    impossible,
    optional,
)
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.limits import MAX_FACTOR, MAX_LENGTH, MAX_SCALED_BASE, MIN_FACTOR
from service.numerics.phase import (
    MAX_FREQUENCY,
    ConstantFrequencies,
    Decimals,
    FrequencyRule,
    ScaledFrequencies,
    exact_arithmetic,
    powers,
)
from service.numerics.phasors import Channels, Component, sinusoid_table
from service.numerics.positions import (
    MIN_REAL_POSITION,
    AnyPositions,
    Positions,
    RealPositions,
    Run,
)
from service.numerics.tables import Table

_USUAL_PERIOD, _MIN_PERIOD = 10000.0, 1 / MAX_SCALED_BASE


class TimestepEmbedding(TableFamily, path="/encoding/timesteps"):
    """A row of sinusoids for each timestep.

    Formula: sin(s·t·ω_k) and then cos(s·t·ω_k), or the cosines first where flipped, with s = scale,
        ω_k = exp(−ln(max_period)·k/(n − downscale_freq_shift)) and n = ⌊d_model/2⌋; an odd d_model
        ends with a channel of zeros. A negative scale negates the timesteps, exactly.
    Source: "Denoising Diffusion Probabilistic Models" (Ho et al. 2020); diffusers 0.42.1
        ``get_timestep_embedding``.
    Bound: 5u, u = 2^-53, at whole timesteps and u at others, before the one rounding to the element
        type; where the angle is below 1, also 6u of the value's own size. Timesteps are within
        ±2^62, and 0 or at least 1e-30 in size; a scale is 0 or 1e-9 to 1e9 in size; frequencies
        times the scale lie between 1e-251 and 1e18.
    Trap: the defaults are those of DDPM (sines first, shift 1); Stable Diffusion was trained with
        flip_sin_to_cos=true and downscale_freq_shift=0. With as many frequencies as the shift
        (d_model=2 and the default) the library divides by zero and returns NaN; the service refuses
        it.
    """

    example: ClassVar[str] = "timesteps=0,2.5,999&d_model=4&downscale_freq_shift=0"
    array: ClassVar[str] = "timesteps"

    timesteps: Reals | None = optional(
        "Timesteps, which may be fractions; or give num_timesteps.", "0,2.5,999"
    )
    num_timesteps: Integer | None = optional(
        "Number of timesteps 0, 1, ….", 1000, ge=1, le=MAX_LENGTH
    )
    d_model: ChannelCount
    flip_sin_to_cos: Boolean = about("Put the cosines first.", True, default=False)
    downscale_freq_shift: Real = about(
        "Subtracted from the number n of frequencies in the exponent k/(n - shift).",
        0,
        default=1.0,
    )
    scale: Real = about(
        "Multiplies every timestep; of either sign, or 0.",
        1,
        default=1.0,
        ge=-MAX_FACTOR,
        le=MAX_FACTOR,
    )
    max_period: Real = about(
        "Base of the series of frequencies, which rise if it is below 1.",
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
        steps = RealPositions(listed)
        if steps.out_of_range is not None:
            rule = f"timesteps must lie within ±2^62, and be 0 or {MIN_REAL_POSITION:g} at least"
            raise impossible("timesteps", steps.out_of_range, f"{rule} in size")
        return steps

    def table(self) -> Table:
        steps = _negated(self.steps) if self.scale < 0 else self.steps
        self._check_frequencies()
        parts: tuple[Component, Component] = (
            ("cos", "sin") if self.flip_sin_to_cos else ("sin", "cos")
        )
        width = self.d_model
        channels = Channels(parts, interleaved=False, width=width, zeros=width % 2)
        shape = steps.count, width
        return sinusoid_table(self._scaled(), channels, steps, self.element_type, shape)

    @property
    def _rule(self) -> "TimestepFrequencies":
        count = max(1, self.d_model // 2)
        return TimestepFrequencies(self.max_period, self.downscale_freq_shift, count)

    def _scaled(self) -> FrequencyRule:
        """Return the frequencies times the scale; with a scale of 0 all angles are 0."""
        if self.scale == 0:
            return ScaledFrequencies(ConstantFrequencies(self._rule.count), Fraction(0))
        size = abs(self.scale)
        return self._rule if size == 1 else ScaledFrequencies(self._rule, Fraction(size))

    def _check_frequencies(self) -> None:
        shift, count = self.downscale_freq_shift, self.d_model // 2
        if count and shift == count:
            rule = (
                f"downscale_freq_shift must not be {count}, the number of frequencies of d_model="
                f"{self.d_model}: the exponent k/(n - shift) divides by zero"
            )
            raise impossible("downscale_freq_shift", shift, rule)
        if 0 < abs(self.scale) < MIN_FACTOR:
            rule = f"scale must be 0, or {MIN_FACTOR:g} at least in size"
            raise impossible("scale", self.scale, rule)
        if not self._rule.has_exact_angles(self.scale):
            span = to_query(count - shift)
            rule = f"the frequencies |scale|·max_period^(-k/{span}) must lie within 1e-251 and 1e18"
            name = self._out_of_range()
            raise impossible(name, getattr(self, name), rule)

    def _out_of_range(self) -> str:
        """Return the parameter that makes frequencies too fast or too slow."""
        if self._rule.has_exact_angles(1.0):
            return "scale"
        usual = replace(self._rule, max_period=_USUAL_PERIOD)
        return "max_period" if usual.has_exact_angles(1.0) else "downscale_freq_shift"


def _negated(steps: AnyPositions) -> AnyPositions:
    if isinstance(steps, RealPositions):
        return RealPositions(tuple(0.0 - value for value in steps.values))
    return Positions.of_runs(Run(-run.first, -run.step, run.count) for run in steps.runs)


# Times the last bit of the smallest real position it stays in the range of phases.
_MIN_FREQUENCY = 1e-251

# More than the logarithm of any ratio between two frequencies in the range of phases.
_LARGEST_LOGARITHM = 2000


@dataclass(frozen=True)
class TimestepFrequencies:
    """The frequencies exp(−ln(max_period)·k/(count − shift)) for k = 0 … count − 1.

    Attributes:
        max_period: positive; below 1 the frequencies rise.
        shift: not equal to count, unless that is 1.
        count: the number of frequencies, at least 1.
    """

    max_period: float
    shift: float
    count: int

    @exact_arithmetic
    def exact(self) -> Decimals:
        return powers(self._logarithm().exp(), self.count)

    @exact_arithmetic
    def has_exact_angles(self, scale: float) -> bool:
        """Return whether they have exact angles, times a scale and at any real position."""
        if scale == 0:
            return True
        logarithm = self._logarithm() * (self.count - 1)
        if abs(logarithm) > _LARGEST_LOGARITHM:
            return False
        size = Decimal(abs(scale))
        ends = size, logarithm.exp() * size
        return Decimal(_MIN_FREQUENCY) <= min(ends) <= max(ends) <= Decimal(MAX_FREQUENCY)

    def _logarithm(self) -> Decimal:
        """Return the logarithm of the ratio between a frequency and the next; 0 without a next."""
        if self.count == 1:
            return Decimal(0)
        return Decimal(self.max_period).ln() / (Decimal(self.shift) - self.count)
