"""Files of rotary tables: one for each scaling rule, with the keys of published configs.

Widths are small where the rule is the same for any width.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question

# Where implementations break: bfloat16 counts to 256, float16 to 2048, float32 to 2^24.
FAR = (0, 1, 2, 257, 2049, 4095, 4097, 131071, 2**24 - 1, 2**24 + 1)
_NEAR = (0, 1, 257, 2049, 4097, 131071)

_ORIGINAL = "original_max_position_embeddings"
_BASES = (10000.0, 100000.0, 150000.0, 500000.0, 1000000.0, 1000042.0, 5000000.0)
_FACTORS = (2.0, 2.5, 4.0, 8.0, 16.0, 32.0, 40.0)
_LENGTHS = (2048, 4096, 8192, 16384, 32768)
# A base so small that 16 channels have pairs on both sides of a ramp, and inside.
_FEW_PAIRS = 10000.0


def table(positions: tuple[int, ...], **parameters: Any) -> Question:
    """Return the question for a rotary table."""
    return Question("table", "/rope", parameters, positions)


def _around(original: int) -> tuple[int, ...]:
    """Return positions on both sides of the original length."""
    return (0, 1, 257, original - 1, original, original + 1, 131071)


def _within(length: int) -> tuple[int, ...]:
    """Return positions of which the largest is the last one of a length."""
    return (*(each for each in (0, 1, 2, 257, 2049, 4097) if each < length - 1), length - 1)


def _default() -> Iterator[Asked]:
    yield "Llama 2: the base of the paper", table(FAR, head_dim=24, rope_theta=10000.0)
    yield (
        "negative positions, as of tokens before the current one",
        table((-4096, -257, -1, 0, 1, 3), head_dim=16, rope_theta=1000000.0),
    )
    yield "Llama 3: base 500000", table(FAR, head_dim=16, rope_theta=500000.0)
    yield (
        "Falcon 3: a base that is no round number",
        table(_NEAR, head_dim=16, rope_theta=1000042.0),
    )
    yield (
        "a step of a decoder: rows of the cache come first",
        table((4094, 4095, 4096, 4097, 4098, 4099), head_dim=16, rope_theta=100000.0),
    )
    yield (
        "128 channels, where frequencies that are multiplied on and on lose digits",
        table((1, 257, 131071), head_dim=128, rope_theta=10000.0),
    )
    yield (
        "a divisor for each frequency, as freq_factors of ggml",
        table(
            _NEAR,
            head_dim=16,
            rope_theta=500000.0,
            freq_factors=[1.0, 1.0, 1.0, 1.5, 3.0, 8.0, 8.0, 8.0],
        ),
    )
    yield (
        "frequencies that are given, and a factor of cosines and sines",
        table(_NEAR, inv_freq=[1.0, 0.3, 0.09, 0.027, 0.0081, 0.00243], attention_factor=1.25),
    )


def _draw(random: Random) -> dict[str, Any]:
    """Return a base and a width."""
    return {
        "head_dim": 2 * random.randrange(4, 65),
        "rope_theta": random.choice((*_BASES, round(random.uniform(100, 1e7), 1))),
    }


def _drawn_positions(random: Random, most: int = 131071) -> tuple[int, ...]:
    return (0, 1, *(random.randrange(most) for _ in range(6)), most)


def _drawn_default(random: Random) -> Asked:
    return "drawn", table(_drawn_positions(random), **_draw(random))


def _partial() -> Iterator[Asked]:
    yield (
        "Phi: a share of 0.4 of the head",
        table(_NEAR, head_dim=40, partial_rotary_factor=0.4, rope_theta=10000.0),
    )
    yield (
        "GPT-NeoX: a quarter of the head",
        table(_NEAR, head_dim=48, partial_rotary_factor=0.25, rope_theta=10000.0),
    )
    yield (
        "GPT-J: a number of channels",
        table(_NEAR, head_dim=64, rotary_dim=16, rope_theta=10000.0),
    )


def _drawn_partial(random: Random) -> Asked:
    drawn = _draw(random)
    rotary_dim = 2 * random.randrange(2, drawn["head_dim"] // 2)
    return "drawn", table(_drawn_positions(random), **drawn, rotary_dim=rotary_dim)


def _proportional() -> Iterator[Asked]:
    yield (
        "Gemma 4: a quarter of the pairs turn, with the exponents of the whole head",
        table(
            _NEAR,
            head_dim=32,
            partial_rotary_factor=0.25,
            rope_type="proportional",
            rope_theta=1000000.0,
        ),
    )
    yield (
        "half of the pairs, with a factor",
        table(
            _NEAR,
            head_dim=24,
            partial_rotary_factor=0.5,
            rope_type="proportional",
            factor=8.0,
            rope_theta=10000.0,
        ),
    )


def _linear() -> Iterator[Asked]:
    yield (
        "Gemma 3: factor 8",
        table(_NEAR, head_dim=16, rope_theta=1000000.0, rope_type="linear", factor=8.0),
    )
    yield (
        "a factor that is no power of two",
        table(_NEAR, head_dim=16, rope_theta=10000.0, rope_type="linear", factor=2.5),
    )


def _drawn_linear(random: Random) -> Asked:
    scaled = {"rope_type": "linear", "factor": random.choice(_FACTORS)}
    return "drawn", table(_drawn_positions(random), **_draw(random), **scaled)


def _dynamic() -> Iterator[Asked]:
    yield (
        "InternLM 2.5: twice the trained length",
        table(
            _within(65536),
            head_dim=16,
            rope_theta=1000000.0,
            rope_type="dynamic",
            factor=2.0,
            max_position_embeddings=32768,
            context_length=65536,
        ),
    )
    yield (
        "a context within the trained length, where the rule changes nothing",
        table(
            _within(2048),
            head_dim=16,
            rope_theta=10000.0,
            rope_type="dynamic",
            factor=4.0,
            max_position_embeddings=4096,
            context_length=2048,
        ),
    )
    yield (
        "a context that is no multiple of the trained length",
        table(
            _within(5000),
            head_dim=16,
            rope_theta=10000.0,
            rope_type="dynamic",
            factor=4.0,
            max_position_embeddings=2048,
            context_length=5000,
        ),
    )
    yield (
        "HunYuan: alpha in place of a factor",
        table(_NEAR, head_dim=16, rope_theta=10000.0, rope_type="dynamic", alpha=1000.0),
    )


def _drawn_dynamic(random: Random) -> Asked:
    original = random.choice(_LENGTHS)
    length = random.randrange(original // 2, 4 * original)
    scaled = {
        "rope_type": "dynamic",
        "factor": random.choice(_FACTORS),
        "max_position_embeddings": original,
        "context_length": length,
    }
    return "drawn", table(_drawn_positions(random, length - 1), **_draw(random), **scaled)


def _ntk() -> Iterator[Asked]:
    yield (
        "factor 4",
        table(_NEAR, head_dim=16, rope_theta=10000.0, rope_type="ntk", factor=4.0),
    )
    yield (
        "factor 4, distributed by an exponent",
        table(_NEAR, head_dim=16, rope_theta=10000.0, rope_type="ntk", factor=4.0, mixed_b=0.625),
    )


def _drawn_ntk(random: Random) -> Asked:
    scaled = {"rope_type": "ntk", "factor": random.choice(_FACTORS)}
    return "drawn", table(_drawn_positions(random), **_draw(random), **scaled)


def _yarn() -> Iterator[Asked]:
    def yarn(original: int, factor: float | None, **parameters: Any) -> Question:
        given = {} if factor is None else {"factor": factor}
        scaled = {"rope_type": "yarn", **given, _ORIGINAL: original}
        return table(_around(original), **{"head_dim": 32, **parameters, **scaled})

    yield "Qwen 2.5: factor 4", yarn(32768, 4.0, head_dim=24, rope_theta=1000000.0)
    yield (
        "gpt-oss: the ends of the ramp are not rounded",
        yarn(4096, 32.0, rope_theta=150000.0, truncate=False),
    )
    yield (
        "DeepSeek-V3: mscale and mscale_all_dim are equal, so the factor of cosines is 1",
        yarn(4096, 40.0, head_dim=24, rope_theta=10000.0, mscale=1.0, mscale_all_dim=1.0),
    )
    yield (
        "mscale and mscale_all_dim are not equal",
        yarn(4096, 40.0, head_dim=16, rope_theta=10000.0, mscale=0.707, mscale_all_dim=1.0),
    )
    yield (
        "a given attention_factor, which replaces that of the formula",
        yarn(8192, 16.0, head_dim=16, rope_theta=1000000.0, attention_factor=1.5),
    )
    yield (
        "no factor, but the lengths before and after",
        yarn(
            16384,
            None,
            head_dim=16,
            rope_theta=1000000.0,
            max_position_embeddings=262144,
        ),
    )
    yield (
        "other ends of the ramp, and half of the head",
        yarn(
            2048,
            4.0,
            head_dim=48,
            rotary_dim=24,
            rope_theta=10000.0,
            beta_fast=64.0,
            beta_slow=2.0,
        ),
    )
    yield (
        "a ramp that ends beyond the last pair: it is cut at r - 1, not at r/2 - 1",
        yarn(131072, 4.0, head_dim=16, rope_theta=10000.0),
    )


def _drawn_yarn(random: Random) -> Asked:
    scaled = {
        "rope_type": "yarn",
        "factor": random.choice(_FACTORS),
        _ORIGINAL: random.choice(_LENGTHS),
        "truncate": random.random() < 0.5,
    }
    return "drawn", table(_drawn_positions(random), **_draw(random), **scaled)


_SHORT = [1.0, 1.05, 1.1, 1.25, 1.4, 1.75, 2.25, 2.75]
_LONG = [1.0, 1.5, 2.25, 4.5, 11.0, 27.25, 47.5, 64.75]


def _longrope() -> Iterator[Asked]:
    def longrope(length: int, **parameters: Any) -> Question:
        return table(
            _within(length),
            head_dim=16,
            rope_theta=10000.0,
            rope_type="longrope",
            short_factor=_SHORT,
            long_factor=_LONG,
            original_max_position_embeddings=4096,
            context_length=length,
            **parameters,
        )

    yield "Phi-3: a short context", longrope(4096, factor=32.0)
    yield "Phi-3: a long context", longrope(131072, factor=32.0)
    yield (
        "one token more than the original length, and the factor by lengths",
        longrope(4097, max_position_embeddings=131072),
    )


def _drawn_longrope(random: Random) -> Asked:
    drawn = _draw(random)
    original = random.choice(_LENGTHS)
    length = random.randrange(original // 2, 4 * original)
    pairs = range(drawn["head_dim"] // 2)
    scaled = {
        "rope_type": "longrope",
        "short_factor": [round(random.uniform(1, 3), 2) for _ in pairs],
        "long_factor": [round(random.uniform(1, 64), 2) for _ in pairs],
        "factor": random.choice(_FACTORS),
        _ORIGINAL: original,
        "context_length": length,
    }
    return "drawn", table(_drawn_positions(random, length - 1), **drawn, **scaled)


def _llama3() -> Iterator[Asked]:
    def llama3(original: int, factor: float, **parameters: Any) -> Question:
        bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        scaled = {"rope_type": "llama3", "factor": factor, _ORIGINAL: original}
        return table(_around(original), **{"head_dim": 32, **bands, **parameters, **scaled})

    yield "Llama 3.1: factor 8", llama3(8192, 8.0, rope_theta=500000.0)
    yield "Llama 3.2: factor 32", llama3(8192, 32.0, head_dim=24, rope_theta=500000.0)
    yield "Apertus: base 12000000", llama3(8192, 8.0, head_dim=16, rope_theta=12000000.0)
    yield (
        "a wider band, and a shorter original length",
        llama3(2048, 4.0, head_dim=16, rope_theta=_FEW_PAIRS, high_freq_factor=32.0),
    )


def _drawn_llama3(random: Random) -> Asked:
    low = random.choice((1.0, 2.0))
    scaled = {
        "rope_type": "llama3",
        "factor": random.choice(_FACTORS),
        "low_freq_factor": low,
        "high_freq_factor": low * random.choice((2.0, 4.0, 8.0)),
        _ORIGINAL: random.choice(_LENGTHS),
    }
    return "drawn", table(_drawn_positions(random), **_draw(random), **scaled)


def _xpos() -> Iterator[Asked]:
    rows = (0, 1, 2, 257, 1023, 2049)
    yield (
        "queries: they grow with the position",
        table(rows, head_dim=16, rope_theta=10000.0, xpos="query", xpos_centre=512),
    )
    yield (
        "keys: they decay with the position, with another scale_base",
        table(
            rows,
            head_dim=12,
            rope_theta=10000.0,
            xpos="key",
            xpos_scale_base=256.0,
            xpos_centre=1024,
        ),
    )


def _file(
    name: str,
    core: Callable[[], Iterator[Asked]],
    drawn: Callable[[Random], Asked] | None = None,
) -> VectorFile:
    return VectorFile(f"rope/{name}", core, drawn)


FILES = (
    _file("default", _default, _drawn_default),
    _file("partial", _partial, _drawn_partial),
    _file("proportional", _proportional),
    _file("linear", _linear, _drawn_linear),
    _file("dynamic", _dynamic, _drawn_dynamic),
    _file("ntk", _ntk, _drawn_ntk),
    _file("yarn", _yarn, _drawn_yarn),
    _file("longrope", _longrope, _drawn_longrope),
    _file("llama3", _llama3, _drawn_llama3),
    _file("xpos", _xpos),
)
