"""Every table of a library in the golden data is identified with its arithmetic."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.analysis.array import IdentifyInput
from service.analysis.identification.search import identify
from service.numerics.dtypes import FLOAT64
from service.routes.table_urls import tables
from tests.analysis.samples import sample_from

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
DOUBLE, SINGLE = {"exact", "float64"}, {"float32", "float32-steps"}

# Outputs that are no positional table, or depend on weights or random numbers.
_NO_TABLES = {
    ":y": "vectors that were rotated, or random numbers that were shifted",
    "q_out": "vectors that were rotated",
    "k_out": "vectors that were rotated",
    "attention_scaling": "one number",
    "diffusers_gaussian_fourier": "random frequencies",
    "t5_bias": "a learned bias",
    "xt_dynamic_position_bias.dev.01:bias": "distances mapped by a network",
    "xt_dynamic_position_bias.dev.02:bias": "distances mapped by a network",
    "xpos_scale.dev.01:scale": "growth alone, without angles",
    "xpos_scale.dev.02:scale": "growth alone, without angles",
    "xpos_scale.dev.04": "vectors that were rotated",
    "diffusers_rope_3d.dev.04:grid": "positions of one axis",
}
# Tables that are not served in this form.
_OTHER_FORMS = {
    "hf_fairseq_sinusoid.dev.01:out": "the rows of a batch of padded sentences",
    "detr_sine.dev.03": "the positions of a batch of masks",
    "detr_sine.dev.05": "the positions of a batch of masks",
    "alibi_bloom.dev.02:bias": "the biases of a batch of masks",
    "diffusers_rope_3d.dev.04": "cosines of one axis alone",
    "diffusers_rope_2d.dev.04": "a table in which axes are not concatenated",
    "diffusers_rope_1d.dev.05": "rows too far apart for positions to be unambiguous",
    "ret_axial_freqs": "angles on axes of a grid",
    "xpos_scale.dev.02:freqs": "angles, each twice",
    "xlnet_relative.dev.03": "a batch of four, two of each direction",
    "xpos_scale.dev.03": "cosines that grow, of queries and keys apart",
    "x_transformers.dev.01:freqs": "angles, each twice",
    "x_transformers.dev.02:freqs": "angles, each twice",
    "x_transformers.dev.03:freqs": "angles, each twice",
    "x_transformers.dev.03:scale": "growth alone, without angles",
    "hf_longrope.dev.01:inv_freq": "factors of seven digits: such a list fits any frequencies",
    "hf_longrope.dev.03:inv_freq": "factors of seven digits: such a list fits any frequencies",
}
# Coordinates are divided in float32, whatever the type of the table.
_FLOAT32_INSIDE = ("diffusers_sincos_2d", "diffusers_sincos_3d")


def arrays_of(case: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the names of the tables of a case, cosines and sines together."""
    outputs = [name for name, info in case["array_info"].items() if info["role"] == "output"]
    if {"cos", "sin"} <= set(outputs):
        yield ("cos", "sin")
        outputs = [name for name in outputs if name not in {"cos", "sin"}]
    yield from ((name,) for name in outputs)


def is_excepted(label: str) -> bool:
    return any(part in label for part in (*_NO_TABLES, *_OTHER_FORMS))


CASES = {
    f"{case['id']}:{','.join(names)}": (case, names)
    for case in json.loads((GOLDEN / "cases.json").read_text())
    for names in arrays_of(case)
}
TABLES = {label: case for label, case in CASES.items() if not is_excepted(label)}


@pytest.fixture(scope="module")
def arrays() -> Any:
    return np.load(GOLDEN / "arrays.npz")


@pytest.mark.parametrize("label", TABLES)
def test_table_of_a_library_is_identified_with_its_arithmetic(label: str, arrays: Any) -> None:
    case, names = TABLES[label]
    samples = [sample_from(arrays[case["arrays"][name]]) for name in names]

    found = identify(IdentifyInput(dict(zip(names, samples, strict=True))), tables)

    assert found.outcome != "none"
    arithmetics = {each.name for each in found.hypotheses[0].arithmetic}
    is_double = samples[0].element_dtype is FLOAT64
    is_single_inside = any(part in label for part in _FLOAT32_INSIDE)
    assert arithmetics & (DOUBLE if is_double and not is_single_inside else DOUBLE | SINGLE)
