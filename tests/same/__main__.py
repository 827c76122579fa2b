"""Compare the answers of the service with a record of them, or with those of another tree.

    python -m tests.same                     compare with the record
    python -m tests.same --record            write the record
    python -m tests.same --against DIR       print how the answers of a checkout differ from these

--only SUBSTRING chooses requests by their labels for each of them.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from itertools import islice
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
_PROCESSES = 2
_SHOWN_LABELS = 40
_SHOWN_LINES = 60


def answers_of(root: Path, only: str) -> dict[str, Answer]:
    """Return the answers of a tree by label, sorted; exit if it fails."""
    with ThreadPoolExecutor(_PROCESSES) as threads:
        shares = threads.map(lambda share: _share(root, share, only), range(_PROCESSES))
        found = {answer.label: answer for share in shares for answer in share}
    return dict(sorted(found.items()))


def _share(root: Path, share: int, only: str) -> list[Answer]:
    arguments = [str(root), str(ROOT / "tests"), str(share), str(_PROCESSES), only]
    run = subprocess.run(
        [sys.executable, "-B", "-P", "-c", _CHILD, *arguments],
        cwd=root,
        # Child processes of the service have the path of the environment, not that of their parent.
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        check=False,
    )
    if run.returncode:
        raise SystemExit(f"same: {root} failed")
    return [Answer(**orjson.loads(line)) for line in run.stdout.splitlines()]


def compare(
    recorded: Mapping[str, str], current: Mapping[str, str], *, is_whole: bool
) -> dict[str, str]:
    """Return the parts that differ, by label.

    Args:
        recorded, current: a status and two hashes, by label.
        is_whole: whether every recorded label must be in ``current``.
    """
    differing: dict[str, str] = {}
    for label in sorted({*current, *(recorded if is_whole else ())}):
        old, new = recorded.get(label), current.get(label)
        if old is None or new is None:
            differing[label] = "not recorded" if old is None else "no longer answered"
        elif old != new:
            pairs = zip(_PARTS, old.split(), new.split(), strict=True)
            differing[label] = ", ".join(part for part, *values in pairs if values[0] != values[1])
    return differing


def _difference(label: str, theirs: Answer | None, ours: Answer | None) -> Iterator[str]:
    """Yield the first lines of the difference between two answers."""
    names = f"before: {label}", f"now: {label}"
    yield from islice(unified_diff(_lines(theirs), _lines(ours), *names, lineterm=""), _SHOWN_LINES)


def _lines(answer: Answer | None) -> Sequence[str]:
    if answer is None:
        return []
    return [str(answer.status), *answer.headers.splitlines(), "", *answer.body.splitlines()]


def main() -> int:
    """Run the command, and return the exit status: 1 if answers differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--record", action="store_true", help="write the record")
    action.add_argument("--against", metavar="DIR", type=Path, help="a checkout to compare with")
    parser.add_argument("--only", metavar="SUBSTRING", default="", help="a part of the labels")
    given = parser.parse_args()
    ours = answers_of(ROOT, given.only)
    if not ours:
        parser.error("no label of a request holds that")
    current = {label: answer.record for label, answer in ours.items()}
    if given.record:
        kept = {} if not given.only else orjson.loads(RECORD.read_bytes())
        RECORD.write_text(json.dumps(kept | current, indent=0, sort_keys=True) + "\n")
        _say(f"same: {len(kept | current)} answers recorded")
        return 0
    if given.against:
        theirs = answers_of(given.against.resolve(), given.only)
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
    _say(f"same: {len(current)} answers, {len(differing)} differ")
    return 1


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
