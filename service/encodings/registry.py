"""All families, found in the modules of the packages beside this one."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from service.encodings import absolute, grid, positions, relative, resize, rotary
from service.encodings.family import Family

for _package in (absolute, grid, rotary, relative, positions, resize):
    for _module in iter_modules(_package.__path__):
        import_module(f"{_package.__name__}.{_module.name}")

FAMILIES: tuple[type[Family], ...] = tuple(
    sorted(Family.registered, key=lambda family: family.path)
)
"""Every family, by path."""

TABLE_REVISIONS: Mapping[str, int] = MappingProxyType(
    {family.kind(): family.revision_of_bytes for family in FAMILIES}
)
"""The revision of each kind of table: it moves when, and only when, a byte of that kind does."""
