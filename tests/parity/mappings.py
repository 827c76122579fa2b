"""The mapping of each family of cases to the requests that must reproduce it."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.parity import absolute, applied, axial, relative, rotary, transformers_rotary
from tests.parity.absolute import FamilyMapping

_TIMESCALES = {"min_timescale": ("min_timescale", 1.0), "max_timescale": ("max_timescale", 1.0e4)}
_POSITIONAL_ENCODINGS = absolute.grid(
    "positional-encodings", "axes", d_model="channels", channels_first=("permute", False)
)

MAPPINGS: Mapping[str, FamilyMapping] = MappingProxyType(
    {
        **dict.fromkeys(
            ("hf_default", "hf_linear", "hf_dynamic", "hf_yarn", "hf_longrope", "hf_llama3"),
            transformers_rotary.table,
        ),
        **dict.fromkeys(
            ("hf_mrope_chunked", "hf_mrope_interleaved"), transformers_rotary.multimodal_table
        ),
        **dict.fromkeys(
            ("hf_half", "hf_interleaved", "hf_partial", "hf_deepseek_v3"),
            transformers_rotary.queries_and_keys,
        ),
        "diffusers_rope_1d": rotary.diffusers,
        "xpos_scale": rotary.xpos,
        "vllm_cos_sin_cache": rotary.vllm,
        "diffusers_rope_2d": axial.diffusers_2d,
        "diffusers_rope_3d": axial.diffusers_3d,
        "timm_rope": axial.timm("half", "interleaved"),
        "timm_rope_cat": axial.timm("timm_dinov3", "timm_cat"),
        "dinov3_rope": axial.dinov3,
        "ret_axial_freqs": axial.rotary_embedding_torch,
        "onnx_rotary_embedding": applied.onnx,
        "flash_attn_torch": applied.flash_attn,
        "torchtune": applied.torchtune,
        "ret_rotate": applied.rotary_embedding_torch,
        "x_transformers": applied.x_transformers,
        "positional_encodings_2d": _POSITIONAL_ENCODINGS,
        "positional_encodings_3d": _POSITIONAL_ENCODINGS,
        "diffusers_sincos_2d": absolute.diffusers_2d,
        "diffusers_sincos_3d": absolute.diffusers_3d,
        "timm_sincos_2d": absolute.grid(
            "timm",
            "feat_shape",
            "dtype device",
            d_model=("dim", 64),
            base=("temperature", 10000.0),
            reverse_coord=("reverse_coord", False),
            interleave_sin_cos=("interleave_sin_cos", False),
        ),
        "detr_sine": absolute.detr,
        "mae_sincos_2d": absolute.grid(
            "mae", "grid_size", d_model="embed_dim", cls_token=("cls_token", False)
        ),
        "t2t_timing_signal_nd": absolute.grid(
            "tensor2tensor", "axes", d_model="channels", **_TIMESCALES
        ),
        "hf_perceiver_fourier": absolute.grid(
            "perceiver",
            "index_dims",
            num_bands="num_bands",
            max_resolution="max_resolution",
            concat_pos=("concat_pos", True),
            sine_only=("sine_only", False),
        ),
        "keras_hub_sine": absolute.keras,
        "positional_encodings_1d": absolute.positional_encodings,
        "diffusers_sincos_1d": absolute.diffusers,
        "hf_fairseq_sinusoid": absolute.fairseq,
        # Marian and XLM take a padding index, but no row of their tables is padding.
        **{
            f"hf_{name}_sinusoid": absolute.rows(
                name, "padding_idx", d_model="embedding_dim|dim", seq_len="num_positions|n_pos"
            )
            for name in ("marian", "xlm")
        },
        "hf_whisper_sinusoid": absolute.rows(
            "whisper", d_model="channels", seq_len="length", max_timescale=("max_timescale", 10000)
        ),
        "t2t_timing_signal_1d": absolute.rows(
            "tensor2tensor",
            d_model="channels",
            seq_len="length",
            start=("start_index", 0),
            **_TIMESCALES,
        ),
        "diffusers_timestep": absolute.timesteps,
        "diffusers_gaussian_fourier": absolute.gaussian_fourier,
        "t5_bucket": relative.t5_bucket,
        "xt_relative_position_bucket": relative.t5_bucket,
        "t5_bias": relative.t5_bias,
        "deberta_bucket": relative.deberta_bucket,
        "shaw_clipped": relative.shaw_clipped,
        "swin_v1_index": relative.swin_index,
        "timm_relative_position_index": relative.swin_index,
        "swin_v2_log_coords": relative.swin_v2,
        "alibi_bloom": relative.bloom,
        "alibi_mpt": relative.mpt,
        "alibi_slopes_original": relative.alibi_slopes,
        "xt_alibi": relative.x_transformers_alibi,
        "kerple": relative.kerple,
        "sandwich": relative.sandwich,
        "xt_dynamic_position_bias": relative.dynamic,
        "transformer_xl": relative.transformer_xl,
        "xlnet_relative": relative.xlnet,
        "conformer_relpos": relative.conformer,
    }
)

NETWORK_OUTPUTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"xt_dynamic_position_bias": frozenset({"bias"})}
)
"""Outputs of learned networks, which the service does not have; it has the networks' inputs."""
