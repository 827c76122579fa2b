"""Costly requests of every kind, each of which the server has not answered before."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from benchmarks.load.requests import MIB, get, post

NPY, JSON = "application/x-npy", "application/json"

_WIDTH = 512
_POSITIONS = 2**50


@dataclass(frozen=True)
class Kind:
    """A kind of costly request.

    Attributes:
        name: its name in reports.
        request: returns the bytes of a request by its number, which makes the URL new.
        is_slow: whether clients send the request over a minute and not at once.
        is_unread: whether clients read nothing of the answers.
    """

    name: str
    request: Callable[[int], bytes]
    is_slow: bool = False
    is_unread: bool = False


@cache
def noise(rows: int, width: int = _WIDTH) -> bytes:
    """Return an npy file of standard normal numbers."""
    file = io.BytesIO()
    np.save(file, np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32))
    return file.getvalue()


@cache
def spoilt(rows: int) -> bytes:
    """Return an npy file of sinusoids of which one number in the middle is wrong."""
    angles = np.outer(np.arange(rows), 1e4 ** (-np.arange(0, _WIDTH, 2) / _WIDTH))
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(rows, _WIDTH)
    table[rows // 2, 3] += 0.5
    file = io.BytesIO()
    np.save(file, table.astype(np.float32))
    return file.getvalue()


@cache
def noise_as_json(rows: int, name: str = "x") -> bytes:
    """Return a JSON body with an array of standard normal numbers."""
    numbers = np.random.default_rng(1).standard_normal((rows, _WIDTH)).round(4)
    return json.dumps({name: numbers.tolist()}, separators=(",", ":")).encode()


def expected_table(rows: int) -> str:
    """Return the parameter that names the table of an examination."""
    return f"to=/encoding?seq_len={rows}%26d_model={_WIDTH}"


def examination(what: str, rows: int, number: int = 0) -> bytes:
    """Return an examination that takes long: of noise, or a diagnosis of one wrong number."""
    query = "" if what == "identify" else f"?{expected_table(rows)}"
    query += "" if what == "identify" else f"%26start={number}"
    return post(f"/{what}{query}", NPY, spoilt(rows) if what == "diagnose" else noise(rows))


def _json_examination(what: str, number: int) -> bytes:
    query = "" if what == "identify" else f"?{expected_table(1024)}%26start={number}"
    return post(f"/{what}{query}", JSON, noise_as_json(1024, "x" if what == "compare" else "have"))


def _table(target: str, *headers: str) -> Callable[[int], bytes]:
    return lambda number: get(target.format(number), *headers)


def _posted(target: str, media_type: str, body: Callable[[], bytes]) -> Callable[[int], bytes]:
    """Post the same body to URLs that their ``start`` makes new."""
    return lambda number: post(target.format(number), media_type, body())


@cache
def _scattered(count: int, seed: int) -> str:
    numbers = np.random.default_rng(seed).integers(0, _POSITIONS, count)
    return ",".join(map(str, numbers.tolist()))


def _scattered_query(target: str, number: int) -> bytes:
    return get(f"{target}&positions={number},{_scattered(3500, 1)}")


def _scattered_body(target: str, number: int) -> bytes:
    body = f'{{"d_model":{_WIDTH},"positions":[{number},{_scattered(200_000, 1)}]}}'
    return post(target, JSON, body.encode())


def _similarity(offsets: int, number: int) -> bytes:
    return get(f"/relative/similarity.npy?d_model=65536&offsets={number}:{number + offsets}")


def _mean_over_bands(number: int) -> bytes:
    shape = f"query_len=1&key_len={10**8 + number % 10**9}"
    return get(f"/relative/sandwich.npy?num_heads=8&head_dim=4096&head=0&{shape}")


def _of_http_1_0(target: str, number: int) -> bytes:
    return get(target.format(number)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)


def _pipelined(target: str, count: int, number: int) -> bytes:
    return b"".join(get(target.format(number * count + each)) for each in range(count))


@cache
def _brackets() -> bytes:
    return b'{"x":' + b"[" * (4 * MIB - 100)


@cache
def _digits() -> bytes:
    return b'{"x":[' + b"7" * (4 * MIB - 100) + b"]}"


@cache
def _names() -> bytes:
    return b"{" + b",".join(b'"n%d":0' % each for each in range(300_000)) + b"}"


def _many_parameters(number: int) -> bytes:
    names = "&".join(f"n{number % 1000}x{each}=1" for each in range(5_000))
    return get(f"/encoding?{names}")


_LONG_TEXT = f"?seq_len=15000&d_model={_WIDTH}&start={{}}"

_EXAMINATIONS = (
    *(
        Kind(f"{what}, {rows}×{_WIDTH}", partial(examination, what, rows))
        for rows in (50, 8192)
        for what in ("compare", "identify", "diagnose")
    ),
    Kind("compare of JSON", partial(_json_examination, "compare")),
    Kind("diagnose of JSON", partial(_json_examination, "diagnose")),
)
STREAMS: Sequence[str] = (
    "/encoding.npy?seq_len=400000000&d_model=512&start={}",
    "/encoding.npy?seq_len=4000000&d_model=65536&start={}",
    "/encoding.safetensors?seq_len=400000000&d_model=512&start={}",
    "/encoding.json?seq_len=15000&d_model=512&start={}",
    "/encoding.csv?seq_len=15000&d_model=512&start={}",
    "/encoding/grid.npy?convention=mae&height=1000&width={}&d_model=512",
    "/encoding/timesteps.npy?num_timesteps={}&d_model=512",
    "/rope.npy?head_dim=128&seq_len=1000000000&start={}",
    "/rope.json?head_dim=4096&seq_len=1000&start={}",
    "/rope/axial.npy?convention=qwen2_vl&head_dim=128&grid=1000,{}",
    "/relative/alibi.npy?num_heads=8&head=0&query_len=1000000&key_len={}",
    "/relative/conformer.npy?d_model=512&seq_len={}",
    "/relative/deberta.npy?query_len=1000000&key_len={}&bucket_size=4&max_position=12",
    "/relative/fire.npy?query_len={}",
    "/relative/kerple.npy?a=1,0.5&p=2,1&head=0&query_len={}",
    "/relative/sandwich.npy?num_heads=4&head_dim=16&head=0&query_len={}",
    "/relative/shaw.npy?query_len=1000000&key_len={}&max_relative_position=2",
    "/relative/similarity.npy?d_model=512&offsets=0:{}00",
    "/relative/swin.npy?window_size=2,{}",
    "/relative/swin-v2.npy?window_size=2000,{}&axis=y",
    "/relative/t5.npy?query_len=1000000&key_len={}&num_buckets=32&max_distance=128",
    "/relative/transformer-xl.npy?d_model=512&key_len={}",
    "/relative/xlnet.npy?d_model=512&query_len=1000000&key_len={}",
)
"""Tables too long to be cached, of every resource that has some, by a number of six digits."""

_TABLES = (
    Kind(
        "digest of 4 GB",
        _table(f"/encoding.npy.sha256?seq_len=2097151&d_model={_WIDTH}&start={{}}"),
    ),
    Kind("digest of text", _table(f"/encoding.json.sha256{_LONG_TEXT}")),
    Kind("drawing", _table("/encoding.png?seq_len=8192&d_model=512&start={}")),
    Kind(
        "drawing of curves",
        _table("/encoding/curves.png?seq_len=4096&d_model=64&dimensions=0:64&start={}"),
    ),
    Kind("similarity, built", partial(_similarity, 256)),
    Kind("similarity, streamed", partial(_similarity, 10_000_000)),
    Kind("mean over bands", _mean_over_bands),
    Kind("scattered positions, URL", partial(_scattered_query, f"/encoding.json?d_model={_WIDTH}")),
    Kind("scattered positions, body", partial(_scattered_body, "/encoding.npy")),
    Kind("JSON", _table(f"/encoding.json{_LONG_TEXT}")),
    Kind("JSON, gzip", _table(f"/encoding.json{_LONG_TEXT}", "Accept-Encoding: gzip")),
    Kind("JSON, HTTP/1.0", partial(_of_http_1_0, f"/encoding.json{_LONG_TEXT}")),
    Kind("CSV", _table(f"/encoding.csv{_LONG_TEXT}")),
    Kind("wide stream", _table("/encoding.npy?seq_len=4000000&d_model=65536&start={}")),
    Kind("narrow stream", _table("/encoding.npy?seq_len=1000000000&d_model=4&start={}")),
    Kind("JSON tables of 512×512", _table("/encoding.json?seq_len=512&d_model=512&start={}")),
    Kind(
        "pipelined JSON tables",
        partial(_pipelined, "/encoding.json?seq_len=50&d_model=512&start={}", 64),
    ),
    Kind("5,000 unknown parameters", _many_parameters),
)
_BODIES = (
    Kind(
        "/rope/apply of JSON", _posted("/rope/apply?start={}", JSON, partial(noise_as_json, 1024))
    ),
    Kind(
        "/rope/apply of JSON, slowly",
        _posted("/rope/apply?start={}", JSON, partial(noise_as_json, 1024)),
        is_slow=True,
    ),
    Kind("/rope/apply of npy", _posted("/rope/apply?start={}", NPY, partial(noise, 8192))),
    Kind(
        "/rope/apply of npy, slowly",
        _posted("/rope/apply?start={}", NPY, partial(noise, 8192)),
        is_slow=True,
    ),
    Kind("drawing of a POST", _posted("/encoding/apply.png?start={}", NPY, partial(noise, 8192))),
    Kind("JSON of a POST", _posted("/rope/apply.json?start={}", NPY, partial(noise, 8192))),
    Kind("JSON that is only brackets", _posted("/rope/apply?start={}", JSON, _brackets)),
    Kind("JSON of a number of 4 MB", _posted("/rope/apply?start={}", JSON, _digits)),
    Kind("config of 300,000 names", _posted("/rope/config", JSON, _names)),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*_EXAMINATIONS, *_TABLES, *_BODIES)}
