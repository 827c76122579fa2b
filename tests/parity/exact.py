"""Independent evaluation, in 45 digits, of the requests that mappings make."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import mpmath

from tests.parity import exact_grid, exact_relative, exact_sinusoids
from tests.parity.backend import Query
from tests.parity.exact_rotary import ExactRotary
from tests.parity.golden import Arrays

Evaluation: TypeAlias = Callable[[Query], Arrays]
Composing: TypeAlias = Callable[[Query, Arrays], Arrays]

_DIGITS = 45

EVALUATIONS: Mapping[str, Evaluation] = MappingProxyType(
    {
        "/encoding": exact_sinusoids.encoding,
        "/encoding/grid": exact_grid.grid,
        "/relative/t5": exact_relative.t5,
        "/relative/deberta": exact_relative.deberta,
        "/relative/shaw": exact_relative.shaw,
        "/relative/swin": exact_relative.swin,
        "/relative/alibi": exact_relative.alibi,
        "/relative/alibi/slopes": exact_relative.slopes,
        "/relative/kerple": exact_relative.kerple,
        "/relative/sandwich": exact_relative.sandwich,
        "/relative/fire": exact_relative.fire,
        "/relative/swin-v2": exact_relative.swin_v2,
        "/relative/dynamic": exact_relative.dynamic,
        "/relative/transformer-xl": exact_sinusoids.transformer_xl,
        "/relative/xlnet": exact_sinusoids.xlnet,
        "/relative/conformer": exact_sinusoids.conformer,
        "/encoding/timesteps": exact_sinusoids.timesteps,
    }
)
"""The evaluation of each path, but for rotary ones."""

COMPOSINGS: Mapping[str, Composing] = MappingProxyType(
    {
        "/encoding/mask": exact_grid.mask,
        "/encoding/tokens": exact_sinusoids.tokens,
        "/relative/t5/bias": exact_relative.t5_bias,
        "/relative/shaw/embeddings": exact_relative.shaw_embeddings,
        "/relative/swin/bias": exact_relative.swin_bias,
        "/relative/alibi/bias": exact_relative.alibi_bias,
        "/relative/kerple/bias": exact_relative.kerple_bias,
        "/relative/transformer-xl/shift": exact_sinusoids.shift,
        "/encoding/fourier": exact_sinusoids.fourier,
        "/encoding/boxes": exact_sinusoids.boxes,
    }
)
"""The evaluation of answers computed from arrays."""


class Exact(ExactRotary):
    """Evaluate requests as arrays of Truth."""

    def tables(self, path: str, query: Query) -> Arrays:
        if path not in EVALUATIONS:
            return super().tables(path, query)
        with mpmath.workdps(_DIGITS):
            return EVALUATIONS[path](query)

    def composed(self, path: str, query: Query, arrays: Arrays) -> Arrays:
        with mpmath.workdps(_DIGITS):
            return COMPOSINGS[path](query, arrays)
