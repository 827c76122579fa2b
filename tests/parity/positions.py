"""The mapping of each family of positions, rotations and resizes to the requests that give it."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from tests.parity.backend import Service
from tests.parity.golden import Arrays, Case
from tests.parity.multimodal import prompts
from tests.parity.params import Params
from tests.parity.resizes import RESIZES

FormsMapping: TypeAlias = Callable[[Case, Service], Sequence[Arrays]]
"""Returns the outputs of a case, once for each form in which its request can be sent."""

_PATH = "/positions"


def _counted(convention: str, ignored: str = "", **names: Any) -> FormsMapping:
    """Map the conventions that count the tokens of arrays, which JSON and safetensors hold."""

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        query = Params(case.params).query(ignored, **names) | {"convention": convention}
        forms = (
            service.answered(_PATH, {**query, **case.inputs}),
            service.composed(_PATH, query, case.inputs),
        )
        return [{"position_ids": form["position_ids"]} for form in forms]

    return mapping


def _packed(case: Case, service: Service) -> Sequence[Arrays]:
    query = {"convention": "packed"}
    lengths = Params(case.params).query(lengths="lengths")["lengths"]
    ends = np.cumsum([0, *lengths], dtype=np.int32)
    return [
        service.answered(_PATH, {**query, "lengths": lengths}),
        service.composed(_PATH, query, {"cu_seqlens": ends}),
    ]


def _described(convention: str, *transposed: str, **names: Any) -> FormsMapping:
    """Map the conventions that parameters alone determine.

    Args:
        convention: its name.
        transposed: the outputs of which the library has the axes last.
        names: the parameters, as in Params.query.
    """

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        query = Params(case.params).query(**names)
        found = service.answered(_PATH, {**query, "convention": convention})
        return [
            {
                name: found[name].T if name in transposed else found[name]
                for name in case.outputs
                if name in found
            }
        ]

    return mapping


def _gemma4(case: Case, service: Service) -> Sequence[Arrays]:
    query = Params(case.params).query(height="height", width="width", length="length")
    size = [query.pop("height"), query.pop("width")]
    found = service.answered(_PATH, {**query, "convention": "gemma4", "sizes": [size]})
    return [{"position_ids": found["position_ids"][:, 0].T}]


def _images(convention: str, *parts: str) -> FormsMapping:
    """Map the ids of text, a latent and references; parts are the outputs that have them."""

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        query = Params(case.params).query(
            text="text",
            height="height",
            width="width",
            references=("references", []),
            scale=("scale", None),
        )
        sizes = [[query.pop("height"), query.pop("width")], *query.pop("references")]
        found = service.answered(_PATH, {**query, "convention": convention, "sizes": sizes})
        ids = found["position_ids"].T
        if not parts:
            return [{"ids": ids}]
        latent = query["text"] + sizes[0][0] * sizes[0][1]
        return [dict(zip(parts, np.split(ids, [query["text"], latent]), strict=True))]

    return mapping


def _qwen_image(case: Case, service: Service) -> Sequence[Arrays]:
    query = Params(case.params).query(grids="grids", text="text")
    found = service.answered(_PATH, {**query, "convention": "qwen_image"})
    text, images = np.split(found["position_ids"].T, [query["text"]])
    return [{"text_ids": text, "image_ids": images}]


def _video(convention: str, ignored: str = "", **names: Any) -> FormsMapping:
    """Map the coordinates of a video, (tokens, axes)."""

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        found = service.answered(_PATH, _video_query(case, convention, ignored, **names))
        return [{"coords": found["position_ids"].T}]

    return mapping


def _video_query(case: Case, convention: str, ignored: str = "", **names: Any) -> dict[str, Any]:
    sides = {"frames": "frames", "height": "height", "width": "width"}
    query = Params(case.params).query(ignored, **sides, **names)
    grid = [query.pop(name) for name in sides]
    return {**query, "convention": convention, "grids": [grid]}


def _ltx_condition(case: Case, service: Service) -> Sequence[Arrays]:
    query = _video_query(
        case,
        "ltx_condition",
        frame_index="frame_index",
        fps="fps",
        space="scale_factor",
        time="scale_factor_t",
    )
    space = query.pop("space")
    query["scale_factors"] = [query.pop("time"), space, space]
    seconds = service.answered(_PATH, query)
    del query["fps"]
    frames = service.answered(_PATH, query)
    return [{"ids": frames["position_ids"][None], "coords": seconds["position_ids"][None]}]


def _intervals(found: Arrays) -> Sequence[Arrays]:
    coords = np.stack([found["starts"], found["ends"]], axis=-1)
    return [{"coords": coords[np.newaxis]}]


def _ltx2_video(case: Case, service: Service) -> Sequence[Arrays]:
    names = ("fps", "scale_factors", "causal_offset", "patch_size_t", "patch_size")
    query = _video_query(case, "ltx2", **{name: name for name in names})
    return _intervals(service.answered(_PATH, query))


def _ltx2_audio(case: Case, service: Service) -> Sequence[Arrays]:
    names = ("num_frames", "shift", "causal_offset", "hop_length", "sampling_rate")
    query = Params(case.params).query(
        **{name: name for name in names}, factor="scale_factor", patch_size_t=("patch_size_t", 1)
    )
    query["scale_factors"] = [query.pop("factor")]
    return _intervals(service.answered(_PATH, {**query, "convention": "ltx2_audio"}))


def _temperature(convention: str, **names: Any) -> FormsMapping:
    """Map the factors of queries at sent positions."""

    def mapping(case: Case, service: Service) -> Sequence[Arrays]:
        query = Params(case.params).query(**names) | {"convention": convention, "dtype": "float64"}
        return [service.composed("/attention/temperature", query, case.inputs)]

    return mapping


def _rotated(case: Case, service: Service) -> Sequence[Arrays]:
    """Rotate x alone, and queries and keys of one body, by sent positions."""
    query = Params(case.params).query(
        head_dim="head_dim",
        rope_theta="rope_theta",
        mrope_section=("mrope_section", None),
        mrope_interleaved=("mrope_interleaved", None),
        mrope_layout=("mrope_layout", None),
        rotary_dim=("rotary_dim", None),
        axes="axes",
        layout="layout",
    )
    sent = dict(case.inputs)
    x = sent.pop("x")
    alone = service.composed("/rope/apply", query, {**sent, "x": x})["x"]
    both = service.composed("/rope/apply", query, {**sent, "q": x, "k": x})
    forms = [{"out": alone}, {"out": both["q"]}, {"out": both["k"]}]
    if "cos" in case.outputs:
        of_table = {name: query[name] for name in query.keys() - {"axes", "layout"}}
        cos = service.composed("/rope", {**of_table, "pack": "half"}, sent)["cos"]
        forms = [{**form, "cos": cos} for form in forms]
    return forms


_MEDIA = (
    "decode ernie4_5_vl_moe glm4v glm4v_transformers_4 glm_image glm_ocr hunyuan_vl minicpmv4_7 "
    "paddleocr_vl qwen2_5_omni qwen2_5_omni_transformers_4 qwen2_5_vl qwen2_5_vl_transformers_4 "
    "qwen2_vl qwen2_vl_transformers_4 qwen3_5 qwen3_omni_moe qwen3_omni_moe_transformers_4 "
    "qwen3_vl qwen3_vl_transformers_4"
)
MAPPINGS: Mapping[str, FormsMapping] = MappingProxyType(
    {
        **{f"multimodal.{family}": prompts for family in _MEDIA.split()},
        **RESIZES,
        "sequence.attention_mask": _counted("mask", masked=("masked", 0)),
        "sequence.padding_idx": _counted(
            "padding_idx",
            "model_type",
            padding_idx="padding_idx",
            past=("past_key_values_length", 0),
        ),
        "sequence.opt": _counted("opt", offset="offset", past_length=("past_key_values_length", 0)),
        "sequence.arange": _counted("arange", offset="offset", past="past_key_values_length"),
        "sequence.cell": _counted("cell", max_position_embeddings="max_position_embeddings"),
        "sequence.packed": _packed,
        "vision.vision": _described(
            "vision_grid",
            "position_ids",
            grids="grids",
            spatial_merge_size="spatial_merge_size",
            include_temporal=("include_temporal", False),
        ),
        "vision.windows": _described(
            "vision_windows",
            grids="grids",
            spatial_merge_size="spatial_merge_size",
            window_size="window_size",
            patch_size="patch_size",
        ),
        "vision.idefics2": _described(
            "buckets",
            sizes="sizes",
            num_patches_per_side="num_patches_per_side",
            canvas="canvas",
        ),
        "vision.nearest": _described(
            "buckets", sizes="sizes", num_patches_per_side="num_patches_per_side"
        ),
        "vision.gemma4": _gemma4,
        "generation.flux": _images("flux"),
        "generation.krea2": _images("krea2"),
        "generation.flux2": _images("flux2", "text_ids", "latent_ids", "image_ids"),
        "generation.qwen_image": _qwen_image,
        "generation.wan": _video("wan"),
        "generation.hunyuan_video": _video("hunyuan_video"),
        "generation.cosmos": _video("cosmos", fps=("fps", None), base_fps=("base_fps", 24)),
        "generation.ltx": _video(
            "ltx", rope_interpolation_scale=("rope_interpolation_scale", None)
        ),
        "generation.ltx_condition": _ltx_condition,
        "generation.ltx2_video": _ltx2_video,
        "generation.ltx2_audio": _ltx2_audio,
        "temperature.llama4": _temperature(
            "llama4", floor_scale="floor_scale", attn_scale="attn_scale"
        ),
        "temperature.ministral3": _temperature(
            "ministral3",
            original_max_position_embeddings="original_max_position_embeddings",
            llama_4_scaling_beta="llama_4_scaling_beta",
        ),
        "temperature.beam": _temperature("beam"),
        "rotation.rope_batch": _rotated,
        "rotation.mrope_batch": _rotated,
        "rotation.mrope_layouts": _rotated,
        "rotation.rope_partial": _rotated,
        "rotation.rope_packed": _rotated,
    }
)
"""By group and family, such as ``multimodal.qwen2_vl``."""
