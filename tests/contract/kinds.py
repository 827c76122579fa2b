"""One route of each kind, for promises that the framework keeps for all of them alike."""

from starlette.routing import Route

from service.app import create_app
from service.routes import RESOURCES
from service.settings import default_settings

ASSET = "/docs/assets/swagger-ui.css"
EXAMPLES = {path: known.example for path, known in RESOURCES.items()}

KINDS = {
    "page": "/",
    "documentation": "/docs",
    "asset": ASSET,
    "OpenAPI document": "/openapi.json",
    "vectors": "/conformance/",
    "probe": "/readyz",
    "array": f"/encoding?{EXAMPLES['/encoding']}",
    "array in a format": f"/encoding.png?{EXAMPLES['/encoding']}",
    "transform": "/rope/apply",
    "composition": "/encoding/mask",
    "report": "/rope/config",
    "examination": "/identify",
    "unknown": "/nowhere",
    "malformed": "/%ff",
}
"""A URL of each kind of route."""


def paths() -> list[str]:
    """List the paths of all routes, and one without a route."""
    routes = create_app(default_settings()).routes
    known = {route.path for route in routes if isinstance(route, Route)}
    return sorted(path.replace("{extension}", "npy") for path in known | {ASSET, "/nowhere"})
