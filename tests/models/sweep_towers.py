"""Compare the tables that POST /model links for vision towers with those of transformers.

    python -m tests.models.sweep_towers EXPECTED [SAMPLE]

EXPECTED is written by tools/library_towers.py. Prints how many tables of each type are
right, refused or wrong, and each config whose table is not right; or writes some cases with a few
rows to SAMPLE, which the tests compare.
"""

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of, load_npy

TOLERANCE = 2e-4
SAMPLED = 40
WIDEST = 96

Case = dict[str, Any]


def outcome(client: Client, case: Mapping[str, Any]) -> tuple[str, str]:
    """Return right, refused or wrong for rows of the table of a case, and what differs."""
    asks = dict(case["asks"])
    merge = asks.pop("spatial_merge_size", None)
    query = "".join(f"?{name}={','.join(map(str, asks[name]))}" for name in asks)
    answer = client.post(f"/model{query}", json=case["config"])
    if answer.status_code != 200:
        return "refused", answer.json()["detail"]
    chosen, part = case.get("id", "rotary"), case.get("part", "")
    found = [
        each
        for each in answer.json()["encodings"]
        if each["config"] == part and each["id"].endswith(chosen)
    ]
    if not found or "links" not in found[0]:
        return "refused", f"no table {chosen} of {part}"
    for name in ("cos", "sin"):
        url = found[0]["links"][name]
        if merge is not None:
            url = url.replace("spatial_merge_size=1", f"spatial_merge_size={merge}")
        table, numbers = load_npy(client.get(url)), np.array(case[name])
        shape = (case["count"], numbers.shape[1])
        if table.shape != shape:
            return "wrong", f"{table.shape} for {shape}: {url}"
        distance = float(np.abs(table[case["rows"]] - numbers).max())
        if not distance < TOLERANCE:
            return "wrong", f"{name} is {distance:.2g} away: {url}"
    return "right", ""


def sampled(cases: list[Case], tables: Mapping[str, NDArray[Any]]) -> Iterator[Case]:
    """Yield some cases, chosen by a seed, with two rows of their tables."""
    narrow = [n for n in range(len(cases)) if tables[f"{n}.cos"].shape[1] <= WIDEST]
    for number in sorted(random.Random(1).sample(narrow, SAMPLED)):
        expected = {part: tables[f"{number}.{part}"] for part in ("cos", "sin")}
        count = len(expected["cos"])
        rows = [count // 3, count - 1]
        parts = {name: table[rows].round(5).tolist() for name, table in expected.items()}
        yield {**cases[number], "count": count, "rows": rows, **parts}


def main(file: str, sample: str | None = None) -> None:
    arrays = np.load(file)
    cases = json.loads(str(arrays["cases"]))
    if sample is not None:
        lines = map(json.dumps, sampled(cases, arrays))
        Path(sample).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with client_of(create_app(default_settings())) as client:
        for number, case in enumerate(cases):
            expected = {part: arrays[f"{number}.{part}"] for part in ("cos", "sin")}
            rows = list(range(len(expected["cos"])))
            result, detail = outcome(client, {**case, "count": len(rows), "rows": rows, **expected})
            counts[case["config"]["model_type"]][result] += 1
            if detail:
                sys.stdout.write(f"{result} {json.dumps(case)} {detail}\n")
    for kind, results in counts.items():
        figures = " ".join(f"{name} {count}" for name, count in results.items())
        sys.stdout.write(f"{kind:32} {figures}\n")
    total = sum(counts.values(), Counter())
    sys.stdout.write(f"all {dict(total)}: {total['right'] / total.total():.1%} right\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
