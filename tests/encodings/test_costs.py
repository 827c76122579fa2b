"""Costs: processor seconds of every family against measured time, and blocks that are one turn."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from time import thread_time

import numpy as np
import orjson
import pytest
from safetensors.numpy import save

from service.delivery.endpoints import Endpoint, JsonObject
from service.delivery.handler import reading_seconds
from service.delivery.negotiation import Job, RepresentationRequest
from service.delivery.parameters import parse_query, read_parameters
from service.delivery.plans import Plan, read_post
from service.delivery.representation import represent
from service.encodings.family import ComposedFamily, TableFamily
from service.encodings.grid.mask import MaskedGridEncoding
from service.encodings.registry import FAMILIES
from service.encodings.relative.alibi import AlibiBias
from service.encodings.relative.kerple import KerpleBias
from service.formats import FORMATS
from service.formats.format import BinaryBody, Body, ReadableFormat
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
from service.lru import shrink_shared
from service.numerics.dtypes import FLOAT64, INT64, Elements
from service.numerics.phase import Float64s
from service.numerics.setups import TURN_SECONDS
from service.numerics.tables import Document, StoredTable, size
from service.routes import ENDPOINTS
from service.routes.compare import COMPARE
from service.routes.diagnosed_models import DIAGNOSE
from service.routes.identify import IDENTIFY
from service.routes.rope_config import CONFIG
from service.routes.table_urls import read_url
from service.settings import default_settings
from tests.client import npy_bytes

# The seconds of ``reference`` on the machine of the calibration.
REFERENCE_SECONDS = 0.95e-3
ATTEMPTS, FACTOR = 5, 4.0
EXAMPLES = [
    f"{family.path}?{family.example}"
    for family in FAMILIES.values()
    if issubclass(family, TableFamily)
]


def listed(count: int, below: int = 2**40) -> str:
    numbers = random.Random(count)
    return ",".join(str(numbers.randrange(below)) for _ in range(count))


def fractions(count: int) -> str:
    return ",".join(str(number * 1.37 + 0.123) for number in range(count))


QUERIES = f"query_positions={listed(200, 10**6)}&key_positions={listed(201, 10**6)}"

STRETCHED = [
    "/encoding?seq_len=512&d_model=512",
    "/encoding?seq_len=1000&d_model=4096",
    "/encoding?seq_len=200000&d_model=2",
    "/encoding?seq_len=512&d_model=512&dtype=bfloat16",
    "/encoding?seq_len=512&d_model=512&dtype=float16",
    f"/encoding?positions={listed(500)}&d_model=512",
    "/encoding?positions=0:30000:3&d_model=64",
    f"/encoding?positions={fractions(500)}&d_model=512",
    "/encoding/curves?seq_len=4096&d_model=512&dimensions=4,5,6,7",
    "/encoding/grid?convention=mae&height=32&width=32&d_model=1024",
    "/encoding/grid?convention=mae&height=8&width=8&d_model=4096&dtype=float16",
    "/attention/temperature?seq_len=100000",
    "/attention/temperature?seq_len=100000&convention=beam",
    f"/attention/temperature?floor_scale=1&positions={','.join(map(str, range(0, 10**6, 997)))}",
    "/encoding/timesteps?num_timesteps=1000&d_model=512",
    f"/encoding/timesteps?timesteps={fractions(300)}&d_model=512",
    "/relative?d_model=512&offset=5",
    "/relative?d_model=64&offsets=0:100",
    "/relative/alibi?num_heads=32&query_len=256",
    f"/relative/alibi?num_heads=8&{QUERIES}",
    "/relative/conformer?d_model=512&seq_len=500",
    f"/relative/deberta?bucket_size=256&max_position=512&{QUERIES}",
    "/relative/fire?query_len=500",
    f"/relative/fire?{QUERIES}",
    f"/relative/kerple?a=1,0.5,1,1&p=2,1,1.5,1.7&{QUERIES}",
    "/relative/sandwich?num_heads=8&head_dim=64&query_len=512",
    f"/relative/sandwich?num_heads=4&head_dim=128&{QUERIES}",
    "/relative/similarity?d_model=512&offsets=0:4000",
    "/relative/similarity?d_model=512&offsets=0:100000",
    "/relative/similarity?d_model=4096&offsets=0:20000",
    "/encoding/grid?convention=detr&height=500&width=500&d_model=64&dtype=float16",
    "/encoding/grid?convention=mae&height=300&width=300&d_model=4&dtype=float16",
    "/encoding/grid?convention=mae&height=128&width=128&d_model=256",
    "/rope/axial?convention=qwen2_vl&grid=500,500&head_dim=4",
    "/rope/axial?convention=qwen2_vl&grid=128,128&head_dim=80&dtype=bfloat16",
    "/rope?grid=4,64,64&head_dim=64&mrope_section=8,12,12",
    "/relative/similarity?d_model=4096&offsets=0:1000",
    f"/relative/t5?{QUERIES}",
    "/relative/transformer-xl?d_model=1024&key_len=512",
    "/relative/xlnet?d_model=256&query_len=500&key_len=500&bi_data=true",
    "/rope?head_dim=128&seq_len=2048&pack=complex",
    "/rope?head_dim=128&seq_len=2048&pack=half&dtype=bfloat16",
    "/rope?head_dim=128&seq_len=2048&pack=angle",
    "/rope?head_dim=128&seq_len=1000&angle=float32",
    "/rope?head_dim=128&seq_len=1000&xpos=query",
    "/rope?head_dim=128&mrope_section=16,24,24&positions_t=0:999&positions_h=5:1004&positions_w=7:1006",
    "/rope/axial?convention=qwen2_vl&head_dim=80&grid=64,64",
    "/encoding?seq_len=600&d_model=4096&channels=0:4096:8",
    "/encoding/timesteps?num_timesteps=1000&d_model=513&channels=0:513:9",
    "/encoding/grid?convention=detr&height=20&width=20&d_model=256&channels=0:256:2",
    "/rope?head_dim=128&seq_len=1000&angle=float32&pack=flat&channels=0:128:16",
    "/rope/axial?convention=qwen2_vl&head_dim=80&grid=64,64&pack=half&channels=0:80:4",
    "/relative/xlnet?d_model=256&query_len=500&key_len=500&bi_data=true&channels=3:200:5",
]
WIDE = [
    "/encoding?seq_len=64&d_model=65536",
    "/encoding?seq_len=400&d_model=20000",
    f"/encoding?positions={listed(16)}&d_model=65536",
    f"/encoding?positions={listed(16)}&d_model=20000",
    "/encoding?positions=0:12000:40&d_model=16384",
    "/relative/similarity?d_model=65536&offsets=0:20",
]
# What is set up anew for each number in place of the base, and takes more than the elements.
SET_UP = [
    "/encoding?seq_len=4&d_model=4096&base={}",
    "/encoding?seq_len=4&d_model=16384&channels=0:64&base={}",
    "/encoding/frequencies?d_model=8192&part=frequency&base={}",
    "/relative/alibi/slopes?num_heads={}",
    "/rope?head_dim=128&seq_len=4&xpos=query&xpos_scale_base={}",
    "/rope?head_dim=512&seq_len=4&rope_type=ntk&factor=4&mixed_b=0.5&rope_theta={}",
    "/rope?head_dim=64&seq_len=4&rope_type=ntk&factor=4&mixed_b=0.5&mrope_section=9,9,14&rope_theta={}",
    "/rope/frequencies?head_dim=8192&rope_theta={}",
]


def reference() -> None:
    """Multiply, add and round numbers, and run some Python: what a table does."""
    one, two = np.full((2, 16384), 0.5)
    rounded = np.empty(16384, dtype=np.float32)
    for _ in range(32):
        one *= two
        one += two
        rounded[...] = one
    sum(number % 7 for number in range(16384))


def seconds_of(function: Callable[[], object]) -> float:
    begin = thread_time()
    function()
    return thread_time() - begin


def pace() -> float:
    """Return how many times as long as on the machine of the calibration the reference takes."""
    return min(seconds_of(reference) for _ in range(5)) / REFERENCE_SECONDS


def body(document: Document) -> BinaryBody:
    return BinaryBody(tuple(document.arrays.values()))


def nearest(ratios: Iterator[float]) -> float:
    """Return the first ratio within FACTOR, else the one nearest to 1: others may be noise."""
    tried = []
    for ratio in islice(ratios, ATTEMPTS):
        tried.append(ratio)
        if 1 / FACTOR <= ratio <= FACTOR:
            break
    return min(tried, key=lambda ratio: abs(np.log(ratio)))


def ratios_of_elements(url: str) -> Iterator[float]:
    """Yield the ratios of the estimate to the measured time of tables that are set up."""
    document = read_url(url).document
    list(body(document).blocks())
    while True:
        measured = min(seconds_of(lambda: list(body(document).blocks())) for _ in range(2))
        yield document.seconds * pace() / measured


def ratios_of_setups(url: str) -> Iterator[float]:
    list(body(read_url(url.format(99)).document).blocks())
    number = 10007
    while True:
        number += 1
        document = read_url(url.format(number)).document
        estimate = document.seconds + document.setup_seconds
        yield estimate * pace() / seconds_of(partial(list, body(document).blocks()))


def longest_block(body: Body) -> float:
    """Return the longest time between blocks in turns of the machine of the calibration."""
    longest, begin = 0.0, thread_time()
    for _ in body.blocks():
        longest = max(longest, thread_time() - begin)
        begin = thread_time()
    return longest / pace() / TURN_SECONDS


@pytest.mark.full
@pytest.mark.parametrize("url", [*STRETCHED, *WIDE])
def test_estimated_seconds_of_elements_are_near_the_measured(url: str) -> None:
    assert 1 / FACTOR <= nearest(ratios_of_elements(url)) <= FACTOR


@pytest.mark.full
@pytest.mark.parametrize("url", SET_UP)
def test_estimated_seconds_of_a_setup_are_near_the_measured(url: str) -> None:
    assert 1 / FACTOR <= nearest(ratios_of_setups(url)) <= FACTOR


def _examined(path: str, rows: int, columns: int) -> Float64s:
    """Return noise; for /diagnose a table of another base, as noise is found out at once."""
    if path != "/diagnose":
        return np.random.default_rng(rows).standard_normal((rows, columns))
    angles = np.outer(np.arange(rows), 3e5 ** (-np.arange(0, columns, 2) / columns))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(rows, columns)


EXAMINATIONS = {endpoint.path: endpoint for endpoint in (COMPARE, IDENTIFY, DIAGNOSE)}


@pytest.mark.full
@pytest.mark.parametrize("rows", [4, 50, 512])
@pytest.mark.parametrize("path", EXAMINATIONS)
def test_estimated_seconds_of_an_examination_are_near_the_measured(path: str, rows: int) -> None:
    endpoint, columns = EXAMINATIONS[path], min(rows * rows, 512)
    to = {"to": f"/encoding?seq_len={rows}&d_model={columns}"}
    query = {} if path == "/identify" else to
    sent = npy_bytes(_examined(path, rows, columns).astype(np.float32))
    estimate = NPY.byte_seconds * len(sent) + endpoint.inputs.seconds_of(NPY.count_elements(sent))

    def examine() -> None:
        _, content = endpoint.inputs.read(NPY, sent)
        parameters = read_parameters(endpoint.parameters, query)
        arguments = endpoint.inputs.arguments(parameters, content)
        endpoint.answer_to(parameters, arguments, default_settings())

    def ratios() -> Iterator[float]:
        while True:
            yield estimate * pace() / seconds_of(examine)

    assert 1 / FACTOR <= nearest(ratios()) <= FACTOR


def normal(*shape: int) -> Elements:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


MASK = np.arange(4 * 300 * 200).reshape(4, 300, 200) % 3 > 0
MASKS = np.arange(1024 * 64).reshape(1024, 8, 8) % 5 > 0
# Arrays by name, for a request whose inputs have names, or one without a name.
POSTED: dict[str, dict[str, Elements]] = {
    "/encoding/apply?start=3": {"x": normal(4, 500, 512)},
    "/encoding/boxes?embed_dim=64": {"boxes": normal(2000, 4)},
    "/encoding/fourier?log=false": {"x": normal(1000), "weight": normal(128)},
    "/encoding/fourier?log=true": {"x": np.abs(normal(1000)) + 1, "weight": normal(128)},
    "/encoding/mask?d_model=64&mask=padding": {"padding_mask": MASK},
    "/encoding/mask?d_model=64&mask=padding&normalize=true": {"padding_mask": MASK},
    "/encoding/mask?d_model=4&mask=padding&normalize=true": {"padding_mask": MASKS},
    "/encoding/tokens?d_model=512&convention=fairseq": {
        "input_ids": np.arange(4000).reshape(8, -1)
    },
    "/relative/alibi/bias?num_heads=8": {
        "attention_mask": (np.arange(80000) % 7 > 0).reshape(8, -1)
    },
    "/relative/kerple/bias?query_len=600": {"a": normal(8) ** 2 + 1, "p": normal(8) ** 2 % 1 + 0.5},
    "/relative/shaw/embeddings?query_len=400": {"weight": normal(41, 64)},
    "/relative/swin/bias?window_size=32,32": {"weight": normal(63 * 63, 8)},
    "/relative/t5/bias?query_len=900&key_len=900": {"weight": normal(32, 8)},
    "/relative/transformer-xl/shift": {"x": normal(8, 600, 601)},
    "/rope/apply?start=3": {"x": normal(8, 500, 128)},
    "/rope?head_dim=128": {"positions": np.arange(40000).reshape(4, -1) % 701},
    "/rope?head_dim=128&pack=half": {"positions": np.arange(40000).reshape(4, -1) % 701 / 3},
    "/rope?head_dim=128&rope_theta=500": {"positions": np.arange(4000) * 2**30},
    "/rope?head_dim=128&mrope_section=16,24,24": {
        "positions": np.arange(30000).reshape(3, 2, -1) * 59 % 701
    },
    "/encoding?d_model=512": {"positions": np.arange(8000).reshape(2, -1) % 101},
}


def answered(endpoint: Endpoint, form: ReadableFormat, query: str, sent: bytes) -> float:
    """Answer a POST, and return its estimated seconds."""
    request = RepresentationRequest(default=form)
    job = Job(endpoint.path, endpoint.path, query.encode(), request, form.media_type)
    planned = read_post(endpoint, job, parse_query(job.query), form, sent).plan(default_settings())
    estimate = reading_seconds(form, len(sent))
    estimate += endpoint.inputs.seconds_of(form.count_elements(sent))
    if isinstance(planned, Plan):
        written = planned.representation
        estimate += written.seconds() + written.document.setup_seconds
        list(written.body.blocks())
    return estimate


def ratios_of_answers(answer: Callable[[], float]) -> Iterator[float]:
    while True:
        begin = thread_time()
        estimate = answer()
        yield estimate * pace() / (thread_time() - begin)


@pytest.mark.parametrize("url", POSTED)
def test_estimated_seconds_of_a_posted_request_are_near_the_measured(url: str) -> None:
    path, _, query = url.partition("?")
    endpoint = ENDPOINTS[path]
    sent = save({name: np.ascontiguousarray(each) for name, each in POSTED[url].items()})
    answer = partial(answered, endpoint, SAFETENSORS, query, sent)

    assert 1 / FACTOR <= nearest(ratios_of_answers(answer)) <= FACTOR


@pytest.mark.parametrize("head_dim", [4, 128, 512])
def test_estimated_seconds_of_a_config_are_near_the_measured(head_dim: int) -> None:
    assert isinstance(CONFIG.inputs, JsonObject)
    sent = orjson.dumps({**CONFIG.inputs.example, "head_dim": head_dim})

    assert (
        1 / FACTOR
        <= nearest(ratios_of_answers(partial(answered, CONFIG, JSON, "", sent)))
        <= FACTOR
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=300&d_model=512",
        "/rope?head_dim=128&seq_len=900&pack=flat",
        "/encoding/curves?seq_len=2000&d_model=64&dimensions=0:32",
    ],
)
@pytest.mark.parametrize("extension", ["png", "json", "csv"])
@pytest.mark.parametrize("coding", ["", "gzip"])
def test_estimated_seconds_of_a_format_are_near_the_measured(
    url: str, extension: str, coding: str
) -> None:
    request = RepresentationRequest(extension, accept_encoding=coding)
    written = represent(read_url(url).document, request)
    list(written.body.blocks())

    def ratios() -> Iterator[float]:
        while True:
            yield written.seconds() * pace() / seconds_of(lambda: list(written.body.blocks()))

    assert 1 / FACTOR <= nearest(ratios()) <= FACTOR


@pytest.mark.parametrize("url", EXAMPLES)
def test_every_family_says_its_seconds(url: str) -> None:
    document = read_url(url).document

    assert document.seconds > 0
    assert document.setup_seconds >= 0
    assert document.seconds + document.setup_seconds < TURN_SECONDS


@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=1&d_model=4096&base=71",
        "/relative/alibi?num_heads=2048&query_len=1&alibi_bias_max=7",
        "/relative/similarity?d_model=8192&offsets=0:2&base=73",
        "/rope?head_dim=128&seq_len=2&xpos=query&xpos_scale_base=79",
    ],
)
def test_a_long_setup_is_cut_into_steps_with_empty_blocks(url: str) -> None:
    document = read_url(url).document
    (table,) = document.arrays.values()

    blocks = list(body(document).blocks())

    assert blocks.count(b"") > 1
    assert b"".join(blocks) == table.read(0, size(table)).tobytes()


@pytest.mark.parametrize(
    ("family", "query", "name", "array"),
    [
        (AlibiBias, {"num_heads": 2047}, "attention_mask", np.ones((1, 2), dtype=np.int64)),
        (KerpleBias, {"convention": "nemo", "query_len": 1}, "a", np.ones(2049)),
        (MaskedGridEncoding, {"d_model": 64, "normalize": True}, "valid_mask", np.tri(255) > 0),
    ],
)
def test_a_long_setup_of_a_posted_request_is_cut_into_steps(
    family: type[ComposedFamily], query: dict[str, object], name: str, array: Elements
) -> None:
    sent = StoredTable(array, FLOAT64 if array.dtype == np.float64 else INT64)
    document = family.model_validate(query).document({name: sent})

    assert list(body(document).blocks()).count(b"") > 1


@pytest.mark.parametrize("extension", ["bin", "json", "csv"])
@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=20&d_model=8192&base=81",
        "/encoding/curves?seq_len=2000&d_model=8192&dimensions=4,5&base=82",
        "/encoding/timesteps?timesteps=0.5,1.5,2.5,3.5&d_model=32768&max_period=83",
        "/relative/transformer-xl?d_model=4096&key_len=60&base=86",
        "/relative/similarity?d_model=8192&offsets=0:500&base=84",
        "/rope?head_dim=8192&seq_len=20&pack=concat&rope_theta=85",
    ],
)
def test_a_setup_is_cut_into_steps_again_where_the_caches_lose_it_within_a_table(
    url: str, extension: str
) -> None:
    document = read_url(url).document
    form = FORMATS[extension]
    assert form.refusal(document) is None
    expected = b"".join(form.body(document).blocks())

    taken, steps = [], [0]
    for block in form.body(document).blocks():
        steps[-1] += not block
        # Brackets need no setup.
        if len(block) > 2:
            steps.append(0)
            shrink_shared(0)
        taken.append(bytes(block))

    assert b"".join(taken) == expected
    assert len(steps) > 2
    assert min(steps[1:-1]) >= 1


def test_a_read_ends_that_needs_more_setups_than_the_caches_hold() -> None:
    positions = "positions=20000000000,60000000000"
    url = f"/rope?head_dim=512&{positions}&xpos=query&xpos_scale_base=987654321"
    document = read_url(url).document
    whole = list(body(document).blocks())
    shrink_shared(0)

    taken = []
    for block in body(document).blocks():
        shrink_shared(0)
        taken.append(bytes(block))

    assert b"".join(taken) == b"".join(whole)
    assert whole.count(b"") > 10
    assert taken.count(b"") < 3 * whole.count(b"")


@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=4&d_model=65536",
        "/encoding?seq_len=20&d_model=20000&dtype=float16",
        "/encoding?seq_len=500&d_model=771",
        "/encoding?positions=0:400:9&d_model=20000",
        "/relative?d_model=20000&offset=5",
        "/relative?d_model=100&offsets=0:50",
        "/rope?head_dim=40000&seq_len=8&pack=concat&dtype=float64",
    ],
)
def test_no_row_is_computed_for_two_blocks(url: str) -> None:
    (table,) = read_url(url).document.arrays.values()
    row_bytes = table.shape[-1] * table.dtype.itemsize_bytes

    blocks = list(islice(filter(None, BinaryBody((table,)).blocks()), 9))

    assert len(blocks) > 1
    assert all(len(block) % row_bytes == 0 for block in blocks)


@pytest.mark.full
@pytest.mark.parametrize("url", [*EXAMPLES, *STRETCHED, *WIDE])
def test_a_block_takes_about_a_turn_at_most(url: str) -> None:
    document = read_url(url).document
    list(body(document).blocks())
    forms = [FORMATS[extension] for extension in ("bin", "safetensors", "json", "csv")]
    bodies = [form.body(document) for form in forms if form.refusal(document) is None]

    assert bodies
    for each in bodies:
        assert min(longest_block(each) for _ in range(ATTEMPTS)) <= FACTOR
