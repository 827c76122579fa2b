"""The external programs of the benchmarks: found, or installed where possible."""

import os
import re
import shutil
import subprocess
import sys

from benchmarks.processes import BenchmarkFailed

PACKAGES = {"wrk": "wrk", "nginx": "nginx-light", "curl": "curl"}
"""The Debian package of each program."""

_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def find(program: str) -> str:
    """Return the path of a program."""
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise BenchmarkFailed(
            f"{program} is missing and cannot be installed: "
            f"apt-get install {PACKAGES[program]}, as root"
        )
    return found


def install_missing() -> None:
    """Install missing programs where possible; raise if one is still missing."""
    missing = [name for name in PACKAGES if shutil.which(name, path=_PATH) is None]
    if missing and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"installing {', '.join(missing)}", file=sys.stderr)
        install = ["apt-get", "install", "-y", "--no-install-recommends"]
        for command in (["apt-get", "update"], install + [PACKAGES[name] for name in missing]):
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    for name in PACKAGES:
        find(name)


def versions() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in PACKAGES)


def _version(program: str) -> str:
    # wrk prints its version to standard output, nginx to standard error; exit codes differ.
    command = [find(program), "--version" if program == "curl" else "-v"]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    found = _VERSION.search(said.stdout + said.stderr)
    return found[0] if found else "unknown"
