"""mlx: sinusoids, and ALiBi of its layers."""

from loop import Unsupported, parameters_of, serve

from importlib.metadata import version

import mlx.core as mx
from mlx import nn


def answer(case):
    if case["resource"] == "/encoding":
        given = parameters_of(case, "convention", "d_model", "min_freq")
        if given["convention"] != "mlx":
            raise Unsupported(given["convention"])
        encoding = nn.SinusoidalPositionalEncoding(given["d_model"], min_freq=given["min_freq"])
        return {"dtype": "float32", "arrays": {"array": encoding(mx.array(case["positions"]))}}
    slopes = nn.ALiBi.create_alibi_slope(parameters_of(case, "num_heads")["num_heads"])
    return {"dtype": "float32", "arrays": {"array": slopes.flatten()}}


paths = ["/encoding", "/relative/alibi/slopes"]
serve("mlx", version("mlx"), answer, kinds=["array"], resources=paths)
