# ruff: noqa: T201
"""Compare the tables that ``POST /model`` links with those that diffusers computes.

    python -m tests.models.diffusers_sweep EXPECTED.npz

EXPECTED.npz is the output of tools/library_diffusers.py. Prints, by class, how many cases
are right, refused and wrong, and each case that is not right.
"""

import io
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of

# The library's float32 angles are off by some 2^-24 of their size.
_ANGLE_ERROR = 4 * 2.0**-24

Case = Mapping[str, Any]
Arrays = Mapping[str, NDArray[Any]]


def outcome(client: Client, case: Case, arrays: Arrays) -> tuple[str, str]:
    """Return right, refused, wrong, or unbuilt by the library, with details."""
    answer = client.post("/model", json=case["config"])
    if answer.status_code != 200:
        return "refused", answer.json()["detail"]
    found = {each["id"]: each for each in answer.json()["encodings"]}
    if "id" not in case:
        served = [name for name, each in found.items() if each["served"]]
        kind = "unbuilt" if "unbuilt" in case else "wrong" if served else "right"
        return kind, f"the library has nothing, and {served}"
    own = found.get(case["id"])
    if own is None:
        return "wrong", f"{case['id']} is not among {[*found]}"
    if "shape" in case:
        is_same = own.get("shape") == case["shape"]
        return "right" if is_same else "wrong", f"{own.get('shape')}, not {case['shape']}"
    return _compared(client, own, case, arrays)


def _compared(client: Client, own: Any, case: Case, arrays: Arrays) -> tuple[str, str]:
    asks = own.get("asks", {})
    if set(asks) != set(case["asked"]):
        return "wrong", f"it asks for {[*asks]}"
    path, _, query = own["links"]["file"].partition("?")
    parameters = {name: text for name, text in parse_qsl(query) if name not in asks}
    for name, each in ((name, case["asked"][name]) for name in asks):
        parameters[name] = ",".join(map(str, each)) if isinstance(each, list) else str(each)
    parameters["dtype"] = "float64"
    answer = client.get(f"{path}?{urlencode(parameters)}")
    if answer.status_code != 200:
        return "refused", answer.json()["detail"]
    if path.endswith(".npy"):
        tables = {"": np.load(io.BytesIO(answer.content))}
    else:
        tables = safetensors.numpy.load(answer.content)
    details = []
    for part, key in case["arrays"].items():
        expected = arrays[key]
        table = tables.get(part, tables.get(""))
        if table is None or table.size != expected.size:
            return "wrong", f"{part}: {table is not None and table.shape} is not {expected.shape}"
        # A video's rows may stand frame by frame.
        error = float(np.abs(table.reshape(expected.shape) - expected).max(initial=0))
        if not error <= _allowed(own, case):
            details.append(f"{part} is off by {error:.2g}: {urlencode(parameters)}")
    return ("wrong", "; ".join(details)) if details else ("right", "")


def _allowed(own: Any, case: Case) -> float:
    """Return the error of the library's float32 angles."""
    values = {name: each["value"] for name, each in own["values"].items()}
    farthest = max([1.0, *np.abs(np.array(case["asked"].get("timesteps", [1.0])))])
    # The highest frequency is 1, or 1/max_period where that is below 1.
    farthest *= abs(values.get("scale", 1)) * max(1, 4 / values.get("max_period", 4))
    farthest *= max(1, values.get("num_timesteps", 1))
    if own["kind"] in {"rope-axial", "rope"}:
        asked = [*case["asked"].get("grid", [1]), *case["asked"].get("grid_offset", [0])]
        listed = [case["asked"].get(f"positions_{axis}", [0]) for axis in "thw"]
        farthest = max(*asked, *(max(each) for each in listed), 256)
        if "ltx" in values.get("convention", ""):
            # Frequencies up to π·theta/2, of which the library's powers have a larger error.
            farthest = 8 * values["rope_theta"]
    if own["kind"] == "sinusoidal":
        farthest = 512
    return 1e-6 + _ANGLE_ERROR * float(farthest)


def main() -> None:
    with np.load(sys.argv[1]) as stored:
        arrays = {name: stored[name] for name in stored.files}
    cases = json.loads(str(arrays.pop("cases")))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with client_of(create_app(default_settings())) as client:
        for case in cases:
            kind, details = outcome(client, case, arrays)
            counts[case["config"]["_class_name"]][kind] += 1
            if kind in {"refused", "wrong"}:
                print(
                    f"{kind} | {case['config']} | {case.get('id')} {case.get('asked')} | {details}"
                )
    total: Counter[str] = Counter()
    for name, own in sorted(counts.items()):
        total.update(own)
        print(name, dict(own))
    print(dict(total))


if __name__ == "__main__":
    main()
