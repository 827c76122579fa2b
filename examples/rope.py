"""A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.

Run, beside config.json: python rope.py http://127.0.0.1:8000
"""

import json
import math
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np

SERVER = sys.argv[1] if sys.argv[1:] else "http://127.0.0.1:8000"


def ask(status: int, path: str, body: bytes | None = None, **headers: str) -> tuple[bytes, str]:
    """Return the body and the ETag of an answer, which must have this status."""
    try:
        answer = urlopen(Request(SERVER + path, body, headers))
    except HTTPError as error:  # 304 and problems are answers, too.
        answer = error
    with answer:
        content = answer.read()
    if answer.status != status:
        sys.exit(f"{path}: {answer.status} {content.decode()}")
    return content, answer.headers["ETag"]


def check(name: str, value: float, expected: float) -> None:
    print(f"{name}: {value:.6f}")
    if not abs(value - expected) < 1e-6:
        sys.exit(f"expected {expected}")


# From the config to the cosines in the layout of the model: a row of 64 for each position.
config = Path("config.json").read_bytes()
model = json.loads(ask(200, "/rope/config", config, **{"Content-Type": "application/json"})[0])
print("layout:", model["layout"])
link = model["rope"]["default"]["cos"]
table, etag = ask(200, link)
Path("cos.npy").write_bytes(table)
cos = np.load("cos.npy", mmap_mode="r")
lowest = 500000 ** (-62 / 64) / 32  # The config divides the lowest frequency by its factor.
check("cos[131071][31]", cos[131071, 31], math.cos(131071 * lowest))
ask(304, link, None, **{"If-None-Match": etag})
print("unchanged: 304")

# Row 10**9 of a table of 512 GiB, at byte 128 + 4 * 64 * 10**9; and a misspelled parameter.
row, _ = ask(206, f"{link}&seq_len=2147483648", Range="bytes=256000000128-256000000383")
check("cos[1000000000][0]", np.frombuffer(row, "<f4")[0], math.cos(1e9))
print("problem:", json.loads(ask(422, "/rope?head_dim=64&seqlen=8")[0])["detail"])

# The first 64 rows of an engine that interleaves the channels of a model with halves.
mine = np.repeat(cos[:64, :32], 2, axis=1).tobytes()
to = f"/diagnose?shape=64,64&dtype=float32&to={quote(link)}"
types = {"Content-Type": "application/octet-stream", "Accept": "text/plain"}
print("diagnosis:", ask(200, to, mine, **types)[0].decode().splitlines()[0])
