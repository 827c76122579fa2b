"""Table hashes on emulated aarch64."""

import json
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system import debian
from tests.system.processes import run

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PYTHON = "3.13"
PACKAGES = (
    "annotated-types", "numpy", "pydantic", "pydantic-core", "typing-extensions",
    "typing-inspection",
)  # fmt: skip

# The one with every extension that there is to emulate, and the one with none. Signed pointers
# would take most of the time.
PROCESSORS = ["max,pauth=off", "cortex-a53"]


@pytest.fixture(scope="module")
def emulator() -> str:
    debian.install(["qemu-user-static", "mmdebstrap"])
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    assert found
    return found


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="posref-aarch64-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def system(emulator: str, folder: Path) -> Path:  # noqa: ARG001
    """Unpack a root file system with Python; its builder comes with the emulator."""
    archive = debian.bootstrapped(
        "aarch64.tar",
        "--arch=arm64",
        "--variant=extract",
        f"--include=python{PYTHON}-minimal,libpython{PYTHON}-stdlib,libstdc++6",
        "--skip=output/dev",
        '--setup-hook=ln --symbolic usr/lib "$1"/lib',
    )
    root = folder / "system"
    root.mkdir()
    run("tar", "--extract", "--file", archive, "--directory", root)
    return root


@pytest.fixture(scope="module")
def packages(folder: Path) -> Path:
    """Unpack the pinned packages that tables need, for the other architecture."""
    requirements = (ROOT / "requirements" / "runtime.txt").read_text()
    pinned = re.findall(
        rf"^(?:{'|'.join(PACKAGES)})==.*(?:\n +--hash.*)*", requirements, re.MULTILINE
    )
    assert len(pinned) == len(PACKAGES)
    (folder / "requirements.txt").write_text("\n".join(pinned))
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 27, 28)]
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
        *("--only-binary=:all:", f"--python-version={PYTHON}", *platforms),
        *("--dest", folder, "--requirement", folder / "requirements.txt"),
    )
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "packages")
    return folder / "packages"


@pytest.mark.parametrize("processor", PROCESSORS)
def test_tables_have_the_same_bytes_on_aarch64(
    emulator: str, system: Path, packages: Path, processor: str
) -> None:
    environment = f"PYTHONPATH={packages}:{ROOT}"
    emulated = (emulator, "-cpu", processor, "-L", system, "-E", environment)
    python = (*emulated, system / "usr" / "bin" / f"python{PYTHON}", "-B", "-W", "error")

    assert run(*python, "-c", "import platform; print(platform.machine())") == "aarch64\n"
    assert json.loads(run(*python, DATA / "hash_tables.py")) == json.loads(
        (DATA / "table_hashes.json").read_text()
    )
