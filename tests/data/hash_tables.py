"""Print the SHA-256 of many tables as JSON; needs NumPy, pydantic and service.encodings alone.

    python tests/data/hash_tables.py > tests/data/table_hashes.json

A hash that moves needs a new revision_of_bytes of its family first: the revision is in its name.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

# A script knows only the folder that it is in.
sys.path.append(str(Path(__file__).parents[2]))

from service.numerics.tables import Table, size
from tests.data import (
    hashed_biases,
    hashed_conventions,
    hashed_encodings,
    hashed_features,
    hashed_grids,
    hashed_indices,
    hashed_relative,
    hashed_rotary,
    hashed_sines,
    hashed_transformed,
)

_MODULES = (
    hashed_encodings,
    hashed_rotary,
    hashed_relative,
    hashed_transformed,
    hashed_conventions,
    hashed_grids,
    hashed_features,
    hashed_sines,
    hashed_indices,
    hashed_biases,
)


def main() -> None:
    """Print the hashes, or fail if NumPy uses what it was told not to."""
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    found: dict[str, Any] = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[assignment]
    if ignored := set(disabled).intersection(found.get("found", ())):
        sys.exit(f"NumPy still uses {', '.join(sorted(ignored))}")
    hashes = {name: _hash(table) for name, table in _tables()}
    sys.stdout.write(json.dumps(hashes, indent=1) + "\n")


def _tables() -> Iterator[tuple[str, Table]]:
    return chain.from_iterable(module.tables() for module in _MODULES)


def _hash(table: Table) -> str:
    return hashlib.sha256(table.read(0, size(table)).tobytes()).hexdigest()


if __name__ == "__main__":
    main()
