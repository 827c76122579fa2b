"""transformers: sinusoids of grids and masks, of DETR, RT-DETR, OmDet and Perceiver."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers
from transformers.models.deformable_detr import modeling_deformable_detr as deformable
from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
from transformers.models.omdet_turbo.modeling_omdet_turbo import OmDetTurboHybridEncoder
from transformers.models.perceiver.modeling_perceiver import PerceiverFourierPositionEncoding
from transformers.models.rt_detr.modeling_rt_detr import RTDetrSinePositionEmbedding

PLACE = (torch.device("cpu"), torch.float32)
SIZES = ("height", "width")


def mask(d_model, padding_mask=None, valid_mask=None, base=10000, **options):
    valid = torch.tensor(valid_mask) if valid_mask else ~torch.tensor([padding_mask], dtype=bool)
    shape = torch.Size([len(valid), 3, *valid.shape[1:]])
    return DetrSinePositionEmbedding(d_model // 2, base, **options)(shape, *PLACE, valid)


def perceiver(max_resolution, num_bands=None, d_model=None, seq_len=None, **sizes):
    if seq_len:  # Its channels are the position, and the sine and cosine of each band.
        sizes, num_bands, max_resolution = {"": seq_len}, (d_model - 1) // 2, [max_resolution]
    encoding = PerceiverFourierPositionEncoding(num_bands, max_resolution)
    return encoding([*sizes.values()], 1, *PLACE)[0]


def grid(convention, d_model, height=None, width=None):
    if convention == "transformers":
        return RTDetrSinePositionEmbedding(d_model)(width, height, *PLACE)[0]
    if convention == "moco-v3":
        return OmDetTurboHybridEncoder.build_2d_sincos_position_embedding(width, height, d_model)[0]
    if convention != "deformable-detr":
        raise Unsupported(convention)
    made = deformable.DeformableDetrSinePositionEmbedding(d_model // 2, normalize=True)
    return made(torch.Size([1, 3, height, width]), *PLACE)[0]


def answer(case):
    given = dict(case["parameters"])
    made = mask if case["resource"] == "/encoding/mask" else grid
    if given.get("convention") == "perceiver":
        del given["convention"]
        made = perceiver
    elif made is grid:
        parameters_of(case, "convention", "d_model", *SIZES)
    return {"dtype": "float32", "arrays": {"array": made(**given)}}


paths = ["/encoding/grid", "/encoding/mask", "/encoding"]
serve("transformers", transformers.__version__, answer, kinds=["array"], resources=paths)
