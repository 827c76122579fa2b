# ruff: noqa: D103, INP001, SLF001, T201
"""Write random cases of position ids, resizes and rotations, with what real libraries give.

    python tools/library_positions.py FOLDER [COUNT [SEED [FAMILY …]]]

Runs where torch 2.13.0 is installed with transformers 5.23.0, diffusers 0.42.1 and timm 1.0.31, or
with transformers 4.57.6; not the service. FOLDER gets ``cases.json`` and ``arrays.npz`` in the form
of tests/data/golden/positions, with COUNT cases of each family that the libraries have, so that
tests/parity/test_positions.py compares them: POSREF_POSITIONS_DIR names the folder.

The inputs are those that the functions take. Of those that they do not take, the service answers
some: two media of one type with no text between (transformers 5 takes them as one and raises
RuntimeError), rows without an unmasked token (torch.cat of nothing), and no mask for Qwen3-Omni.

Without a family, because these packages have no such function: ``keye`` and the rules of vLLM,
which are in vLLM alone and were read there, and ``v2pe``, which is in the repository of its
authors. So is DINO's resize: its family calls torch's function with DINO's factor.
docs/positions.md explains where the numbers of libraries differ.
"""

import importlib
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers

Random = np.random.Generator
Values = dict[str, Any]
Token = tuple[int, int, int]
IS_4 = transformers.__version__.startswith("4.")


@dataclass
class Called:
    """A call of a library: arguments by its names, arrays by name, and what the numbers hold to."""

    params: Values
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    tolerance: Values = field(default_factory=lambda: {"note": "Integers: exact."})
    known_defect: str = ""


Family = Callable[[Random], Called]
FAMILIES: dict[str, tuple[str, Family]] = {}


def family(name: str, call: str) -> Callable[[Family], Family]:
    """Register what makes a case of a family: by group and family, with the call."""

    def registered(made: Family) -> Family:
        FAMILIES[name] = call, made
        return made

    return registered


def chosen(random: Random, *options: Any) -> Any:
    return options[random.integers(len(options))]


def model_class(model: str, name: str) -> Any:
    return getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)


def stub(kind: Any, **attributes: Any) -> Any:
    """Return a module of a class that has only the given attributes, and no weights."""
    made = kind.__new__(kind)
    torch.nn.Module.__init__(made)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


TOKENS = {
    "image_token_id": 151655,
    "video_token_id": 151656,
    "audio_token_id": 151646,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "audio_start_token_id": 151647,
    "audio_end_token_id": 151648,
    "video_start_token_id": 151641,
    "video_end_token_id": 151642,
    "pad_token_id": 151643,
}
_NAMED = {
    "plain": "image_token_id video_token_id pad_token_id",
    "wrapped": "image_token_id video_token_id vision_start_token_id vision_end_token_id "
    "pad_token_id",
    "glm": "image_token_id video_start_token_id video_end_token_id pad_token_id",
    "omni": " ".join([*TOKENS][:7]),
}


@dataclass(frozen=True)
class Convention:
    """The arguments of a ``get_rope_index``.

    Attributes:
        models: (model, class) of which each case takes one; all have the same function.
        seconds: the parameter with the seconds per grid of videos.
        has_timestamps: whether each frame of a video follows text of its own.
        marks: ``plain`` media, ``wrapped`` in a start and an end token, ``glm`` with the tokens of
            images in frames of videos, or ``omni`` with audio.
        frames: of a grid's first size that make one frame of ids.
        audio: the rule for the number of an audio's tokens.
    """

    models: tuple[tuple[str, str], ...]
    seconds: str = ""
    has_timestamps: bool = False
    marks: str = "plain"
    frames: int = 1
    audio: str = ""
    has_types: bool = True


PAD = (TOKENS["pad_token_id"], 0, 0)


def padded(random: Random, rows: list[list[Values]], ids: list[list[Token]]) -> Any:
    """Pad rows and their tokens; return the ids, types and masks of the tokens."""
    longest = max(map(len, ids)) + int(random.integers(3) == 0)
    side = chosen(random, "left", "right", "either")
    for row, tokens in zip(rows, ids, strict=True):
        missing = longest - len(tokens)
        if not missing:
            continue
        is_left = side == "left" or (side == "either" and bool(random.integers(2)))
        row.insert(0 if is_left else len(row), {"pad": missing})
        tokens[:] = [PAD] * missing * is_left + tokens + [PAD] * missing * (not is_left)
    return np.moveaxis(np.array(ids, np.int64), -1, 0)


class Batch:
    """Random rows of segments, and the arrays that libraries take for them."""

    def __init__(self, random: Random, convention: Convention, merge: int) -> None:
        self.random, self.convention, self.merge = random, convention, merge
        self.has_av = bool(convention.audio) and bool(random.integers(2))
        self.grids: dict[str, list[list[int]]] = {"image": [], "video": []}
        self.seconds: list[float] = []
        self.audio_lengths: list[int] = []
        self.has_seconds = bool(convention.audio) or random.random() < 0.8
        self.rows: list[list[Values]] = []
        ids: list[list[Token]] = []
        for _ in range(random.integers(1, 4)):
            self.rows.append([])
            ids.append(list(self._row(self.rows[-1])))
        self.ids, self.types, self.mask = padded(random, self.rows, ids)

    def _row(self, row: list[Values]) -> Iterator[Token]:
        random = self.random
        for index in range(random.integers(0, 4)):
            yield from self._text(row, random.integers(bool(index), 6))
            yield from self._medium(row)
        yield from self._text(row, random.integers(0 if row else 2, 8))
        if random.random() < 0.15:
            row.append({"pad": 2})
            yield from [PAD] * 2
            yield from self._text(row, 3)

    def _text(self, row: list[Values], count: int) -> Iterator[Token]:
        if count:
            row.append({"text": int(count)})
        yield from self._tokens(count)

    def _tokens(self, count: int) -> list[Token]:
        return [(int(each), 0, 1) for each in self.random.integers(10, 99, count)]

    def _marked(self, row: list[Values], name: str) -> Iterator[Token]:
        if self.convention.marks != "plain":
            row.append({"text": 1})
            yield TOKENS[f"{name}_token_id"], 0, 1

    def _medium(self, row: list[Values]) -> Iterator[Token]:
        kind = chosen(self.random, "image", "video", *["audio"] * bool(self.convention.audio))
        if kind == "audio":
            yield from self._marked(row, "audio_start")
            row.append({"audio": self._audio()})
            yield from self._audio_tokens(row[-1]["audio"])
            yield from self._marked(row, "audio_end")
            return
        random, merge = self.random, self.merge
        frames = random.integers(1, 6 if kind == "video" else 2)
        t = int(frames) * (self.convention.frames if kind == "video" else 1)
        h, w = (int(each) * merge for each in random.integers(1, 6, 2))
        self.grids[kind].append([t, h, w])
        segment: Values = {kind: [t, h, w]}
        count = int(frames) * h * w // merge**2
        named = "image" if self.convention.marks == "glm" else kind
        token = [(TOKENS[f"{named}_token_id"], 1 + (kind == "video"), 1)]
        if kind == "video" and self.convention.seconds and self.has_seconds:
            seconds = float(np.round(random.uniform(0.01, 4), chosen(random, 0, 1, 2))) or 1.0
            segment["seconds_per_grid"] = seconds
            self.seconds.append(seconds)
        if kind == "video" and self.has_av:
            segment["audio"] = self._audio()
            row.append(segment)
            for name in ("vision_start", "audio_start"):
                yield TOKENS[f"{name}_token_id"], 0, 1
            yield from token * count
            yield from self._audio_tokens(segment["audio"])
            for name in ("audio_end", "vision_end"):
                yield TOKENS[f"{name}_token_id"], 0, 1
        elif kind == "video" and self.convention.has_timestamps:
            segment["timestamps"] = [int(each) for each in random.integers(1, 6, t)]
            yield from self._framed(row, segment, token * (count // t))
        else:
            yield from self._marked(row, "vision_start")
            row.append(segment)
            yield from token * count
            yield from self._marked(row, "vision_end")

    def _framed(self, row: list[Values], segment: Values, frame: list[Token]) -> Iterator[Token]:
        marks = self.convention.marks
        if marks == "glm":
            yield from self._marked(row, "video_start")
        row.append(segment)
        for length in segment["timestamps"]:
            yield from self._tokens(length - (marks == "wrapped"))
            yield from [(TOKENS["vision_start_token_id"], 0, 1)] * (marks == "wrapped")
            yield from frame
        yield from self._marked(row, "video_end" if marks == "glm" else "vision_end")

    def _audio(self) -> int:
        length = int(self.random.integers(3, 420))
        self.audio_lengths.append(length)
        return length

    def _audio_tokens(self, length: int) -> list[Token]:
        if self.convention.audio == "qwen2_5":
            count = ((length - 1) // 2 + 1 - 2) // 2 + 1
        else:
            rest = (length % 100 - 1) // 2 + 1
            count = ((rest - 1) // 2 + 1 - 1) // 2 + 1 + length // 100 * 13
        return [(TOKENS["audio_token_id"], 3, 1)] * count

    def inputs(self) -> Values:
        """Return the arguments of ``get_rope_index``."""
        made: Values = {"input_ids": self.ids}
        if self.convention.has_types:
            made["mm_token_type_ids"] = self.types
        # Without grids, the functions for audio need the mask.
        if not self.mask.all() or self.convention.audio or self.random.integers(2):
            made["attention_mask"] = self.mask
        for kind, grids in self.grids.items():
            if grids:
                made[f"{kind}_grid_thw"] = np.array(grids, np.int64)
        if self.seconds:
            made[self.convention.seconds] = np.array(self.seconds, np.float32)
        if self.audio_lengths:
            made["audio_seqlens"] = np.array(self.audio_lengths, np.int64)
        return made


def named(names: str, arrays: Any) -> Values:
    return dict(zip(names.split(), arrays, strict=True))


def tensors(arrays: Mapping[str, Any]) -> Values:
    return {name: torch.tensor(array) for name, array in arrays.items()}


def _rope_index(convention: Convention, random: Random) -> Called:
    model, name = chosen(random, *convention.models)
    kind = model_class(model, name)
    merge = chosen(random, 1, 2, 2, 2, 3)
    batch = Batch(random, convention, merge)
    params: Values = {"spatial_merge_size": merge, "structured": batch.rows}
    params |= {key: TOKENS[key] for key in _NAMED[convention.marks].split()}
    vision = {"spatial_merge_size": merge}
    if convention.seconds == "second_per_grid_ts":
        vision["tokens_per_second"] = chosen(random, 1, 2, 2, 4, 25)
    if convention.frames > 1:
        vision["temporal_merge_size"] = convention.frames
    options: Values = {}
    own: Values = {}
    if convention.audio:
        default = 25 if convention.audio == "qwen2_5" else 13
        own["position_id_per_seconds"] = chosen(random, default, default, 2, 10)
        own["seconds_per_chunk"] = chosen(random, 2, 2, 1, 3)
        options["use_audio_in_video"] = batch.has_av
    config = SimpleNamespace(
        **TOKENS,
        **own,
        vision_config=SimpleNamespace(**vision),
        audio_config=SimpleNamespace(n_window=50),
    )
    model_stub = stub(kind, config=config, spatial_merge_size=merge)
    inputs = batch.inputs()
    given = {key: each for key, each in inputs.items() if not (IS_4 and "type_ids" in key)}
    ids, deltas = model_stub.get_rope_index(**tensors(given), **options)
    outputs = {"position_ids": ids, "rope_deltas": deltas}
    return Called(params | vision | own | options, inputs, outputs)


def _models(**classes: str) -> tuple[tuple[str, str], ...]:
    return tuple(classes.items())


_QWEN3_VL = _models(
    qwen3_vl="Qwen3VLModel",
    qwen3_vl_moe="Qwen3VLMoeModel",
    qwen3_5_moe="Qwen3_5MoeModel",
    qwen4_exp="Qwen4ExpModel",
    cohere_compass="CohereCompassModel",
    cosmos3_omni="Cosmos3OmniModel",
    cosmos3_edge="Cosmos3EdgeModel",
)
_OMNI_2_5 = _models(qwen2_5_omni="Qwen2_5OmniPreTrainedModelForConditionalGeneration")
_OMNI_3 = (
    ("qwen3_omni_moe", "Qwen3OmniMoePreTrainedModelForConditionalGeneration"),
    ("qwen3_omni_moe", "Qwen3OmniMoeTalkerForConditionalGeneration"),
)
_OMNI = partial(Convention, seconds="second_per_grids", marks="omni", has_types=False)
_FRAMED = partial(Convention, has_timestamps=True)
_V5 = {
    "qwen2_vl": Convention(_models(qwen2_vl="Qwen2VLModel")),
    "paddleocr_vl": Convention(_models(paddleocr_vl="PaddleOCRVLModel")),
    "qwen2_5_vl": Convention(_models(qwen2_5_vl="Qwen2_5_VLModel"), "second_per_grid_ts"),
    "qwen3_vl": _FRAMED(_QWEN3_VL),
    "glm4v": _FRAMED(_models(glm4v="Glm4vModel", glm4v_moe="Glm4vMoeModel", glm46v="Glm46VModel")),
    "glm_ocr": _FRAMED(_models(glm_ocr="GlmOcrModel")),
    "qwen3_5": _FRAMED(_models(qwen3_5="Qwen3_5Model")),
    "ernie4_5_vl_moe": Convention(_models(ernie4_5_vl_moe="Ernie4_5_VLMoeModel"), frames=2),
    "qwen2_5_omni": _OMNI(_OMNI_2_5, audio="qwen2_5"),
    "qwen3_omni_moe": _OMNI(_OMNI_3, audio="qwen3"),
}
_WRAPPED = partial(Convention, marks="wrapped", has_types=False)
_V4 = {
    "qwen2_vl": _WRAPPED(_models(qwen2_vl="Qwen2VLModel")),
    "qwen2_5_vl": _WRAPPED(_models(qwen2_5_vl="Qwen2_5_VLModel"), "second_per_grid_ts"),
    "qwen3_vl": _WRAPPED(
        _models(qwen3_vl="Qwen3VLModel", qwen3_vl_moe="Qwen3VLMoeModel"), has_timestamps=True
    ),
    # Ids do not say what is a video: the case has types, which the function does not take.
    "glm4v": Convention(
        _models(glm4v="Glm4vModel", glm4v_moe="Glm4vMoeModel"), has_timestamps=True, marks="glm"
    ),
    "qwen2_5_omni": _OMNI(_OMNI_2_5, audio="qwen2_5"),
    "qwen3_omni_moe": _OMNI(_OMNI_3, audio="qwen3"),
}
for _name, _convention in (_V4 if IS_4 else _V5).items():
    _suffix = "_transformers_4" if IS_4 else ""
    _made = "get_rope_index", partial(_rope_index, _convention)
    FAMILIES[f"multimodal.{_name}{_suffix}"] = _made


@family("multimodal.decode", "compute_3d_position_ids, for the prompt and for more tokens")
def _decode(random: Random) -> Called:
    family = chosen(random, "qwen2_vl", "qwen2_vl", "qwen3_vl", "glm4v", "ernie4_5_vl_moe")
    prompt = _rope_index(_V5[family], random)
    model, name = next(each for each in _V5[family].models)
    inputs = dict(prompt.inputs)
    if not {"image_grid_thw", "video_grid_thw"} & inputs.keys():
        return _decode(random)
    given = tensors(inputs)
    batch, length = given["input_ids"].shape
    mask = given.setdefault("attention_mask", torch.ones(batch, length, dtype=torch.int64))
    inputs["attention_mask"] = mask
    keys = ("spatial_merge_size", "temporal_merge_size")
    vision = SimpleNamespace(**{key: prompt.params[key] for key in keys if key in prompt.params})
    kind = model_class(model, name)
    own = stub(kind, config=SimpleNamespace(vision_config=vision), rope_deltas=None)
    own.compute_3d_position_ids(inputs_embeds=torch.zeros(batch, length, 1), **given)
    steps = int(random.integers(1, 5))
    longer = torch.cat([mask, torch.ones(batch, steps, dtype=torch.int64)], 1)
    # Its ids are those of all tokens, of which the model takes the last.
    ids = own.compute_3d_position_ids(
        input_ids=None,
        inputs_embeds=torch.zeros(batch, length + steps, 1),
        attention_mask=longer,
        past_key_values=SimpleNamespace(get_seq_length=lambda: length),
    )
    params = prompt.params | {"steps": steps, "model_type": model}
    return Called(params, inputs, {**prompt.outputs, "decode_position_ids": ids[..., -steps:]})


@family("multimodal.hunyuan_vl", "HunYuanVLModel.get_rope_index")
def _hunyuan(random: Random) -> Called:
    axes, merge = chosen(random, 3, 4, 4), chosen(random, 1, 2, 2)
    images = int(random.integers(0, 5))
    rows: list[list[Values]] = [[] for _ in range(random.integers(1, 4))]
    ids: list[list[Token]] = [[] for _ in rows]
    grids: list[list[int]] = []
    wide = bool(random.integers(2))
    for at in sorted(random.integers(0, len(rows), images)):
        count = int(random.integers(1, 5))
        h, w = (int(each) * merge for each in random.integers(1, 6, 2))
        grids.append([1, h, w])
        # Two more image tokens may surround the grid, which are text.
        rows[at] += [{"text": count + wide}, {"image": [1, h, w]}, *([{"text": 1}] if wide else [])]
        span = (h // merge) * (w // merge + 1) + 2 * wide
        ids[at] += [(7, 0, 1)] * count + [(TOKENS["image_token_id"], 1, 1)] * span
    for row, its in zip(rows, ids, strict=True):
        count = int(random.integers(1, 6))
        row.append({"text": count})
        its.extend([(8, 0, 1)] * count)
    names = "input_ids mm_token_type_ids attention_mask"
    inputs = named(names, padded(random, rows, ids))
    if grids:
        inputs["image_grid_thw"] = np.array(grids, np.int64)
    config = SimpleNamespace(
        text_config=SimpleNamespace(rope_parameters={"mrope_section": [4] * axes}),
        vision_config=SimpleNamespace(spatial_merge_size=merge),
    )
    own = stub(model_class("hunyuan_vl", "HunYuanVLModel"), config=config)
    outputs = own.get_rope_index(**tensors(inputs))
    params = {"num_axes": axes, "spatial_merge_size": merge, "structured": rows}
    return Called(params, inputs, named("position_ids rope_deltas", outputs))


@family("multimodal.glm_image", "GlmImageModel.get_rope_index")
def _glm_image(random: Random) -> Called:
    start, end = TOKENS["vision_start_token_id"], TOKENS["vision_end_token_id"]
    rows: list[list[Values]] = []
    ids: list[list[Token]] = []
    grids: list[list[int]] = []
    numbers = []
    for _ in range(random.integers(1, 4)):
        row: list[Values] = []
        tokens: list[Token] = []
        complete = int(random.integers(0, 3))
        for _ in range(complete):
            count, h, w = (int(each) for each in random.integers(1, 6, 3))
            row += [{"text": count}, {"text": 1}, {"image": [1, h, w]}, {"text": 1}]
            tokens += [(9, 0, 1)] * count + [(start, 0, 1)]
            tokens += [(TOKENS["image_token_id"], 1, 1)] * h * w + [(end, 0, 1)]
            grids.append([1, h, w])
        count = int(random.integers(1, 6))
        row.append({"text": count})
        tokens += [(9, 0, 1)] * count
        generated = random.integers(1, 6, (random.integers(not complete, 3), 2)).tolist()
        row += [{"generate": size} for size in generated]
        grids += [[1, *size] for size in generated]
        numbers.append(complete + len(generated))
        rows.append(row)
        ids.append(tokens)
    input_ids, _, mask = padded(random, rows, ids)
    inputs = {
        "input_ids": input_ids,
        "image_grid_thw": np.array(grids, np.int64),
        "images_per_sample": np.array(numbers, np.int64),
        "attention_mask": mask,
    }
    config = SimpleNamespace(image_start_token_id=start, image_end_token_id=end)
    own = stub(model_class("glm_image", "GlmImageModel"), config=config)
    outputs = named("position_ids rope_deltas", own.get_rope_index(**tensors(inputs)))
    outputs["decode_position_ids"] = own._cached_decode_position_ids
    params = {"structured": rows, "image_start_token_id": start, "image_end_token_id": end}
    return Called(params, inputs, outputs)


_MINICPM = ("image_start_id", "image_end_id", "slice_start_id", "slice_end_id", "newline_id")


@family("multimodal.minicpmv4_7", "MiniCPMV4_7Model.get_rope_index")
def _minicpm(random: Random) -> Called:
    mode = chosen(random, "16x", "16x", "4x")
    merge = 2 if mode == "4x" else 4
    marks = {name: 1001 + index for index, name in enumerate(_MINICPM)}
    image_start, image_end, slice_start, slice_end, newline = ((each, 0) for each in marks.values())
    frames, texts, sizes = [], [], []
    tokens: list[tuple[int, int]] = []
    for index in range(random.integers(1, 4)):
        texts.append(int(random.integers(0, 5)) if index else int(random.integers(0, 4)))
        tokens += [(10, 0)] * texts[-1]
        thumbnail = [int(each) * merge for each in random.integers(1, 9, 2)]
        one = [int(each) * merge for each in random.integers(1, 7, 2)]
        rows, columns = (int(each) for each in random.integers(1, 4, 2))
        if random.random() < 0.2:
            rows = columns = 0
        frames.append(
            {"thumbnail": thumbnail, "slice_rows": rows, "slice_columns": columns, "slice": one}
        )
        sizes += [thumbnail] + [one] * (rows * columns)
        inside = [(1006, 1)]
        tokens += [image_start, *inside * (math.prod(thumbnail) // merge**2), image_end]
        crop = [slice_start, *inside * (math.prod(one) // merge**2), slice_end]
        for row in range(rows):
            tokens += [newline] * bool(row) + crop * columns
    texts.append(int(random.integers(0, 6)))
    tokens += [(10, 0)] * texts[-1]
    input_ids, types = np.moveaxis(np.array([tokens], np.int64), -1, 0)
    inputs = {
        "input_ids": input_ids,
        "mm_token_type_ids": types,
        "target_sizes": np.array(sizes, np.int64),
    }
    config = SimpleNamespace(downsample_mode="16x", **marks)
    own = stub(model_class("minicpmv4_7", "MiniCPMV4_7Model"), config=config)
    outputs = own.get_rope_index(**tensors(inputs), downsample_mode=mode)
    params = {"downsample_mode": mode, **marks, "frames": frames, "texts": texts}
    return Called(params, inputs, named("position_ids rope_deltas", outputs))


def written(folder: Path, count: int, seed: int, names: list[str]) -> None:
    """Write the cases of families."""
    entries, arrays = [], {}
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    for name in names or [name for name in FAMILIES if name.endswith("transformers_4") == IS_4]:
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        group, _, of = name.partition(".")
        call, function = FAMILIES[name]
        for number in range(count):
            made = function(random)
            case = f"{name}.random.{number:03}"
            roles = {"input": made.inputs, "output": made.outputs}
            own = {key: (role, np.asarray(a)) for role in roles for key, a in roles[role].items()}
            arrays |= {f"{case}__{key}": array for key, (_, array) in own.items()}
            entries.append(
                {
                    "id": case,
                    "group": group,
                    "family": of,
                    "library": versions,
                    "call": call,
                    "params": made.params,
                    "conventions": "",
                    "arrays": {key: f"{case}__{key}" for key in own},
                    "array_info": {key: {"role": role} for key, (role, _) in own.items()},
                    "tolerance": made.tolerance,
                }
                | ({"known_defect": made.known_defect} if made.known_defect else {})
            )
        print(f"{count:5} {name}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.json").write_text(json.dumps(entries))
    np.savez(folder / "arrays.npz", **arrays)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.modules["library_positions"] = sys.modules["__main__"]
    if not IS_4:
        importlib.import_module("library_resizes")  # and library_ids
    target, count, seed, *names = [*sys.argv[1:], *["300", "1"][len(sys.argv) - 2 :]]
    written(Path(target), int(count), int(seed), names)
