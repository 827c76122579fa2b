"""The mapping of each family of prompts with media, as rows and as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.parity.backend import Service
from tests.parity.golden import Arrays, Case

_NAMES = {
    "mm_token_type_ids": "token_types",
    "image_grid_thw": "image_grids",
    "video_grid_thw": "video_grids",
    "second_per_grid_ts": "seconds_per_grid",
    "second_per_grids": "seconds_per_grid",
    "audio_seqlens": "audio_lengths",
    "target_sizes": "image_sizes",
}
_KEYS = {
    "spatial_merge_size": "spatial_merge_size",
    "temporal_merge_size": "temporal_merge_size",
    "tokens_per_second": "tokens_per_second",
    "position_id_per_seconds": "tokens_per_second",
    "seconds_per_chunk": "seconds_per_chunk",
    "num_axes": "num_axes",
    "steps": "steps",
    "downsample_mode": "downsample_mode",
}
_CONVENTIONS = {
    "paddleocr_vl": "qwen2_vl",
    "glm4v": "qwen3_vl",
    "glm_ocr": "qwen3_vl",
    "qwen3_5": "qwen3_vl",
    "ernie4_5_vl_moe": "ernie4_5_vl",
    "qwen3_omni_moe": "qwen3_omni",
}
_TOKENS = ("image", "video", "audio", "vision_start", "vision_end", "audio_start", "audio_end")
_FIELDS = {
    "ernie4_5_vl": {"spatial_merge_size", "temporal_merge_size"},
    "qwen2_5_vl": {"spatial_merge_size", "tokens_per_second"},
    "qwen2_5_omni": {"spatial_merge_size", "tokens_per_second", "seconds_per_chunk"},
    "qwen3_omni": {"spatial_merge_size", "tokens_per_second"},
    "hunyuan_vl": {"spatial_merge_size", "num_axes"},
    "glm_image": set(),
    "minicpmv4_7": {"downsample_mode"},
}


def prompts(case: Case, service: Service) -> Sequence[Arrays]:
    """Return the outputs of the rows, and of the arrays, of a batch with media."""
    family = str(case.params.get("model_type", case.family))
    model, _, version = family.partition("_transformers_")
    convention = _CONVENTIONS.get(model, model)
    fields = _FIELDS.get(convention, {"spatial_merge_size"}) | {"steps"}
    query: dict[str, Any] = {"convention": convention}
    query |= {
        _KEYS[name]: value for name, value in case.params.items() if _KEYS.get(name) in fields
    }
    if version:
        query["rules"] = f"transformers-{version}"
    arrays = {_NAMES.get(name, name): array for name, array in case.inputs.items()}
    forms = [service.answered("/positions", {**query, "rows": _rows(case)})]
    forms.append(service.composed("/positions", {**query, **_raw(case, arrays)}, arrays))
    outputs = {*case.outputs}
    return [_named(form, outputs, case) for form in forms]


def _named(found: Arrays, outputs: set[str], case: Case) -> Arrays:
    """Return the outputs of a case; of GLM-Image the rows of decoded tokens come first."""
    named = {name: found[name] for name in outputs}
    if case.family == "glm_image" and "decode_position_ids" in named:
        named["decode_position_ids"] = named["decode_position_ids"].swapaxes(0, 1)
    return named


def _rows(case: Case) -> list[list[Mapping[str, Any]]]:
    if "frames" not in case.params:
        rows: list[list[Mapping[str, Any]]] = case.params["structured"]
        return rows
    row: list[Mapping[str, Any]] = []
    for number, text in enumerate(case.params["texts"]):
        row += [{"text": text}] if text else []
        for frame in case.params["frames"][number : number + 1]:
            slices = [[frame["slice"]] * frame["slice_columns"]] * frame["slice_rows"]
            row.append(
                {"image": [1, *frame["thumbnail"]], **({"slices": slices} if slices else {})}
            )
    return [row]


def _raw(case: Case, arrays: Arrays) -> dict[str, Any]:
    """Return the parameters of the arrays of a case: the ids of tokens."""
    params = case.params
    # Only Omni reads the tokens around media.
    names = _TOKENS if "omni" in case.family else _TOKENS[:2]
    tokens = {name: params[f"{name}_token_id"] for name in names if f"{name}_token_id" in params}
    if case.family == "glm_image":
        tokens = {
            "vision_start": params["image_start_token_id"],
            "vision_end": params["image_end_token_id"],
        }
    if case.family == "minicpmv4_7":
        tokens = {
            "vision_start": params["image_start_id"],
            "vision_end": params["image_end_id"],
            "slice_start": params["slice_start_id"],
            "slice_end": params["slice_end_id"],
            "newline": params["newline_id"],
        }
    raw: dict[str, Any] = {}
    if tokens and not ("token_types" in arrays and case.family != "minicpmv4_7"):
        raw["tokens"] = ",".join(f"{name}:{token}" for name, token in tokens.items())
    if params.get("use_audio_in_video"):
        raw["use_audio_in_video"] = True
    return raw
