"""Tables of Markdown, printed row by row."""

from collections.abc import Iterable, Sequence

NOTHING = "–"


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    rule = ["---", *("---:" for _ in header[1:])]
    for row in (header, rule, *rows):
        print(f"| {' | '.join(row)} |", flush=True)
