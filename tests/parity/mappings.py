"""For every family of cases, the requests that must answer it, or why there are none yet."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from tests.parity import (
    absolute_grid,
    absolute_lines,
    absolute_timesteps,
    applied_hf,
    applied_libraries,
    axial_diffusers,
    axial_vision,
    relative_bias,
    relative_index,
    relative_sines,
    rotary_diffusers,
    rotary_hf,
    rotary_vllm,
    rotary_xpos,
)
from tests.parity.asking import Answers
from tests.parity.golden import Arrays, Case

FamilyMapping: TypeAlias = Callable[[Case, Answers], Arrays]

MAPPINGS: Mapping[str, FamilyMapping] = MappingProxyType(
    {
        "hf_default": rotary_hf.table,
        "hf_linear": rotary_hf.table,
        "hf_dynamic": rotary_hf.table,
        "hf_yarn": rotary_hf.table,
        "hf_longrope": rotary_hf.table,
        "hf_llama3": rotary_hf.table,
        "hf_mrope_chunked": rotary_hf.multimodal_table,
        "hf_mrope_interleaved": rotary_hf.multimodal_table,
        "diffusers_rope_1d": rotary_diffusers.table_1d,
        "diffusers_rope_2d": axial_diffusers.table_2d,
        "diffusers_rope_3d": axial_diffusers.table_3d,
        "timm_rope": axial_vision.timm,
        "timm_rope_cat": axial_vision.timm_cat,
        "dinov3_rope": axial_vision.dinov3,
        "ret_axial_freqs": axial_vision.rotary_embedding_torch,
        "xpos_scale": rotary_xpos.case_of_scale,
        "vllm_cos_sin_cache": rotary_vllm.cache,
        "hf_half": applied_hf.queries_and_keys,
        "hf_interleaved": applied_hf.queries_and_keys,
        "hf_partial": applied_hf.queries_and_keys,
        "hf_deepseek_v3": applied_hf.queries_and_keys,
        "onnx_rotary_embedding": applied_libraries.onnx,
        "flash_attn_torch": applied_libraries.flash_attn,
        "torchtune": applied_libraries.torchtune,
        "ret_rotate": applied_libraries.rotary_embedding_torch,
        "x_transformers": applied_libraries.x_transformers,
        "positional_encodings_2d": absolute_grid.positional_encodings,
        "positional_encodings_3d": absolute_grid.positional_encodings,
        "diffusers_sincos_2d": absolute_grid.diffusers_2d,
        "diffusers_sincos_3d": absolute_grid.diffusers_3d,
        "timm_sincos_2d": absolute_grid.timm,
        "detr_sine": absolute_grid.detr,
        "mae_sincos_2d": absolute_grid.mae,
        "t2t_timing_signal_nd": absolute_grid.tensor2tensor,
        "hf_perceiver_fourier": absolute_grid.perceiver,
        "keras_hub_sine": absolute_lines.keras,
        "positional_encodings_1d": absolute_lines.positional_encodings,
        "diffusers_sincos_1d": absolute_lines.diffusers,
        "hf_fairseq_sinusoid": absolute_lines.fairseq,
        "hf_marian_sinusoid": absolute_lines.by_length,
        "hf_xlm_sinusoid": absolute_lines.by_length,
        "hf_whisper_sinusoid": absolute_lines.whisper,
        "t2t_timing_signal_1d": absolute_lines.tensor2tensor,
        "t5_bucket": relative_index.t5_bucket,
        "t5_bias": relative_index.t5_bias,
        "xt_relative_position_bucket": relative_index.x_transformers_bucket,
        "deberta_bucket": relative_index.deberta_bucket,
        "shaw_clipped": relative_index.shaw_clipped,
        "swin_v1_index": relative_index.swin_index,
        "timm_relative_position_index": relative_index.timm_index,
        "alibi_bloom": relative_bias.bloom,
        "alibi_mpt": relative_bias.mpt,
        "alibi_slopes_original": relative_bias.slopes,
        "xt_alibi": relative_bias.x_transformers_alibi,
        "swin_v2_log_coords": relative_bias.swin_v2,
        "kerple": relative_bias.kerple,
        "sandwich": relative_bias.sandwich,
        "xt_dynamic_position_bias": relative_bias.dynamic,
        "diffusers_timestep": absolute_timesteps.timesteps,
        "diffusers_gaussian_fourier": absolute_timesteps.gaussian_fourier,
        "transformer_xl": relative_sines.transformer_xl,
        "xlnet_relative": relative_sines.xlnet,
        "conformer_relpos": relative_sines.conformer,
    }
)

NOT_YET: Mapping[str, str] = MappingProxyType({})
"""Families whose cases are skipped, with the reason; every other family has to be answered."""

NETWORK_OUTPUTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"xt_dynamic_position_bias": frozenset({"bias"})}
)
"""What a learned network makes of the table that is its input: nobody's convention, not served."""
