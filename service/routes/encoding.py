"""``/encoding``: the sinusoidal table, its frequencies, and embeddings with it added."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource, Transform
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import Boolean, Integer, spelled
from service.routes.encoding_conventions import ConventionParameters, FrequencyParameters
from service.routes.encoding_grid_parameters import GridParameters
from service.routes.encoding_timesteps import TimestepsParameters
from service.routes.parameters import (
    RealDType,
    RealPositionParameters,
    StartParameters,
    d_model_field,
    dtype_field,
    impossible,
)
from service.tables import sinusoidal
from service.tables.angle import MAX_POSITION
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_CHANNELS
from service.tables.real_positions import AnyPositions, RealPositions
from service.tables.recipe import Recipe
from service.tables.table import StoredTable


class RowsParameters(RealPositionParameters, ConventionParameters):
    """Parameters of rows of the sinusoidal table."""

    related: ClassVar = {
        "/encoding/grid": GridParameters,
        "/encoding/timesteps": TimestepsParameters,
    }

    d_model: Integer = d_model_field()
    dtype: RealDType = dtype_field()


class EncodingParameters(RowsParameters):
    """Parameters of the sinusoidal table."""

    batch: Boolean = Field(
        default=False, description="Add a leading axis of length 1.", examples=[False]
    )

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the batch."""
        return {"batch": "leave out batch"}


class FrequenciesParameters(ArrayParameters, FrequencyParameters):
    """Parameters of the frequencies."""

    d_model: Integer = d_model_field()
    part: Literal["frequency", "wavelength"] | None = Field(
        default=None,
        description="Answer one of the two arrays alone.",
        examples=["wavelength"],
    )

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


class ApplyParameters(StartParameters, ConventionParameters):
    """Parameters of an addition to embeddings."""

    scale_embeddings: Boolean = Field(
        default=False,
        description="Multiply the embeddings by the square root of d_model first.",
        examples=[False],
    )


def _encoding(parameters: EncodingParameters) -> Document:
    return encoded_rows(parameters, batch=parameters.batch)


def encoded_rows(parameters: RowsParameters, *, batch: bool = False) -> Document:
    """Describe rows of the sinusoidal table, with a leading axis where they are a batch."""
    recipe = parameters.recipe(parameters.d_model)
    return sinusoidal.encoding(
        recipe=recipe,
        positions=_turning(parameters, recipe),
        batch=batch,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _turning(parameters: RowsParameters, recipe: Recipe) -> AnyPositions:
    """Give the positions, which must be such as the recipe can turn."""
    positions = parameters.resolved_positions()
    if recipe.is_spread:
        _check_counted(parameters)
    if isinstance(positions, RealPositions):
        if recipe.padding_idx is not None:
            rule = f"convention={parameters.convention} looks rows up, at whole positions only"
            raise impossible("positions", positions.values, rule)
        parameters.check_slowest()
        return positions
    if positions.moved(recipe.offset).farthest > MAX_POSITION:
        raise impossible("offset", recipe.offset, "offset moves positions beyond 2^62")
    return positions


def _check_counted(parameters: RowsParameters | ApplyParameters) -> None:
    """Refuse positions where rows are spread evenly, however many there are."""
    given = {"positions": parameters.positions, "start": parameters.start or None}
    which = f"convention={parameters.convention}"
    faults = [
        Fault(name, shortened(spelled(value)), f"{name} does not go with {which}")
        for name, value in given.items()
        if value is not None
    ]
    if faults:
        raise InvalidParameters(*faults)


def _frequencies(parameters: FrequenciesParameters) -> Document:
    recipe = parameters.recipe(parameters.d_model)
    if recipe.channels.zeros == recipe.width:
        raise impossible("d_model", parameters.d_model, "one channel of zeros has no frequency")
    return sinusoidal.frequencies(recipe=recipe)


def _apply(parameters: ApplyParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    if x.shape[-1] > MAX_CHANNELS:
        rule = f"it has {x.shape[-1]} channels, and at most {MAX_CHANNELS} are possible"
        raise InvalidBody(rule)
    recipe = parameters.recipe(x.shape[-1])
    if recipe.width != x.shape[-1]:
        raise InvalidBody(
            f"convention={parameters.convention} has {recipe.width} channels for the "
            f"{x.shape[-1]} there are"
        )
    if recipe.is_spread:
        _check_counted(parameters)
    positions = parameters.positions_of(x.shape[-2])
    if positions.moved(recipe.offset).farthest > MAX_POSITION:
        raise impossible("offset", recipe.offset, "offset moves positions beyond 2^62")
    sum_ = sinusoidal.Sum(recipe, positions, parameters.scale_embeddings)
    return sum_.of(x), sum_.parameters()


ENCODING = Resource(
    path="/encoding",
    operation="Encoding",
    summary="The sinusoidal table of positions by channels",
    parameters=EncodingParameters,
    document=_encoding,
    example="seq_len=4&d_model=4&base=100",
)
FREQUENCIES = Resource(
    path="/encoding/frequencies",
    operation="EncodingFrequencies",
    summary="Frequency and wavelength of each pair of channels",
    parameters=FrequenciesParameters,
    document=_frequencies,
    example="d_model=4&base=100",
)
APPLY = Transform(
    path="/encoding/apply",
    operation="EncodingApply",
    summary="Embeddings with the sinusoidal table added: X + P",
    parameters=ApplyParameters,
    kind="encoding-apply",
    apply=_apply,
    example="start=3",
)
