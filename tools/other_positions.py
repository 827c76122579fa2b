# ruff: noqa: BLE001, C901, D103, INP001, PLC0415, S112, SLF001, T201
"""Write the positions that transformers computes, but rotary ones, of all types and with changes.

    python tools/other_positions.py EXPECTED.npz [TYPE …]

Needs transformers and torch, and nothing of this project. A case has the config, and either the
shapes of the tensors with positional names, or the path of a module and its numbers. Each type is
built without weights: at its defaults, then with one key of its config changed at a time.
"""

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

Array = NDArray[Any]
Numbers = tuple[Mapping[str, Any], Array]
"""The parameters that a request has to add, and the numbers."""

ROWS = 12
_LAYERS = re.compile(r"^(num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers|layers)$")
_POSITIONAL = re.compile(
    r"posi|pos_|rel_|wpe|row_emb|column_emb|time_emb|embed_timestep|distance_emb|attention_biases"
)
_CHANGED = re.compile(
    r"position|length|seq_len|source|target|distance|bucket|context|window|image_size|input_size"
    r"|patch|tubelet|frames|d_model|hidden_size|hidden_dim|embed_dim|embedding_size|emb_dim|n_embd"
    r"|^dim$|feature_size|conv_dim|mask_dim|pad_token_id|temperature|timescale|coordinate|shape_size"
    r"|relative|rel_|max_pos|stacked|mel_bins|posemb|max_img|max_image|pretrain|attn_span|n_head"
    r"|num_heads|attention_heads|bins|local_radius|n_cls|detection"
)


def rows_of(table: torch.Tensor) -> Numbers:
    """Return the first and the last rows of a table."""
    numbers = table.reshape(-1, table.shape[-1])
    chosen = [*range(min(ROWS, len(numbers))), len(numbers) - 1]
    return {"rows": chosen}, numbers[chosen].double().numpy()


def fairseq(module: Any, _: Any) -> Numbers:
    count = getattr(module, "num_positions", None) or module.weight.shape[0]
    arguments = [min(count, 40) + 4, module.embedding_dim]
    if hasattr(module, "padding_idx"):
        arguments.append(module.padding_idx)
    table = module.get_embedding(*arguments)
    first = 0
    if "M2M" in type(module).__name__ or "Seamless" in type(module).__name__:
        first = module.padding_idx + 1
    if "Speech2Text" in type(module).__name__ or "Kosmos" in type(module).__name__:
        first = module.padding_idx + 1
    if "NllbMoe" in type(module).__name__:
        first = module.padding_idx + 1
    first = 2 if "XGLM" in type(module).__name__ else first
    numbers = table[first : first + min(ROWS, count)].double().numpy()
    return {"rows": [*range(len(numbers))]}, numbers


def marian(module: Any, _: Any) -> Numbers:
    count, width = module.weight.shape
    rows = torch.nn.Embedding(min(count, ROWS), width, device="meta")
    stand_in = type("Few", (), {"weight": torch.empty(rows.weight.shape)})()
    numbers = type(module).create_weight(stand_in)
    return {"rows": [*range(len(numbers))]}, numbers.double().numpy()


def whisper_kind(module: Any, _: Any) -> Numbers:
    table = module.compute_default_singular_positional_embedding()
    if "FunAsr" in type(module).__name__:
        table = table[1:]
    if "Canary" in type(module).__name__:
        table = table / module.channels**0.5
    return rows_of(table)


def detr(module: Any, _: Any) -> Numbers:
    shape = torch.Size((1, 8, 3, 5))
    if "Grounding" in type(module).__name__:
        numbers = module(torch.zeros(shape), torch.ones(1, 3, 5))
    else:
        numbers = module(shape, "cpu", torch.float32)
    return {"height": 3, "width": 5}, numbers[0].double().numpy()


def rt_detr(module: Any, _: Any) -> Numbers:
    numbers = module(5, 3, torch.device("cpu"), torch.float32)
    return {"height": 3, "width": 5}, numbers[0].double().numpy()


def conformer(module: Any, config: Any) -> Numbers:
    frames = torch.zeros(1, 6, config.hidden_size)
    if hasattr(module, "extend_pe"):
        numbers = module.extend_pe(frames)
    elif hasattr(module, "extend_pos_enc"):
        numbers = module.extend_pos_enc(frames)
    else:
        module.inv_freq = module.compute_default_relative_positional_parameters(config)
        numbers = module(frames)
    return {"seq_len": 6}, numbers[0].double().numpy()


def gemma_audio(module: Any, config: Any) -> Numbers:
    width = config.hidden_size // 2
    steps = np.log(10000.0) / max(width - 1, 1)
    module.inv_timescales = torch.exp(torch.arange(width) * -steps)[None, None].float()
    if hasattr(module, "max_backward"):
        places = torch.arange(module.max_backward, -module.max_forward - 1, -1)[None]
        numbers = module._get_timing_signal_1d_pos(places, torch.float32)
    else:
        numbers = module(torch.zeros(1, 2, config.hidden_size))
    return {"rows": None}, numbers[0].flip(0).double().numpy()


def t5(module: Any, _: Any) -> Numbers:
    places = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    if "UMT5" in type(module).__name__:
        numbers = module._relative_position_bucket(places)
    else:
        both = not getattr(module, "is_decoder", True)
        numbers = module._relative_position_bucket(
            places,
            bidirectional=both,
            num_buckets=module.relative_attention_num_buckets,
            max_distance=module.relative_attention_max_distance,
        )
    return {"query_len": 40, "key_len": 40}, numbers.numpy()


def longt5(module: Any, _: Any) -> Numbers:
    keys = torch.arange(3 * module.block_len)
    places = keys[None, :] - keys[module.block_len : -module.block_len, None]
    numbers = module._relative_position_bucket(
        places, True, module.relative_attention_num_buckets, module.relative_attention_max_distance
    )
    return {}, numbers.numpy()


def udop(module: Any, _: Any) -> Numbers:
    get_bucket = sys.modules[type(module).__module__].get_relative_position_bucket
    places = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    numbers = get_bucket(
        places, module.bidirectional, module.relative_attention_num_buckets, module.max_distance
    )
    return {"query_len": 40, "key_len": 40}, numbers.numpy()


def wavlm(module: Any, _: Any) -> Numbers:
    places = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    return {"query_len": 40, "key_len": 40}, module._relative_positions_bucket(places).numpy()


def mpnet(module: Any, _: Any) -> Numbers:
    places = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    return {"query_len": 40, "key_len": 40}, module.relative_position_bucket(places).numpy()


def cpmant(module: Any, _: Any) -> Numbers:
    places = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    numbers = module._position_bucket(places, module.num_buckets, module.max_distance)
    return {"query_len": 40, "key_len": 40}, numbers.numpy()


def layoutlm(module: Any, _: Any) -> Numbers:
    places = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    numbers = module.relative_position_bucket(
        places, num_buckets=module.rel_pos_bins, max_distance=module.max_rel_pos
    )
    return {"query_len": 40, "key_len": 40}, numbers.numpy()


def swin(module: Any, _: Any) -> Numbers:
    make = getattr(module, "_create_relative_position_index", None)
    numbers = (make or module.create_relative_position_index)()
    return {}, numbers.numpy()


def swin_v2(module: Any, _: Any) -> Numbers:
    module.continuous_position_bias_mlp = torch.nn.Linear(1, 1)
    return {}, module.create_coords_table_and_index()[0][0].double().numpy()


def beit(module: Any, _: Any) -> Numbers:
    return {}, module.generate_relative_position_index(module.window_size).numpy()


def clipped(module: Any, _: Any) -> Numbers:
    """Wav2Vec2-BERT and SeamlessM4T v2, whose functions do not return their indices."""
    left, right = module.left_max_position_embeddings, module.right_max_position_embeddings
    places = torch.arange(100)[None, :] - torch.arange(100)[:, None]
    return {"query_len": 100, "key_len": 100}, (torch.clamp(places, -left, right) + left).numpy()


def _replace(module: Any, name: str, function: Callable[[Any], Any]) -> None:
    """Put a function in the place of a learned table."""
    delattr(module, name)
    module.__dict__[name] = function


def phi4(module: Any, _: Any) -> Numbers:
    _replace(module, "bias_values", lambda index: index[..., None])
    numbers = module(torch.zeros(1, 9, 1))[0, 0]
    return {"query_len": 9, "key_len": 9}, numbers.numpy()


def speecht5(module: Any, _: Any) -> Numbers:
    _replace(module, "pe_k", lambda index: index)
    return {"query_len": 9, "key_len": 9}, module(torch.zeros(1, 9, 1)).numpy()


def tipsv2(module: Any, config: Any) -> Numbers:
    config = config.get_text_config()
    return rows_of(module.get_embedding(config.max_position_embeddings, config.hidden_size))


def vit_mae(module: Any, config: Any) -> Numbers:
    del config
    shape = module.position_embeddings.shape
    module.position_embeddings = torch.nn.Parameter(torch.zeros(shape), requires_grad=False)
    module.cls_token = torch.nn.Parameter(torch.zeros(1, 1, shape[-1]))
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    module.patch_embeddings.projection.weight = weight
    module.initialize_weights()
    return rows_of(module.position_embeddings[0])


CALCULATORS: Mapping[str, Callable[[Any, Any], Numbers]] = {
    r"M2M100Sin|NllbMoeSin|SeamlessM4T(v2)?Sin|Kosmos2.*Sin|Speech2TextSin|XGLMSin|MusicgenSin"
    r"|MusicgenMelodySin|^SinusoidalPositionalEmbedding": fairseq,
    r"^(Marian|Pegasus)Sin": marian,
    r"^SinusoidsPositionEmbedding|^CanaryPos|^FunAsrNanoPos": whisper_kind,
    r"(Mask2Former|MaskFormer|OneFormer|Sam2|Sam3)SinePos|EdgeTamVideoPositionEmbeddingSine"
    r"|VideoPositionEmbeddingSine|GroundingDinoSine": detr,
    r"^(DFine|Deimv2|PPDocLayoutV.|RTDetr(V2)?)SinePos": rt_detr,
    r"ConformerRelPositional|(Parakeet|NemotronAsrStreaming)EncoderRelPos": conformer,
    r"^Gemma(3n|4)AudioRel.*Pos": gemma_audio,
    r"^(T5|MT5|UMT5|Pop2Piano|SwitchTransformers|LongT5)Attention$|^Pix2StructTextAttention$": t5,
    r"^LongT5LocalAttention$": longt5,
    r"^RelativePositionBias1D$": udop,
    r"^WavLMAttention$": wavlm,
    r"^MPNetEncoder$": mpnet,
    r"^CpmAntSegmentPositionEmbedding$": cpmant,
    r"^LayoutLMv3Encoder$|^PPDocLayoutV2ReadingOrderEncoder$": layoutlm,
    r"^SwinRelativePositionBias$|^(ClapAudio|DonutSwin|MaskFormerSwin)SelfAttention$": swin,
    r"^Swinv2SelfAttention$|^Swin2SRSelfAttention$": swin_v2,
    r"^BeitRelativePositionBias$|^Data2VecVisionRelativePositionBias$": beit,
    r"^Wav2Vec2BertSelfAttention$|^SeamlessM4Tv2ConformerSelfAttention$": clipped,
    r"^Phi4MultimodalAudioRelativeAttentionBias$": phi4,
    r"^SpeechT5RelativePositionalEncoding$": speecht5,
    r"^Tipsv2Sinusoidal": tipsv2,
    r"^ViTMAEEmbeddings$": vit_mae,
}


def functions(name: str, config: Any) -> Iterator[tuple[str, Numbers]]:
    """Yield what functions compute, by their names."""
    if name == "bloom":
        from transformers.models.bloom.modeling_bloom import build_alibi_tensor

        numbers = build_alibi_tensor(torch.ones(1, 2), config.n_head, torch.float32)
        yield "build_alibi_tensor", ({}, numbers.reshape(-1, 2)[:, 1].double().numpy())
    if name == "mpt":
        from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

        numbers = build_mpt_alibi_tensor(config.n_heads, 2)
        yield "build_mpt_alibi_tensor", ({}, -numbers[:, 0, 0].double().numpy())
    if name == "whisper":
        from transformers.models.whisper.modeling_whisper import sinusoids

        yield (
            "encoder.embed_positions",
            rows_of(sinusoids(config.max_source_positions, config.d_model)),
        )
    if name == "ctrl":
        from transformers.models.ctrl.modeling_ctrl import positional_encoding

        table = positional_encoding(config.n_positions, config.n_embd, torch.float)
        yield "pos_encoding", rows_of(table)
    if name == "videomae":
        from transformers.models.videomae.modeling_videomae import get_sinusoid_encoding_table

        patches = (config.image_size // config.patch_size) ** 2
        table = get_sinusoid_encoding_table(ROWS, config.hidden_size)[0]
        count = config.num_frames // config.tubelet_size * patches
        if count >= ROWS:
            numbers = table.double().numpy()
            yield (
                "embeddings.position_embeddings",
                ({"rows": [*range(ROWS)], "count": count}, numbers),
            )
    if name == "deberta-v2":
        from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

        limit = config.max_relative_positions
        limit = config.max_position_embeddings if limit < 1 else limit
        layer = torch.zeros(40, 1)
        buckets = getattr(config, "position_buckets", -1)
        numbers = build_relative_position(layer, layer, buckets, limit)[0]
        if config.relative_attention:
            yield "encoder.rel_embeddings", ({"query_len": 40, "key_len": 40}, numbers.numpy())
    if name == "xlnet":
        from transformers.models.xlnet.modeling_xlnet import XLNetModel

        numbers = XLNetModel.relative_positional_encoding(_WithConfig(config), 3, 5)
        asked = {"key_len": 5} | ({"query_len": 3} if config.attn_type == "bi" else {})
        table = numbers if config.bi_data else numbers[:, 0]
        yield "relative_positional_encoding", (asked, table.double().numpy())


class _WithConfig:
    """Stands for a model whose method is called, with the settings of its config."""

    def __init__(self, config: Any) -> None:
        for key in ("d_model", "attn_type", "bi_data", "clamp_len"):
            setattr(self, key, getattr(config, key))

    @staticmethod
    def positional_embedding(*arguments: Any) -> torch.Tensor:
        from transformers.models.xlnet.modeling_xlnet import XLNetModel

        embedded: torch.Tensor = XLNetModel.positional_embedding(*arguments)
        return embedded


def model_class(config: Any) -> Any:
    for name in ("MODEL_MAPPING", "MODEL_FOR_PRETRAINING_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING"):
        try:
            found = getattr(modeling_auto, name)[type(config)]
        except (KeyError, ImportError, AttributeError):
            continue
        return found[0] if isinstance(found, list | tuple) else found
    return None


def changes(config: Any) -> Iterator[dict[str, Any]]:
    """Yield changes of a config: none, then one of its keys at a time."""
    few = {
        k: 1 for k, v in config.to_dict().items() if _LAYERS.match(k) and type(v) is int and v > 1
    }
    yield {}
    for key, value in config.to_dict().items():
        if not _CHANGED.search(key) or isinstance(value, bool | str | dict) or value is None:
            continue
        if type(value) is int and value > 0:
            yield {**few, key: 2 * value if value > 8 else value + 1}
        elif isinstance(value, list) and value and all(type(v) is int for v in value):
            yield {**few, key: [2 * v for v in value]}
    for key, value in config.to_dict().items():
        if value is False and re.search(r"relative|absolute|sinusoid|rel_pos|two_stage|alibi", key):
            yield {**few, key: True}


def plain(path: str) -> str:
    return re.sub(r"\.\d+(?=\.|$)", ".*", path)


def cases(name: str) -> Iterator[tuple[dict[str, Any], Array | None]]:
    """Yield the cases of a type: what is in them, and their numbers."""
    kind = CONFIG_MAPPING[name]
    try:
        default = kind()
    except Exception:  # whatever a class refuses
        return
    for change in changes(default):
        try:
            config = kind(**change)
            model = model_class(config)
            if model is None:
                return
            with torch.device("meta"):
                built = model(config)
        except Exception:  # whatever a class refuses
            continue
        sent = {"model_type": name, **change}
        seen: set[str] = set()
        shapes: dict[str, list[list[int]]] = {}
        for path, tensor in built.named_parameters():
            if _POSITIONAL.search(path):
                known = shapes.setdefault(plain(path), [])
                known += [list(tensor.shape)] if list(tensor.shape) not in known else []
        yield {"config": sent, "shapes": shapes}, None
        for path, module in built.named_modules():
            at = plain(path)
            for pattern, calculate in CALCULATORS.items():
                kept = (at, str(getattr(module, "window_size", "")))
                if re.search(pattern, type(module).__name__) and str(kept) not in seen:
                    if calculate is t5 and not getattr(module, "relative_attention_bias", None):
                        continue
                    seen.add(str(kept))
                    try:
                        asked, numbers = calculate(module, getattr(module, "config", config))
                    except Exception as error:  # said in the output
                        print(f"{name} {at}: {error!r}", file=sys.stderr)
                        continue
                    yield {"config": sent, "at": at, "asked": asked}, numbers
        for at, (asked, numbers) in functions(name, config):
            yield {"config": sent, "at": at, "asked": asked}, numbers


def main() -> None:
    """Write the cases of the types that the command names, or of all."""
    torch.set_num_threads(1)
    listed: list[Any] = []
    arrays: dict[str, Array] = {}
    for name in sys.argv[2:] or list(CONFIG_MAPPING.keys()):
        for case, numbers in cases(name):
            if numbers is not None:
                case["array"] = f"a{len(arrays)}"
                arrays[case["array"]] = numbers
            listed.append(case)
    np.savez_compressed(sys.argv[1], cases=np.array(json.dumps(listed)), **arrays)
    print(len(listed), "cases,", len(arrays), "with numbers")


if __name__ == "__main__":
    main()
