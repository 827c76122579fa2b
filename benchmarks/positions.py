"""Times of position ids of a batch, and of rotary tables at positions that occur often."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Measured, in_turns
from benchmarks.posting import Posting
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import POSREF, running
from service.encodings.rotary.rope import Rope
from service.numerics.positions import PositionArray
from service.numerics.tables import size

BATCH, LENGTH, DISTINCT, WIDTH = 8, 10016, 2000, 128

_GRIDS = ([1, 64, 96], [12, 36, 64])


def measure_ids(folder: Path, rounds: int) -> Measured:
    """Return the seconds of a request for the ids of a batch with media; not pinned."""
    media = sum(t * h * w // 4 for t, h, w in _GRIDS)
    text, rest = divmod(LENGTH - media, 2)
    image, video = _GRIDS
    row = [{"text": text}, {"image": image}, {"text": text + rest}, {"video": video}]
    body = json.dumps({"convention": "qwen2_5_vl", "rows": [row] * BATCH}).encode()
    with running(POSREF, folder) as posref:
        path = "/positions.npy?part=position_ids"
        # A header of 128 bytes, and three axes of int64.
        posting = Posting(posref, path, body, "application/json", 128 + 24 * BATCH * LENGTH)
        posting.seconds(0)
        ids = np.frombuffer(posting.answer, np.int64, offset=128).reshape(3, BATCH, LENGTH)
        if ids[0, -1, :text].tolist() != list(range(text)):
            raise BenchmarkFailed("the ids of the text before the media are wrong")
        (seconds,) = in_turns([posting.seconds], rounds)
        return Measured(seconds)


def measure_table(repeats: int) -> Measured:
    """Return the seconds of a rotary table of a batch, and of one whose positions all differ."""
    random = np.random.default_rng(1)
    apart = random.permutation(BATCH * LENGTH).reshape(BATCH, LENGTH)
    often = random.integers(0, DISTINCT, (BATCH, LENGTH))
    ours, peer = in_turns([partial(_seconds, often), partial(_seconds, apart)], repeats)
    return Measured(ours, peer)


def _seconds(positions: NDArray[Any], _number: int) -> float:
    before = time.perf_counter()
    rope = Rope(head_dim=WIDTH, pack="half", positions=PositionArray.of(positions))
    for table in rope.document().arrays.values():
        table.read(0, size(table))
    return time.perf_counter() - before
