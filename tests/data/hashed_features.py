"""Features of real numbers that are hashed: timesteps, random Fourier features, boxes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from service.encodings.absolute.fourier import BoxFourierFeatures, RandomFourierFeatures
from service.encodings.absolute.timesteps import TimestepEmbedding
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType
from service.numerics.tables import StoredTable, Table
from tests.data.hashed_samples import fractional, of_document


def tables() -> Iterator[tuple[str, Table]]:
    """Give features of fractions and whole numbers, near and far."""
    for dtype in REAL_DTYPES.values():
        yield from _timesteps(dtype)
        yield from _fourier(dtype)
        yield from _boxes(dtype)


def _timesteps(dtype: DType) -> Iterator[tuple[str, Table]]:
    every: dict[str, dict[str, Any]] = {
        "numbered": {"num_timesteps": 200},
        "fractional": {"timesteps": list(fractional().values)},
    }
    for name, steps in every.items():
        for d_model, flip, shift, scale, max_period in (
            (16, False, 1.0, 1.0, 10000.0),
            (17, True, 0.0, 1000.0, 10000.0),
            (10, False, 2.5, 0.3, 37.5),
            (12, False, 1.0, -1.0, 10000.0),
            (13, True, 0.0, -0.3, 10000.0),
            (9, False, 1.0, 0.0, 10000.0),
            (14, False, 1.0, 1.0, 0.001),
        ):
            embedding = TimestepEmbedding.model_validate(
                {
                    **steps,
                    "d_model": d_model,
                    "flip_sin_to_cos": flip,
                    "downscale_freq_shift": shift,
                    "scale": scale,
                    "max_period": max_period,
                    "dtype": dtype.name,
                }
            )
            label = f"{name}, {d_model} channels, scale {scale}"
            yield from of_document(label, embedding.document())


def _fourier(dtype: DType) -> Iterator[tuple[str, Table]]:
    weight = np.array([0.0, 1.0, -16.0, 0.3, -7.1, 1e-30, 1e15 + 0.125, -(2.0**62)])
    linear = np.array([0.0, 0.5, -17.25, 1e-30, 3.0, -1e17, 0.3, 0.3, 1.0 / 3])
    logarithmic = np.array(
        [1.0, 1.0000000000000002, 0.9999999999999999, 80.0, 0.002, 5e-324, 1e308]
    )
    for is_log, x in ((False, linear), (True, logarithmic)):
        for flip in (False, True):
            features = RandomFourierFeatures.model_validate(
                {"log": is_log, "flip_sin_to_cos": flip, "dtype": dtype.name}
            )
            arrays = {"weight": StoredTable(weight, FLOAT64), "x": StoredTable(x, FLOAT64)}
            label = f"logarithms {is_log}, flipped {flip}"
            yield from of_document(label, features.document(arrays))


def _boxes(dtype: DType) -> Iterator[tuple[str, Table]]:
    sent = np.array(fractional().values[:48]).reshape(2, 6, 4)
    for embed_dim, temperature in ((8, 100.0), (5, 2.5)):
        features = BoxFourierFeatures.model_validate(
            {"embed_dim": embed_dim, "temperature": temperature, "dtype": dtype.name}
        )
        document = features.document({"boxes": StoredTable(sent, FLOAT64)})
        yield from of_document(f"{embed_dim} frequencies", document)
