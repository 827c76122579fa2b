"""What there is to ask for by a URL, and what arrays and objects are sent to."""

from importlib import import_module
from pkgutil import iter_modules

from service.delivery.endpoints import Endpoint
from service.delivery.resources import composition_of, resource_of, transform_of
from service.encodings import absolute, grid, rotary
from service.encodings import relative as relative_package
from service.encodings.family import ComposedFamily, Family, TableFamily, TransformFamily
from service.encodings.relative import alibi as relative_alibi
from service.encodings.relative import alibi as relative_alibi_bias
from service.encodings.relative import buckets as relative_deberta
from service.encodings.relative import buckets as relative_shaw
from service.encodings.relative import buckets as relative_t5
from service.encodings.relative import fire as relative_fire
from service.encodings.relative import kerple as relative_kerple
from service.encodings.relative import operator as relative
from service.encodings.relative import sines as relative_conformer
from service.encodings.relative import sines as relative_transformer_xl
from service.encodings.relative import sines as relative_xlnet
from service.encodings.relative import windows as relative_coordinates
from service.encodings.relative import windows as relative_swin

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
    relative.OPERATOR,
    relative.SIMILARITY,
    relative_t5.T5_BUCKETS,
    relative_deberta.DEBERTA_BUCKETS,
    relative_shaw.INDEX,
    relative_swin.INDEX,
    relative_coordinates.SWIN_V2,
    relative_alibi.ALIBI,
    relative_alibi.SLOPES,
    relative_kerple.KERPLE,
    relative_fire.FIRE,
    relative_coordinates.DYNAMIC,
    relative_transformer_xl.TRANSFORMER_XL,
    relative_xlnet.XLNET,
    relative_conformer.CONFORMER,
)
TRANSFORMS: tuple[Endpoint, ...] = (
    *(transform_of(family) for family in FAMILIES if issubclass(family, TransformFamily)),
)
COMPOSITIONS: tuple[Endpoint, ...] = (
    *(composition_of(family) for family in FAMILIES if issubclass(family, ComposedFamily)),
    relative_t5.T5_BIAS,
    relative_shaw.EMBEDDINGS,
    relative_swin.BIAS,
    relative_alibi_bias.BIAS,
    relative_kerple.BIAS,
    relative_transformer_xl.SHIFT,
)
