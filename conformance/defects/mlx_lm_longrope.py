import mlx.core as mx
from mlx_lm.models.rope_utils import SuScaledRoPE

short, long = [1.0, 1.05] + [1.1] * 6, [1.0, 1.5] + [2.25] * 6
rope = SuScaledRoPE(16, 10000.0, 131072, 4096, short, long)
print(round(rope(mx.array([[[1.0] * 8 + [0.0] * 8]]), offset=1)[0, 0, 1].item(), 5), 1.13667)
