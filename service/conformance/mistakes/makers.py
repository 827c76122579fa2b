"""All makers of mistakes, by the name of the mistake."""

from collections import defaultdict
from collections.abc import Mapping

from service.conformance.mistakes import (
    arrays,
    numbers_of_tables,
    other_settings,
    settings_of_tables,
    shifted_ids,
)
from service.conformance.mistakes.wrong import Maker


def _all() -> Mapping[str, tuple[Maker, ...]]:
    found: defaultdict[str, tuple[Maker, ...]] = defaultdict(tuple)
    for module in (other_settings, arrays, settings_of_tables, shifted_ids, numbers_of_tables):
        for name, makers in module.MAKERS.items():
            found[name] += makers
    return dict(found)


MAKERS = _all()
