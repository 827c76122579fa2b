"""What there is to ask for, thin: parameters in, documents or what is said about arrays out."""

from service.delivery.resources import Examination
from service.encodings.registry import COMPOSITIONS, NAMED, REPORTS, RESOURCES, TRANSFORMS
from service.routes import compare, diagnose, identify

EXAMINATIONS: tuple[Examination, ...] = (
    compare.COMPARE,
    identify.IDENTIFY,
    diagnose.DIAGNOSE,
)

__all__ = ["COMPOSITIONS", "EXAMINATIONS", "NAMED", "REPORTS", "RESOURCES", "TRANSFORMS"]
