"""Embeddings of timesteps and of noise levels in diffusers."""

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import Params


def timesteps(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_timestep_embedding``."""
    params = Params(case.params)
    params.ignore("timesteps")
    query: Query = {
        "timesteps": case.inputs["timesteps"].astype(np.float64).tolist(),
        "d_model": params.require("embedding_dim"),
        "flip_sin_to_cos": params.take("flip_sin_to_cos", False),
        "downscale_freq_shift": params.take("downscale_freq_shift", 1),
        "scale": params.take("scale", 1),
        "max_period": params.take("max_period", 10000),
    }
    params.finish()
    return {"out": answers.tables("/encoding/timesteps", query)["timesteps"]}


def gaussian_fourier(case: Case, answers: Answers) -> Arrays:
    """Ask for ``GaussianFourierProjection``, whose weights have been drawn and scaled."""
    params = Params(case.params)
    params.ignore("embedding_size", "scale", "set_W_to_weight", "x")
    query: Query = {
        "log": params.take("log", True),
        "flip_sin_to_cos": params.take("flip_sin_to_cos", False),
        "dtype": "float64",
    }
    params.finish()
    sent = {name: _real(case.inputs[name]) for name in ("x", "weight")}
    return {"out": answers.composed("/encoding/fourier", query, sent)["fourier"]}


def _real(numbers: Array) -> Array:
    """Send integers as the real numbers that they are."""
    return numbers.astype(np.float64) if np.issubdtype(numbers.dtype, np.integer) else numbers
