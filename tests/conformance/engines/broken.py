"""Broken engines: the honest one with one mistake each.

Whoever wrote them had not seen which mistakes the suite lists.

    python -m tests.conformance.engines.broken NAME [float32 | float16 | bfloat16]
"""

import sys
from collections.abc import Mapping

from tests.conformance.engines import broken_classics, broken_rotary, broken_scaling, broken_tables
from tests.conformance.engines.broken_engine import BrokenEngine
from tests.conformance.engines.honest import serve

BROKEN: Mapping[str, type[BrokenEngine]] = {
    each.name: each
    for module in (broken_classics, broken_rotary, broken_scaling, broken_tables)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, BrokenEngine) and each.name != "honest"
}


if __name__ == "__main__":
    serve(BROKEN[sys.argv[1]](*sys.argv[2:]))
