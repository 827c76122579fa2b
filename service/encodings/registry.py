"""All families, found in the modules of the packages beside this one."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from service.encodings import absolute, grid, relative, rotary
from service.encodings.family import Family

_MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (absolute, grid, rotary, relative)
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
