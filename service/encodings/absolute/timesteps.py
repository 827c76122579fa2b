"""Embeddings of diffusion timesteps: sinusoids of real positions with the library's own spacing.

With n = ⌊d_model/2⌋ frequencies the angles are

    scale · t · ω_k        ω_k = exp(−ln(max_period) · k / (n − downscale_freq_shift))

("Denoising Diffusion Probabilistic Models", Ho et al. 2020; diffusers 0.42.1
``get_timestep_embedding``.) Sines come first, then cosines, or the other way round where flipped;
an odd d_model ends with a channel of zeros. A negative scale negates the timesteps, exactly. Every
value is within 5·2^-53 of these formulas before it is rounded once to its element type.

``/encoding/timesteps``: embeddings of diffusion timesteps.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from pydantic import Field

from service.delivery.resources import Resource
from service.encodings.fields import (
    ArrayParameters,
    RealDType,
    Reals,
    d_model_field,
    dtype_field,
    impossible,
)
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics import frequencies as scaling
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import REAL_DTYPES, DType
from service.numerics.frequencies import (
    ConstantFrequencies,
    Decimals,
    FrequencyRule,
    ScaledFrequencies,
)
from service.numerics.limits import MAX_FACTOR, MAX_LENGTH, MAX_SCALED_BASE, MIN_FACTOR
from service.numerics.phase import MAX_FREQUENCY, exact_context
from service.numerics.phasors import Channels, Component, PhasorTable
from service.numerics.positions import Positions, Run
from service.numerics.real_positions import (
    MIN_REAL_POSITION,
    AnyPositions,
    RealPhasorTable,
    RealPositions,
)
from service.numerics.tables import Table

MIN_TIMESTEP_FREQUENCY = 1e-251
"""Times the last bit of the smallest real position it stays in the range of phases."""

# More than that of any ratio between two frequencies in the range of phases.
_LARGEST_LOGARITHM = 2000


@dataclass(frozen=True)
class TimestepFrequencies:
    """The frequencies exp(−ln(max_period)·k/(count − shift)) for k = 0 … count − 1.

    Attributes:
        max_period: positive; below 1 the frequencies rise.
        shift: other than count, unless that is 1.
        count: how many there are, at least 1.
    """

    max_period: float
    shift: float
    count: int

    def exact(self) -> Decimals:
        """Evaluate them, in radians per timestep."""
        return scaling.powers(exact_context().exp(self._logarithm()), self.count)

    def are_within_phases(self, scale: float) -> bool:
        """Tell whether they have exact angles, times a scale and at any real position."""
        if scale == 0:
            return True
        context = exact_context()
        logarithm = context.multiply(self._logarithm(), Decimal(self.count - 1))
        if logarithm.copy_abs() > _LARGEST_LOGARITHM:
            return False
        last = context.exp(logarithm)
        ends = [context.multiply(end, Decimal(abs(scale))) for end in (Decimal(1), last)]
        return Decimal(MIN_TIMESTEP_FREQUENCY) <= min(ends) <= max(ends) <= Decimal(MAX_FREQUENCY)

    def _logarithm(self) -> Decimal:
        """Give that of the ratio between one frequency and the next, if there is a next."""
        context = exact_context()
        if self.count == 1:
            return Decimal(0)
        span = context.subtract(Decimal(self.count), Decimal(self.shift))
        return context.divide(context.ln(Decimal(self.max_period)), context.minus(span))


def timesteps(
    *,
    steps: AnyPositions,
    d_model: int,
    flip_sin_to_cos: bool,
    downscale_freq_shift: float,
    scale: float,
    max_period: float,
    dtype: DType,
) -> Document:
    """Describe the embeddings of timesteps, a row for each.

    Args:
        steps: the timesteps, none of them out of range.
        d_model: channels, at least 1.
        flip_sin_to_cos: whether the cosines come first.
        downscale_freq_shift: see above; other than the number of frequencies.
        scale: multiplies every timestep, exactly.
        max_period: positive.
        dtype: a real element type.
    """
    parameters: dict[str, ParameterValue] = {
        **_spelled(steps),
        "d_model": d_model,
        "flip_sin_to_cos": flip_sin_to_cos,
        "downscale_freq_shift": downscale_freq_shift,
        "scale": scale,
        "max_period": max_period,
    }
    rule = TimestepFrequencies(max_period, downscale_freq_shift, max(1, d_model // 2))
    components: tuple[Component, Component] = ("cos", "sin") if flip_sin_to_cos else ("sin", "cos")
    channels = Channels(components, interleaved=False, width=d_model, zeros=d_model % 2)
    signed = _negated(steps) if scale < 0 else steps
    table = _table(_measured(rule, abs(scale)), channels, signed, dtype)
    axes = ("timestep", "channel")
    arrays = {"timesteps": table}
    return Document("encoding-timesteps", parameters, arrays, axes=axes, states_axes=True)


def _spelled(steps: AnyPositions) -> dict[str, ParameterValue]:
    if isinstance(steps, RealPositions):
        return {"timesteps": steps.values}
    return {"num_timesteps": steps.count}


def _negated(steps: AnyPositions) -> AnyPositions:
    if isinstance(steps, RealPositions):
        return RealPositions(tuple(0.0 - value for value in steps.values))
    return Positions.of_runs(Run(-run.first, -run.step, run.count) for run in steps.runs)


def _measured(rule: TimestepFrequencies, scale: float) -> FrequencyRule:
    """Give the frequencies times a scale, of which 0 makes nothing turn, however fast it was."""
    if scale == 0:
        return ScaledFrequencies(ConstantFrequencies(rule.count), Fraction(0))
    return rule if scale == 1 else ScaledFrequencies(rule, Fraction(scale))


def _table(rule: FrequencyRule, channels: Channels, steps: AnyPositions, dtype: DType) -> Table:
    shape = steps.count, channels.width
    if isinstance(steps, RealPositions):
        return RealPhasorTable(rule, channels, steps, dtype, shape)
    return PhasorTable(rule, channels, steps, dtype, shape)


_USUAL_PERIOD, _MIN_PERIOD = 10000.0, 1 / MAX_SCALED_BASE


class TimestepsParameters(ArrayParameters):
    """Parameters of the embeddings of timesteps."""

    timesteps: Reals | None = Field(
        default=None,
        description="Timesteps, which may be fractions; or give num_timesteps.",
        examples=["0,2.5,999"],
    )
    num_timesteps: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="All timesteps 0, 1, … of so many.",
        examples=[1000],
    )
    d_model: Integer = d_model_field()
    flip_sin_to_cos: Boolean = Field(
        default=False, description="Put the cosines first.", examples=[True]
    )
    downscale_freq_shift: Real = Field(
        default=1.0,
        description="What is taken from the number n of frequencies in the exponent k/(n - shift).",
        examples=[0],
    )
    scale: Real = Field(
        default=1.0,
        ge=-MAX_FACTOR,
        le=MAX_FACTOR,
        description="Multiplies every timestep; of either sign, or 0.",
        examples=[1],
    )
    max_period: Real = Field(
        default=_USUAL_PERIOD,
        ge=_MIN_PERIOD,
        le=MAX_SCALED_BASE,
        description="Base of the series of frequencies, which rise where it is below 1.",
        examples=[10000],
    )
    dtype: RealDType = dtype_field()


def _timesteps(parameters: TimestepsParameters) -> Document:
    steps = _steps(parameters)
    _check_frequencies(parameters)
    return timesteps(
        steps=steps,
        d_model=parameters.d_model,
        flip_sin_to_cos=parameters.flip_sin_to_cos,
        downscale_freq_shift=parameters.downscale_freq_shift,
        scale=parameters.scale,
        max_period=parameters.max_period,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _steps(parameters: TimestepsParameters) -> AnyPositions:
    listed, count = parameters.timesteps, parameters.num_timesteps
    if listed is None and count is None:
        raise impossible("timesteps", None, "give timesteps, or num_timesteps for 0, 1, …")
    if listed is None:
        return Positions.contiguous(0, count or 0)
    if count is not None:
        raise impossible("num_timesteps", count, "num_timesteps does not go with timesteps")
    steps = RealPositions(listed)
    if steps.out_of_range is not None:
        rule = f"timesteps must lie within ±2^62, and be 0 or {MIN_REAL_POSITION:g} at least"
        raise impossible("timesteps", steps.out_of_range, f"{rule} in size")
    return steps


def _check_frequencies(parameters: TimestepsParameters) -> None:
    shift, count = parameters.downscale_freq_shift, parameters.d_model // 2
    if count and shift == count:
        detail = (
            f"downscale_freq_shift must not be {count}, the number of frequencies of d_model="
            f"{parameters.d_model}: the exponent k/(n - shift) divides by zero"
        )
        raise impossible("downscale_freq_shift", shift, detail)
    if 0 < abs(parameters.scale) < MIN_FACTOR:
        rule = f"scale must be 0, or {MIN_FACTOR:g} at least in size"
        raise impossible("scale", parameters.scale, rule)
    frequencies = TimestepFrequencies(parameters.max_period, shift, max(1, count))
    if not frequencies.are_within_phases(parameters.scale):
        span = to_query(count - shift)
        detail = f"the frequencies |scale|·max_period^(-k/{span}) must lie within 1e-251 and 1e18"
        name = _at_fault(frequencies)
        raise impossible(name, getattr(parameters, name), detail)


def _at_fault(frequencies: TimestepFrequencies) -> str:
    """Name the parameter for which frequencies without exact angles are too fast or too slow."""
    if frequencies.are_within_phases(1.0):
        return "scale"
    usual = replace(frequencies, max_period=_USUAL_PERIOD)
    return "max_period" if usual.are_within_phases(1.0) else "downscale_freq_shift"


TIMESTEPS = Resource(
    path="/encoding/timesteps",
    operation="EncodingTimesteps",
    summary="Embeddings of diffusion timesteps",
    parameters=TimestepsParameters,
    document=_timesteps,
    example="timesteps=0,2.5,999&d_model=4&downscale_freq_shift=0",
)
