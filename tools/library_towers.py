# ruff: noqa: INP001
"""Write the cosines and sines of the vision towers of transformers, for configs and grids.

    python tools/library_towers.py FILE

torch and transformers are installed where this runs, and nothing of the service. Each tower, with
one layer, runs up to its rotary module, whose result is written: so positions and the order of
tokens are those of the library. ``tests.models.sweep_towers`` compares FILE (.npz).
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

torch: Any = import_module("torch")
CONFIGS: Any = import_module("transformers").CONFIG_MAPPING

Case = dict[str, Any]
Tables = Iterator[tuple[Case, Any, Any]]

GRIDS = ([1, 4, 8], [2, 8, 4], [1, 12, 8])

THETA: list[Case] = [
    {"rope_parameters": {"rope_theta": 500.0, "rope_type": "axial"}},
    {"rope_theta": 1234.5},
    {"rope_scaling": {"type": "axial", "rope_theta": 77.0}},
    {"rope_parameters": {"rope_type": "default"}, "rope_theta": 20.0},
]
MERGE: list[Case] = [{"spatial_merge_size": 1}, {"spatial_merge_size": 4}]
WIDTH: list[Case] = [{"hidden_size": 256, "num_attention_heads": 4}, {"head_dim": 24}]
HEADS: list[Case] = [{"hidden_size": 256, "num_heads": 4}, {"head_dim": 24}, {"num_heads": 8}]
MERGED: list[Case] = [*THETA, *MERGE, *HEADS]
PATCH: list[Case] = [{"patch_size": 8}]
MEMORY: list[Case] = [
    *THETA,
    {"memory_attention_hidden_size": 128, "memory_attention_num_attention_heads": 2},
    {"memory_attention_downsample_rate": 2},
    {"memory_attention_rope_feat_sizes": [5, 3]},
    {"memory_attention_rope_theta": 300.0},
]


class Found(Exception):
    """The result of the rotary module, which ends the run of a tower."""


def _without_initialization() -> None:
    """Let models be built at once: their weights are not read."""
    for kind in ("Linear", "Conv2d", "Conv3d", "ConvTranspose2d", "Embedding", "LayerNorm"):
        getattr(torch.nn, kind).reset_parameters = lambda _self: None
    import_module("transformers").PreTrainedModel.post_init = lambda _self: None
    for name in ("normal_", "trunc_normal_", "xavier_uniform_", "kaiming_uniform_", "uniform_"):
        setattr(torch.nn.init, name, lambda tensor, *_args, **_options: tensor)


def from_library(file: str, name: str) -> Any:
    """Return a class of a model file of the library."""
    return getattr(import_module(f"transformers.models.{file}.modeling_{file}"), name)


def built(kind: str, change: Mapping[str, Any], **more: Any) -> Any:
    """Return a config with changes."""
    return CONFIGS[kind](**json.loads(json.dumps({**change, **more})))


def run(model: Any, rotary: str, *args: Any, **options: Any) -> tuple[Any, Any]:
    """Return the cosines and sines of the first rotary module that a model calls."""

    def found(_module: Any, _args: Any, result: Any) -> None:
        raise Found(result)

    rotaries = [module for module in model.modules() if type(module).__name__ == rotary]
    hooks = [module.register_forward_hook(found) for module in rotaries]
    try:
        with torch.no_grad():
            model.eval()(*args, **options)
    except Found as error:
        cos, sin = error.args[0]
        return cos, sin
    finally:
        for hook in hooks:
            hook.remove()
    raise AssertionError(rotary)


def packed_patches(file: str, tower: str, rotary: str, **more: Any) -> Any:
    """Return the tables of a tower whose patches of all pictures stand in one sequence."""

    def tables(kind: str, change: Mapping[str, Any]) -> Tables:
        layers = "depth" if "depth" in dir(built(kind, {})) else "num_hidden_layers"
        config = built(kind, change, **{layers: 1}, **more.get("also", {}))
        width = getattr(config, "embed_dim", None) or config.hidden_size
        model = from_library(file, tower)(config)
        for grid in GRIDS:
            rows = int(np.prod(grid))
            count = rows + 1 if more.get("class_token") else rows
            for name, child in model.named_modules():
                if name in {"patch_embed", "embeddings", "patch_embedder"} or (
                    name.endswith(".embeddings") and name.count(".") == 1
                ):
                    zeros = torch.zeros(*more.get("batch", ()), count, width)
                    child.forward = lambda *_args, zeros=zeros, **_options: zeros
            sizes = torch.tensor([grid])
            asks = {"grid": grid}
            for merge in more.get("merge_sizes", [None]):
                options = {} if merge is None else {"merge_sizes": torch.tensor([merge])}
                options = {more.get("grid", "grid_thw"): sizes, **options}
                pixels = torch.zeros(rows, 1)
                if more.get("class_token"):
                    options["image_grid_thw"] = sizes // torch.tensor(
                        [1, config.spatial_merge_size, config.spatial_merge_size]
                    )
                    pixels = torch.zeros(rows // config.spatial_merge_size**2, 1)
                if merge is not None:
                    asks = {**asks, "spatial_merge_size": merge}
                asks = {**asks, "grid": grid[1:]} if more.get("flat") else asks
                if more.get("flat") and grid[0] > 1:
                    continue
                yield {"asks": asks}, *run(model, rotary, pixels, **options)

    return tables


def picture(file: str, tower: str, rotary: str, **more: Any) -> Any:
    """Return the tables of a tower of a picture."""

    def tables(kind: str, change: Mapping[str, Any]) -> Tables:
        config = built(kind, change, **more)
        model = from_library(file, tower)(config)
        for _, *grid in GRIDS:
            height, width = (length * config.patch_size for length in grid)
            pixels = torch.zeros(1, 3, height, width)
            options = {}
            if kind == "pixtral":
                options = {"image_sizes": torch.tensor([[height, width]])}
            yield {"asks": {"grid": grid}}, *run(model, rotary, pixels, **options)

    return tables


def gemma4(kind: str, change: Mapping[str, Any]) -> Tables:
    """The processor numbers patches row by row, and gives them (x, y) as positions."""
    rotary = from_library("gemma4", "Gemma4VisionRotaryEmbedding")(built(kind, change))
    for _, height, width in GRIDS:
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        ids = torch.stack([x.flatten(), y.flatten()], dim=-1)[None]
        yield {"asks": {"grid": [height, width]}}, *rotary(torch.zeros(1), ids)


def llama4(kind: str, change: Mapping[str, Any]) -> Tables:
    """The table is of the configured picture size."""
    turns = from_library("llama4", "Llama4VisionRotaryEmbedding")(built(kind, change)).freqs_ci
    both = torch.view_as_real(turns.squeeze(1)).repeat_interleave(2, dim=-2)
    yield {"asks": {}}, both[..., 0], both[..., 1]


def memory(file: str, model: str) -> Any:
    """Return the tables of the memory attention of a video model."""

    def tables(kind: str, change: Mapping[str, Any]) -> Tables:
        attention = from_library(file, f"{model}MemoryAttention")(built(kind, change))
        places = {"position_ids": "rotary", "position_ids_k": "rotary.keys"}
        if hasattr(attention, "position_ids_k"):
            places["position_ids"] = "rotary.queries"
        for name, ids in places.items():
            if hasattr(attention, name):
                found = attention.rotary_emb(torch.zeros(1), getattr(attention, name))
                yield {"asks": {}, "id": ids}, *found

    return tables


def sam3(kind: str, change: Mapping[str, Any]) -> Tables:
    """Return the tables of the layers with and without windows."""
    config = built(kind, change)
    for size, name in ((0, "rotary.global"), (config.window_size, "rotary.windows")):
        layer = from_library("sam3", "Sam3ViTLayer")(config, size)
        found = layer.rotary_emb(torch.zeros(1), layer.position_ids)
        yield {"asks": {}, "id": name}, *found


def vjepa2(kind: str, change: Mapping[str, Any]) -> Tables:
    """Unit vectors, rotated, are the cosines and sines of their channels."""
    config = built(kind, change)
    widths = {
        "encoder.rotary": (config.hidden_size, config.num_attention_heads),
        "predictor.rotary": (config.pred_hidden_size, config.pred_num_attention_heads),
    }
    for name, (width, heads) in widths.items():
        attention = from_library("vjepa2", "VJEPA2RopeAttention")(config, width, heads)
        rows = attention.grid_depth * attention.grid_size**2
        ids = attention.get_position_ids(torch.zeros(1, rows, 1))
        head, turned = width // heads, 3 * attention.d_dim
        results = []
        for first in (0, 1):
            unit = torch.zeros(1, 1, rows, head)
            unit[..., first::2] = 1
            results.append(attention.apply_rotary_embeddings(unit, ids)[0, 0, :, :turned])
        even, odd = results
        cos, sin = torch.empty(rows, turned), torch.empty(rows, turned)
        cos[:, 0::2], sin[:, 1::2] = even[:, 0::2], even[:, 1::2]
        cos[:, 1::2], sin[:, 0::2] = odd[:, 1::2], -odd[:, 0::2]
        yield {"asks": {}, "id": name}, cos, sin


def efficientloftr(kind: str, change: Mapping[str, Any]) -> Tables:
    """Features are aggregated by strides before the rotation."""
    config = built(kind, change)
    rotary = from_library("efficientloftr", "EfficientLoFTRRotaryEmbedding")(config)
    kernel, stride = config.q_aggregation_kernel_size, config.q_aggregation_stride
    for _, *grid in GRIDS:
        height, width = (kernel + stride * (length - 1) for length in grid)
        yield {"asks": {"grid": grid}}, *rotary(torch.zeros(1, 1, height, width))


def qwen(file: str, tower: str, rotary: str, **more: Any) -> Any:
    """Return the tables of a tower whose rotary module is named after its model."""
    return packed_patches(file, tower, f"{rotary}VisionRotaryEmbedding", **more)


TOWERS: Mapping[str, tuple[Callable[..., Tables], list[dict[str, Any]]]] = {
    "cohere_compass_vision": (
        qwen("cohere_compass", "CohereCompassVisionModel", "CohereCompass"),
        MERGED,
    ),
    "dots3_note_vision_encoder": (
        qwen("dots3_note", "Dots3NoteVisionModel", "Dots3Note", also={"pyramid_num_routed": [-1]}),
        [*THETA, *MERGE, *WIDTH, {"embed_dim": 384}, {"embed_dim": 512, "num_heads": 4}],
    ),
    "ernie4_5_vl_moe_vision": (
        qwen("ernie4_5_vl_moe", "Ernie4_5_VLMoeVisionTransformerPretrainedModel", "Ernie4_5_VLMoe"),
        MERGED,
    ),
    "exaone4_5_vision": (qwen("exaone4_5", "Exaone4_5_VisionModel", "Exaone4_5_"), MERGED),
    "glm4v_moe_vision": (qwen("glm4v_moe", "Glm4vMoeVisionModel", "Glm4vMoe"), MERGED),
    "glm4v_vision": (qwen("glm4v", "Glm4vVisionModel", "Glm4v"), MERGED),
    "glm5_next_vision": (qwen("glm5_next", "Glm5NextVisionModel", "Glm5Next"), MERGED),
    "glm_ocr_vision": (qwen("glm_ocr", "GlmOcrVisionModel", "GlmOcr"), MERGED),
    "lfm3_vl_vision": (qwen("lfm3_vl", "Lfm3VlVisionModel", "Lfm3Vl"), [*THETA, *MERGE, *WIDTH]),
    "mlcd": (
        picture("mlcd", "MLCDVisionModel", "MLCDRotaryEmbedding", num_hidden_layers=1),
        [*THETA, *WIDTH, *PATCH],
    ),
    "paddleocr_vl_vision": (
        qwen("paddleocr_vl", "PaddleOCRVisionModel", "PaddleOCR", batch=(1,)),
        [*THETA, *WIDTH, *MERGE],
    ),
    "qwen2_vl_vision": (
        qwen("qwen2_vl", "Qwen2VisionTransformerPretrainedModel", "Qwen2VL"),
        [
            *THETA,
            *MERGE,
            {"embed_dim": 256},
            {"num_heads": 8},
            {"hidden_size": 512},
            {"head_dim": 24},
        ],
    ),
    "qwen2_5_vl_vision": (
        qwen("qwen2_5_vl", "Qwen2_5_VisionTransformerPretrainedModel", "Qwen2_5_VL"),
        MERGED,
    ),
    "qwen3_vl_vision": (qwen("qwen3_vl", "Qwen3VLVisionModel", "Qwen3VL"), MERGED),
    "qwen3_vl_moe_vision": (qwen("qwen3_vl_moe", "Qwen3VLMoeVisionModel", "Qwen3VLMoe"), MERGED),
    "qwen3_5_vision": (qwen("qwen3_5", "Qwen3_5VisionModel", "Qwen3_5"), MERGED),
    "qwen3_5_moe_vision": (qwen("qwen3_5_moe", "Qwen3_5MoeVisionModel", "Qwen3_5Moe"), MERGED),
    "qwen4_exp_vision": (qwen("qwen4_exp", "Qwen4ExpVisionModel", "Qwen4Exp"), MERGED),
    "qwen2_5_omni_vision_encoder": (
        qwen("qwen2_5_omni", "Qwen2_5OmniVisionEncoder", "Qwen2_5Omni"),
        MERGED,
    ),
    "qwen3_omni_moe_vision_encoder": (
        qwen("qwen3_omni_moe", "Qwen3OmniMoeVisionEncoder", "Qwen3OmniMoe"),
        MERGED,
    ),
    "video_llama_3_vision": (
        qwen("video_llama_3", "VideoLlama3VisionModel", "VideoLlama3", merge_sizes=[1, 2]),
        [*THETA, *WIDTH],
    ),
    "muse_glimmer_vision": (
        qwen("muse_glimmer", "MuseGlimmerVisionModel", "MuseGlimmer"),
        [*THETA, *WIDTH, {"merge_size": 1}],
    ),
    "muse_spark_vision": (
        qwen("muse_spark", "MuseSparkVisionModel", "MuseSpark"),
        [*THETA, *WIDTH, {"merge_size": 1}],
    ),
    "kimi_k25_vision": (qwen("kimi_k25", "Kimi_K25VisionModel", "Kimi_K25"), [*THETA, *WIDTH]),
    "inkling2_vision": (
        qwen(
            "inkling2",
            "Inkling2VisionModel",
            "Inkling2",
            grid="image_grid_thw",
            class_token=True,
            flat=True,
        ),
        [*THETA, {"spatial_merge_size": 1}, *WIDTH, {"adapter_merge_size": 4}],
    ),
    "minimax_m3_vl_vision": (
        qwen("minimax_m3_vl", "MiniMaxM3VLVisionModel", "MiniMaxM3VL"),
        [*THETA, *MERGE, *WIDTH],
    ),
    "step3p5_vision": (
        picture("step3p7", "Step3p7VisionModel", "Step3p7VisionRotaryEmbedding"),
        [*THETA, *WIDTH, {"width": 512}, {"heads": 8, "width": 512}],
    ),
    "pixtral": (
        picture(
            "pixtral", "PixtralVisionModel", "PixtralVisionRotaryEmbedding", num_hidden_layers=1
        ),
        [*THETA, *WIDTH, {"hidden_size": 512}],
    ),
    "dinov3_vit": (
        picture(
            "dinov3_vit", "DINOv3ViTModel", "DINOv3ViTRopePositionEmbedding", num_hidden_layers=1
        ),
        [
            {"rope_theta": 50.0},
            {"hidden_size": 192, "num_attention_heads": 4},
            *PATCH,
            {"pos_embed_rescale": 3.0},
            {"num_register_tokens": 0},
        ],
    ),
    "sapiens2": (
        picture("sapiens2", "Sapiens2Model", "Sapiens2RopePositionEmbedding"),
        [{"rope_theta": 50.0}, {"hidden_size": 512, "num_attention_heads": 16}, *PATCH],
    ),
    "eomt_dinov3": (
        picture("eomt_dinov3", "EomtDinov3RotaryEmbedding", "EomtDinov3RotaryEmbedding"),
        [
            {"rope_theta": 50.0},
            {"rope_parameters": {"rope_theta": 9.0}},
            *PATCH,
            {"hidden_size": 256, "num_attention_heads": 4},
        ],
    ),
    "gemma4_vision": (gemma4, [*THETA, {"head_dim": 32}, {"hidden_size": 512}]),
    "llama4_vision_model": (
        llama4,
        [
            {"rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}},
            WIDTH[0],
            {"image_size": 224, "patch_size": 28},
            {"rope_theta": 55.0},
            {"head_dim": 32},
        ],
    ),
    "sam2_video": (memory("sam2_video", "Sam2Video"), MEMORY),
    "sam3_tracker_video": (
        memory("sam3_tracker_video", "Sam3TrackerVideo"),
        [*MEMORY, {"image_size": 560}],
    ),
    "edgetam_video": (
        memory("edgetam_video", "EdgeTamVideo"),
        [*MEMORY, {"memory_attention_rope_k_sizes": [4, 6]}],
    ),
    "sam3_vit_model": (
        sam3,
        [
            *THETA,
            *WIDTH,
            {"window_size": 14},
            {"image_size": 504},
            {"image_size": [560, 280]},
            {"patch_size": 28},
            {"image_size": 700, "window_size": 16},
        ],
    ),
    "vjepa2": (
        vjepa2,
        [
            {"crop_size": 64},
            {"frames_per_clip": 8},
            {"tubelet_size": 4},
            {"hidden_size": 320, "num_attention_heads": 8},
            {"pred_hidden_size": 96, "pred_num_attention_heads": 4},
        ],
    ),
    "efficientloftr": (
        efficientloftr,
        [
            {
                "rope_parameters": {
                    "rope_theta": 50.0,
                    "rope_type": "default",
                    "partial_rotary_factor": 4.0,
                }
            },
            {"rope_theta": 50.0},
            {"hidden_size": 128, "out_features": [16, 16, 32, 128]},
            {"num_attention_heads": 4, "partial_rotary_factor": 2.0},
        ],
    ),
}


def composites() -> Iterator[tuple[str, str, str]]:
    """Yield each model with a tower: its type, the key and the type of the tower."""
    for kind in CONFIGS:
        try:
            config = built(kind, {})
        except Exception:  # noqa: BLE001, S112  (a package is missing)
            continue
        for key in getattr(config, "sub_configs", {}):
            tower = getattr(getattr(config, key, None), "model_type", None)
            if tower in TOWERS and kind not in TOWERS:
                yield kind, key, tower


def values_of(kind: str, key: str, change: Mapping[str, Any]) -> Case:
    """Return the values of a tower, as the model around it makes its config."""
    values = getattr(built(kind, change), key).to_dict()
    return {k: v for k, v in values.items() if k not in _NO_VALUES and not k.startswith("_")}


_NO_VALUES = {"model_type", "transformers_version", "architectures", "dtype", "layer_types"}
_NO_VALUES |= {"per_layer_config", "mlp_layer_types", "out_features", "out_indices", "stage_names"}


def main(file: str, *only: str) -> None:
    """Write the tables of all towers, or of those of some types."""
    _without_initialization()
    cases: list[Case] = []
    arrays: dict[str, Any] = {}

    def add(config: Case, kind: str, change: Case, **more: Any) -> None:
        try:
            for case, cos, sin in TOWERS[kind][0](kind, change):
                for part, table in (("cos", cos), ("sin", sin)):
                    rows = table.float().reshape(-1, table.shape[-1])
                    arrays[f"{len(cases)}.{part}"] = rows.numpy()
                cases.append({"config": config, **case, **more})
        except Exception as error:  # noqa: BLE001  (a config that the library refuses is no case)
            sys.stdout.write(f"{config} {type(error).__name__} {str(error)[:200]}\n")

    for kind, (_, changes) in TOWERS.items():
        for change in [{}, *changes] if not only or kind in only else []:
            add({"model_type": kind, **change}, kind, change)
    for kind, key, tower in composites():
        for change in [{}, TOWERS[tower][1][0]] if not only or kind in only else []:
            inner = {key: {"model_type": tower, **change}} if change else {}
            values = values_of(kind, key, inner)
            add({"model_type": kind, **inner}, tower, values, part=f"/{key}")
    np.savez_compressed(file, cases=np.array(json.dumps(cases)), **arrays)
    sys.stdout.write(f"{len(cases)} tables\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
