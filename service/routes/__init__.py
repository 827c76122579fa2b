"""What there is to ask for, thin: parameters in, documents or what is said about arrays out."""

from service.delivery.examinations import Examination
from service.routes import compare, diagnose, identify
from service.routes.resources import COMPOSITIONS, NAMED, REPORTS, RESOURCES, TRANSFORMS

EXAMINATIONS: tuple[Examination, ...] = (
    compare.COMPARE,
    identify.IDENTIFY,
    diagnose.DIAGNOSE,
)

__all__ = ["COMPOSITIONS", "EXAMINATIONS", "NAMED", "REPORTS", "RESOURCES", "TRANSFORMS"]
