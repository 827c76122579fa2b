from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding

rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.4}
config = LlamaConfig(head_dim=40, num_attention_heads=1, rope_parameters=rope)
print(round(LlamaRotaryEmbedding(config).inv_freq[1].item(), 5), 0.31623)
