"""Embeddings of diffusion timesteps: sinusoids of real positions with the library's own spacing.

With n = ⌊d_model/2⌋ frequencies the angles are

    scale · t · ω_k        ω_k = exp(−ln(max_period) · k / (n − downscale_freq_shift))

("Denoising Diffusion Probabilistic Models", Ho et al. 2020; diffusers 0.42.1
``get_timestep_embedding``.) Sines come first, then cosines, or the other way round where flipped;
an odd d_model ends with a channel of zeros. A negative scale negates the timesteps, exactly. Every
value is within 5·2^-53 of these formulas before it is rounded once to its element type.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from service.tables import scaling
from service.tables.angle import MAX_FREQUENCY, exact_context
from service.tables.bands import Measured, Ones
from service.tables.channels import Channels, Component
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType
from service.tables.frequencies import FrequencyRule
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions, Run
from service.tables.real_positions import AnyPositions, RealPhasorTable, RealPositions
from service.tables.scaling import Decimals
from service.tables.table import Table

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
        return Measured(Ones(rule.count), Fraction(0))
    return rule if scale == 1 else Measured(rule, Fraction(scale))


def _table(rule: FrequencyRule, channels: Channels, steps: AnyPositions, dtype: DType) -> Table:
    shape = steps.count, channels.width
    if isinstance(steps, RealPositions):
        return RealPhasorTable(rule, channels, steps, dtype, shape)
    return PhasorTable(rule, channels, steps, dtype, shape)
