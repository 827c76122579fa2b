"""Debian packages from this machine's mirrors, without changing its APT configuration."""

import hashlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.system.processes import run

SUITE = "trixie"
CACHE = Path(__file__).parents[2] / ".cache"

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_CONFIGURATION = """\
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{folder}/sources";
Dir::Etc::PreferencesParts "{folder}/preferences";
Dir::State::Lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Acquire::Check-Valid-Until "false";
APT::Install-Recommends "false";
DPkg::Lock::Timeout "300";
"""
_PREFERENCES = f"""\
Package: *
Pin: release n={SUITE}*
Pin-Priority: 50
"""


def install(packages: Sequence[str]) -> None:
    """Install missing packages; NAME/SUITE selects a newer suite."""
    if all(_is_installed(package.partition("/")[0]) for package in packages):
        return
    if os.geteuid() != 0:
        pytest.fail(f"only root can install {', '.join(packages)}")
    machine = [_entry(base, suite) for base, suite in _machine_sources()]
    with tempfile.TemporaryDirectory(prefix="posref-apt-") as name:
        folder = Path(name)
        for part in ("sources", "preferences", "lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "sources" / "debian.list").write_text(
            "\n".join([*machine, _suite_entry(SUITE), ""])
        )
        (folder / "preferences" / SUITE).write_text(_PREFERENCES)
        configuration = folder / "apt.conf"
        configuration.write_text(_CONFIGURATION.format(folder=folder))
        environment = {"APT_CONFIG": str(configuration), "DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "--quiet", "update", environment=environment)
        run("apt-get", "--quiet", "--yes", "install", *packages, environment=environment)


def bootstrapped(name: str, *options: str, suite: str = SUITE) -> Path:
    """Return an archive of a root file system with packages, built once for each set of options."""
    words = [
        *options,
        "--aptopt=Acquire::Check-Valid-Until false",
        "--aptopt=Acquire::Check-Date false",
    ]
    key = hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
    made = CACHE / f"{key}-{name}"
    if made.exists():
        return made
    CACHE.mkdir(exist_ok=True)
    partial = CACHE / f"partial-{made.name}"
    run("mmdebstrap", "--quiet", *words, suite, partial, _suite_entry(suite))
    return partial.rename(made)


def _is_installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, check=False).stdout == b"installed"


def _suite_entry(suite: str) -> str:
    codename = _codename()
    bases = [base for base, suite in _machine_sources() if suite == codename]
    return _entry(bases[0], suite)


def _entry(base: str, suite: str) -> str:
    return f"deb [signed-by={_KEYRING}] {base} {suite} main"


def _machine_sources() -> list[tuple[str, str]]:
    """Return the base addresses and suites of this machine's Debian sources."""
    suites = f"{_codename()}(?:-updates|-security)?"
    pattern = re.compile(rf"^'(\S+)/dists/({suites})/main/binary-\S+/Packages", re.MULTILINE)
    found = pattern.findall(run("apt-get", "update", "--print-uris"))
    if not found:
        pytest.fail("system tests need Debian: no source of its packages is configured here")
    return list(dict.fromkeys(found))


def _codename() -> str:
    release = platform.freedesktop_os_release()
    if release["ID"] != "debian":
        pytest.fail(f"system tests need Debian; this is {release['PRETTY_NAME']}")
    return release["VERSION_CODENAME"]
