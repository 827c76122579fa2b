"""A typical service without posref: FastAPI and a cached NumPy table."""

from functools import lru_cache
from io import BytesIO
from typing import Annotated, Literal

import numpy as np
import orjson
from fastapi import FastAPI, Query, Request, Response
from numpy.typing import NDArray

app = FastAPI()


@lru_cache(maxsize=128)
def table(seq_len: int, d_model: int, base: float) -> NDArray[np.float32]:
    angles = np.outer(np.arange(seq_len), base ** (-np.arange(0, d_model, 2) / d_model))
    rows = np.empty((seq_len, d_model), dtype=np.float32)
    rows[:, 0::2] = np.sin(angles)
    rows[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return rows


@app.get("/encoding")
async def encoding(
    seq_len: Annotated[int, Query(ge=1)],
    d_model: Annotated[int, Query(ge=1)],
    base: Annotated[float, Query(ge=1)] = 10000.0,
    form: Literal["json", "npy"] = "json",
) -> Response:
    rows = table(seq_len, d_model, base)
    if form == "npy":
        file = BytesIO()
        np.save(file, rows)
        return Response(file.getvalue(), media_type="application/x-npy")
    content = {"shape": rows.shape, "data": rows}
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")


@app.post("/echo")
async def echo(request: Request) -> Response:
    return Response(await request.body(), media_type=request.headers["content-type"])
