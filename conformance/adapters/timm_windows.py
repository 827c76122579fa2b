"""timm: indices, biases and coordinates of windows, of Swin, BEiT and Swin V2."""

from loop import parameters_of, serve, without_imports

from importlib.metadata import version

import torch

without_imports("timm", "timm.layers")
from timm.layers import pos_embed_rel as timm


def bias(window_size, weight):
    table = torch.tensor(weight)
    module = timm.RelPosBias(window_size, table.shape[1])
    module.relative_position_bias_table.data = table
    return module.get_bias()[0].detach()


def answer(case):
    known = ("window_size", "class_token", "weight", "pretrained_window_size", "mode")
    given = dict(parameters_of(case, *known))
    if case["resource"] == "/relative/swin/bias":
        array = bias(**given)
    elif case["resource"] == "/relative/swin":
        array = timm.gen_relative_position_index(given.pop("window_size"), **given)
    else:
        pretrained = given.pop("pretrained_window_size", (0, 0))
        array = timm.gen_relative_log_coords(given.pop("window_size"), pretrained, **given)
    return {"dtype": "float32", "arrays": {"array": array}}


paths = ["/relative/swin", "/relative/swin/bias", "/relative/swin-v2"]
serve("timm", version("timm"), answer, kinds=["array"], resources=paths)
