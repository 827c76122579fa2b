"""Tables of Markdown."""

from collections.abc import Iterable, Sequence

NOTHING = "–"


def line(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def rule(header: Sequence[str]) -> str:
    """Return the line below a header: the first column is text, the others are figures."""
    return line(["---", *("---:" for _ in header[1:])])


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, each row once it is known."""
    print(line(header), rule(header), sep="\n", flush=True)
    for row in rows:
        print(line(row), flush=True)
