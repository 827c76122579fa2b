"""The coverage-guided fuzzer (atheris)."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.harness import Harness, as_sent

PARSERS = (
    "npy",
    "safetensors_file",
    "json_text",
    "raw",
    "ranges",
    "conditional",
    "accept",
    "query",
    "positions",
    "gguf",
)
"""The harnesses, each a module of this package."""

_FIXED = ("-max_len=4096", "-len_control=10", "-timeout=10", "-rss_limit_mb=2048")


def load(parser: str) -> Harness:
    """Import a harness and the service with coverage instrumentation."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["service"]):
        harness: Harness = importlib.import_module(f"tests.fuzz.{parser}").HARNESS
    return harness


def fuzz(parser: str, harness: Harness, corpus: Path, flags: Sequence[str]) -> None:
    """Fuzz until the limits in the flags; exits the process, with code 77 at a fault."""
    atheris: Any = importlib.import_module("atheris")
    corpus.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(harness.seeds):
        (corpus / f"seed-{index}").write_bytes(as_sent(seed))
    dictionary = corpus.with_suffix(".words")
    dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in harness.tokens))
    found = f"-artifact_prefix={corpus}-"
    atheris.Setup(
        [parser, *_FIXED, f"-dict={dictionary}", found, *flags, str(corpus)], _one(harness)
    )
    atheris.Fuzz()


def _one(harness: Harness) -> Callable[[bytes], None]:
    def one(data: bytes) -> None:
        harness.run(data)

    return one


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)
