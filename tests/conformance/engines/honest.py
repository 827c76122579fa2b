"""An honest engine: the published formulas, each computed once in float32 with NumPy.

It shares no code with the service. Tables may be float16 or bfloat16: a rotation then runs in that
type, as in a model. In float64 it says what float32 rounds. Every step is a method, so that a
broken engine replaces one.

    python -m tests.conformance.engines.honest [float32 | float16 | bfloat16 | float64]
"""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conformance.engines.bias_formulas import BiasFormulas
from tests.conformance.engines.formulas import Array, Given, Unsupported
from tests.conformance.engines.rotary_formulas import RotaryFormulas

# The name of the array, and the method that makes it.
_ARRAYS = {
    "/rope/apply": ("rotated", "rotated"),
    "/positions": ("position_ids", "position_ids"),
    "/encoding": ("encoding", "sinusoid"),
    "/encoding/timesteps": ("timesteps", "timesteps"),
    "/encoding/grid": ("encoding", "grid"),
    "/relative/alibi/slopes": ("slopes", "alibi_slopes"),
    "/relative/alibi": ("bias", "alibi"),
    "/relative/alibi/bias": ("bias", "alibi"),
    "/relative/t5": ("array", "t5"),
    "/relative/t5/bias": ("bias", "t5_bias"),
    "/relative/deberta": ("array", "deberta"),
    "/relative/kerple": ("bias", "kerple"),
    "/relative/kerple/bias": ("bias", "kerple"),
}


_SINUSOIDS = {
    "vaswani": "vaswani",
    "positional-encodings": "even",
    "tensor2tensor": "tensor2tensor",
    "fairseq": "fairseq",
    "m2m100": "fairseq",
    "diffusers": "diffusers",
    "x-transformers": "x_transformers",
    "mlx": "mlx",
    "perceiver": "perceiver",
}


class HonestEngine(RotaryFormulas, BiasFormulas):
    """Answers cases: of rotary tables, biases, and here of sinusoids and position ids."""

    name = "honest"

    def answer(self, case: Given) -> dict[str, Array]:
        """Return the arrays of a case; raises Unsupported."""
        beside = {name: case[name] for name in ("positions", "x") if name in case}
        given = {**case["parameters"], **beside}
        match case["kind"], case["resource"]:
            case "model", _:
                return self.table({**self.settings(given), **beside})
            case "table", "/rope":
                return self.table(given)
            case _, resource if resource in _ARRAYS:
                name, method = _ARRAYS[resource]
                return {name: self.stored(getattr(self, method)(given))}
        raise Unsupported(case["resource"])

    # Position ids.

    def position_ids(self, given: Given) -> Array:
        """Return position ids; raises Unsupported."""
        match given["convention"]:
            case "mask":
                mask = self.mask_of(given)
                return np.where(mask, self.counted(mask) - 1, given["masked"])
            case "padding_idx":
                mask = np.array(given["input_ids"]) != given["padding_idx"]
                return self.counted(mask) * mask + given["padding_idx"]
            case "opt":
                mask = self.mask_of(given)
                return self.counted(mask) * mask - 1 + self.opt_offset()
            case "packed":
                return self.packed(given["lengths"])[None]
            case "arange":
                texts = [sum(each["text"] for each in row) for row in given["rows"]]
                return np.stack([np.arange(each) + given["past"] for each in texts])
        raise Unsupported(given["convention"])

    def opt_offset(self) -> int:
        """Return what OPT adds to positions."""
        return 2

    def packed(self, lengths: Sequence[int]) -> Array:
        """Return the positions of packed sequences, each of which begins at 0."""
        return np.concatenate([np.arange(each) for each in lengths])

    # Sinusoids.

    def sinusoid(self, given: Given) -> Array:
        """Return rows of a table of sinusoids; raises Unsupported."""
        method = _SINUSOIDS.get(given["convention"])
        if method is None:
            raise Unsupported(given["convention"])
        return getattr(self, method)(given)

    def vaswani(self, given: Given) -> Array:
        """Return the paper's rows."""
        width, omega = given["d_model"], self.paper(given, given["d_model"])
        is_concatenated = given.get("layout") == "concatenated"
        return self.joined(given, omega, width, is_concatenated=is_concatenated)

    def even(self, given: Given) -> Array:
        """Return the first channels of the paper's rows of an even width."""
        width = given["d_model"]
        omega = self.paper(given, width + width % 2)
        return self.joined(given, omega, width, is_concatenated=False)

    def tensor2tensor(self, given: Given) -> Array:
        """Return tensor2tensor's rows: frequencies between two timescales."""
        least, most = given.get("min_timescale", 1.0), given.get("max_timescale", 10000.0)
        omega = self.spaced(given["d_model"] // 2, math.log(most / least))
        return self.joined(given, self.real(least) * omega, given["d_model"])

    def fairseq(self, given: Given) -> Array:
        """Return fairseq's rows: that of padding is zeros."""
        width, padding = given["d_model"], given.get("padding_idx", 1)
        rows = np.array(given["positions"])
        if given["convention"] == "m2m100":
            rows = rows + self.first_row(padding)
        omega = self.spaced(width // 2, math.log(10000.0))
        table = self.joined({**given, "positions": rows}, omega, width)
        table[rows == padding] = 0
        return table

    def first_row(self, padding: int) -> int:
        """Return the row of position 0."""
        return padding + 1

    def diffusers(self, given: Given) -> Array:
        """Return the rows of latent diffusion."""
        width = given["d_model"]
        table = self.joined(given, self.paper(given, width), width)
        return np.roll(table, width // 2, axis=-1) if self.is_flipped(given) else table

    def x_transformers(self, given: Given) -> Array:
        """Return rows that are scaled."""
        width = given["d_model"]
        return self.joined(given, self.paper(given, width), width) * self.real(width**-0.5)

    def mlx(self, given: Given) -> Array:
        """Return mlx's rows: logarithms of frequencies are evenly spaced."""
        width = given["d_model"]
        omega = self.spaced(width // 2, -math.log(given.get("min_freq", 0.0001)))
        return self.joined(given, omega, width) * self.real(math.sqrt(2 / width))

    def paper(self, given: Given, width: int) -> Array:
        """Return the paper's frequencies: those of an odd width have one more sine."""
        exponents = np.arange(0, width, 2, dtype=self.real) / self.real(width)
        return self.real(1) / self.real(given.get("base", 10000.0)) ** exponents

    def spaced(self, pairs: int, logarithm: float) -> Array:
        """Return frequencies from 1 on, of which the last has that logarithm, negated."""
        step = self.real(-logarithm / (pairs - 1))
        return np.exp(np.arange(pairs, dtype=self.real) * step)

    def joined(
        self, given: Given, omega: Array, width: int, *, is_concatenated: bool = True
    ) -> Array:
        """Return sines and cosines, all sines first or in turn; an odd width ends with zeros."""
        angles = self.held(self.rows_of(given))[:, None] * omega
        sines, cosines = np.sin(angles), np.cos(angles)
        if is_concatenated:
            table = np.concatenate([sines, cosines], axis=-1)[:, :width]
            return np.pad(table, ((0, 0), (0, width - table.shape[-1])))
        return np.stack([sines, cosines], axis=-1).reshape(len(angles), -1)[:, :width]

    def perceiver(self, given: Given) -> Array:
        """Return Perceiver's rows: a coordinate from −1 to 1, sines and cosines of its bands."""
        count, pairs = given["seq_len"], (given["d_model"] - 1) // 2
        x = np.linspace(-1, 1, count).astype(self.real)[:, None]
        bands = np.linspace(1, given["max_resolution"] / 2, pairs).astype(self.real)
        angles = x * bands * self.real(math.pi)
        return np.concatenate([x, np.sin(angles), np.cos(angles)], axis=-1)

    def timesteps(self, given: Given) -> Array:
        """Return rows for diffusion timesteps."""
        width, pairs = given["d_model"], given["d_model"] // 2
        step = math.log(given.get("max_period", 10000.0)) / (pairs - self.shift(given))
        omega = np.exp(np.arange(pairs, dtype=self.real) * self.real(-step))
        angles = self.steps(given)[:, None] * omega * self.real(given.get("scale", 1.0))
        halves = [np.sin(angles), np.cos(angles)]
        table = np.concatenate(halves[::-1] if self.is_flipped(given) else halves, axis=-1)
        return np.pad(table, ((0, 0), (0, width % 2)))

    def steps(self, given: Given) -> Array:
        """Return the timesteps as numbers."""
        return self.reals(given["timesteps"])

    def shift(self, given: Given) -> float:
        """Return what the number of pairs is reduced by, in the denominator of the exponent."""
        return float(given.get("downscale_freq_shift", 1.0))

    def is_flipped(self, given: Given) -> bool:
        """Whether cosines come first."""
        return bool(given.get("flip_sin_to_cos", False))

    def grid(self, given: Given) -> Array:
        """Return MAE's table of an image: the first half of the channels encodes columns."""
        if given["convention"] != "mae":
            raise Unsupported(given["convention"])
        half = given["d_model"] // 2
        omega = self.paper(given, half)
        rows, columns = (each.ravel() for each in self.places(given))
        halves = (
            self.joined({"positions": each}, omega, half) for each in self.halves(rows, columns)
        )
        table = np.concatenate([*halves], axis=-1)
        return np.pad(table, ((int(given.get("cls_token", False)), 0), (0, 0)))

    def halves(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Return the coordinates of the first half of the channels, and of the second."""
        return columns, rows

    def places(self, given: Given) -> tuple[Array, Array]:
        """Return the row and the column of each token, in the order of tokens."""
        rows, columns = np.indices((given["height"], given["width"]))
        return rows, columns


def serve(engine: HonestEngine) -> None:
    """Answer the runner on standard input and output until it ends."""
    for message in map(json.loads, sys.stdin):
        if message["type"] == "hello":
            answer = {"type": "hello", "protocol": 1, "name": engine.name, "language": "Python"}
        elif message["type"] == "case":
            answer = reply(engine, message)
        else:
            return
        print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol.


def _listed(array: Array) -> Any:
    """Return an array as nested lists; what is not finite is None."""
    finite: Array = np.where(np.isfinite(array), array.astype(object), None)
    return finite.tolist()


def reply(engine: HonestEngine, message: Given) -> dict[str, Any]:
    """Return the answer to a message that asks a case."""
    try:
        arrays = engine.answer(message)
    except Unsupported as reason:
        return {"type": "unsupported", "reason": str(reason)}
    listed = {name: _listed(each) for name, each in arrays.items()}
    return {"type": "answer", "dtype": engine.dtype, "arrays": listed}


if __name__ == "__main__":
    serve(HonestEngine(*sys.argv[1:]))
