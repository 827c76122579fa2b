"""Compare positions that are not rotary, as ``POST /model`` has them, with those of transformers.

    python -m tests.models.other_sweep EXPECTED.npz [--sample COUNT]

EXPECTED.npz is the output of tools/other_positions.py. Prints, by kind, how many cases are
right, refused, unserved, missing and wrong, and each case that is wrong or missing; --sample
writes about so many of the cases, chosen by a seed, to the sample that the tests compare.
"""

import argparse
import io
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of

SAMPLE = Path(__file__).parents[1] / "data" / "library_positions.npz"
_LARGEST_SAMPLED = 1500
# Libraries compute sines of angles in float32.
_ANGLE_ERROR = 4 * 2.0**-24

_LAYER = re.compile(r"\.\d+(?![^.])")

Case = Mapping[str, Any]
Outcome = tuple[str, str, str]
"""A kind of encoding, an outcome and details."""


def outcomes(client: Client, case: Case, arrays: Mapping[str, NDArray[Any]]) -> Iterator[Outcome]:
    """Yield the outcomes of a case."""
    answer = client.post("/model", json=case["config"])
    if answer.status_code != 200:
        yield "config", "refused", answer.json()["detail"]
        return
    own = [each | {"at": _LAYER.sub(".*", each["at"])} for each in answer.json()["encodings"]]
    if "shapes" in case:
        yield from _shapes(own, case["shapes"])
        return
    at = case["at"]
    found = [each for each in own if each["at"] == at or each["at"].startswith(f"{at}.")]
    served = [each for each in found if each["served"]]
    if not served:
        yield "table", "unserved" if found else "missing", at
        return
    results = [_compared(client, each, case["asked"], arrays[case["array"]]) for each in served]
    yield next((each for each in results if each[1] == "right"), results[0])


def _shapes(own: list[Any], shapes: Mapping[str, list[list[int]]]) -> Iterator[Outcome]:
    for each in own:
        if each["served"] or not each.get("shape"):
            continue
        names = [name for name in shapes if name in {each["at"], f"{each['at']}.weight"}]
        names += [name for name in shapes if name.startswith(f"{each['at']}.") and not names]
        known = [shape for name in names for shape in shapes[name]]
        if known:
            is_right = each["shape"] in known
            details = "" if is_right else f"{each['at']} {each['shape']} is not {known}"
            yield each["kind"], "right" if is_right else "wrong", details
    places = {each["at"] for each in own}
    for name in shapes:
        parts = name.split(".")
        if not any(".".join(parts[:n]) in places for n in range(len(parts) + 1)):
            yield "tensor", "missing", name


def _compared(client: Client, own: Any, asked: Mapping[str, Any], numbers: NDArray[Any]) -> Outcome:
    path, _, query = own["links"]["file"].partition("?")
    added = {name: value for name, value in asked.items() if name not in {"rows", "count"}}
    kept = [part for part in query.split("&") if part.partition("=")[0] not in added]
    answer = client.get(f"{path}?{'&'.join([*kept, urlencode(added)]).strip('&')}")
    if answer.status_code != 200:
        return own["kind"], "wrong", f"{answer.status_code} {path}?{query}"
    table = np.load(io.BytesIO(answer.content)).astype(np.float64)
    if asked.get("count", len(table)) != len(table):
        return own["kind"], "wrong", f"{len(table)} rows are not {asked['count']}"
    if asked.get("rows"):
        table = table.reshape(-1, table.shape[-1])
        if max(asked["rows"]) >= len(table):
            return (
                own["kind"],
                "wrong",
                f"{own['at']} has {len(table)} rows, not {asked['rows'][-1]}",
            )
        table = table[asked["rows"]]
    if numbers.ndim == 1 and table.ndim == 2 and table.size == numbers.size:
        table = table.reshape(-1)
    if table.shape != numbers.shape:
        return own["kind"], "wrong", f"{own['at']} {table.shape} is not {numbers.shape}"
    longest = max(len(table), *(asked.get("rows") or [0]), 1)
    off = float(np.abs(table - numbers).max(initial=0))
    if off > _ANGLE_ERROR * longest * 4 + 1e-6:
        return own["kind"], "wrong", f"{own['at']} is off by {off:.2g}: {path}?{query}"
    return own["kind"], "right", ""


def write_sample(loaded: Mapping[str, NDArray[Any]], count: int) -> None:
    """Write a sample of cases: as many with numbers as with shapes, of as many types."""
    cases = json.loads(str(loaded["cases"]))
    random.Random(19).shuffle(cases)
    small = [
        case
        for case in cases
        if case.get("shapes") or ("array" in case and loaded[case["array"]].size < _LARGEST_SAMPLED)
    ]
    chosen: dict[tuple[str, str], Case] = {}
    for case in small:
        chosen.setdefault((case["config"]["model_type"], case.get("at", "")), case)
    sample = [case for case in chosen.values() if "at" in case][: count // 2]
    sample += [case for case in chosen.values() if "at" not in case][: count - len(sample)]
    arrays = {case["array"]: loaded[case["array"]] for case in sample if "array" in case}
    np.savez_compressed(SAMPLE, cases=np.array(json.dumps(sample)), **arrays)  # type: ignore[arg-type]


def main() -> None:
    """Print the outcomes of all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("expected", type=Path)
    parser.add_argument("--sample", type=int)
    given = parser.parse_args()
    loaded = np.load(given.expected)
    if given.sample:
        write_sample(loaded, given.sample)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    lines: list[str] = []
    with client_of(create_app(default_settings())) as client:
        for case in json.loads(str(loaded["cases"])):
            config = ", ".join(f"{key}={value}" for key, value in case["config"].items())
            for kind, result, details in outcomes(client, case, loaded):
                counts[kind][result] += 1
                if result in {"wrong", "missing", "refused"}:
                    lines.append(f"{result}: {config}: {details}")
    lines += [
        f"{kind}: {', '.join(f'{n} {name}' for name, n in results.most_common())}"
        for kind, results in sorted(counts.items())
    ]
    print("\n".join(lines))  # noqa: T201 - the figures of the sweep


if __name__ == "__main__":
    main()
