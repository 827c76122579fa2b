"""diffusers: Fourier features of noise levels and of boxes, and sinusoids added to embeddings."""

from loop import parameters_of, serve

import diffusers
import torch
from diffusers.models import embeddings as of


def boxes(case):
    given = parameters_of(case, "embed_dim", "boxes")
    return of.get_fourier_embeds_from_boundingbox(
        given["embed_dim"], torch.tensor([given["boxes"]])
    )[0]


def fourier(case):
    given = dict(parameters_of(case, "x", "weight", "log", "flip_sin_to_cos"))
    x, weight = (torch.tensor(given.pop(name)) for name in ("x", "weight"))
    projection = of.GaussianFourierProjection(len(weight), **given)
    projection.weight.copy_(weight)
    return projection(x)


def applied(case):
    parameters_of(case)
    x, positions = torch.tensor(case["x"]), case["positions"]
    rows = torch.zeros(1, max(positions) + 1, x.shape[-1])
    rows[0, positions] = x  # It takes embeddings of all positions from 0 on.
    return of.SinusoidalPositionalEmbedding(x.shape[-1], rows.shape[1])(rows)[0, positions]


def answer(case):
    by = {"boxes": boxes, "fourier": fourier, "apply": applied}
    array = by[case["resource"].removeprefix("/encoding/")](case)
    return {"dtype": "float32", "arrays": {"array": array}}


paths = [f"/encoding/{name}" for name in ("boxes", "fourier", "apply")]
serve("diffusers", diffusers.__version__, answer, kinds=["array"], resources=paths)
