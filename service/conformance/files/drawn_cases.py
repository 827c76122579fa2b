"""Cases that are drawn at random, beyond the core: a function for each vector file that has any."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from service.conformance.files.vector_file import Asked, ask

_BASES = (10000.0, 100000.0, 150000.0, 500000.0, 1000000.0, 1000042.0, 5000000.0)
_FACTORS = (2.0, 2.5, 4.0, 8.0, 16.0, 32.0, 40.0)
_LENGTHS = (2048, 4096, 8192, 16384, 32768)
_ORIGINAL = "original_max_position_embeddings"


def _series(random: Random) -> dict[str, Any]:
    """Return a width and a base."""
    return {
        "head_dim": 2 * random.randrange(4, 65),
        "rope_theta": random.choice((*_BASES, round(random.uniform(100, 1e7), 1))),
    }


def _rotary(
    random: Random,
    rule: Mapping[str, Any],
    series: Mapping[str, Any] | None = None,
    most: int = 131071,
) -> Asked:
    """Return a rotary table.

    Args:
        random: draws the positions, and the series if none is given.
        rule: the parameters but for those of the series.
        series: a width and a base.
        most: the largest position.
    """
    positions = (0, 1, *(random.randrange(most) for _ in range(6)), most)
    return "drawn", ask("/rope", {**(series or _series(random)), **rule}, positions)


def _partial(random: Random) -> Asked:
    series = _series(random)
    width = 2 * random.randrange(2, series["head_dim"] // 2)
    return _rotary(random, {"rotary_dim": width}, series)


def _by_factor(random: Random, rope_type: str) -> Asked:
    return _rotary(random, {"rope_type": rope_type, "factor": random.choice(_FACTORS)})


def _lengths(random: Random) -> tuple[int, int]:
    """Return an original length, and the length of a context."""
    original = random.choice(_LENGTHS)
    return original, random.randrange(original // 2, 4 * original)


def _dynamic(random: Random) -> Asked:
    original, length = _lengths(random)
    rule = {
        "rope_type": "dynamic",
        "factor": random.choice(_FACTORS),
        "max_position_embeddings": original,
        "context_length": length,
    }
    return _rotary(random, rule, most=length - 1)


def _yarn(random: Random) -> Asked:
    rule = {
        "rope_type": "yarn",
        "factor": random.choice(_FACTORS),
        _ORIGINAL: random.choice(_LENGTHS),
        "truncate": random.random() < 0.5,
    }
    return _rotary(random, rule)


def _longrope(random: Random) -> Asked:
    series = _series(random)
    original, length = _lengths(random)
    short, long = (
        [round(random.uniform(1, most), 2) for _ in range(series["head_dim"] // 2)]
        for most in (3, 64)
    )
    rule = {
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "factor": random.choice(_FACTORS),
        _ORIGINAL: original,
        "context_length": length,
    }
    return _rotary(random, rule, series, length - 1)


def _llama3(random: Random) -> Asked:
    low = random.choice((1.0, 2.0))
    rule = {
        "rope_type": "llama3",
        "factor": random.choice(_FACTORS),
        "low_freq_factor": low,
        "high_freq_factor": low * random.choice((2.0, 4.0, 8.0)),
        _ORIGINAL: random.choice(_LENGTHS),
    }
    return _rotary(random, rule)


def _mrope(random: Random) -> Asked:
    section = [random.randrange(1, 12) for _ in range(3)]
    positions = {f"positions_{axis}": [random.randrange(40000) for _ in range(8)] for axis in "thw"}
    base = random.choice((10000.0, 500000.0, 1000000.0, 5000000.0))
    keys = {"head_dim": 2 * sum(section), "rope_theta": base, "mrope_section": section}
    return "drawn", ask("/rope", keys | positions)


def _axial(random: Random) -> Asked:
    names = ("qwen2_vl", "timm", "lumina", "sam2", "kimi_k25", "efficientloftr", "dinov3")
    keys = {
        "convention": random.choice(names),
        "head_dim": 8 * random.randrange(1, 9),
        "grid": [random.randrange(1, 9), random.randrange(2, 9)],
    }
    return "drawn", ask("/rope/axial", keys)


def _rotate(random: Random) -> Asked:
    head_dim = 2 * random.randrange(2, 33)
    rows = tuple(random.randrange(40000) for _ in range(6))
    keys = {
        "head_dim": head_dim,
        "rotary_dim": 2 * random.randrange(1, head_dim // 2 + 1),
        "layout": random.choice(("half", "interleaved")),
        "rope_theta": random.choice((10000.0, 500000.0, 1000000.0)),
    }
    x = [[random.randrange(-8, 9) / 8 for _ in range(head_dim)] for _ in rows]
    return "drawn", ask("/rope/apply", keys, rows, x)


def _sinusoid(random: Random) -> Asked:
    name = random.choice(("vaswani", "tensor2tensor", "fairseq", "marian", "ddpm"))
    positions = tuple(sorted(random.sample(range(2 ** random.randint(4, 25)), 10)))
    base = float(random.choice((100, 1000, 10000, 500000, 1000000)))
    keys = {"convention": name, "d_model": 2 * random.randint(2, 64), "base": base}
    return f"drawn: {name}", ask("/encoding", keys, positions)


def _timesteps(random: Random) -> Asked:
    keys = {
        "timesteps": [random.randrange(8000) / 8 for _ in range(6)],
        "d_model": 2 * random.randint(3, 64),
        "flip_sin_to_cos": random.random() < 0.5,
        "downscale_freq_shift": float(random.randrange(2)),
    }
    return "drawn: fractional timesteps", ask("/encoding/timesteps", keys)


def _grid(random: Random) -> Asked:
    name = random.choice(("mae", "moco-v3", "timm", "simple-vit", "detr"))
    keys = {
        "convention": name,
        "height": random.randint(2, 8),
        "width": random.randint(2, 8),
        "d_model": 4 * random.randint(2, 16),
    }
    return f"drawn: {name}", ask("/encoding/grid", keys)


def _farthest_first(random: Random) -> Asked:
    keys = {"d_model": 2 * random.randint(2, 64), "key_len": random.randint(2, 12)}
    return "drawn: distances", ask("/relative/transformer-xl", keys)


def _both_sides(random: Random) -> Asked:
    keys = {"d_model": 2 * random.randint(2, 64), "seq_len": random.randint(2, 8)}
    return "drawn: both sides", ask("/relative/conformer", keys)


def _t5(random: Random) -> Asked:
    # float32 leaves the buckets of these three distances open.
    far = sorted(random.sample([each for each in range(390) if each not in {16, 32, 64}], 12))
    keys = {"query_positions": [0], "key_positions": far}
    return "drawn: distances of T5", ask("/relative/t5", keys)


def _deberta(random: Random) -> Asked:
    keys = {
        "query_positions": sorted(random.sample(range(511), 12)),
        "key_positions": [0],
        "bucket_size": 256,
        "max_position": 512,
    }
    return "drawn: distances of DeBERTa", ask("/relative/deberta", keys)


def _alibi(random: Random) -> Asked:
    heads = random.randint(1, 48)
    keys = {
        "num_heads": heads,
        "query_positions": [0, random.randrange(4096)],
        "key_positions": sorted(random.sample(range(4096), 4)),
    }
    return f"drawn: {heads} heads", ask("/relative/alibi", keys)


def _shaw(random: Random) -> Asked:
    keys = {"query_len": 8, "key_len": 12, "max_relative_position": random.randint(1, 16)}
    return "drawn: clipped distances", ask("/relative/shaw", keys)


def _block(random: Random) -> dict[str, list[int]]:
    """Return a few queries and keys."""
    queries, keys = (sorted(random.sample(range(4096), each)) for each in (2, 4))
    return {"query_positions": queries, "key_positions": keys}


def _kerple(random: Random) -> Asked:
    name = random.choice(("log", "power"))
    a, p = ([random.randint(1, 8) / 8 for _ in range(3)] for _ in range(2))
    keys = {"convention": name, "num_heads": 3, "a": a, "p": p, **_block(random)}
    return f"drawn: {name}", ask("/relative/kerple", keys)


def _fire(random: Random) -> Asked:
    c, threshold = random.randint(1, 16) / 8, float(random.randint(1, 1024))
    keys = {"c": c, "threshold": threshold, **_block(random)}
    return "drawn: another threshold", ask("/relative/fire", keys)


def _sandwich(random: Random) -> Asked:
    heads, width = random.randint(1, 12), 2 * random.randint(2, 32)
    keys = {"num_heads": heads, "head_dim": width, **_block(random)}
    return f"drawn: {heads} heads", ask("/relative/sandwich", keys)


def _positions(random: Random) -> Asked:
    lengths = [random.randint(1, 12) for _ in range(random.randint(2, 6))]
    return "drawn: packed sequences", ask(
        "/positions", {"convention": "packed", "lengths": lengths}
    )


def _resize(random: Random) -> Asked:
    height, width = random.randint(2, 7), random.randint(2, 7)
    mode = random.choice(("bilinear", "bicubic"))
    keys = {"size": [random.randint(2, 9), random.randint(2, 9)], "mode": mode}
    x = [
        [
            [((5 * row + 7 * column + 3 * c) % 16 - 8) / 8 for c in range(2)]
            for column in range(width)
        ]
        for row in range(height)
    ]
    return f"drawn: {mode}", ask("/resize/apply", keys, x=x)


DRAWN: Mapping[str, Callable[[Random], Asked]] = {
    "rope/default": lambda random: _rotary(random, {}),
    "rope/partial": _partial,
    "rope/linear": lambda random: _by_factor(random, "linear"),
    "rope/dynamic": _dynamic,
    "rope/ntk": lambda random: _by_factor(random, "ntk"),
    "rope/yarn": _yarn,
    "rope/longrope": _longrope,
    "rope/llama3": _llama3,
    "rope/mrope": _mrope,
    "rope/axial": _axial,
    "rope/rotate": _rotate,
    "encoding/sinusoid": _sinusoid,
    "encoding/timesteps": _timesteps,
    "encoding/grid": _grid,
    "relative/transformer-xl": _farthest_first,
    "relative/conformer": _both_sides,
    "relative/t5": _t5,
    "relative/deberta": _deberta,
    "relative/alibi": _alibi,
    "relative/shaw": _shaw,
    "relative/kerple": _kerple,
    "relative/fire": _fire,
    "relative/sandwich": _sandwich,
    "positions/ids": _positions,
    "resize": _resize,
}
