"""The JSON schema of what ``/identify`` answers.

``POST /identify``: what an array is that nobody knows any more.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
from pydantic import Field

from service.analysis.array import MAX_ELEMENTS, FirstMismatch, IdentifyInput, Sample
from service.analysis.identification.search import Identification, identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import Endpoint, ReportedArrays
from service.encodings.fields import Parameters, RealDType, RealPositionList, impossible
from service.errors import InvalidBody, shortened
from service.formats.format import Input
from service.grammar import Integer
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, round_into
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s
from service.numerics.tables import StoredTable, size
from service.routes import table_urls as asked

Json = dict[str, Any]

_COUNT: Json = {"type": "integer", "minimum": 0}
_INDEX: Json = {"type": "array", "items": _COUNT, "description": "In the array that was sent."}
_POSITION: Json = {
    "type": ["number", "array", "null"],
    "items": {"type": "number"},
    "description": "A position, or one on each axis; null where rows have none.",
}
_SENTENCES: Json = {"type": "array", "items": {"type": "string"}}


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _number(description: str) -> Json:
    return {"type": ["number", "null"], "description": f"{description}; null if not finite."}


_TABLE: Json = {
    "url": {"type": "string", "description": "Path and query of the table here."},
    "kind": {"type": "string"},
    "parameters": {
        "type": "object",
        "description": "Every parameter that fixes its numbers, in canonical form.",
    },
    "transposed": {
        "type": "boolean",
        "description": "Whether the array has the axes of the table in reverse order.",
    },
    "residual": {
        **_object(
            {
                "max_absolute": _number("The largest absolute error"),
                "max_ulp": {
                    "type": ["number", "null"],
                    "description": "The largest error in steps of the type; null for integers.",
                },
                "index": _INDEX,
                "position": _POSITION,
            }
        ),
        "description": "How far the array is from the table at most, and where.",
    },
    "support": {**_SENTENCES, "description": "What in the array speaks for it."},
}
_ARITHMETIC = _object({"name": {"type": "string"}, "description": {"type": "string"}})
_LEAVES_AT = _object(
    {
        "array": {"type": "string"},
        "index": _INDEX,
        "position": _POSITION,
        "channel": _COUNT,
        "yours": _number("The number there"),
        "expected": _number("That of the table"),
        "error": _number("How far they are apart"),
        "allowed": {
            "type": "number",
            "description": "How far the arithmetic that explains most lets a number be off.",
        },
    }
)
_NEAREST = _object(
    {
        **_TABLE,
        "agreeing": {"type": "number", "description": "The share of numbers that agree."},
        "leaves_at": {**_LEAVES_AT, "description": "The first number that does not."},
    }
)

IDENTIFY_SCHEMA: Json = _object(
    {
        "verdict": {
            "enum": ["identified", "ambiguous", "none"],
            "description": "ambiguous: several tables give these numbers, and would go on "
            "differently.",
        },
        "array": _object(
            {
                "shape": {"type": "array", "items": _COUNT},
                "dtype": {"type": "string"},
                "names": {
                    "type": ["array", "null"],
                    "items": {"type": "string"},
                    "description": "cos and sin where two arrays were sent.",
                },
            }
        ),
        "hypotheses": {
            "type": "array",
            "description": "The tables that give the whole array, the best first.",
            "items": _object(
                {
                    **_TABLE,
                    "arithmetic": {
                        "type": "array",
                        "items": _ARITHMETIC,
                        "description": "What it may have been computed in: within its own error "
                        "every number is explained.",
                    },
                }
            ),
        },
        "nearest": {
            **_NEAREST,
            "type": ["object", "null"],
            "description": "Where there are no hypotheses: the table nearest to the array.",
        },
        "notes": _SENTENCES,
    }
)


class IdentifyParameters(Parameters):
    """What is known of an array."""

    d_model: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="The number of channels of the whole encoding, as far as that is known.",
        examples=[512],
    )
    positions: RealPositionList | None = Field(
        default=None,
        description="The position of each row, as far as they are known; each greater than the "
        "one before it.",
        examples=["0,5,9:20:2"],
    )
    start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="The position of the first row, where the others follow one by one; found "
        "unless given.",
        examples=[0],
    )
    dtype: RealDType | None = Field(
        default=None,
        description="The type that numbers had before they were written as text; float32 unless "
        "given, if every number is the shortest decimal of one, otherwise float64.",
        examples=["float32"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        """Say what an array is called."""
        return asked.misnamed_array_hint(values.get(name), "x, or cos and sin,")

    def places(self, rows: int) -> Float64s | None:
        """Give the position of each row, where they are known."""
        if self.positions is None:
            if self.start is None:
                return None
            return self.start + np.arange(rows, dtype=np.float64)
        if self.start is not None:
            raise impossible("start", self.start, "start does not go with positions")
        if self.positions.count != rows:
            rule = f"positions names {self.positions.count} rows, and the array has {rows}"
            raise impossible("positions", str(self.positions), rule)
        places = self.positions.at(0, rows).astype(np.float64)
        if not (np.diff(places) > 0).all():
            rule = "positions must rise: each must be greater than the one before it"
            raise impossible("positions", str(self.positions), rule)
        return places


def _examine(parameters: IdentifyParameters, content: Input) -> Json:
    arrays = {name: _typed(parameters, array, content) for name, array in _named(content).items()}
    samples = {name: Sample.of(array) for name, array in arrays.items()}
    rows = next(iter(samples.values())).values
    places = parameters.places(rows.shape[0] if rows.ndim > 1 else 1)
    question = IdentifyInput(samples, parameters.d_model, places)
    return _report(question, identify(question, asked.tables))


def _named(content: Input) -> Mapping[str, StoredTable]:
    """Give the one array, or the cosines and the sines that were sent."""
    count = sum(map(size, content.arrays.values()))
    if count > MAX_ELEMENTS:
        raise InvalidBody(f"there are {count} numbers: at most {MAX_ELEMENTS} are possible")
    if len(content.arrays) == 1:
        return {"x": next(iter(content.arrays.values()))}
    parts = {_part(name): array for name, array in content.arrays.items()}
    if len(content.arrays) != 2 or parts.keys() != {"cos", "sin"}:
        names = shortened(", ".join(content.arrays))
        raise InvalidBody(
            f"send one array, or two of which one has cos in its name and the other sin: {names}"
        )
    if parts["cos"].shape != parts["sin"].shape or parts["cos"].dtype != parts["sin"].dtype:
        raise InvalidBody("cosines and sines must be of one shape and one type")
    return {"cos": parts["cos"], "sin": parts["sin"]}


def _part(name: str) -> str | None:
    """Tell from a name whether an array holds cosines or sines; None where it does not say."""
    said = [part for part in ("cos", "sin") if part in name.lower()]
    return said[0] if len(said) == 1 else None


def _typed(parameters: IdentifyParameters, array: StoredTable, content: Input) -> StoredTable:
    """Give numbers that were sent as text the type that they had."""
    if not content.is_text or array.dtype is not FLOAT64:
        return array
    name = parameters.dtype
    if name is None:
        name = "float32" if _are_float32(array.elements) else "float64"
    dtype = REAL_DTYPES[name]
    elements = np.empty(array.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(array.elements, elements, dtype)
    return replace(array, elements=elements, dtype=dtype)


def _are_float32(numbers: Float64s) -> bool:
    """Tell whether every number is what the float32 next to it is written as."""
    with np.errstate(over="ignore"):
        near = numbers.reshape(-1).astype(np.float32)
    pairs = zip(near, numbers.reshape(-1).tolist(), strict=True)
    return all(float(str(single)) == number for single, number in pairs)


def _report(question: IdentifyInput, found: Identification) -> Json:
    sample = question.sample
    report: Json = {
        "verdict": found.outcome,
        "array": {
            "shape": list(sample.shape),
            "dtype": sample.dtype.name,
            "names": list(question.arrays) if question.is_pair else None,
        },
        "hypotheses": [_hypothesis(verdict) for verdict in found.hypotheses],
        "nearest": None,
        "notes": list(found.notes),
    }
    if found.nearest is not None and found.nearest.first_mismatch is not None:
        departure = _departure(found.nearest.first_mismatch)
        agreeing = found.nearest.agreeing
        report["nearest"] = {
            **_table(found.nearest),
            "agreeing": agreeing,
            "leaves_at": departure,
        }
    return report


def _hypothesis(verdict: Verdict) -> Json:
    return {
        **_table(verdict),
        "arithmetic": [
            {"name": each.name, "description": each.description} for each in verdict.arithmetic
        ],
    }


def _table(verdict: Verdict) -> Json:
    proposal, document = verdict.proposal, verdict.document
    return {
        "url": asked.url_of(proposal.request),
        "kind": document.kind,
        "parameters": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in document.parameters.items()
        },
        "transposed": proposal.is_transposed,
        "residual": {
            "max_absolute": _finite(verdict.max_absolute),
            "max_ulp": _finite(verdict.max_ulp),
            "index": list(verdict.index),
            "position": _position(verdict.position),
        },
        "support": list(proposal.support),
    }


def _departure(departure: FirstMismatch) -> Json:
    return {
        "array": departure.array,
        "index": list(departure.index),
        "position": _position(departure.position),
        "channel": departure.channel,
        "yours": _finite(departure.value),
        "expected": _finite(departure.expected),
        "error": _finite(departure.error),
        "allowed": departure.allowed,
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


def _position(place: float | tuple[float, ...] | None) -> Any:
    if isinstance(place, tuple):
        return [_position(part) for part in place]
    return int(place) if place is not None and place.is_integer() else place


IDENTIFY = Endpoint(
    path="/identify",
    operation="Identify",
    summary="What an array is, and the URL that gives it here",
    parameters=IdentifyParameters,
    answer=_examine,
    says="What the array is",
    report=IDENTIFY_SCHEMA,
    inputs=ReportedArrays(
        names=("x", "cos", "sin", "freqs_cos", "freqs_sin", "cos_cached", "sin_cached"),
        example={"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]]},
        copies=6,
    ),
)
