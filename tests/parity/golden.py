"""Cases of calls of real libraries with their inputs and outputs.

A folder of them holds ``cases.json`` and ``arrays.npz``. POSREF_GOLDEN_DIR (tables) and
POSREF_POSITIONS_DIR (positions, rotations with them, resizes) name other folders than those of the
tests, with other cases of the same families.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]

_OWN = Path(__file__).parents[1] / "data" / "golden"


@dataclass(frozen=True, eq=False)
class Case:
    """One call of a library.

    Attributes:
        group: of families.
        family: the cases with the same mapping.
        params: of the call, by the library's names.
        conventions: layout, order of axes, first position, precision; in words.
        tolerance: of the outputs, as the case describes it.
        has_defect: whether the library's output is wrong, and the right one beside it, ``exact``.
    """

    id: str
    group: str
    family: str
    library: str
    call: str
    params: Mapping[str, Any]
    conventions: str
    inputs: Arrays = field(repr=False)
    outputs: Arrays = field(repr=False)
    tolerance: Mapping[str, Any] = field(repr=False)
    has_defect: bool

    @property
    def atol(self) -> Mapping[str, float]:
        """The tolerance of each output against the exact formula."""
        return self.tolerance.get("suggested_atol_against_exact", {})  # type: ignore[no-any-return]

    @property
    def relative_error(self) -> Mapping[str, float]:
        """The measured relative error of each output, where there is one."""
        return self.tolerance.get("max_relative_error_vs_exact", {})  # type: ignore[no-any-return]


def golden_folder() -> Path:
    """Return the folder of the cases of tables."""
    return Path(os.environ.get("POSREF_GOLDEN_DIR") or _OWN)


def positions_folder() -> Path:
    """Return the folder of the cases of positions, rotations with them and resizes."""
    return Path(os.environ.get("POSREF_POSITIONS_DIR") or _OWN / "positions")


def read_cases(folder: Path) -> list[Case]:
    """Read every case of a folder."""
    entries = json.loads((folder / "cases.json").read_text())
    with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
        return [_case(entry, stored) for entry in entries]


def _case(entry: Mapping[str, Any], stored: Mapping[str, Array]) -> Case:
    described = ("id", "group", "family", "library", "call", "params", "conventions")
    return Case(
        **{name: entry[name] for name in described},
        inputs=dict(_arrays(entry, stored, "input")),
        outputs=dict(_arrays(entry, stored, "output")),
        tolerance=entry["tolerance"],
        has_defect="known_defect" in entry,
    )


def _arrays(
    entry: Mapping[str, Any], stored: Mapping[str, Array], role: str
) -> Iterator[tuple[str, Array]]:
    for name, key in entry["arrays"].items():
        if entry["array_info"][name]["role"] == role:
            yield name, stored[key]
