"""torch: tables resized with interpolate; weights are an identity that is resized."""

from loop import parameters_of, serve

import torch
from torch.nn.functional import interpolate


def resized(table, size, **options):
    planes = torch.tensor(table).permute(2, 0, 1)[None]
    return interpolate(planes, **{"align_corners": False, **options, "size": tuple(size)})[0]


def answer(case):
    known = ("old_size", "part", "size", "mode", "align_corners", "antialias")
    given = dict(parameters_of(case, *known))
    if case["kind"] == "resize":
        array = resized(case["x"], **given).permute(1, 2, 0)
    else:
        (old,), (new,), _ = (given.pop(name) for name in ("old_size", "size", "part"))
        identity = torch.eye(old)[:, None].tolist()  # A plane of one column in each channel.
        array = resized(identity, (new, 1), **given)[:, :, 0].T
    return {"dtype": "float32", "arrays": {"array": array}}


paths = ["/resize/apply", "/resize"]
version = torch.__version__.partition("+")[0]
serve("torch", version, answer, kinds=["resize", "array"], resources=paths)
