"""Numbers that real libraries computed: cases of calls, what went in, and what came out.

A folder of them holds ``cases.json`` and ``arrays.npz``; POSREF_GOLDEN_DIR names another one than
that of the tests, with other cases of the same families.
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
        id: names it among all.
        group: of families.
        family: those that the same mapping answers.
        library: whose call it is.
        call: the call itself.
        params: what the call was given, by the library's own names.
        conventions: layout, order of axes, base of positions, what it was computed in.
        inputs: the arrays that went in.
        outputs: the arrays that came out.
        atol: how far each output may be from the exact formula.
        relative_error: how far each was, of its own size, where that was measured.
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
    atol: Mapping[str, float]
    relative_error: Mapping[str, float]


def golden_folder() -> Path:
    """Name the folder whose cases are run."""
    return Path(os.environ.get("POSREF_GOLDEN_DIR") or _OWN)


def read_cases(folder: Path) -> list[Case]:
    """Read every case of a folder."""
    entries = json.loads((folder / "cases.json").read_text())
    with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
        return [_case(entry, stored) for entry in entries]


def _case(entry: Mapping[str, Any], stored: Mapping[str, Array]) -> Case:
    tolerance = entry["tolerance"]
    described = ("id", "group", "family", "library", "call", "params", "conventions")
    return Case(
        **{name: entry[name] for name in described},
        inputs=dict(_arrays(entry, stored, "input")),
        outputs=dict(_arrays(entry, stored, "output")),
        atol=tolerance.get("suggested_atol_against_exact", {}),
        relative_error=tolerance.get("max_relative_error_vs_exact", {}),
    )


def _arrays(
    entry: Mapping[str, Any], stored: Mapping[str, Array], role: str
) -> Iterator[tuple[str, Array]]:
    for name, key in entry["arrays"].items():
        if entry["array_info"][name]["role"] == role:
            yield name, stored[key]
