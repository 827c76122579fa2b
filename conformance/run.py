"""Run all adapters, write reports and matrix: ``python conformance/run.py PYTHON DIR``.

PYTHON is that of an environment with the libraries, DIR the folder of the reports. Programs are
built where their compiler is there. The matrix is ``conformance/MATRIX.md``.
"""

import json

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "adapters"
LIBRARIES = {
    "transformers": "transformers_rotary.py",
    "transformers-biases": "transformers_biases.py",
    "diffusers": "diffusers_embeddings.py",
    "timm": "timm_layers.py",
    "torchtune": "torchtune_rotations.py",
    "rotary-embedding-torch": "rotary_embedding_torch_module.py",
    "x-transformers": "x_transformers_modules.py",
    "mlx": "mlx_rotations.py",
    "mlx-lm": "mlx_rotations.py mlx-lm",
    "onnxruntime": "onnxruntime_rotary.py",
    "numpy-float32": "numpy_float32.py",
}
"""The programs in Python with their arguments, by the name of the report."""

BUILT = {
    "c-iterated": "cc -O2 -ffp-contract=off -o {program} {here}/c_iterated.c -lm",
    "go-float32": "go build -o {program} {here}/go_float32.go",
    "rust-float32": "rustc -O -o {program} {here}/rust_float32.rs",
}
"""The commands that build the other programs."""

INTERPRETED = {
    "javascript-float64": "node {here}/javascript_float64.mjs",
    "java-float32": "java {here}/JavaFloat32.java",
}


def commands(python: str, folder: Path) -> dict[str, list[str]]:
    """Return the command of each adapter, by the name of its report."""
    found = {
        name: [python, str(HERE / (words := program.split())[0]), *words[1:]]
        for name, program in LIBRARIES.items()
    }
    for name, text in INTERPRETED.items():
        found[name] = text.format(here=HERE).split()
    for name, text in BUILT.items():
        program = folder / name
        command = text.format(program=program, here=HERE).split()
        if shutil.which(command[0]):
            subprocess.run(command, check=True)  # noqa: S603 - a command of this file.
            found[name] = [str(program)]
    return {name: command for name, command in found.items() if shutil.which(command[0])}


def matrix(reports: Sequence[Any]) -> str:
    """Return the page of reports: what each implementation passes and fails of each file."""
    files = sorted({case["file"] for case in reports[0]["cases"]})
    names = [
        f"{each['name']} {each['version']}" for each in (it["implementation"] for it in reports)
    ]
    rows = [["file", *names], ["---"] * (len(names) + 1)]
    for file in files:
        asked = [[case for case in it["cases"] if case["file"] == file] for it in reports]
        cells = [_cell(cases) for cases in asked]
        if {*cells} != {_NONE}:
            rows.append([f"{file} ({len(asked[0])})", *cells])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{_ABOVE.format(suite=reports[0]['suite'])}\n{table}\n"


_NONE = "–"
_ABOVE = """# What libraries pass

Suite {suite}. A cell has the number of cases that pass, and ✗ with the number of those that fail;
– where the [adapter](README.md) answers none. Files that no adapter answers are left out.
`make adapters` writes this page.
"""


def _cell(cases: Sequence[Any]) -> str:
    """Return how many cases pass and how many do not, for one file and one implementation."""
    passed = sum(case["status"] == "passes" for case in cases)
    failed = sum(case["status"] in {"fails", "errs"} for case in cases)
    parts = [str(passed)] * (passed > 0) + [f"✗ {failed}"] * (failed > 0)
    return " ".join(parts) or _NONE


def main() -> int:
    """Run the adapters; return 1 if one does not start, ends early or supports nothing."""
    python, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    codes, reports = [], []
    for name, command in commands(python, folder).items():
        report = ["--json", str(folder / f"{name}.json"), "--junit", str(folder / f"{name}.xml")]
        run = [sys.executable, "-m", "service", "conformance", "run", *report, "--", *command]
        codes.append(subprocess.run(run, check=False).returncode)  # noqa: S603 - the same.
        reports.append(json.loads((folder / f"{name}.json").read_bytes()))
    (HERE.parent / "MATRIX.md").write_text(matrix(reports), "utf-8")
    return int(max(codes) > 1)


if __name__ == "__main__":
    sys.exit(main())
