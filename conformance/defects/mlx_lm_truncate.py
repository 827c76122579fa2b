import mlx.core as mx
from mlx_lm.models.rope_utils import initialize_rope

rule = {"rope_type": "yarn", "factor": 32.0, "truncate": False}
rope = initialize_rope(32, 150000.0, False, rule | {"original_max_position_embeddings": 4096})
print(round(rope(mx.array([[[1.0] * 16 + [0.0] * 16]]), offset=257)[0, 0, 21].item(), 5), -1.30245)
