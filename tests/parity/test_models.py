"""Published models with transformers' own float32 frequencies."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.client import Client

MODELS = json.loads((Path(__file__).parents[1] / "data/rope_models.json").read_text())["models"]
POSITIONS = (1, 4095, 131071)

Float32s = NDArray[np.float32]


def frequencies() -> Iterator[Any]:
    for model in MODELS:
        for label, measured in model["transformers_5_23_0_float32"].items():
            yield pytest.param(measured, id=f"{model['name']}, {label}")


def of_engine(measured: dict[str, Any]) -> tuple[Float32s, Float32s]:
    """Compute as transformers does: a float32 product, its cosine and sine, times the factor."""
    inv_freq = np.array(measured["inv_freq"], dtype=np.float32)
    angles = np.array(POSITIONS, dtype=np.float32)[:, np.newaxis] * inv_freq
    factor = np.float32(measured["attention_factor"])
    wide = angles.astype(np.float64)
    return np.cos(wide).astype(np.float32) * factor, np.sin(wide).astype(np.float32) * factor


@pytest.mark.parametrize("measured", list(frequencies()))
def test_an_engines_own_frequencies_give_its_own_table(
    client: Client, measured: dict[str, Any]
) -> None:
    parameters = {
        "inv_freq": measured["inv_freq"],
        "attention_factor": measured["attention_factor"],
        "angle": "float32",
        "positions": list(POSITIONS),
        "pack": "compact",
    }

    answer = client.post("/rope", json=parameters).json()

    for name, expected in zip(("cos", "sin"), of_engine(measured), strict=True):
        found = np.array(answer["data"][name], dtype=np.float32)
        assert (np.abs(found - expected) <= 2 * np.spacing(np.abs(expected))).all()
    assert answer["error_bound"] < 0.03 * measured["attention_factor"]
