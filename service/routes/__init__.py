"""What there is to ask for, thin: parameters in, documents out."""

from service.delivery.reports import Report
from service.delivery.resource import Resource, Transform
from service.routes import axial, encoding, permutation, relative, rope, rope_config

RESOURCES: tuple[Resource, ...] = (
    encoding.ENCODING,
    encoding.FREQUENCIES,
    rope.ROPE,
    rope.FREQUENCIES,
    axial.AXIAL,
    permutation.PERMUTATION,
    relative.OPERATOR,
    relative.SIMILARITY,
)
TRANSFORMS: tuple[Transform, ...] = (encoding.APPLY, rope.APPLY)
REPORTS: tuple[Report, ...] = (rope_config.CONFIG,)
