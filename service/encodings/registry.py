"""What there is to ask for by a URL, and what arrays and objects are sent to."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from service.delivery.endpoints import Endpoint
from service.delivery.resources import composition_of, resource_of, transform_of
from service.encodings import absolute, grid, rotary
from service.encodings import relative as relative_package
from service.encodings.family import ComposedFamily, Family, TableFamily, TransformFamily

_MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (absolute, grid, rotary, relative_package)
    for module in iter_modules(package.__path__)
]
for _module in _MODULES:
    import_module(_module)

FAMILIES: tuple[type[Family], ...] = tuple(
    sorted(Family.registered, key=lambda family: _MODULES.index(family.__module__))
)
"""Every family, in the order of the packages, of their modules, and of the classes there."""

TABLE_REVISIONS: Mapping[str, int] = MappingProxyType(
    {family.kind(): family.revision_of_bytes for family in FAMILIES}
)
"""The revision of each kind of table: it moves when, and only when, a byte of that kind does."""

RESOURCES: tuple[Endpoint, ...] = (
    *(resource_of(family) for family in FAMILIES if issubclass(family, TableFamily)),
)
TRANSFORMS: tuple[Endpoint, ...] = (
    *(transform_of(family) for family in FAMILIES if issubclass(family, TransformFamily)),
)
COMPOSITIONS: tuple[Endpoint, ...] = tuple(
    composition_of(family) for family in FAMILIES if issubclass(family, ComposedFamily)
)
