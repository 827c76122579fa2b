import torch
from rotary_embedding_torch import RotaryEmbedding

x = torch.zeros(1, 258, 16, dtype=torch.bfloat16)
x[0, 257, :2] = torch.tensor([0.875, -0.375])
print(round(RotaryEmbedding(16).rotate_queries_or_keys(x)[0, 257, 0].item(), 5), 0.50188)
