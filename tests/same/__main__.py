"""Compare the answers of the service with a record of them, or with those of another tree.

    python -m tests.same                     compare with the record
    python -m tests.same --record            write the record
    python -m tests.same --show /livez       print the answers to requests whose labels hold this
    python -m tests.same --against DIR       print how the answers of a checkout differ from these

--only SUBSTRING chooses requests by their labels for each of them.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from pathlib import Path

import orjson

from tests.same.answers import REQUESTS, Answer

ROOT = Path(__file__).parents[2]
RECORD = REQUESTS.with_name("same.json")

_CHILD = """\
import sys
sys.path[:0] = [sys.argv[1], sys.argv.pop(2)]
from same import answers
answers.main()
"""
_PARTS = ("status", "headers", "body")
_SHOWN_LABELS = 40
_SHOWN_LINES = 60


def answers_of(root: Path, only: str, workers: int) -> dict[str, Answer]:
    """Give the answers of a tree by label, sorted.

    Raises:
        SystemExit: if the tree fails to answer.
    """
    with ThreadPoolExecutor(workers) as threads:
        shares = threads.map(lambda share: _share(root, share, workers, only), range(workers))
        found = {answer.label: answer for share in shares for answer in share}
    return dict(sorted(found.items()))


def _share(root: Path, share: int, shares: int, only: str) -> list[Answer]:
    arguments = [str(root), str(ROOT / "tests"), str(share), str(shares), only]
    run = subprocess.run(
        [sys.executable, "-B", "-P", "-c", _CHILD, *arguments],
        cwd=root,
        stdout=subprocess.PIPE,
        check=False,
    )
    if run.returncode:
        raise SystemExit(f"same: the answers of {root} could not be made")
    return [Answer(**orjson.loads(line)) for line in run.stdout.splitlines()]


def compare(
    recorded: Mapping[str, str], current: Mapping[str, str], *, is_whole: bool
) -> dict[str, str]:
    """Say of each label that differs which parts do.

    Args:
        recorded, current: a status and two hashes, by label.
        is_whole: whether what is recorded must be there.
    """
    differing: dict[str, str] = {}
    for label in sorted({*current, *(recorded if is_whole else ())}):
        old, new = recorded.get(label), current.get(label)
        if old is None or new is None:
            differing[label] = "not recorded" if old is None else "no longer answered"
        elif old != new:
            pairs = zip(_PARTS, old.split(), new.split(), strict=True)
            differing[label] = ", ".join(
                f"{part} {before} → {after}" if part == "status" else part
                for part, before, after in pairs
                if before != after
            )
    return differing


def _difference(label: str, theirs: Answer | None, ours: Answer | None) -> Iterator[str]:
    """Give the lines in which two answers differ, the first of them."""
    lines = list(
        unified_diff(
            _lines(theirs), _lines(ours), f"before: {label}", f"now: {label}", n=3, lineterm=""
        )
    )
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"… {len(lines) - _SHOWN_LINES} more lines"


def _lines(answer: Answer | None) -> Sequence[str]:
    if answer is None:
        return []
    return [str(answer.status), *answer.headers.splitlines(), "", *answer.body.splitlines()]


def _counts(labels: Sequence[str]) -> Iterator[str]:
    """Count labels by path, without extensions."""
    paths = Counter(label.split()[1].partition("?")[0].partition(".")[0] for label in labels)
    for path, count in sorted(paths.items()):
        yield f"{count:6} {path}"


def main() -> int:
    """Do what the arguments say, and give the exit status: 1 if answers differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--record", action="store_true", help="write the record")
    action.add_argument("--show", metavar="SUBSTRING", help="print answers")
    action.add_argument("--against", metavar="DIR", type=Path, help="a checkout to compare with")
    parser.add_argument("--only", metavar="SUBSTRING", default="", help="a part of the labels")
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="processes")
    given = parser.parse_args()
    ours = answers_of(ROOT, given.show or given.only, given.workers)
    if not ours:
        parser.error("no label of a request holds that")
    if given.show:
        for answer in ours.values():
            _say(f"== {answer.label}", *_lines(answer), "")
        return 0
    current = {label: answer.record for label, answer in ours.items()}
    if given.record:
        kept = {} if not given.only else orjson.loads(RECORD.read_bytes())
        lines = [
            f"{_quoted(label)}: {_quoted(said)}" for label, said in sorted((kept | current).items())
        ]
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        _say(f"same: {len(lines)} answers recorded")
        return 0
    if given.against:
        theirs = answers_of(given.against.resolve(), given.only, given.workers)
        recorded = {label: answer.record for label, answer in theirs.items()}
    else:
        theirs = {}
        recorded = orjson.loads(RECORD.read_bytes())
    is_whole = bool(given.against) or not given.only
    differing = compare(recorded, current, is_whole=is_whole)
    if not differing:
        _say(f"same: {len(current)} answers, none differ")
        return 0
    for label, parts in list(differing.items())[:_SHOWN_LABELS]:
        _say(f"{label}: {parts}")
        if given.against:
            _say(*_difference(label, theirs.get(label), ours.get(label)))
    if len(differing) > _SHOWN_LABELS:
        _say(f"… {len(differing) - _SHOWN_LABELS} more")
    _say(*_counts(list(differing)), f"same: {len(current)} answers, {len(differing)} differ")
    return 1


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
