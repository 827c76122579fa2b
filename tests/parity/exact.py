"""Independent evaluation, in 45 digits, of the requests that mappings make."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import mpmath

from tests.parity import exact_bias, exact_grid, exact_index, exact_lines, exact_sines
from tests.parity.backend import Query
from tests.parity.exact_turns import ExactTurns
from tests.parity.golden import Arrays

Evaluation: TypeAlias = Callable[[Query], Arrays]
Composing: TypeAlias = Callable[[Query, Arrays], Arrays]

_DIGITS = 45

EVALUATIONS: Mapping[str, Evaluation] = MappingProxyType(
    {
        "/encoding": exact_lines.encoding,
        "/encoding/grid": exact_grid.grid,
        "/relative/t5": exact_index.t5,
        "/relative/deberta": exact_index.deberta,
        "/relative/shaw": exact_index.shaw,
        "/relative/swin": exact_index.swin,
        "/relative/alibi": exact_bias.alibi,
        "/relative/alibi/slopes": exact_bias.slopes,
        "/relative/kerple": exact_bias.kerple,
        "/relative/sandwich": exact_bias.sandwich,
        "/relative/fire": exact_bias.fire,
        "/relative/swin-v2": exact_bias.swin_v2,
        "/relative/dynamic": exact_bias.dynamic,
        "/relative/transformer-xl": exact_sines.transformer_xl,
        "/relative/xlnet": exact_sines.xlnet,
        "/relative/conformer": exact_sines.conformer,
        "/encoding/timesteps": exact_sines.timesteps,
    }
)
"""The evaluation of each path, but for rotary ones."""

COMPOSINGS: Mapping[str, Composing] = MappingProxyType(
    {
        "/encoding/mask": exact_grid.mask,
        "/encoding/tokens": exact_lines.tokens,
        "/relative/t5/bias": exact_index.t5_bias,
        "/relative/shaw/embeddings": exact_index.shaw_embeddings,
        "/relative/swin/bias": exact_index.swin_bias,
        "/relative/alibi/bias": exact_bias.alibi_bias,
        "/relative/kerple/bias": exact_bias.kerple_bias,
        "/relative/transformer-xl/shift": exact_sines.shift,
        "/encoding/fourier": exact_sines.fourier,
        "/encoding/boxes": exact_sines.boxes,
    }
)
"""The evaluation of answers computed from arrays."""


class Exact(ExactTurns):
    """Evaluate requests as arrays of Truth."""

    def tables(self, path: str, query: Query) -> Arrays:
        if path not in EVALUATIONS:
            return super().tables(path, query)
        with mpmath.workdps(_DIGITS):
            return EVALUATIONS[path](query)

    def composed(self, path: str, query: Query, arrays: Arrays) -> Arrays:
        with mpmath.workdps(_DIGITS):
            return COMPOSINGS[path](query, arrays)
