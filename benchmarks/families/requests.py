"""A table of each family, large enough to be measured.

The requests follow from the registry: the example of a family with its lengths made longer. A new
family has one without being named here; PARAMETERS and ARRAYS are for those whose example is no
guide.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.delivery.parameters import parse_query, read_parameters
from service.encodings.family import ComposedFamily, Family, TableFamily, choices
from service.encodings.registry import FAMILIES
from service.encodings.transforms import TransformFamily
from service.errors import InvalidParameters
from service.formats.raw import RAW
from service.numerics.dtypes import INT64, REAL_DTYPES, DType, round_into
from service.numerics.tables import Document, StoredTable, Table, size

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

MOST_ELEMENTS = 2**20
"""The elements that are read of a longer table."""

LENGTHS = {
    "seq_len": "2048",
    "d_model": "512",
    "query_len": "1024",
    "key_len": "1024",
    "head_dim": "128",
    "num_heads": "8",
    "num_attention_heads": "512",
    "base": "10000",
    "height": "48",
    "width": "48",
    "grid": "96,96",
    "window_size": "32,32",
}
"""What makes an example longer, by parameter."""


def _joined(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers))


PARAMETERS = {
    "/attention/temperature": "seq_len=1048576",
    "/encoding/curves": "seq_len=16384&d_model=512&dimensions=0:64",
    "/encoding/frequencies": "d_model=65536",
    "/encoding/timesteps": f"timesteps={_joined(range(2048))}&d_model=512&downscale_freq_shift=0",
    "/relative": "d_model=512&offsets=0:4",
    "/relative/alibi/slopes": "num_heads=4096",
    "/relative/deberta": "query_len=1024&key_len=1024&bucket_size=256&max_position=512",
    "/relative/dynamic": "seq_len=524288&log_distance=true",
    "/relative/kerple": "a=1,0.5&p=2,1&head=0&query_len=1024",
    "/relative/sandwich": "num_heads=8&head_dim=64&query_len=512",
    "/relative/shaw/embeddings": "query_len=128&key_len=128",
    "/relative/similarity": "d_model=512&offsets=0:16384",
    "/relative/swin-v2": "window_size=512,512",
    "/relative/t5": "query_len=1024&key_len=1024&num_buckets=32&max_distance=128",
    "/resize": "old_size=512&size=4096&mode=bilinear&part=height_weight",
    "/resize/apply": "mode=linear&size=2048",
    "/rope": "head_dim=128&seq_len=8192",
    "/rope/axial/apply": "convention=qwen2_vl&grid=64,64&layout=half",
    "/rope/axial/frequencies": "convention=qwen2_vl&head_dim=4096",
    "/rope/frequencies": "head_dim=65536",
}

_RANDOM = np.random.default_rng(1)


def _vectors(*shape: int) -> Callable[[], Arrays]:
    return lambda: {"x": _RANDOM.standard_normal(shape)}


def _weights(*shape: int) -> Callable[[], Arrays]:
    return lambda: {"weight": _RANDOM.standard_normal(shape)}


ARRAYS: Mapping[str, Callable[[], Arrays]] = {
    "/encoding/apply": _vectors(2048, 512),
    "/encoding/boxes": lambda: {"boxes": _RANDOM.random((65536, 4))},
    "/encoding/fourier": lambda: {
        "x": _RANDOM.random(2048) + 0.01,
        "weight": _RANDOM.integers(-1024, 1024, 256) / 64,
    },
    "/encoding/mask": lambda: {"padding_mask": np.zeros((2, 32, 32), dtype=np.int64)},
    "/encoding/tokens": lambda: {"input_ids": np.full((4, 512), 5)},
    "/positions": lambda: {"input_ids": np.full((8, 65536), 5)},
    "/relative/alibi/bias": lambda: {"attention_mask": np.ones((64, 8192), dtype=np.int64)},
    "/relative/kerple/bias": lambda: {"a": np.array([1.0, 0.5])},
    "/relative/shaw/embeddings": _weights(33, 64),
    "/relative/swin/bias": _weights(3969, 2),
    "/relative/t5/bias": _weights(32, 2),
    "/relative/transformer-xl/shift": _vectors(1024, 2048),
    "/resize/apply": _vectors(1024, 512),
    "/rope/apply": _vectors(8192, 128),
    "/rope/axial/apply": _vectors(4096, 128),
}


@dataclass(frozen=True)
class Request:
    """A request for tables of a family.

    Attributes:
        path: that of the family.
        query: the parameters, without ``dtype``.
        arrays: those of the body, by name.
    """

    path: str
    query: str
    arrays: Arrays = field(default_factory=dict)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The element types that the tables may have; () if no parameter and no array says it."""
        has_numbers = any(array.dtype.kind == "f" for array in self.arrays.values())
        named = choices(FAMILIES[self.path], "dtype")
        return named or (tuple(REAL_DTYPES) if has_numbers else ())

    def parameters(self, dtype: str = "") -> Family:
        """Return the parameters of the family; raises InvalidParameters."""
        family, values = FAMILIES[self.path], parse_query(self.query.encode())
        if dtype and choices(family, "dtype"):
            values["dtype"] = dtype
        return read_parameters(family, values)

    def document(self, dtype: str = "") -> Document:
        """Return the tables; no element is computed yet."""
        family = self.parameters(dtype)
        if isinstance(family, TableFamily):
            return family.resolve()
        assert isinstance(family, ComposedFamily | TransformFamily)
        has_dtype = bool(choices(type(family), "dtype"))
        element = REAL_DTYPES["float64" if has_dtype else dtype or "float32"]
        return family.resolve({name: _stored(x, element) for name, x in self.arrays.items()})

    def tables(self, dtype: str = "") -> tuple[Table, ...]:
        return tuple(self.document(dtype).arrays.values())


def _stored(array: NDArray[Any], dtype: DType) -> StoredTable:
    """Return an array as a body has it: integers as int64, other numbers in a real type."""
    if array.dtype.kind != "f":
        return StoredTable(array.astype(np.int64), INT64)
    elements = np.empty(array.shape, dtype=dtype.storage)
    round_into(array, elements, dtype)
    return StoredTable(elements, dtype)


def request_of(family: type[Family]) -> Request:
    """Return a request for large tables of a family."""
    arrays = _arrays(family)
    if family.path in PARAMETERS:
        return Request(family.path, PARAMETERS[family.path], arrays)
    values = parse_query(family.example.encode())
    longer = {name: LENGTHS.get(name, value) for name, value in values.items()}
    request = Request(family.path, _query(longer), arrays)
    try:
        request.document()
    except InvalidParameters:
        return Request(family.path, family.example, arrays)
    return request


def _query(values: Mapping[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in values.items())


def _arrays(family: type[Family]) -> Arrays:
    """Return the arrays of a body: those of ARRAYS, or the examples that are required."""
    if family.path in ARRAYS:
        return ARRAYS[family.path]()
    if not issubclass(family, ComposedFamily):
        return {}
    required = [known for known in family.inputs if known.is_required] or family.inputs[:1]
    return {known.name: np.array(known.example) for known in required}


def read(tables: Iterable[Table]) -> int:
    """Read up to MOST_ELEMENTS as a server does, in blocks that are dropped; return how many."""
    done = 0
    for table in tables:
        elements = min(size(table), MOST_ELEMENTS - done)
        body = RAW.body(Document("", {}, {"x": table}))
        for _ in body.blocks(0, elements * table.dtype.itemsize_bytes):
            pass
        done += elements
    return done
