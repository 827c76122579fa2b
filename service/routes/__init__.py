"""All endpoints by path: those of families, and the reports about models and arrays."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
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
    "/catalogue": "table_catalogue.CATALOGUE",
    "/compare": "compared_tables.COMPARE_TABLES",
    "/describe": "description.DESCRIBE",
}


def _report_at(places: Mapping[str, str], path: str) -> Endpoint:
    report: Endpoint = imported(f"{__name__}.{places[path]}")
    return report


REPORTS: Mapping[str, Endpoint] = MadeOnDemand(_REPORTS, partial(_report_at, _REPORTS))
"""The endpoints of reports, which need a body, by path."""

GET_REPORTS: Mapping[str, Endpoint] = MadeOnDemand(_GET_REPORTS, partial(_report_at, _GET_REPORTS))
"""The endpoints of reports that parameters alone determine, which answer GET, by path."""

_GROUPS = (RESOURCES, TRANSFORMS, COMPOSITIONS, REPORTS, GET_REPORTS)


def _endpoint_at(path: str) -> Endpoint:
    """Return the endpoint at a path, with the validator that pydantic would build at a request."""
    endpoint = next(group[path] for group in _GROUPS if path in group)
    if path in REPORTS and path in GET_REPORTS:
        endpoint = replace(endpoint, by_get=GET_REPORTS[path])
    for each in (endpoint, endpoint.by_get):
        if each is not None:
            each.parameters.model_rebuild()
    return endpoint


ENDPOINTS = MadeOnDemand(chain(*_GROUPS), _endpoint_at)
"""All endpoints, by path."""

__all__ = ["COMPOSITIONS", "ENDPOINTS", "GET_REPORTS", "REPORTS", "RESOURCES", "TRANSFORMS"]
