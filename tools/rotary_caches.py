# ruff: noqa: INP001
"""The whole caches of cosines and sines that torch and transformers compute, and their times.

    python tools/rotary_caches.py

It runs where transformers 5.23.0 and torch are installed, without the service, and reads lines
``NAME DTYPE TIMES``: it computes the cache of that name so many times, after once that is not
measured, and answers with JSON: the processor seconds of one, and the cosines of the last row.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding

Cache = tuple[torch.Tensor, torch.Tensor]

ROWS, WIDTH, BASE = 8192, 128, 10000.0
GRID = (4, 32, 64)
_HEADS = {"hidden_size": 32 * WIDTH, "num_attention_heads": 32}
_ROPE = {"rope_type": "default", "rope_theta": BASE}


def _torch_in_float64() -> Callable[[torch.dtype], Cache]:
    exponents = torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH

    def compute(dtype: torch.dtype) -> Cache:
        angles = torch.outer(torch.arange(ROWS, dtype=torch.float64), BASE**-exponents)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    return compute


def _llama() -> Callable[[torch.dtype], Cache]:
    rotary = LlamaRotaryEmbedding(LlamaConfig(**_HEADS, rope_parameters=_ROPE))
    positions = torch.arange(ROWS)[None]
    return lambda dtype: rotary(torch.empty(0, dtype=dtype), positions)


def _qwen2_vl(positions: torch.Tensor) -> Callable[[torch.dtype], Cache]:
    parameters = {**_ROPE, "mrope_section": [16, 24, 24]}
    rotary = Qwen2VLRotaryEmbedding(Qwen2VLTextConfig(**_HEADS, rope_parameters=parameters))
    return lambda dtype: rotary(torch.empty(0, dtype=dtype), positions)


def main() -> None:
    """Answer each line."""
    torch.set_num_threads(1)
    text = torch.arange(ROWS).expand(3, 1, -1)
    grid = torch.cartesian_prod(*map(torch.arange, GRID)).T[:, None]
    caches: Mapping[str, Callable[[torch.dtype], Cache]] = {
        "torch": _torch_in_float64(),
        "llama": _llama(),
        "qwen2_vl-text": _qwen2_vl(text),
        "qwen2_vl-grid": _qwen2_vl(grid),
    }
    for line in sys.stdin:
        name, dtype_name, times = line.split()
        compute, dtype = caches[name], getattr(torch, dtype_name)
        cos, _ = compute(dtype)
        before = time.process_time()
        for _ in range(int(times)):
            compute(dtype)
        seconds = (time.process_time() - before) / int(times)
        last = cos.reshape(-1, WIDTH)[-1].to(torch.float64).tolist()
        sys.stdout.write(json.dumps({"seconds": seconds, "last": last}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
