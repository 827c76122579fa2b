"""What there is to ask for by a URL, and what arrays and objects are sent to."""

from importlib import import_module
from pkgutil import iter_modules

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

RESOURCES: tuple[Endpoint, ...] = (
    *(resource_of(family) for family in FAMILIES if issubclass(family, TableFamily)),
)
TRANSFORMS: tuple[Endpoint, ...] = (
    *(transform_of(family) for family in FAMILIES if issubclass(family, TransformFamily)),
)
COMPOSITIONS: tuple[Endpoint, ...] = tuple(
    composition_of(family) for family in FAMILIES if issubclass(family, ComposedFamily)
)
