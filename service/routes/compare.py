"""``POST /compare``: arrays that somebody has, against a table of this server."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from service.delivery.examinations import Examination
from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidBody, shortened
from service.formats.received import Input
from service.grammar import Real
from service.routes import asked
from service.routes.compare_arrays import Compared, compared
from service.routes.compare_schema import COMPARE_SCHEMA
from service.routes.parameters import Reals
from service.tables.document import Document
from service.tables.table import StoredTable

Json = dict[str, Any]

EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


class CompareParameters(Parameters):
    """Parameters of a comparison."""

    to: str = Field(
        description="The table to compare with: path and query of its URL here, each & of it "
        "written as %26.",
        examples=["/rope?head_dim=128&seq_len=4096"],
    )
    atol: Real | None = Field(
        default=None,
        ge=0,
        description="How far a number may be from the one in the table; with rtol, the sum of "
        "both. Without either, 4 ulp of the narrower of the two types.",
        examples=[1e-6],
    )
    rtol: Real | None = Field(
        default=None,
        ge=0,
        description="How far it may be as a share of the one in the table.",
        examples=[1e-5],
    )
    epsilon: Reals | None = Field(
        default=None,
        max_length=16,
        description="Absolute errors, for each of which the answer says up to which position the "
        "whole table stays within it; powers of ten from 1e-6 to 0.1 unless given.",
        examples=["1e-6,1e-3"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        """Explain a parameter that belongs to the URL in ``to``."""
        array = asked.misnamed(values.get(name), "x, or its own where to has several,")
        return array or asked.unencoded("to", values.get("to"), name)


def _examine(parameters: CompareParameters, content: Input) -> Json:
    url = asked.url_at("to", parameters.to)
    document = asked.document_at("to", parameters.to)
    pairs = _paired(document, content)
    tolerances = (parameters.atol, parameters.rtol)
    found = {
        name: compared(document, name, array, tolerances, _type_of(array, content))
        for name, array in pairs.items()
    }
    summary = {
        "to": url.canonical,
        "equal": all(each.report.comparison.is_equal for each in found.values()),
        "equal_bytes": all(each.is_equal_bytes for each in found.values()),
        "within": all(each.report.comparison.is_within for each in found.values()),
    }
    if len(document.arrays) == 1:
        (alone,) = found.values()
        return summary | _content(alone, parameters)
    missing = [name for name in document.arrays if name not in found]
    arrays = {name: _one(each, parameters) for name, each in found.items()}
    return summary | {"not_sent": missing, "arrays": arrays}


def _one(found: Compared, parameters: CompareParameters) -> Json:
    comparison = found.report.comparison
    return {
        "equal": comparison.is_equal,
        "equal_bytes": found.is_equal_bytes,
        "within": comparison.is_within,
        **_content(found, parameters),
    }


def _content(found: Compared, parameters: CompareParameters) -> Json:
    return {
        "array": found.described,
        **found.report.content(),
        "within_epsilon": found.report.within(parameters.epsilon or EPSILONS),
    }


def _type_of(array: StoredTable, content: Input) -> str | None:
    """Name the type that an array was sent in; text has none."""
    if content.is_text:
        return None
    name = next(name for name, sent in content.arrays.items() if sent is array)
    return content.integer_types.get(name, array.dtype.name)


def _paired(document: Document, content: Input) -> Mapping[str, StoredTable]:
    """Say which array of the document each one is that was sent."""
    sent, names = content.arrays, tuple(document.arrays)
    if len(sent) == len(names) == 1:
        return {names[0]: next(iter(sent.values()))}
    there = f"the table of to has {' and '.join(names)}{_of_packs(names)}"
    if not content.is_named:
        raise InvalidBody(
            f"{there}, and npy is one array without a name: add part={names[0]} to the URL in to, "
            "or send safetensors or JSON"
        )
    unknown = [name for name in sent if name not in names]
    if unknown:
        raise InvalidBody.at(
            *(
                Fault("", shortened(name), f"{shortened(name)} is no array here: {there}", True)
                for name in unknown
            )
        )
    return sent


def _of_packs(names: tuple[str, ...]) -> str:
    return "; with pack=half, interleaved or compact it has cos and sin" * (names == ("rope",))


COMPARE = Examination(
    path="/compare",
    operation="Compare",
    summary="Where arrays differ from a table of this server",
    parameters=CompareParameters,
    names=("x", "cos", "sin", "frequency", "wavelength", "inv_freq", "attention_factor"),
    examine=_examine,
    says="Where the arrays differ",
    schema=COMPARE_SCHEMA,
    example={
        "to": "/encoding?seq_len=2&d_model=4",
        "x": [[0.0, 1.0, 0.0, 1.0], [0.84147098, 0.54030231, 0.00999983, 0.99995]],
    },
    copies=2,
)
