"""A run of the load fails if a figure is beyond its limit."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.load.picture import draw
from benchmarks.load.plan import Plan
from benchmarks.load.prober import Probe, Probed
from benchmarks.load.report import print_outcome
from benchmarks.load.requests import MIB, WARM
from benchmarks.load.run import BESIDE, Outcome
from benchmarks.load.summary import document, failures
from benchmarks.load.tally import Tally
from benchmarks.load.watch import WATCHED, Usage, Watch

PLAN = Plan(connections=2, seconds=300, unloaded_seconds=10)
START = 1000.0
TARGET = "4×4 .npy"


def probed(start: float, seconds: float, *targets: str) -> Probed:
    probes = [Probe(target, start + at, seconds) for at in range(10) for target in targets]
    return Probed(probes)


def watched(late_bytes: int) -> Watch:
    """Return a record of 400 MiB, and of another size from the third minute on."""
    taken = [400 * MIB if at < 120 else late_bytes for at in range(-10, 310)]
    usages = [Usage(START + at, bytes_, 0.5 * at) for at, bytes_ in enumerate(taken, -10)]
    return Watch(usages, [(START + 5, dict.fromkeys(WATCHED, 1.0))])


@pytest.fixture
def good() -> Outcome:
    return Outcome(
        plan=PLAN,
        start=START,
        tally=Tally(statuses=Counter({(WARM, 200): 5})),
        before=probed(START - 10, 0.001, TARGET, BESIDE + TARGET),
        during=probed(START, 0.009, TARGET, BESIDE + TARGET),
        after=probed(START + 300, 0.001, TARGET, BESIDE + TARGET),
        watch=watched(430 * MIB),
    )


def test_run_within_all_limits_passes(good: Outcome) -> None:
    assert not failures(good)


def test_any_client_failure_fails_the_run(good: Outcome) -> None:
    tally = Tally(good.tally.statuses, trouble=Counter({(WARM, "wrong bytes"): 2}))
    slow = replace(good.after, trouble=["it was late"])

    assert failures(replace(good, tally=tally)) == ["warm: wrong bytes: 2"]
    assert failures(replace(good, after=slow)) == ["it was late"]


def test_run_without_answers_fails(good: Outcome) -> None:
    assert failures(replace(good, tally=Tally())) == ["nothing was answered"]


def test_memory_growth_fails_the_run(good: Outcome) -> None:
    (found,) = failures(replace(good, watch=watched(450 * MIB)))

    assert "memory" in found


def test_memory_that_is_returned_does_not_fail_the_run(good: Outcome) -> None:
    assert not failures(replace(good, watch=watched(350 * MIB)))


def test_slow_warm_answers_fail_a_run_with_pauses(good: Outcome) -> None:
    during = probed(START, 0.011, TARGET, BESIDE + TARGET)
    slow = replace(good, during=during)

    assert failures(slow) == [f"p99 of warm {TARGET} is 11.0 times that without load"]
    assert not failures(replace(slow, plan=replace(PLAN, think_seconds=0.0)))


@pytest.mark.full
def test_report_and_picture_have_all_figures(
    good: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_outcome(good)
    draw(good, tmp_path / "load.png")

    assert "+7.5%" in capsys.readouterr().out
    with Image.open(tmp_path / "load.png") as picture:
        assert min(picture.size) > 300
    assert document(good)["failures"] == []
