"""A run as Markdown."""

import os

from benchmarks.load.requests import KINDS, MIB
from benchmarks.load.run import Outcome
from benchmarks.load.summary import Times, memory, warm_times
from benchmarks.load.tally import REFUSED
from benchmarks.markdown import print_table


def print_outcome(outcome: Outcome) -> None:
    """Print the requests, the answers and the costs."""
    _print_plan(outcome)
    _print_answers(outcome)
    _print_warm(outcome)
    _print_memory(outcome)


def _print_plan(outcome: Outcome) -> None:
    plan, tally, watch = outcome.plan, outcome.tally, outcome.watch
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    think = f"mean pause {plan.think_seconds:g} s" if plan.think_seconds else "no pauses"
    received = sum(tally.body_bytes.values()) / plan.seconds / 1e6
    print(f"- {plan.connections} connections for {plan.seconds} s, {think}, seed {plan.seed}")
    print(f"- {tally.answers / plan.seconds:.0f} answers/s, {received:.0f} MB/s of bodies")
    print(
        f"- processor time: server {watch.cores(outcome.start, outcome.stop):.2f} of a core, ",
        end="",
    )
    print(f"clients {tally.cpu_seconds / plan.seconds:.2f}")
    print(f"- {len(os.sched_getaffinity(0))} cores; load averages after the run {load}")


def _print_answers(outcome: Outcome) -> None:
    tally = outcome.tally
    print("\nAnswers, in milliseconds from the request to the last byte\n")
    rows = []
    for kind in (*KINDS, REFUSED):
        times = Times.of(tally.seconds[kind])
        compared = tally.compared[kind]
        rows.append([kind, f"{times.answers:,}", f"{compared:,}", *_milliseconds(times)])
    print_table(["kind", "answers", "compared byte by byte", "p50", "p99", "longest"], rows)
    print(f"\n{tally.refused:,} deliberate 503s; trouble: {outcome.trouble or 'none'}")


def _print_warm(outcome: Outcome) -> None:
    print("\nSingle warm answers, p50 / p99 / longest in milliseconds\n")
    rows = [
        [
            target,
            *(" / ".join(_milliseconds(t)) for t in (w.before, w.during, w.after)),
            f"{w.ratio:.1f}",
        ]
        for target, w in warm_times(outcome).items()
    ]
    print_table(["answer", "before", "during", "after", "p99 during ÷ before"], rows)


def _print_memory(outcome: Outcome) -> None:
    held = memory(outcome)
    named = (("idle", held.idle), ("after the first minute", held.first_minute))
    for name, each in (*named, ("at the end", held.end), ("most", held.most)):
        print(f"- resident memory {name}: {each / MIB:.0f} MiB")
    filled = outcome.watch.filled_after(outcome.start)
    print(f"- growth after the first minute: {held.growth:+.1%}; cache full after {filled:.0f} s")


def _milliseconds(times: Times) -> list[str]:
    return [f"{each:.2f}" for each in (times.p50, times.p99, times.most)]
