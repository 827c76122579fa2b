import mlx.core as mx
from mlx_lm.models.rope_utils import initialize_rope

rule = {"rope_type": "yarn", "factor": 16.0, "attention_factor": 1.5}
rope = initialize_rope(16, 1000000.0, False, rule | {"original_max_position_embeddings": 8192})
print(round(rope(mx.array([[[1.0] * 8 + [0.0] * 8]]), offset=0)[0, 0, 0].item(), 5), 1.5)
