"""The relative shift: scores by relative position to scores by key, by moving data alone."""

from typing import Literal, TypeAlias

import numpy as np

from service.tables.document import Document, ParameterValue
from service.tables.dtypes import Elements, all_finite
from service.tables.table import StoredTable

ShiftConvention: TypeAlias = Literal["transformer-xl", "xlnet"]

AXES = ("query", "key", "batch", "head")


def transformer_xl(x: StoredTable, *, zero_triu: bool) -> Document:
    """Shift scores x (query, row of R, …) so that column j of query i is of its distance to key j.

    A column of zeros goes before x, the result is read as rows of as many elements as there are
    queries, and the first of them dropped: element (i, j) is x[i, j + q − 1 − i] while that column
    exists. Later ones hold what comes next in memory, a zero and then numbers of query i + 1, which
    a causal mask hides. kimiyoung/transformer-xl, commit 44781ed, ``RelMultiHeadAttn._rel_shift``.

    Args:
        x: a row for each query, a column for each row of R, any further axes.
        zero_triu: whether what a causal mask hides, keys j > i + k − q, is 0 instead.
    """
    queries, keys, *others = x.shape
    padded = np.zeros((queries, keys + 1, *others), dtype=x.elements.dtype)
    padded[:, 1:] = x.elements
    shifted = _dropped(padded).reshape(x.shape)
    if zero_triu:
        query, key = np.ogrid[:queries, :keys]
        shifted[key > query + keys - queries] = 0
    return _document(shifted, x, {"convention": "transformer-xl", "zero_triu": zero_triu})


def xlnet(x: StoredTable, *, key_len: int) -> Document:
    """Shift scores x (query, row of R, …), whose last rows are of keys to the right, to key_len.

    Element (i, j) is x[i, j + q − i], and where no such column exists what comes next in memory.
    transformers 5.23.0 ``XLNetRelativeAttention.rel_shift``.

    Args:
        x: a row for each query, a column for each row of R, any further axes.
        key_len: keys that are kept, below the number of columns of x.
    """
    queries, columns, *others = x.shape
    shifted = _dropped(x.elements).reshape(queries, columns - 1, *others)[:, :key_len]
    return _document(shifted, x, {"convention": "xlnet", "key_len": key_len})


def _dropped(scores: Elements) -> Elements:
    """Read scores (q, c, …) as (c, q, …) without moving any, and drop the first row."""
    queries, columns, *others = scores.shape
    return scores.reshape(columns, queries, *others)[1:]


def _document(shifted: Elements, x: StoredTable, parameters: dict[str, ParameterValue]) -> Document:
    kept = np.ascontiguousarray(shifted)
    table = StoredTable(kept, x.dtype, all_finite(kept, x.dtype))
    return Document(
        "relative-transformer-xl-shift",
        parameters,
        {"shift": table},
        axes=AXES[: len(x.shape)],
        states_axes=True,
    )
