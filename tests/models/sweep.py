"""Compare the rotary settings of configs with the frequencies of transformers.

    python -m tests.models.sweep EXPECTED [--sample COUNT]

EXPECTED is the output of tools/rotary_frequencies.py. Prints how many answers are right, and
each config whose answer is not; --sample writes so many of its lines, chosen by a seed, to the
sample that the tests compare.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from math import isclose
from pathlib import Path
from typing import Any

from service.delivery.parameters import parse_query, read_parameters
from service.encodings.rotary.rope import RopeFrequencies
from service.errors import PosrefError
from service.models.documents import read_document
from service.routes.model_links import ConfigParameters
from service.routes.rope_config import report_config
from service.settings import default_settings

SAMPLE = Path(__file__).parents[1] / "data" / "library_rotary.jsonl"
_TOLERANCE = 1e-5
_LONGEST_SAMPLED = 1500

Expected = Mapping[str, tuple[int, float, Mapping[str, float]]]


def outcome(case: Mapping[str, Any]) -> tuple[str, str]:
    """Return right, right with warning, refused, wrong with warning or wrong; and details."""
    outcomes = [_outcome(case["config"], case["expected"], None)]
    if case.get("longer") and case["longer"][1]:
        length, expected = case["longer"]
        outcomes.append(_outcome(case["config"], expected, length))
    order = ("wrong", "wrong with warning", "refused", "right with warning", "right")
    return min(outcomes, key=lambda found: order.index(found[0]))


def _outcome(
    config: Mapping[str, Any], expected: Expected, context_length: int | None
) -> tuple[str, str]:
    parameters = ConfigParameters(context_length=context_length)
    try:
        document = read_document(json.dumps(config).encode())
        report = report_config(parameters, document, default_settings())
    except PosrefError as error:
        return "refused", error.detail
    differing = _differing(expected, report.rope)
    codes = {warning.code for warning in report.warnings} - {"class-default-used", "per-layer-rope"}
    if not differing:
        return ("right with warning" if codes else "right"), ""
    details = f"{'; '.join(differing)} {sorted(codes)}"
    return ("wrong with warning" if codes else "wrong"), details


def _differing(expected: Expected, found: Mapping[str, Any]) -> list[str]:
    if not found:
        return ["there is no rotary embedding"]
    differing = []
    for label, (count, factor, values) in expected.items():
        text = {"default": found["default"]} if "default" in found else found
        entries = {name: each for name, each in text.items() if label in ("", name)}
        if not entries and "default" in found:
            entries = {"default": found["default"]}
        for name, entry in entries.items():
            query = parse_query(entry.frequencies.partition("?")[2].encode())
            own = read_parameters(RopeFrequencies, query)
            inv_freq = [float(each) for each in own.rule(own.head_dim).exact()]
            near = len(inv_freq) == count and all(
                isclose(inv_freq[int(i)], each, rel_tol=_TOLERANCE) for i, each in values.items()
            )
            if not near:
                chosen = [inv_freq[min(int(i), len(inv_freq) - 1)] for i in values]
                differing.append(f"{name}: {len(inv_freq)} {chosen[:3]} is not {count} {values}")
            if not isclose(entry.attention_factor, factor, rel_tol=_TOLERANCE):
                differing.append(f"{name}: factor {entry.attention_factor} is not {factor}")
    return differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("expected", type=Path)
    parser.add_argument("--sample", type=int)
    chosen = parser.parse_args()
    lines = chosen.expected.read_text().splitlines()
    if chosen.sample:
        short = [line for line in lines if len(line) < _LONGEST_SAMPLED]
        sample = random.Random(19).sample(short, chosen.sample)
        SAMPLE.write_text("".join(f"{line}\n" for line in sorted(sample)))
        return
    counts: Counter[str] = Counter()
    for line in lines:
        case = json.loads(line)
        name, details = outcome(case)
        counts[name] += 1
        if not name.startswith("right"):
            where = f"{case['class']} | {case['config']['model_type']} | {case['change']}"
            sys.stdout.write(f"{name} | {where} | {details}\n")
    total = counts.total()
    for name, count in counts.most_common():
        sys.stdout.write(f"{count} {name} ({count / total:.2%})\n")


if __name__ == "__main__":
    main()
