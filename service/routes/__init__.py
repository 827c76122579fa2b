"""What there is to ask for, thin: parameters in, documents out."""

from service.delivery.resource import Resource, Transform
from service.routes import encoding, relative, rope

RESOURCES: tuple[Resource, ...] = (
    encoding.ENCODING,
    encoding.FREQUENCIES,
    rope.ROPE,
    relative.OPERATOR,
    relative.SIMILARITY,
)
TRANSFORMS: tuple[Transform, ...] = (encoding.APPLY, rope.APPLY)
