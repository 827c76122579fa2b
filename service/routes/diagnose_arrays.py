"""Arrays that are sent to ``/diagnose``: held to what any table of positions is."""

import numpy as np

from service.analysis.sample import LARGEST, MAX_ELEMENTS, Sample
from service.errors import InvalidBody, shortened
from service.tables.table import StoredTable, size


def sound(name: str, table: StoredTable) -> Sample:
    """Read an array of numbers that are finite, none of them huge.

    Raises:
        InvalidBody: it is none, or has more numbers than are looked into.
    """
    shown = shortened(name)
    if size(table) > MAX_ELEMENTS:
        rule = f"{shown} has {size(table)} numbers: at most {MAX_ELEMENTS} are possible"
        raise InvalidBody(rule, f"/{shown}")
    sample = Sample.of(table)
    if not sample.is_finite:
        raise InvalidBody(f"{shown} holds NaN or an infinity", f"/{shown}")
    if float(np.abs(sample.reals()).max()) > LARGEST:
        rule = f"{shown} holds numbers beyond 2^64: no table of positions does"
        raise InvalidBody(rule, f"/{shown}")
    return sample
