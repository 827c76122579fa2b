"""``python -m tests.fuzz``: lists the parsers; with a parser and a folder, fuzzes it."""

import sys
from pathlib import Path

from tests.fuzz.driver import PARSERS, fuzz, load


def main(arguments: list[str]) -> None:
    if not arguments:
        print("\n".join(PARSERS))  # noqa: T201 - for the Makefile
        return
    parser, corpus, *flags = arguments
    fuzz(parser, load(parser), Path(corpus), flags)


if __name__ == "__main__":
    main(sys.argv[1:])
