"""``/relative/fire``: the coordinates that FIRE's network makes biases of."""

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Real
from service.routes.parameters import RealDType, dtype_field, impossible
from service.routes.query_key import QueryKeyParameters
from service.tables import fire
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES


class FireParameters(ArrayParameters, QueryKeyParameters):
    """Parameters of FIRE."""

    c: Real = Field(
        default=0.1,
        ge=1e-9,
        le=1e9,
        description="What distances are multiplied by; learned, from 0.1 on.",
        examples=[0.1],
    )
    threshold: Real = Field(
        default=512.0,
        ge=0,
        le=2.0**62,
        description="The threshold L; distances of queries before it are measured by it. Learned, "
        "from 512 on in the paper's listing.",
        examples=[512],
    )
    eps: Real = Field(
        default=1e-6,
        ge=0,
        le=1,
        description="What is added to the denominator.",
        examples=[1e-6],
    )
    dtype: RealDType = dtype_field()


def _fire(parameters: FireParameters) -> Document:
    c, threshold, eps = parameters.c, parameters.threshold, parameters.eps
    if 0 < threshold < 1e-9:
        raise impossible("threshold", threshold, "threshold must be 0, or at least 1e-9")
    if eps < 1e-30 and threshold == 0:
        raise impossible("eps", eps, "eps must be at least 1e-30 where threshold is 0")
    return fire.coordinates(
        interpolation=fire.Interpolation(c, threshold, eps),
        pairs=parameters.pairs(),
        dtype=REAL_DTYPES[parameters.dtype],
    )


FIRE = Resource(
    path="/relative/fire",
    operation="RelativeFire",
    summary="FIRE's input coordinate of every query and key",
    parameters=FireParameters,
    document=_fire,
    example="query_len=4",
)
