"""Packages of registries in folders under .cache, filled once for each list of packages."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.system.debian import CACHE
from tests.system.processes import run


def cached(name: str, listed: Path, fill: Callable[[Path], object]) -> Path:
    """Return a folder that is filled once for each content of a list of packages."""
    made = CACHE / f"{hashlib.sha256(listed.read_bytes()).hexdigest()[:12]}-{name}"
    if made.exists():
        return made
    partial = CACHE / f"partial-{made.name}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    fill(partial)
    return partial.rename(made)


def node_modules(listed: Path) -> Path:
    """Return the packages of the package-lock.json of a folder."""

    def fill(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(listed / name, folder)
        run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder)

    return cached(listed.name, listed / "package-lock.json", fill) / "node_modules"
