"""Write the vector files of the package; run as ``python -m tests.data.vectors``."""

from pathlib import Path

from service.conformance.release import Release, changes
from service.conformance.suite import core

VECTORS = Path(__file__).parents[2] / "service" / "conformance" / "vectors"


def main() -> None:
    """Replace the files, and say what the changelog lacks."""
    texts = core()
    VECTORS.mkdir(exist_ok=True)
    for path in VECTORS.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (VECTORS / name).write_text(text, "utf-8")
    version = Release.of(texts).version
    is_listed = next(iter(changes()), "") == version
    print(version if is_listed else f"{version} is not the first in conformance/CHANGELOG.md")  # noqa: T201


if __name__ == "__main__":
    main()
