"""The sinusoidal encoding of "Attention Is All You Need" (Vaswani et al. 2017), §3.5.

    PE(pos, 2i) = sin(pos · base^(−2i/d_model))     PE(pos, 2i+1) = cos(pos · base^(−2i/d_model))

and of all who have it with other frequencies or in another order. Every value is within 5·2^-53 of
its formula before it is rounded once to its element type; within 6·2^-53 times its scale where a
convention has one.
"""

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from service.tables.angle import Float64s
from service.tables.decimals import DecimalTable
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import FLOAT64, DType, round_results, widened
from service.tables.frequencies import Geometric, wavelengths
from service.tables.positions import Positions
from service.tables.real_positions import AnyPositions
from service.tables.recipe import Recipe
from service.tables.table import StoredTable, steps

# Arrays of float64 that a sum goes through.
_ARRAYS = 8


def geometric(d_model: int, base: float) -> Geometric:
    """Name the frequencies of the encoding; an odd d_model ends with a sine of its own."""
    return Geometric(base, d_model, -(-d_model // 2))


def encoding(*, recipe: Recipe, positions: AnyPositions, batch: bool, dtype: DType) -> Document:
    """Describe the table of positions by channels.

    Args:
        recipe: frequencies, channels and what else a convention fixes.
        positions: one for each row.
        batch: whether the shape is (1, rows, channels) instead of (rows, channels).
        dtype: a real element type.
    """
    parameters: dict[str, ParameterValue] = {
        **recipe.parameters(),
        **recipe.rows(positions),
        "batch": batch,
    }
    shape = (*((1,) if batch else ()), positions.count, recipe.width)
    axes = (*(("batch",) if batch else ()), "position", "channel")
    table = recipe.table(positions, dtype, shape)
    return Document("encoding", parameters, {"encoding": table}, axes=axes)


def frequencies(*, recipe: Recipe) -> Document:
    """Describe the frequency of each pair of channels and its wavelength 2π/ω.

    Both are float64 arrays with a number for each, the nearest to the formula; the wavelength of
    the paper's ω_i is 2π·base^(2i/d_model).
    """
    rule = recipe.rule
    arrays = {
        "frequency": DecimalTable((rule.count,), rule.exact),
        "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact())),
    }
    return Document("encoding-frequencies", recipe.of_frequencies, arrays, has_parts=True)


@dataclass(frozen=True)
class Sum:
    """The addition of the encoding to embeddings: x + P, or √d_model·x + P.

    Computed in float64 and rounded once to x's type. The error before that rounding is below
    5·2^-53, that of P, or 6·2^-53 of its scale where it has one, plus 2^-53 of the sum's size for
    its rounding, and with the factor 2·2^-53 of the size of √d_model·x for those of the root and
    the product. NaN and infinity pass through; what is too large for the type becomes infinite.
    """

    recipe: Recipe
    positions: Positions
    scale_embeddings: bool

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell what is added."""
        return {
            **self.recipe.parameters(),
            **self.recipe.rows(self.positions),
            "scale_embeddings": self.scale_embeddings,
        }

    def of(self, x: StoredTable) -> StoredTable:
        """Add to x, of shape (…, L, d_model)."""
        *leading, rows, d_model = x.shape
        source = x.elements.reshape(prod(leading), rows, d_model)
        result = np.empty_like(source)
        is_finite = True
        table = self.recipe.table(self.positions, FLOAT64, (rows, d_model))
        for part in steps(rows, _ARRAYS * d_model):
            encoded = table.read(part.start * d_model, part.stop * d_model).reshape(-1, d_model)
            for group in steps(len(source), _ARRAYS * encoded.size):
                with np.errstate(over="ignore", invalid="ignore"):
                    total = self._scaled(widened(source[group, part], x.dtype)) + encoded
                is_finite &= round_results(total, result[group, part], x.dtype)
        return StoredTable(result.reshape(x.shape), x.dtype, is_finite)

    def _scaled(self, embeddings: Float64s) -> Float64s:
        return embeddings * sqrt(self.recipe.width) if self.scale_embeddings else embeddings
