"""All endpoints: those of families, and the reports about configs and arrays."""

from service.delivery.endpoints import COMPOSITIONS, RESOURCES, TRANSFORMS, Endpoint
from service.routes.compare import COMPARE
from service.routes.diagnosed_models import DIAGNOSE
from service.routes.difference import DIFF
from service.routes.identify import IDENTIFY
from service.routes.model import MODEL
from service.routes.rope_config import CONFIG

REPORTS = (CONFIG, MODEL, DIFF, COMPARE, IDENTIFY, DIAGNOSE)
ENDPOINTS: tuple[Endpoint, ...] = (*RESOURCES, *TRANSFORMS, *COMPOSITIONS, *REPORTS)

__all__ = ["COMPOSITIONS", "ENDPOINTS", "REPORTS", "RESOURCES", "TRANSFORMS"]
