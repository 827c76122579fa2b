"""The mapping of each family of positions, rotations and resizes to the requests that give it."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from tests.parity.backend import Service
from tests.parity.golden import Arrays, Case
from tests.parity.multimodal import prompts

FormsMapping: TypeAlias = Callable[[Case, Service], Sequence[Arrays]]
"""Returns the outputs of a case, once for each form in which its request can be sent."""

_MEDIA = (
    "decode ernie4_5_vl_moe glm4v glm4v_transformers_4 glm_image glm_ocr hunyuan_vl minicpmv4_7 "
    "paddleocr_vl qwen2_5_omni qwen2_5_omni_transformers_4 qwen2_5_vl qwen2_5_vl_transformers_4 "
    "qwen2_vl qwen2_vl_transformers_4 qwen3_5 qwen3_omni_moe qwen3_omni_moe_transformers_4 "
    "qwen3_vl qwen3_vl_transformers_4"
)
MAPPINGS: Mapping[str, FormsMapping] = MappingProxyType(
    {f"multimodal.{family}": prompts for family in _MEDIA.split()}
)
"""By group and family, such as ``multimodal.qwen2_vl``."""

_WAITING = {
    "sequence": "attention_mask opt packed padding_idx",
    "vision": "gemma4 idefics2 nearest vision windows",
    "generation": "flux flux2 krea2 ltx2_audio ltx2_video ltx_condition qwen_image",
    "resize": "beit_bias gather_operator glm4v sam_rel_pos siglip2 timm_abs_pos_embed "
    "timm_rel_pos_bias torch_interpolate torch_interpolate_width_one",
    "rotation": "mrope_batch rope_batch rope_packed",
}

PENDING: Mapping[str, str] = MappingProxyType(
    {
        f"{group}.{family}": f"the service has no {group} of {family} yet"
        for group, families in _WAITING.items()
        for family in families.split()
    }
)
"""Families that have no mapping yet, and the reason."""
