"""The reference server for positional encodings."""

from collections.abc import Mapping
from types import MappingProxyType

__version__ = "0.1.0"

TABLE_REVISION: Mapping[str, int] = MappingProxyType(
    {
        "encoding": 1,
        "encoding-frequencies": 1,
        "encoding-apply": 1,
        "encoding-grid": 1,
        "encoding-timesteps": 1,
        "encoding-curves": 1,
        "encoding-tokens": 1,
        "encoding-mask": 1,
        "encoding-fourier": 1,
        "encoding-boxes": 1,
        "rope": 1,
        "rope-frequencies": 1,
        "rope-axial": 1,
        "rope-permutation": 1,
        "rope-apply": 1,
        "relative": 1,
        "relative-similarity": 1,
        "relative-t5": 1,
        "relative-t5-bias": 1,
        "relative-deberta": 1,
        "relative-shaw": 1,
        "relative-shaw-embeddings": 1,
        "relative-swin": 1,
        "relative-swin-bias": 1,
        "relative-swin-v2": 1,
        "relative-alibi": 1,
        "relative-alibi-slopes": 1,
        "relative-alibi-bias": 1,
        "relative-kerple": 1,
        "relative-kerple-bias": 1,
        "relative-sandwich": 1,
        "relative-fire": 1,
        "relative-dynamic": 1,
        "relative-transformer-xl": 1,
        "relative-transformer-xl-shift": 1,
        "relative-xlnet": 1,
        "relative-conformer": 1,
    }
)
"""The revision of each kind of table: it moves when, and only when, any byte of that kind does."""
