"""A prompt of text, images and a video: its position ids, their rotary table, a rotated query.

Run, beside prompt.json: python positions.py http://127.0.0.1:8000
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

SERVER = sys.argv[1] if sys.argv[1:] else "http://127.0.0.1:8000"
# Qwen2.5-VL: 128 channels a head, of which t, h and w turn 16, 24 and 24 pairs.
ROPE = "head_dim=128&rope_theta=1000000&mrope_section=16,24,24"
TYPES = {"I64": "<i8", "F32": "<f4"}


def post(path: str, body: bytes, kind: str) -> bytes:
    """Return the answer to a body, which must not be refused."""
    try:
        with urlopen(Request(SERVER + path, body, {"Content-Type": kind})) as answer:
            content: bytes = answer.read()
    except HTTPError as error:
        sys.exit(f"{path}: {error.code} {error.read().decode()}")
    return content


def tensors(file: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the numbers of a file of safetensors."""
    end = 8 + int.from_bytes(file[:8], "little")
    return json.loads(file[8:end]), file[end:]


def array(file: bytes, name: str) -> np.ndarray[Any, Any]:
    header, numbers = tensors(file)
    start, stop = header[name]["data_offsets"]
    values = np.frombuffer(numbers[start:stop], TYPES[header[name]["dtype"]])
    return values.reshape(header[name]["shape"])


# The ids of two rows: t, h and w of each token; the shorter row is padded on the left.
ids = post("/positions.safetensors", Path("prompt.json").read_bytes(), "application/json")
t, h, w = array(ids, "position_ids")
print("rope_deltas:", *array(ids, "rope_deltas")[:, 0])
print("token 13 of row 0:", t[0, 13], h[0, 13], w[0, 13])

# The ids as they are for the cosines and sines of every token, and with queries to rotate them.
table = post(f"/rope.safetensors?pack=half&{ROPE}", ids, "application/vnd.safetensors")
cos, sin = array(table, "cos")[:, None], array(table, "sin")[:, None]
shape = (*t.shape[:1], 2, *t.shape[1:], 128)
q = ((7919 * np.arange(np.prod(shape)) % 2048 - 1024) / 1024).astype("<f4").reshape(shape)
header, numbers = tensors(ids)
offsets = [len(numbers), len(numbers) + q.nbytes]
header["q"] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
text = json.dumps(header).encode()
body = len(text).to_bytes(8, "little") + text + numbers + q.tobytes()
apply = f"/rope/apply.safetensors?layout=half&axes=batch,head,seq,channel&{ROPE}"
answer = post(apply, body, "application/vnd.safetensors")
Path("rotated.safetensors").write_bytes(answer)

# The same by hand; and the number that transformers has.
half = np.concatenate((-q[..., 64:], q[..., :64]), axis=-1)
largest = np.abs(array(answer, "q") - (q * cos + half * sin)).max()
print("as cos and sin:", str(bool(largest < 1e-6)).lower())
value = array(answer, "q")[0, 1, 30, 0]
print(f"q[0][1][30][0]: {value:.6f}")
if not abs(value - 0.750977) < 1e-6:
    sys.exit("expected 0.750977")
