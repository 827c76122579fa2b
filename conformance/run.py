"""Run all adapters and write the matrix: ``python -m conformance.run DIR``.

DIR has an environment for each library, and a folder of reports. Programs are built where their
compiler is there. The matrix is a section of ``docs/conformance.md``; it is written if no adapter
was skipped.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from conformance.matrix import DEFECTS, PAGE, failures, page, section

HERE = Path(__file__).parent / "adapters"
LIBRARIES = {
    "transformers": (
        "transformers_rotary",
        "transformers_models",
        "transformers_rotations",
        "transformers_axes",
        "transformers_vision",
        "transformers_vision_rotations",
        "transformers_biases",
        "transformers_windows",
        "transformers_applied",
        "transformers_relative",
        "transformers_sinusoids",
        "transformers_grids",
        "transformers_ids",
        "transformers_prompts",
    ),
    "diffusers": ("diffusers_embeddings", "diffusers_features", "diffusers_axes"),
    "timm": ("timm_layers", "timm_windows"),
    "torch": ("torch_interpolate",),
    "torchtune": ("torchtune_rotations",),
    "rotary-embedding-torch": (
        "rotary_embedding_torch_module",
        "rotary_embedding_torch_xpos",
        "rotary_embedding_torch_module bfloat16",
    ),
    "x-transformers": ("x_transformers_rotary", "x_transformers_biases"),
    "mlx": ("mlx_rotations", "mlx_tables", "mlx_rotations mlx-lm"),
    "onnxruntime": ("onnxruntime_rotary",),
}
"""The programs, with their arguments, that run in the environment of each library."""

ENGINES = {
    "numpy_float32": "{numpy} {here}/numpy_float32.py",
    "c_iterated": "{program}",
    "go_float32": "{program}",
    "rust_float32": "{program}",
    "javascript_float64": "node {here}/javascript_float64.mjs",
    "JavaFloat32": "java {here}/JavaFloat32.java",
}
"""The commands of programs without a library, in the order of the matrix."""

BUILDS = {
    "c_iterated": "cc -O2 -ffp-contract=off -o {program} {here}/c_iterated.c -lm",
    "go_float32": "go build -o {program} {here}/go_float32.go",
    "rust_float32": "rustc -O -o {program} {here}/rust_float32.rs",
}
"""The commands that build some of them."""


def commands(folder: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the command of each adapter by its program and arguments, and what others lack.

    Args:
        folder: of the environments and of the reports; programs are built beside these.
    """
    found, missing = dict[str, list[str]](), dict[str, str]()
    for library, programs in LIBRARIES.items():
        for name in programs:
            program, *options = name.split()
            python = folder / library / "bin" / "python"
            found[name] = [str(python), str(HERE / f"{program}.py"), *options]
    for name, text in ENGINES.items():
        of = {"numpy": folder / "numpy" / "bin" / "python", "here": HERE}
        of["program"] = folder / "reports" / name
        build, command = (each.format(**of).split() for each in (BUILDS.get(name, text), text))
        if shutil.which(build[0]) is None:
            missing[name] = build[0]
            continue
        if name in BUILDS:
            subprocess.run(build, check=True)  # noqa: S603 - a command of this file.
        found[name] = command
    return found, missing


def said_by(python: str, program: str) -> str:
    """Return what the program of a defect prints; raises CalledProcessError."""
    command = [python, "-W", "ignore", str(DEFECTS / f"{program}.py")]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return ended.stdout


def main() -> int:
    """Run the adapters; return 1 if one does not start, ends early or supports nothing."""
    folder = Path(sys.argv[1])
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    found, missing = commands(folder)
    codes, reports = [], {}
    for name, command in found.items():
        report = folder / "reports" / f"{name.replace(' ', '_')}.json"
        options = ["--json", str(report), "--junit", str(report.with_suffix(".xml"))]
        report.unlink(missing_ok=True)
        run = [sys.executable, "-m", "service", "conformance", "run", *options, "--", *command]
        codes.append(subprocess.run(run, check=False).returncode)  # noqa: S603 - the same.
        if report.exists():
            reports[name] = json.loads(report.read_bytes())
    for name, lacks in missing.items():
        print(f"skipped {name}: no {lacks}")
    if max(codes) > 1:
        return 1
    if missing:
        print(f"{PAGE.name} stays as it is, since adapters were skipped")
        return 0
    pythons = {it["implementation"]["name"]: found[name][0] for name, it in reports.items()}
    shown = {each.program: pythons[each.of] for each in failures() if each.program}
    printed = {program: said_by(python, program) for program, python in shown.items()}
    libraries = [reports[name] for programs in LIBRARIES.values() for name in programs]
    text = section(libraries, [reports[name] for name in ENGINES], printed)
    PAGE.write_text(page(PAGE.read_text("utf-8"), text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
