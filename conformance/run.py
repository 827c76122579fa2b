"""Run all adapters and write the matrix: ``python -m conformance.run PYTHON DIR``.

PYTHON is that of an environment with the libraries, DIR the folder of the reports. Programs are
built where their compiler is there. The matrix is a section of ``docs/conformance.md``; it is
written if no adapter was skipped.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from conformance.matrix import DEFECTS, PAGE, page, section

HERE = Path(__file__).parent / "adapters"
LIBRARIES = {
    "transformers": "transformers_rotary.py",
    "transformers-axes": "transformers_axes.py",
    "transformers-biases": "transformers_biases.py",
    "transformers-sinusoids": "transformers_sinusoids.py",
    "transformers-ids": "transformers_ids.py",
    "diffusers": "diffusers_embeddings.py",
    "timm": "timm_layers.py",
    "torch": "torch_interpolate.py",
    "torchtune": "torchtune_rotations.py",
    "rotary-embedding-torch": "rotary_embedding_torch_module.py",
    "rotary-embedding-torch-bfloat16": "rotary_embedding_torch_module.py bfloat16",
    "x-transformers": "x_transformers_rotary.py",
    "x-transformers-biases": "x_transformers_biases.py",
    "mlx": "mlx_rotations.py",
    "mlx-tables": "mlx_tables.py",
    "mlx-lm": "mlx_rotations.py mlx-lm",
    "onnxruntime": "onnxruntime_rotary.py",
}
"""The programs of libraries with their arguments, by the name of the report."""

ENGINES = {
    "numpy-float32": "{python} {here}/numpy_float32.py",
    "c-iterated": "{program}",
    "go-float32": "{program}",
    "rust-float32": "{program}",
    "javascript-float64": "node {here}/javascript_float64.mjs",
    "java-float32": "java {here}/JavaFloat32.java",
}
"""The commands of programs without a library, in the order of the matrix."""

BUILDS = {
    "c-iterated": "cc -O2 -ffp-contract=off -o {program} {here}/c_iterated.c -lm",
    "go-float32": "go build -o {program} {here}/go_float32.go",
    "rust-float32": "rustc -O -o {program} {here}/rust_float32.rs",
}
"""The commands that build some of them."""


def commands(python: str, folder: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the command of each adapter by the name of its report, and what others lack.

    Args:
        python: of an environment with the libraries.
        folder: of the programs that are built.
    """
    found, missing = dict[str, list[str]](), dict[str, str]()
    for name, program in LIBRARIES.items():
        first, *others = program.split()
        found[name] = [python, str(HERE / first), *others]
    for name, text in ENGINES.items():
        of = {"python": python, "here": HERE, "program": folder / name}
        build, command = (each.format(**of).split() for each in (BUILDS.get(name, text), text))
        if shutil.which(build[0]) is None:
            missing[name] = build[0]
            continue
        if name in BUILDS:
            subprocess.run(build, check=True)  # noqa: S603 - a command of this file.
        found[name] = command
    return found, missing


def said_by(python: str, program: Path) -> str:
    """Return what the program of a defect prints; raises CalledProcessError."""
    command = [python, "-W", "ignore", str(program)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return ended.stdout


def main() -> int:
    """Run the adapters; return 1 if one does not start, ends early or supports nothing."""
    python, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    found, missing = commands(python, folder)
    codes, reports = [], {}
    for name, command in found.items():
        report = folder / f"{name}.json"
        options = ["--json", str(report), "--junit", str(folder / f"{name}.xml")]
        run = [sys.executable, "-m", "service", "conformance", "run", *options, "--", *command]
        codes.append(subprocess.run(run, check=False).returncode)  # noqa: S603 - the same.
        reports[name] = json.loads(report.read_bytes())
    for name, lacks in missing.items():
        print(f"skipped {name}: no {lacks}")
    if max(codes) > 1:
        return 1
    if missing:
        print(f"{PAGE.name} stays as it is, since adapters were skipped")
        return 0
    printed = {each.stem: said_by(python, each) for each in sorted(DEFECTS.glob("*.py"))}
    text = section([reports[it] for it in LIBRARIES], [reports[it] for it in ENGINES], printed)
    PAGE.write_text(page(PAGE.read_text("utf-8"), text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
