"""``POST /positions``: the position of each token of a prompt, by a named convention."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import create_model

from service.encodings import positions
from service.encodings.family import (
    ComposedFamily,
    InputArray,
    Parameters,
    about,
    optional,
    optional_key,
)
from service.encodings.positions.convention import Convention
from service.encodings.positions.segments import MAX_SEGMENTS
from service.numerics.tables import Document, StoredTable

for _module in iter_modules(positions.__path__):
    import_module(f"{positions.__name__}.{_module.name}")

CONVENTIONS: Mapping[str, type[Convention]] = {each.name: each for each in Convention.registered}
"""Every convention by name, in the order of definition."""

_INPUTS = {array.name: array for each in CONVENTIONS.values() for array in each.inputs}
ARRAYS = tuple(dict.fromkeys(name for each in CONVENTIONS.values() for name in each.arrays))
"""The names of the arrays of all answers."""

_TYPES: dict[str, Any] = {}
for _convention in CONVENTIONS.values():
    for _name, _kind in _convention.parameter_types().items():
        _TYPES.setdefault(_name, _kind)

if TYPE_CHECKING:
    ConventionName: TypeAlias = str
    ArrayName: TypeAlias = str

    class ConventionKeys(Parameters):
        """The parameters of all conventions."""

else:
    ConventionName: TypeAlias = Literal[tuple(CONVENTIONS)]
    ArrayName: TypeAlias = Literal[ARRAYS]
    ConventionKeys = create_model(
        "ConventionKeys",
        __base__=Parameters,
        __module__=__name__,
        **{name: optional_key(kind) for name, kind in _TYPES.items()},
    )

# The processor seconds of a frame or a chunk of a video that is woven with its audio.
_WOVEN_SECONDS = 3e-5


class PositionIds(ConventionKeys, ComposedFamily, path="/positions"):
    """The position of each token of a prompt, or of each patch of a picture, by a convention.

    A prompt is sent as ``rows`` (each a list of segments: text, images, videos, audio, padding), or
    as the arrays that libraries take: input_ids with attention_mask, token_types and the grids.
    Both give the same arrays. ``warnings`` says where libraries give other ids for this very input.

    Formula: that of the convention.
    Source: that of the convention.
    Bound: ids are exact integers; those that a convention computes in floating point have the bits
        of the stated operations.
    Trap: the same prompt has other ids in other versions of a library: ``rules`` says whose.
    """

    operation: ClassVar[str] = "Positions"
    summary: ClassVar[str] = "The position of each token of a prompt, by a convention"
    example: ClassVar[str] = "convention=qwen2_vl"
    inputs: ClassVar[tuple[InputArray, ...]] = tuple(_INPUTS.values())
    needs_arrays: ClassVar[bool] = False
    body_only: ClassVar[frozenset[str]] = frozenset(_TYPES) - {
        name for each in CONVENTIONS.values() if each.inputs for name in each.model_fields
    }
    hints: ClassVar[Mapping[str, str]] = {
        f"{name}_token_id": f"its name here is tokens: tokens={name}:151655"
        for name in ("image", "video", "audio", "pad")
    }
    value_hints: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "convention": {
            **{model: each.name for each in CONVENTIONS.values() for model in each.models},
            **dict.fromkeys(("idefics2", "idefics3", "smolvlm", "minicpmv"), "buckets"),
        }
    }

    convention: ConventionName = about("The rule of the ids, by model or kind.", "qwen2_vl")
    part: ArrayName | None = optional("Return only this array.", "position_ids")

    @property
    def planning_seconds(self) -> float:
        given: dict[str, Any] = dict(self)
        parts = sum(segment.woven for row in given["rows"] or () for segment in row)
        return _WOVEN_SECONDS * (MAX_SEGMENTS if given["use_audio_in_video"] else parts)

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        own = {"convention", "part"}
        given: dict[str, Any] = {
            name: value for name, value in self if name not in own and value is not None
        }
        convention = CONVENTIONS[self.convention].of(given, arrays)
        numbered = convention.answer(arrays)
        parameters = {**convention.canonical(), **numbered.parameters}
        return self.describe(
            numbered.tables, parameters, has_parts=True, warnings=numbered.warnings
        )
