"""Files of sinusoids: of positions, timesteps, grids, tokens, masks, boxes, and sums with them."""

from collections.abc import Iterator
from random import Random
from typing import Any

from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

# bfloat16 counts to 256, float16 to 2048, float32 to 2^24.
_FAR = (0, 1, 2, 3, 257, 2049, 4095, 131071, 2**24 - 1, 2**24 + 1)
_NEAR = (0, 1, 2, 3, 257, 2049)


def _array(resource: str, **parameters: Any) -> Question:
    return Question("array", resource, parameters)


def _rows(convention: str, positions: tuple[int, ...] = _NEAR, **parameters: Any) -> Question:
    return Question("array", "/encoding", {"convention": convention, **parameters}, positions)


def _sinusoids() -> Iterator[Asked]:
    yield "the paper's table, far positions included", _rows("vaswani", _FAR, d_model=16)
    yield (
        "all sines, then all cosines",
        _rows("vaswani", d_model=16, layout="concatenated", base=500.0),
    )
    yield "an odd width: the last sine has no cosine", _rows("vaswani", d_model=9, base=1000.0)
    yield "exponents k/(n − 1): the last frequency is 1/10000", _rows("tensor2tensor", d_model=16)
    yield (
        "two timescales, and a last channel of zeros",
        _rows("tensor2tensor", d_model=9, min_timescale=2.0, max_timescale=500.0),
    )
    yield "the row of padding is zeros", _rows("fairseq", d_model=12)
    yield "position 0 has the row after that of padding", _rows("m2m100", d_model=12, padding_idx=1)
    yield (
        "cosines first, as in latent diffusion",
        _rows("diffusers", d_model=12, flip_sin_to_cos=True),
    )
    yield "sinusoids times 1/√d", _rows("x-transformers", d_model=16)
    yield "logarithms of frequencies, evenly spaced", _rows("mlx", d_model=8, min_freq=0.001)
    yield "an odd width: exponents 2k/(d + 1)", _rows("positional-encodings", d_model=9)
    yield (
        "eight tokens after a hundred cached ones",
        _rows("vaswani", tuple(range(100, 108)), d_model=8, base=500.0),
    )
    yield (
        "two packed sequences, each of which begins at 0",
        _rows("vaswani", (*range(6), *range(9)), d_model=6, base=500.0),
    )
    yield (
        "padding on the left, at position 1, is not counted",
        _rows("vaswani", (1, 1, 1, *range(10)), d_model=6, base=500.0),
    )
    yield (
        "coordinates from −1 to 1 and evenly spaced bands",
        _array("/encoding", convention="perceiver", d_model=9, max_resolution=20, seq_len=6),
    )


def _sinusoid_drawn(random: Random) -> Asked:
    name = random.choice(("vaswani", "tensor2tensor", "fairseq", "marian", "ddpm"))
    positions = tuple(sorted(random.sample(range(2 ** random.randint(4, 25)), 10)))
    base = float(random.choice((100, 1000, 10000, 500000, 1000000)))
    return f"drawn: {name}", _rows(name, positions, d_model=2 * random.randint(2, 64), base=base)


def _timesteps() -> Iterator[Asked]:
    path = "/encoding/timesteps"
    yield "DDPM: sines first, shift 1", _array(path, timesteps=[0, 1, 2, 499, 999], d_model=16)
    yield (
        "Stable Diffusion: cosines first, shift 0",
        _array(
            path,
            timesteps=[0, 1, 2, 257, 999],
            d_model=16,
            flip_sin_to_cos=True,
            downscale_freq_shift=0.0,
        ),
    )
    yield (
        "fractional timesteps from 0 to 1, times 1000",
        _array(
            path,
            timesteps=[0.0, 0.0625, 0.5, 0.90625, 1.0],
            d_model=12,
            scale=1000.0,
            downscale_freq_shift=0.0,
        ),
    )
    yield (
        "an odd width, and another period",
        _array(path, timesteps=[0, 1, 12.5, 999], d_model=9, max_period=500.0),
    )


def _timesteps_drawn(random: Random) -> Asked:
    question = _array(
        "/encoding/timesteps",
        timesteps=[random.randrange(8000) / 8 for _ in range(6)],
        d_model=2 * random.randint(3, 64),
        flip_sin_to_cos=random.random() < 0.5,
        downscale_freq_shift=float(random.randrange(2)),
    )
    return "drawn: fractional timesteps", question


def _grid(convention: str, **parameters: Any) -> Question:
    return _array("/encoding/grid", convention=convention, **parameters)


def _grids() -> Iterator[Asked]:
    yield (
        "MAE: the first half encodes columns; a row of zeros for the class token",
        _grid("mae", height=2, width=3, d_model=16, cls_token=True),
    )
    yield (
        "RT-DETR: the first half encodes rows",
        _grid("transformers", height=2, width=3, d_model=8),
    )
    yield (
        "MoCo v3: tokens are numbered column by column",
        _grid("moco-v3", height=3, width=2, d_model=8),
    )
    yield "SimpleViT: exponents k/(n − 1)", _grid("simple-vit", height=2, width=3, d_model=16)
    yield "timm: sines of both axes come first", _grid("timm", height=3, width=2, d_model=16)
    yield (
        "DETR: positions from 1, divided by the last one, times 2π",
        _grid("detr", height=3, width=4, d_model=8, normalize=True),
    )
    yield (
        "Deformable DETR: the centres of rows and columns",
        _grid("deformable-detr", height=3, width=2, d_model=8),
    )
    yield (
        "Stable Diffusion 3: each axis is stretched to base_size",
        _grid("diffusers", height=3, width=2, d_model=16, base_size=4, interpolation_scale=2.0),
    )
    yield (
        "CogVideoX: a quarter of the channels for time",
        _grid(
            "diffusers", depth=2, height=2, width=3, d_model=16, temporal_interpolation_scale=2.0
        ),
    )
    yield (
        "three axes, the last of which is cut",
        _grid("positional-encodings", depth=2, height=2, width=3, d_model=10),
    )
    yield "two axes and two timescales", _grid("tensor2tensor", height=2, width=3, d_model=9)
    yield (
        "Perceiver: coordinates and bands of each axis",
        _grid("perceiver", height=3, width=4, num_bands=2, max_resolution=[10, 14]),
    )


def _grid_drawn(random: Random) -> Asked:
    name = random.choice(("mae", "moco-v3", "timm", "simple-vit", "detr"))
    height, width = random.randint(2, 8), random.randint(2, 8)
    return f"drawn: {name}", _grid(
        name, height=height, width=width, d_model=4 * random.randint(2, 16)
    )


def _tokens() -> Iterator[Asked]:
    path = "/encoding/tokens"
    yield (
        "padding on the left and on the right has the row of zeros, and is not counted",
        _array(
            path,
            convention="fairseq",
            d_model=8,
            input_ids=[[1, 1, 5, 7, 9], [4, 6, 8, 1, 1]],
            part="encoding",
        ),
    )
    yield (
        "row numbers after four cached tokens",
        _array(
            path,
            convention="m2m100",
            d_model=8,
            input_ids=[[1, 1, 5, 7], [4, 6, 8, 1]],
            past=4,
            part="position_ids",
        ),
    )
    yield (
        "XGLM takes position ids, and adds 2",
        _array(
            path,
            convention="xglm",
            d_model=8,
            position_ids=[[0, 0, 1, 2], [0, 1, 2, 3]],
            part="encoding",
        ),
    )


def _masks() -> Iterator[Asked]:
    path = "/encoding/mask"
    yield (
        "an image with padding on the right and below, where 1 is padding",
        _array(
            path,
            d_model=8,
            padding_mask=[[0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]],
            normalize=True,
        ),
    )
    yield (
        "two images of other sizes, where 1 is a valid pixel",
        _array(
            path,
            d_model=4,
            valid_mask=[[[1, 1, 1], [1, 1, 1]], [[1, 1, 0], [0, 0, 0]]],
        ),
    )


def _boxes() -> Iterator[Asked]:
    boxes = [[0.125, 0.25, 0.5, 0.75], [0.0, 0.375, 1.0, 0.625]]
    yield "frequencies rise; no factor of 2π", _array("/encoding/boxes", embed_dim=4, boxes=boxes)


def _fourier() -> Iterator[Asked]:
    path, weight = "/encoding/fourier", [0.25, -1.5, 3.0, 16.125]
    yield "logarithms of noise levels", _array(path, x=[0.125, 1.0, 2.5, 80.0], weight=weight)
    yield (
        "numbers themselves, cosines first",
        _array(path, x=[-0.5, 0.0, 0.375], weight=weight, log=False, flip_sin_to_cos=True),
    )


def _sums() -> Iterator[Asked]:
    x = [[((7 * row + 5 * channel) % 17 - 8) / 8 for channel in range(8)] for row in range(4)]
    path = "/encoding/apply"
    yield "embeddings plus the paper's rows", Question("array", path, {}, (0, 1, 257, 2049), x)
    yield (
        "embeddings times √d, plus the row; the root does not multiply the row",
        Question("array", path, {"scale_embeddings": True, "base": 500.0}, (0, 1, 2, 3), x),
    )


def _temperatures() -> Iterator[Asked]:
    path = "/attention/temperature"
    yield (
        "Llama 4: the first step is at position 8191",
        _array(path, positions=[0, 8190, 8191, 8192, 16383, 131071]),
    )
    yield (
        "Ministral 3: the first step is at the original length",
        _array(
            path,
            convention="ministral3",
            positions=[0, 16383, 16384, 16385, 131071],
            original_max_position_embeddings=16384,
        ),
    )
    yield "a power of the position", _array(path, convention="beam", positions=[0, 1, 257, 131071])


def _operators() -> Iterator[Asked]:
    yield (
        "the matrix that moves a row of sinusoids by 5 positions",
        _array("/relative", d_model=6, offset=5, base=500.0),
    )
    yield (
        "all sines, then all cosines; by −3 and by 257",
        _array("/relative", d_model=4, offsets=[-3, 257], layout="concatenated"),
    )


def _similarities() -> Iterator[Asked]:
    yield (
        "the same for k and −k",
        _array("/relative/similarity", d_model=16, offsets=[-257, -1, 0, 1, 2, 257, 2049]),
    )


def _farthest_first() -> Iterator[Asked]:
    path = "/relative/transformer-xl"
    yield "the farthest key comes first", _array(path, d_model=12, key_len=6)
    yield "distances beyond 3 are 3", _array(path, d_model=8, key_len=6, clamp_len=3, base=500.0)


def _farthest_first_drawn(random: Random) -> Asked:
    keys = {"d_model": 2 * random.randint(2, 64), "key_len": random.randint(2, 12)}
    return "drawn: distances", _array("/relative/transformer-xl", **keys)


def _from_key_len() -> Iterator[Asked]:
    path = "/relative/xlnet"
    yield (
        "positions from key_len to 1 − query_len",
        _array(path, d_model=8, key_len=4, query_len=3),
    )
    yield (
        "a second direction with negated positions",
        _array(path, d_model=8, key_len=4, attn_type="uni", bi_data=True),
    )


def _both_sides() -> Iterator[Asked]:
    yield (
        "sines and cosines alternate; keys on the left are positive",
        _array("/relative/conformer", d_model=12, seq_len=4),
    )


def _both_sides_drawn(random: Random) -> Asked:
    keys = {"d_model": 2 * random.randint(2, 64), "seq_len": random.randint(2, 8)}
    return "drawn: both sides", _array("/relative/conformer", **keys)


FILES = (
    VectorFile("encoding/sinusoid", _sinusoids, _sinusoid_drawn),
    VectorFile("encoding/timesteps", _timesteps, _timesteps_drawn),
    VectorFile("encoding/grid", _grids, _grid_drawn),
    VectorFile("encoding/tokens", _tokens),
    VectorFile("encoding/mask", _masks),
    VectorFile("encoding/boxes", _boxes),
    VectorFile("encoding/fourier", _fourier),
    VectorFile("encoding/apply", _sums),
    VectorFile("attention/temperature", _temperatures),
    VectorFile("relative/operator", _operators),
    VectorFile("relative/similarity", _similarities),
    VectorFile("relative/transformer-xl", _farthest_first, _farthest_first_drawn),
    VectorFile("relative/xlnet", _from_key_len),
    VectorFile("relative/conformer", _both_sides, _both_sides_drawn),
)
