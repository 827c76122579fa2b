"""Harnesses detect planted faults of their parsers."""

import json
import re
import warnings
from typing import Any

import numpy as np
import pytest

from service import grammar
from service.delivery import negotiation, parameters, responses
from service.errors import InvalidBody
from service.formats import json_text, npy, raw, safetensors_file
from service.models import gguf
from service.numerics.dtypes import FLOAT16
from tests.fuzz.harness import Harness, as_sent, held_to
from tests.fuzz.test_parsers import HARNESSES, built

pytestmark = pytest.mark.full

_SHAPE = npy._shape

FAULTS: list[tuple[str, Any, str, Any]] = [
    ("npy", npy, "_shape", lambda text: (_SHAPE(text) or ())[::-1]),
    ("npy", npy, "_MAX_HEADER_BYTES", 100),
    ("npy", npy, "check_shape", lambda _name, _shape: None),
    ("safetensors_file", safetensors_file, "_READABLE", {"BF16": FLOAT16}),
    ("safetensors_file", safetensors_file, "_ALIGNMENT_BYTES", 7.5),
    ("json_text", json_text, "strict", json.loads),
    ("json_text", json_text, "_refuse_constant", lambda _hint, name: float(name)),
    ("json_text", json_text, "_LARGEST", 1e300),
    ("raw", raw, "STORAGES", {**raw.STORAGES, "float16": "<i2", "int16": "<u2"}),
    ("ranges", responses, "_number", lambda digits: int(digits[-2:] or "0")),
    ("conditional", responses, "_ENTITY_TAG", re.compile(r'()("[^" ]*")')),
    ("accept", negotiation, "_QUALITY", re.compile(r"[0-9.]+")),
    ("accept", negotiation, "_CODING_ALIASES", {"identity": "gzip"}),
    ("query", parameters, "unquote_to_bytes", bytes),
    ("positions", grammar, "MAX_POSITION", 2**61),
    ("positions", grammar, "_INTEGER", re.compile(r"[-+]?[0-9]+")),
    ("gguf", gguf, "_CODES", {**gguf._CODES, 4: "i"}),
    ("gguf", gguf, "_KEPT", 2),
]


def test_every_harness_has_a_planted_fault() -> None:
    assert {name for name, *_ in FAULTS} == set(HARNESSES)


@pytest.mark.parametrize(
    ("name", "module", "part", "broken"),
    FAULTS,
    ids=[f"{name}-{part}" for name, _, part, _ in FAULTS],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, module: Any, part: str, broken: Any
) -> None:
    harness = HARNESSES[name]
    monkeypatch.setattr(module, part, broken)

    with pytest.raises((AssertionError, TypeError, InvalidBody)):
        _run(harness)


def _run(harness: Harness) -> None:
    for data in (*map(as_sent, harness.seeds), *built()):
        harness.run(data)


def test_unexpected_exception_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npy, "_DESCR", None)

    with pytest.raises(AttributeError):
        HARNESSES["npy"].check(HARNESSES["npy"].seeds[0])


def test_memory_above_the_limit_is_a_fault_even_in_a_refusal() -> None:
    with pytest.raises(AssertionError, match="bytes: 1000000 are plenty"):
        _refuse_at_length()


def _refuse_at_length() -> None:
    with held_to(1_000_000):
        np.zeros(2_000_000, np.uint8)
        raise InvalidBody("refused")


def test_a_warning_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="warned: careful"), held_to(1_000_000):
        warnings.warn("careful", stacklevel=1)
