"""Descriptions of tables by their families: meaning, selections and variants."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field

from service.numerics.phasors import Channels
from service.numerics.positions import AnyPositions
from service.numerics.tables import ParameterValue

Places: TypeAlias = AnyPositions | tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """The parameter by which a request chooses places along an axis of a table.

    Attributes:
        parameter: the parameter that lists positions along the axis, or names one place.
        places: what it lists or names, in order; None for 0, 1, ….
        replaces: the parameters in place of which it is given.
    """

    parameter: str
    places: Places | None = None
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChannelColumns:
    """Equidistant columns of a table with the same content."""

    __pydantic_config__: ClassVar = ConfigDict(json_schema_serialization_defaults_required=True)

    part: Annotated[
        Literal["cos", "sin"] | None,
        Field(
            description="Null for coordinates, angles and zeros. If the table has several arrays, "
            "the part of the first."
        ),
    ]
    start: int
    step: int
    count: int
    pair: Annotated[
        int | None,
        Field(description="The number of the first column's frequency; null for zeros."),
    ] = None
    pair_step: int = 0
    axis: Annotated[
        str | None,
        Field(
            description="The axis of the grid along which the positions are, or their direction; "
            "null if there is neither, or if the frequencies name it."
        ),
    ] = None

    @classmethod
    def of(cls, channels: Channels, first: int = 0) -> "tuple[ChannelColumns, ...]":
        """Return the columns of a row of sines and cosines that begin at the first one."""
        (index, is_sine), width = channels.indices(), channels.width - channels.zeros
        found = []
        for part in dict.fromkeys(is_sine[:width].tolist()):
            every = np.flatnonzero(is_sine[:width] == part)
            # Channels side by side may have the same frequency.
            repeats = int((index[every] != index[every[0]]).argmax()) or 1
            for repeat in range(repeats):
                left = every[repeat::repeats]
                while left.size:
                    steps = np.diff([left, index[left]])
                    count = 1 + int(np.append((steps != steps[:, :1]).any(axis=0), True).argmax())
                    step, pair_step = steps[:, 0].tolist() if count > 1 else (1, 1)
                    start, pair = first + int(left[0]), int(index[left[0]])
                    found.append(cls("sin" if part else "cos", start, step, count, pair, pair_step))
                    left = left[count:]
        zeros = [cls(None, first + width, 1, channels.zeros)] if channels.zeros else []
        return (*found, *zeros)


@dataclass(frozen=True)
class Meaning:
    """The meaning of the numbers of a table; its rows are those of ``TableFamily.as_matrix``.

    Attributes:
        columns: what the columns of a row are; () if they are not channels.
        value_range: bounds of all numbers; None if they are unknown.
        is_steady: whether a column is the same sine or cosine at every position.
        frequencies: the path of the frequencies of the pairs; None if it has none.
        of_frequencies: parameters of the frequencies that are no parameters of the table.
        turns_by: what the frequencies multiply: positions, or coordinates that the places of rows
            have.
        unscaled: the canonical parameters that the frequencies have without scaling; () if they are
            not scaled.
        trained_length: the longest sequence of the training, before any extension.
        grid: the lengths of the axes of rows that are the tokens of a grid, in their order; else
            ().
        is_by_columns: whether the last of these axes is the height of the grid.
    """

    columns: tuple[ChannelColumns, ...] = ()
    value_range: tuple[float, float] | None = None
    is_steady: bool = False
    frequencies: str | None = None
    of_frequencies: Mapping[str, ParameterValue] = field(default_factory=dict)
    turns_by: Literal["position", "coordinate"] = "position"
    unscaled: tuple[str, ...] = ()
    trained_length: int | None = None
    grid: tuple[int, ...] = ()
    is_by_columns: bool = False


@dataclass(frozen=True)
class NamedVariant:
    """A rule or a convention of a family, or all of a family that has none.

    Attributes:
        name: its name; empty for all of a family.
        example: a valid query, without ``fixed``.
        fixed: the parameters by which a request chooses it.
        takes: the parameters that it accepts and at least one other variant refuses.
        published: the sizes of a published model, in place of those of the example.
        summary: one line; empty for that of the family.
        docs: its formula, source and trap, in place of those of the family.
        models: names of models with such a table, where its name does not say so.
    """

    name: str
    example: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    takes: Collection[str] = ()
    published: str = ""
    summary: str = ""
    docs: Mapping[str, str] = field(default_factory=dict)
    models: str = ""

    @classmethod
    def of(
        cls,
        convention: str,
        example: str,
        takes: Collection[str] = (),
        published: str = "",
        models: str = "",
        **docs: str,
    ) -> "NamedVariant":
        """Return a convention; its summary is its source."""
        fixed = {"convention": convention}
        source = docs.get("source", "")
        return cls(convention, example, fixed, takes, published, source, docs, models)


_SECTIONS = re.compile(r"^(Formula|Source|Bound|Trap): (.*?)$(?=\n\S|\Z)", re.DOTALL | re.MULTILINE)


def sections(docstring: str | None) -> dict[str, str]:
    """Return the sections Formula, Source, Bound and Trap of a docstring, by lower-case name."""
    found = _SECTIONS.findall(cleandoc(docstring or ""))
    return {name.lower(): " ".join(text.split()) for name, text in found}
