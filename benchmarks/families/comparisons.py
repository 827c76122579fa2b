"""Tables beside others, or beside a formula, whose ratio has a target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.families.formulas import evaluate
from benchmarks.families.requests import Request, read
from benchmarks.families.timing import Repeated
from benchmarks.figures import Measured, in_turns

_RANDOM = np.random.default_rng(2)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: elements that are computed, repeatedly.

    Attributes:
        name: of the peer in the report.
        prepared: returns a function that computes the elements, and returns how many.
    """

    name: str
    prepared: Callable[[], Callable[[], int]]


@dataclass(frozen=True)
class Comparison:
    """Elements a second of a table, ÷ those of a peer.

    Attributes:
        measure: its name in the report.
        ours, peer: the sides.
        at_least, aim: limits of the ratio; empty where it has none.
    """

    measure: str
    ours: Side
    peer: Side
    at_least: str = ""
    aim: str = ""


def measure(number: int, rounds: int) -> Measured:
    """Return the elements a second of both sides of one of COMPARISONS."""
    comparison = COMPARISONS[number]
    works = [side.prepared() for side in (comparison.ours, comparison.peer)]
    counts = [work() for work in works]
    times = in_turns([Repeated(work) for work in works], rounds)
    ours, peer = [
        [count / each for each in taken] for count, taken in zip(counts, times, strict=True)
    ]
    return Measured(ours, peer)


def _table(name: str, request: Request, dtype: str = "float32") -> Side:
    def prepared() -> Callable[[], int]:
        tables = request.tables(dtype)
        return lambda: read(tables)

    return Side(name, prepared)


def _formula(request: Request) -> Side:
    """Return the float64 formula, rounded to float32."""
    return _of_arrays("NumPy formula in float64", lambda: evaluate(request, "float32"))


def _of_arrays(name: str, compute: Callable[[], Sequence[NDArray[Any]]]) -> Side:
    def computed() -> int:
        return sum(array.size for array in compute())

    return Side(name, lambda: computed)


def _rope_in_float32() -> Sequence[NDArray[Any]]:
    exponents = np.arange(0, 128, 2, dtype=np.float32) / np.float32(128)
    frequencies = np.float32(1) / np.float32(10000) ** exponents
    angles = np.outer(np.arange(8192, dtype=np.float32), frequencies)
    return [np.stack([np.cos(angles), np.sin(angles)], axis=-1)]


def _joined(numbers: NDArray[Any]) -> str:
    return ",".join(map(str, numbers.tolist()))


_ROPE = Request("/rope", "head_dim=128&seq_len=8192")
_PLAIN_ROPE = _table("plain rope", _ROPE)
_ENCODING = Request("/encoding", "d_model=512&seq_len=2048")
_PLAIN = _table("`/encoding`", _ENCODING)
_AXIAL = Request("/rope/axial", "convention=qwen2_vl&head_dim=128&grid=512,512")
_TINY = Request("/encoding", "d_model=4096&seq_len=256&base=1e15")
_SCATTERED = Request(
    "/encoding", f"d_model=4096&positions={_joined(np.sort(_RANDOM.integers(0, 2**20, 256)))}"
)
_FRACTIONS = Request(
    "/encoding/timesteps",
    f"d_model=512&downscale_freq_shift=0&timesteps={_joined(_RANDOM.random(2048) * 1000)}",
)
_SANDWICH = Request("/relative/sandwich", "num_heads=8&head_dim=64&query_len=1024")


def _mrope(positions: str) -> Side:
    return _table("", Request("/rope", f"head_dim=128&mrope_section=16,24,24&{positions}"))


def _rope(query: str) -> Side:
    return _table("", Request("/rope", f"head_dim=128&seq_len=8192&{query}"))


def _encoding(query: str, dtype: str = "float32") -> Side:
    return _table("", Request("/encoding", query), dtype)


COMPARISONS = (
    Comparison(
        "M-RoPE of text",
        _mrope("positions_t=0:8192&positions_h=0:8192&positions_w=0:8192"),
        _PLAIN_ROPE,
        "0.9",
        "1",
    ),
    Comparison("M-RoPE of a grid 4×32×64", _mrope("grid=4,32,64"), _PLAIN_ROPE, "0.9", "2"),
    Comparison("axial, qwen2_vl 512×512", _table("", _AXIAL), _PLAIN_ROPE, "0.9", "2"),
    Comparison(
        "axial, qwen2_vl 512×512, in bfloat16",
        _table("", _AXIAL, "bfloat16"),
        _table("float32", _AXIAL),
        "0.8",
        "1",
    ),
    Comparison(
        "image grid, mae 48×48",
        _table("", Request("/encoding/grid", "convention=mae&height=48&width=48&d_model=512")),
        _PLAIN,
        "0.9",
        "2",
    ),
    Comparison(
        "bfloat16", _table("", _ENCODING, "bfloat16"), _table("float32", _ENCODING), "0.5", "0.62"
    ),
    Comparison(
        "float16", _table("", _ENCODING, "float16"), _table("float32", _ENCODING), "0.4", "0.5"
    ),
    Comparison(
        "float16, many numbers below 2^-14",
        _table("", _TINY, "float16"),
        _table("float32", _TINY),
        "0.25",
        "0.45",
    ),
    Comparison(
        "256 scattered positions, d_model 4096",
        _table("", _SCATTERED),
        _formula(_SCATTERED),
        "0.6",
        "0.8",
    ),
    Comparison(
        "2,048 fractional timesteps", _table("", _FRACTIONS), _formula(_FRACTIONS), "0.75", "0.95"
    ),
    Comparison(
        "rope with angle=float32",
        _rope("angle=float32"),
        _of_arrays("NumPy formula in float32", _rope_in_float32),
        "0.22",
        "0.3",
    ),
    Comparison(
        "Sandwich 8×1024×1024",
        _table("", _SANDWICH),
        _table("ALiBi", Request("/relative/alibi", "num_heads=8&query_len=1024")),
        "0.5",
        "1",
    ),
    Comparison(
        "similarity of 65,536 offsets",
        _table("", Request("/relative/similarity", "d_model=512&offsets=0:65536")),
        _PLAIN,
        "1/64",
        "1/45",
    ),
    Comparison("plain table", _PLAIN, _formula(_ENCODING), "6.5", "10"),
    Comparison("plain rope", _PLAIN_ROPE, _formula(_ROPE)),
    Comparison("rope with pack=angle", _rope("pack=angle"), _PLAIN_ROPE),
    Comparison("rope with xpos", _rope("xpos=query"), _PLAIN_ROPE),
    Comparison(
        "positions a step of 64 apart", _encoding("d_model=512&positions=0:131072:64"), _PLAIN
    ),
    Comparison("descending positions", _encoding("d_model=512&positions=2047:-1:-1"), _PLAIN),
    Comparison("every second position", _encoding("d_model=512&positions=0:4096:2"), _PLAIN),
    Comparison(
        "XLNet with bi_data",
        _table(
            "", Request("/relative/xlnet", "d_model=512&query_len=512&key_len=512&bi_data=true")
        ),
        _PLAIN,
    ),
)
