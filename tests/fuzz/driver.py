"""The coverage-guided fuzzer: it sees which lines of the service an input reaches."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.harness import Harness, as_sent

PARSERS = (
    "npy",
    "safetensors_file",
    "json_text",
    "ranges",
    "conditional",
    "accept",
    "query",
    "positions",
)
"""The harnesses there are, each a module here."""

_FIXED = ("-max_len=4096", "-len_control=10", "-timeout=10", "-rss_limit_mb=2048")


def load(parser: str) -> Harness:
    """Import a harness, and with it the service as the fuzzer watches it."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["service"]):
        harness: Harness = importlib.import_module(f"tests.fuzz.{parser}").HARNESS
    return harness


def fuzz(parser: str, harness: Harness, corpus: Path, flags: Sequence[str]) -> None:
    """Try inputs until the flags say that it is enough; ends the process, with 77 at a fault."""
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
