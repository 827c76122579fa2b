"""For every family of cases, the requests that must answer it, or why there are none yet."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from tests.parity import (
    applied_hf,
    applied_libraries,
    axial_diffusers,
    axial_vision,
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
    }
)

_ABSOLUTE = "the absolute conventions of other libraries are not served yet"
_RELATIVE = "the relative families are not served yet"

NOT_YET: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "keras_hub_sine",
                "positional_encodings_1d",
                "positional_encodings_2d",
                "positional_encodings_3d",
                "diffusers_timestep",
                "diffusers_sincos_1d",
                "diffusers_sincos_2d",
                "diffusers_sincos_3d",
                "diffusers_gaussian_fourier",
                "timm_sincos_2d",
                "hf_fairseq_sinusoid",
                "hf_marian_sinusoid",
                "hf_xlm_sinusoid",
                "hf_whisper_sinusoid",
                "detr_sine",
                "mae_sincos_2d",
                "t2t_timing_signal_1d",
                "t2t_timing_signal_nd",
                "hf_perceiver_fourier",
            ),
            _ABSOLUTE,
        ),
        **dict.fromkeys(
            (
                "t5_bucket",
                "t5_bias",
                "xt_relative_position_bucket",
                "deberta_bucket",
                "alibi_bloom",
                "alibi_mpt",
                "alibi_slopes_original",
                "xt_alibi",
                "shaw_clipped",
                "swin_v1_index",
                "timm_relative_position_index",
                "swin_v2_log_coords",
                "xlnet_relative",
                "transformer_xl",
                "conformer_relpos",
                "kerple",
                "sandwich",
                "xt_dynamic_position_bias",
            ),
            _RELATIVE,
        ),
    }
)
"""Families whose cases are skipped, with the reason; every other family has to be answered."""
