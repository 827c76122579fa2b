"""All makers of mistakes, by the name of the mistake."""

from collections import defaultdict
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
from service.conformance.mistakes.wrong import Maker


def _all() -> Mapping[str, tuple[Maker, ...]]:
    found: defaultdict[str, tuple[Maker, ...]] = defaultdict(tuple)
    modules = (
        other_settings,
        other_frequencies,
        moved_rows,
        arrays,
        narrow_types,
        settings_of_tables,
        shifted_ids,
        numbers_of_tables,
    )
    for module in modules:
        for name, makers in module.MAKERS.items():
            found[name] += makers
    return dict(found)


MAKERS = _all()
