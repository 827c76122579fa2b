"""torch: tables that are resized with torch.nn.functional.interpolate."""

from loop import parameters_of, serve

import torch
from torch.nn.functional import interpolate


def answer(case):
    given = parameters_of(case, "size", "mode", "align_corners", "antialias")
    options = {"align_corners": False, **given, "size": tuple(given["size"])}
    planes = torch.tensor(case["x"]).permute(2, 0, 1)[None]
    array = interpolate(planes, **options)[0].permute(1, 2, 0)
    return {"dtype": "float32", "arrays": {"array": array}}


paths = ["/resize/apply"]
serve("torch", torch.__version__.partition("+")[0], answer, kinds=["resize"], resources=paths)
