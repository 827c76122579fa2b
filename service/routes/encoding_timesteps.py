"""``/encoding/timesteps``: embeddings of diffusion timesteps."""

from dataclasses import replace

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer, Real, spelled
from service.routes.parameters import RealDType, Reals, d_model_field, dtype_field, impossible
from service.tables import timesteps
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_FACTOR, MAX_LENGTH, MAX_SCALED_BASE, MIN_FACTOR
from service.tables.positions import Positions
from service.tables.real_positions import MIN_REAL_POSITION, AnyPositions, RealPositions
from service.tables.timesteps import TimestepFrequencies

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
    return timesteps.timesteps(
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
        span = spelled(count - shift)
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
