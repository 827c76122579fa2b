"""All makers of mistakes, by the name of the mistake."""

from collections.abc import Mapping

from service.conformance.mistakes.rotary import (
    arrays,
    moved_rows,
    narrow_types,
    other_frequencies,
    other_settings,
)
from service.conformance.mistakes.tables import (
    numbers_of_tables,
    settings_of_tables,
    shifted_ids,
)
from service.conformance.mistakes.wrong import Make, Maker

_MODULES = (
    *(other_settings, other_frequencies, moved_rows, numbers_of_tables, arrays, narrow_types),
    *(settings_of_tables, shifted_ids),
)


def _all() -> Mapping[str, tuple[Make, ...]]:
    found: dict[str, tuple[Make, ...]] = {}
    for each in (each for module in _MODULES for each in vars(module).values()):
        if isinstance(each, Maker):
            found[each.name] = (*found.get(each.name, ()), each)
    return found


MAKERS = _all()
