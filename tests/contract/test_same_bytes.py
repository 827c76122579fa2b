"""The same URL has the same bytes at every SIMD level."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from service.encodings.registry import FAMILIES

DATA = Path(__file__).parents[1] / "data"
HASHES = json.loads((DATA / "table_hashes.json").read_text())


def instruction_sets() -> list[str]:
    """List NumPy's optional SIMD extensions on this processor, oldest first."""
    found: list[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    "disabled",
    [instruction_sets()[kept:] for kept in range(len(instruction_sets()) + 1)],
    ids=lambda disabled: f"without {' '.join(disabled)}" if disabled else "with all",
)
def test_tables_have_the_same_bytes_at_every_simd_level(disabled: list[str]) -> None:
    hashed = subprocess.run(
        [sys.executable, "-W", "error", DATA / "hash_tables.py"],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled)},
        capture_output=True,
        check=False,
    )

    assert hashed.stderr == b""
    assert json.loads(hashed.stdout) == HASHES


def test_every_family_is_hashed_at_its_revision() -> None:
    revisions = {path: hashed["revision"] for path, hashed in HASHES.items()}

    expected = {family.path: family.revision_of_bytes for family in FAMILIES.values()}
    assert revisions == expected, "run python tests/data/hash_tables.py"
    assert all(hashed["hashes"] for hashed in HASHES.values())
