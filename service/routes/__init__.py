"""All endpoints by path: those of families, and the reports about models and arrays."""

from collections.abc import Mapping
from itertools import chain

from service.delivery.endpoints import COMPOSITIONS, RESOURCES, TRANSFORMS, Endpoint
from service.lazily import MadeOnDemand, imported

_REPORTS = {
    "/rope/config": "rope_config.CONFIG",
    "/model": "model.MODEL",
    "/model/diff": "difference.DIFF",
    "/compare": "compare.COMPARE",
    "/identify": "identify.IDENTIFY",
    "/diagnose": "diagnosed_models.DIAGNOSE",
}


_GET_REPORTS = {
    "/describe": "description.DESCRIBE",
}


def _report_at(path: str) -> Endpoint:
    report: Endpoint = imported(f"{__name__}.{({**_REPORTS, **_GET_REPORTS})[path]}")
    return report


REPORTS: Mapping[str, Endpoint] = MadeOnDemand(_REPORTS, _report_at)
"""The endpoints of reports, which need a body, by path."""

GET_REPORTS: Mapping[str, Endpoint] = MadeOnDemand(_GET_REPORTS, _report_at)
"""The endpoints of reports that parameters alone determine, which answer GET, by path."""

_GROUPS = (RESOURCES, TRANSFORMS, COMPOSITIONS, REPORTS, GET_REPORTS)


def _endpoint_at(path: str) -> Endpoint:
    """Return the endpoint at a path, with the validator that pydantic would build at a request."""
    endpoint = next(group[path] for group in _GROUPS if path in group)
    endpoint.parameters.model_rebuild()
    return endpoint


ENDPOINTS = MadeOnDemand(chain(*_GROUPS), _endpoint_at)
"""All endpoints, by path."""

__all__ = ["COMPOSITIONS", "ENDPOINTS", "GET_REPORTS", "REPORTS", "RESOURCES", "TRANSFORMS"]
