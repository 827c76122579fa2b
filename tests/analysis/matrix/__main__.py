"""Judge the answers of /diagnose to cases: python -m tests.analysis.matrix SEED COUNT."""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from service.app import create_app
from service.settings import default_settings
from tests.analysis.matrix.cases import draw_case
from tests.analysis.matrix.judge import BAD, CLASSES, GOOD, post
from tests.analysis.matrix.runs import judged, judgement, say
from tests.client import client_of


def show(seed: int, name: str, *, simple: bool) -> None:
    """Print the answer to one case, by its name or its seed/index."""
    index = int(name.partition(":")[0].rpartition("/")[2])
    case = draw_case(seed, index)
    assert case is not None
    case = case.simplified() if simple else case
    with client_of(create_app(default_settings())) as client:
        status, answer = post(client, case)
        result = judgement(client, case, check=True)
    say(case.name, case.to)
    say(*(f"{name} {array.dtype} {array.shape}" for name, array in case.arrays.items()))
    say(f"expected {set(case.expected)} {dict(case.values)} {case.place}")
    say(f"visible {case.is_visible}", result.verdict, result.why)
    say(f"{status}", json.dumps(answer, indent=1, ensure_ascii=False))


def print_counts(results: list[tuple[str, str, str, str]]) -> None:
    totals = Counter(verdict for _, _, verdict, _ in results)
    by_label: dict[str, Counter[str]] = defaultdict(Counter)
    for _, label, verdict, _ in results:
        by_label["(pairs)" if "+" in label else label][verdict] += 1
    say("")
    for label, counts in sorted(by_label.items()):
        count = counts.total()
        good = sum(counts[verdict] for verdict in GOOD)
        parts = ", ".join(f"{verdict} {counts[verdict]}" for verdict in CLASSES if counts[verdict])
        say(f"{label:32} {count:5} {100 * good / count:4.0f}% good: {parts}")
    say("")
    for verdict in CLASSES:
        share = 100 * totals[verdict] / max(len(results), 1)
        say(f"{verdict:14} {totals[verdict]:6} {share:5.1f}%")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.analysis.matrix", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--only", default="", help="a regular expression of names or labels")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the index of the first case")
    parser.add_argument("--check", action="store_true", help="compare right tables with their URL")
    parser.add_argument("--simple", action="store_true", help="no wrappers, no open URLs")
    parser.add_argument("--all", action="store_true", help="print good cases, too")
    parser.add_argument("--show", metavar="NAME", help="print the answer to the case of this name")
    options = parser.parse_args()
    if options.show:
        show(options.seed, options.show, simple=options.simple)
        return 0
    began = time.perf_counter()
    stop = options.start + options.count
    parts = [range(options.start + job, stop, options.jobs) for job in range(options.jobs)]
    work = partial(
        judged,
        options.seed,
        only=options.only,
        check=options.check,
        simple=options.simple,
        every=options.all,
    )
    if options.jobs == 1:
        results = work(parts[0])
    else:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            results = [result for part in pool.map(work, parts) for result in part]
    print_counts(results)
    say(f"{len(results)} cases in {time.perf_counter() - began:.0f} s")
    return int(any(verdict in BAD for _, _, verdict, _ in results))


if __name__ == "__main__":
    sys.exit(main())
