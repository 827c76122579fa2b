"""Sinusoids as engines compute them in several arithmetics, and their proposals."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput, Proposal, TableRequest, Tables
from service.analysis.identification.verification import Verdict, compared, verdict_of
from service.analysis.precision import rounded
from service.numerics.dtypes import DType
from service.numerics.tables import ParameterValue

Numbers = NDArray[np.float64]

BASE = 10000.0


def proposal(rows: int, width: int, dtype: str = "float32", **parameters: float) -> Proposal:
    values: dict[str, ParameterValue] = {
        "seq_len": rows,
        "d_model": width,
        "dtype": dtype,
        **parameters,
    }
    return Proposal(TableRequest("encoding", values), ())


def verify(inputs: IdentifyInput, given: Proposal, tables: Tables) -> Verdict | None:
    """Compare an array with a proposed table."""
    match = compared(inputs, given, tables)
    return None if match is None else verdict_of(match, inputs, tables)


def laid_out(angles: NDArray[np.floating]) -> Numbers:
    """Interleave sines and cosines, computed in the type of the angles."""
    table = np.empty((angles.shape[0], 2 * angles.shape[1]))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def in_float64(rows: int, width: int, base: float = BASE) -> Numbers:
    """Compute as NumPy does by default."""
    return laid_out(np.outer(np.arange(rows), 1 / base ** (np.arange(0, width, 2) / width)))


def in_float32(
    rows: int,
    width: int,
    base: float = BASE,
    positions_in: DType | None = None,
    frequencies_in: DType | None = None,
) -> Numbers:
    """Compute as the rotary embeddings of models do: 1 / base^(2k/d), times the position."""
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    omega = (np.float32(1) / np.float32(base) ** exponents).astype(np.float64)
    positions = rounded(np.arange(rows, dtype=np.float64), positions_in)
    omega = rounded(omega, frequencies_in)
    return laid_out(np.outer(positions.astype(np.float32), omega.astype(np.float32)))


def by_exponentials(rows: int, width: int, base: float = BASE) -> Numbers:
    """Compute as the tutorial does: exp(−2k·ln(base)/d) in float32."""
    rate = np.float32(-np.log(base) / width)
    omega = np.exp(np.arange(0, width, 2, dtype=np.float32) * rate)
    return laid_out(np.outer(np.arange(rows, dtype=np.float32), omega))


def by_multiplication(rows: int, width: int, base: float = BASE) -> Numbers:
    """Compute as ggml does: each angle is the one before it times base^(−2/d)."""
    ratio = np.float32(base) ** np.float32(-2 / width)
    angles = [np.arange(rows, dtype=np.float32)]
    for _ in range(width // 2 - 1):
        angles.append(angles[-1] * ratio)
    return laid_out(np.stack(angles, axis=1))


ENGINES: dict[str, Callable[[int, int], Numbers]] = {
    "float32": in_float32,
    "iterated": by_multiplication,
}
