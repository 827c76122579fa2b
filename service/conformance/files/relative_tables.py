"""Files of relative positions: buckets, indices, slopes, kernels, coordinates, and their biases."""

from collections.abc import Iterator
from random import Random
from typing import Any

from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

# Of 32 buckets, both directions and 128 positions, without the distances 16, 32 and 64, whose
# buckets float32 leaves open.
_AT_BORDERS = [0, 1, 7, 8, 11, 12, 22, 23, 45, 46, 90, 91, 127, 128, 2049]


def _array(resource: str, **parameters: Any) -> Question:
    return Question("array", resource, parameters)


def _eighths(rows: int, columns: int) -> list[list[float]]:
    """Return a learned table of multiples of 1/8, which every type holds."""
    return [
        [((7 * row + 11 * column) % 31 - 15) / 8 for column in range(columns)]
        for row in range(rows)
    ]


def _t5() -> Iterator[Asked]:
    path = "/relative/t5"
    yield (
        "keys after the query, at the borders of buckets",
        _array(path, query_positions=[0], key_positions=_AT_BORDERS),
    )
    yield (
        "a decoder: keys before the query",
        _array(
            path, query_positions=[0, 200], key_positions=[0, 1, 199, 200, 201], bidirectional=False
        ),
    )
    yield (
        "few buckets, and a block of queries and keys",
        _array(path, query_len=4, key_len=6, num_buckets=8, max_distance=20),
    )
    yield (
        "biases of a learned table, one query after four cached keys",
        _array(
            f"{path}/bias",
            query_start=4,
            query_len=1,
            key_len=5,
            max_distance=20,
            weight=_eighths(8, 3),
        ),
    )


def _t5_drawn(random: Random) -> Asked:
    far = sorted(random.sample([each for each in range(390) if each not in {16, 32, 64}], 12))
    return "drawn: distances of T5", _array("/relative/t5", query_positions=[0], key_positions=far)


def _deberta() -> Iterator[Asked]:
    path = "/relative/deberta"
    far = [0, 1, 127, 128, 129, 200, 257, 399, 510]
    yield (
        "queries after the key, at the borders of buckets",
        _array(path, query_positions=far, key_positions=[0, 3], bucket_size=256, max_position=512),
    )
    yield (
        "without buckets: the distance query − key",
        _array(path, query_len=3, key_len=4, bucket_size=-1, max_position=-1),
    )


def _deberta_drawn(random: Random) -> Asked:
    far = sorted(random.sample(range(511), 12))
    question = _array(
        "/relative/deberta",
        query_positions=far,
        key_positions=[0],
        bucket_size=256,
        max_position=512,
    )
    return "drawn: distances of DeBERTa", question


def _alibi() -> Iterator[Asked]:
    path = "/relative/alibi"
    yield "slopes of a power of two", _array(f"{path}/slopes", num_heads=16)
    yield "slopes of six heads: no power of two", _array(f"{path}/slopes", num_heads=6)
    yield "slopes of twelve heads", _array(f"{path}/slopes", num_heads=12)
    yield (
        "slope times key − query",
        _array(path, num_heads=6, query_positions=[0, 2, 257], key_positions=[0, 1, 2, 257]),
    )
    yield (
        "symmetric: for an encoder",
        _array(path, convention="x-transformers", num_heads=4, query_len=3, key_len=4),
    )
    yield (
        "BLOOM: slope times the key's position",
        _array(path, convention="bloom", num_heads=4, key_len=6),
    )
    yield "MPT: the last key has 0", _array(path, convention="mpt", num_heads=12, key_len=5)
    yield (
        "padding on the left is not counted",
        _array(f"{path}/bias", num_heads=4, attention_mask=[[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
    )


def _alibi_drawn(random: Random) -> Asked:
    heads = random.randint(1, 48)
    return f"drawn: {heads} heads", _array(
        "/relative/alibi",
        num_heads=heads,
        query_positions=[0, random.randrange(4096)],
        key_positions=sorted(random.sample(range(4096), 4)),
    )


def _swin() -> Iterator[Asked]:
    path = "/relative/swin"
    yield "a window that is no square", _array(path, window_size=[2, 3])
    yield (
        "a class token with three indices of its own",
        _array(path, window_size=[2, 2], class_token=True),
    )
    yield (
        "biases of a learned table",
        _array(f"{path}/bias", window_size=[2, 3], weight=_eighths(15, 2)),
    )


def _swin_v2() -> Iterator[Asked]:
    path = "/relative/swin-v2"
    yield "a window that is no square", _array(path, window_size=[3, 4])
    yield (
        "a window of a model that was trained with another one",
        _array(path, window_size=[3, 3], pretrained_window_size=[8, 8]),
    )
    yield "natural logarithms", _array(path, window_size=[2, 3], mode="cr")


def _shaw() -> Iterator[Asked]:
    path = "/relative/shaw"
    yield "distances beyond 3 are clipped", _array(path, query_len=6, max_relative_position=3)
    yield (
        "one query after five cached keys, and another limit after the query",
        _array(
            path,
            query_positions=[5],
            key_positions=[0, 2, 3, 4, 5, 6, 8],
            max_relative_position=4,
            max_after=2,
        ),
    )
    yield (
        "rows of a learned table",
        _array(
            f"{path}/embeddings",
            query_len=3,
            key_len=4,
            max_relative_position=2,
            weight=_eighths(5, 4),
        ),
    )


def _shaw_drawn(random: Random) -> Asked:
    most = random.randint(1, 16)
    question = _array("/relative/shaw", query_len=8, key_len=12, max_relative_position=most)
    return "drawn: clipped distances", question


def _kerple() -> Iterator[Asked]:
    path, far = "/relative/kerple", {"query_positions": [0, 257], "key_positions": [0, 1, 256, 257]}
    yield (
        "a logarithm",
        _array(path, convention="log", num_heads=2, a=[0.5, 2.0], p=[1.5, 0.25], **far),
    )
    yield (
        "a power",
        _array(path, convention="power", num_heads=2, a=[0.5, 2.0], p=[1.5, 0.25], **far),
    )
    yield (
        "NeMo: slopes of ALiBi times a logarithm",
        _array(path, convention="nemo", num_heads=4, **far),
    )
    yield (
        "learned numbers, of which some are clamped",
        _array(
            f"{path}/bias",
            convention="log",
            query_len=3,
            key_len=3,
            a=[0.5, 0.0],
            p=[1.5, 2.0],
            clamp=True,
        ),
    )


def _block(random: Random) -> dict[str, list[int]]:
    """Return a few queries and keys."""
    queries, keys = (sorted(random.sample(range(4096), each)) for each in (2, 4))
    return {"query_positions": queries, "key_positions": keys}


def _kerple_drawn(random: Random) -> Asked:
    name = random.choice(("log", "power"))
    a, p = ([random.randint(1, 8) / 8 for _ in range(3)] for _ in range(2))
    return f"drawn: {name}", _array(
        "/relative/kerple", convention=name, num_heads=3, a=a, p=p, **_block(random)
    )


def _fire() -> Iterator[Asked]:
    path, far = "/relative/fire", {"query_positions": [0, 1, 511, 513, 2049]}
    yield "below and beyond the threshold", _array(path, **far, key_positions=[0, 1, 510, 2049])
    yield (
        "other learned numbers",
        _array(path, **far, key_positions=[0, 256], c=0.5, threshold=64.0),
    )


def _fire_drawn(random: Random) -> Asked:
    c, threshold = random.randint(1, 16) / 8, float(random.randint(1, 1024))
    question = _array("/relative/fire", c=c, threshold=threshold, **_block(random))
    return "drawn: another threshold", question


def _sandwich() -> Iterator[Asked]:
    path = "/relative/sandwich"
    yield (
        "k and h begin at 1",
        _array(
            path, num_heads=4, head_dim=8, query_positions=[0, 257], key_positions=[0, 1, 255, 257]
        ),
    )
    yield (
        "both directions",
        _array(path, num_heads=2, head_dim=16, query_len=3, key_len=5, causal=False, base=500.0),
    )


def _sandwich_drawn(random: Random) -> Asked:
    heads, width = random.randint(1, 12), 2 * random.randint(2, 32)
    question = _array("/relative/sandwich", num_heads=heads, head_dim=width, **_block(random))
    return f"drawn: {heads} heads", question


def _dynamic() -> Iterator[Asked]:
    path = "/relative/dynamic"
    yield "distances query − key", _array(path, seq_len=5)
    yield "logarithms of distances", _array(path, seq_len=5, log_distance=True)


def _shift() -> Iterator[Asked]:
    path, x = "/relative/transformer-xl/shift", _eighths(3, 5)
    yield "scores by distance become scores by key", Question("array", path, {}, x=x)
    yield (
        "XLNet adds no zeros",
        Question("array", path, {"convention": "xlnet", "key_len": 3}, x=_eighths(3, 7)),
    )


FILES = (
    VectorFile("relative/t5", _t5, _t5_drawn),
    VectorFile("relative/deberta", _deberta, _deberta_drawn),
    VectorFile("relative/alibi", _alibi, _alibi_drawn),
    VectorFile("relative/swin", _swin),
    VectorFile("relative/swin-v2", _swin_v2),
    VectorFile("relative/shaw", _shaw, _shaw_drawn),
    VectorFile("relative/kerple", _kerple, _kerple_drawn),
    VectorFile("relative/fire", _fire, _fire_drawn),
    VectorFile("relative/sandwich", _sandwich, _sandwich_drawn),
    VectorFile("relative/dynamic", _dynamic),
    VectorFile("relative/shift", _shift),
)
