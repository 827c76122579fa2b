"""``GET /describe``: a table by its URL, its columns, and the windows of its numbers."""

from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from service.encodings.absolute.conventions import CONVENTIONS as SINUSOIDS
from service.encodings.absolute.conventions import NAMES
from service.encodings.registry import TABLES
from service.encodings.rotary.angles import CONSUMERS, PACKS
from service.encodings.rotary.axial_conventions import CONVENTIONS as AXIAL
from service.encodings.rotary.rules import RULES
from service.errors import PosrefError
from service.numerics.dtypes import REAL_DTYPES, DType, to_float64
from service.numerics.tables import size
from service.routes import RESOURCES
from service.routes.description import DescribeParameters, describe
from service.routes.table_urls import read_url
from service.settings import default_settings
from tests.client import Client

ROPE = "/rope?head_dim=12"
M_ROPE = f"{ROPE}&mrope_section=2,2,2"
SCORES = "query_len=5&query_start=3&key_len=9"

URLS = [
    *(f"{path}?{RESOURCES[path].example}" for path in TABLES),
    *(f"/encoding?convention={name}&{SINUSOIDS[name].example}" for name in SINUSOIDS),
    *(
        f"/encoding?convention={name}&seq_len=9&d_model=7&max_resolution=8"
        for name in ("perceiver",)
    ),
    *(f"/encoding?convention={name}&seq_len=9&d_model=8" for name in NAMES if name != "perceiver"),
    *(f"/rope?rope_type={rule.rope_type}&seq_len=9&{rule.example}" for rule in RULES),
    *(f"{ROPE}&seq_len=7&pack={pack}&dtype=float32" for pack in (*PACKS, *CONSUMERS)),
    *(f"{ROPE}&seq_len=7&pack={pack}&part=sin" for pack in ("half", "compact", "interleaved")),
    *(f"/rope/axial?convention={name}&{known.example}" for name, known in AXIAL.items()),
    *(f"/rope/axial/frequencies?convention={name}&head_dim=48" for name in ("pixtral", "ltx")),
    "/rope/axial?convention=allegro&head_dim=12&grid=1,2,2&pack=half",
    "/rope/axial?convention=llama4&head_dim=12&grid=3,2&class_token=last&pack=concat",
    "/rope/axial?convention=qwen2_vl&head_dim=8&grid=2,4,2&spatial_merge_size=2&batch=true",
    f"{ROPE}&seq_len=9&xpos=query",
    f"{ROPE}&positions=3:9&xpos=key&pack=half&dtype=float64",
    f"{ROPE}&seq_len=9&batch=true&pack=complex&dtype=float64",
    f"{ROPE}&seq_len=9&rope_type=yarn&factor=4&original_max_position_embeddings=8&dtype=bfloat16",
    f"{ROPE}&seq_len=4&seqlen_offsets=3,9,27&pack=concat",
    f"{ROPE}&cu_seqlens=0,3,7&pack=concat",
    f"{ROPE}&positions=0,5,9:20:2",
    f"{ROPE}&positions=9:0:-3",
    f"{ROPE}&positions=7,7,7",
    f"{ROPE}&positions=0.5,2",
    f"{ROPE}&start=9007199254740992&seq_len=6",
    f"{ROPE}&seq_len=6&angle=float32",
    f"{ROPE}&max_position_embeddings=6",
    "/rope?inv_freq=1,0.1&seq_len=3",
    f"{M_ROPE}&seq_len=5",
    f"{M_ROPE}&grid=2,2,3",
    f"{M_ROPE}&positions_t=0,1&positions_h=0,4&positions_w=2,5",
    f"{ROPE}&mrope_layout=hunyuan_vl&mrope_section=3,2,1&grid=2,2,2&pack=half",
    *(f"/encoding?d_model=6&seq_len=6&dtype={name}" for name in ("float16", "bfloat16", "float64")),
    "/encoding?d_model=5&seq_len=6&batch=true",
    "/encoding?convention=xglm&seq_len=7&d_model=1",
    "/encoding/timesteps?num_timesteps=3&d_model=1",
    "/encoding?d_model=6&positions=0.5,2",
    "/encoding?convention=fairseq&d_model=6&start=2&seq_len=6",
    "/encoding/curves?d_model=6&positions=1,5",
    "/encoding/curves?d_model=6&seq_len=9&dimensions=1,5",
    "/encoding/timesteps?num_timesteps=7&d_model=5&flip_sin_to_cos=true",
    "/encoding/grid?convention=mae&height=2&width=3&d_model=8&cls_token=true",
    "/encoding/grid?convention=detr&height=2&width=3&d_model=8",
    "/encoding/grid?convention=detr&height=2&width=3&d_model=8&channels_first=false",
    "/encoding/grid?convention=tensor2tensor&depth=2&height=2&width=3&d_model=12",
    "/encoding/grid?convention=timm&height=2&width=3&d_model=8&reverse_coord=true",
    "/relative?d_model=4&offsets=-3:4",
    "/relative?d_model=4&offset=3&layout=concatenated",
    "/relative/similarity?d_model=64&offsets=-300:300:2",
    *(
        f"/relative/alibi?num_heads=3&convention={name}&{SCORES}"
        for name in ("original", "paper", "x-transformers", "mlx")
    ),
    *(
        f"/relative/alibi?num_heads=3&convention={name}&key_len=9&key_start=2&total_heads=5"
        for name in ("bloom", "mpt", "keras-hub")
    ),
    f"/relative/alibi?num_heads=3&head=2&masked=true&{SCORES}",
    f"/relative/alibi?num_heads=1&{SCORES}",
    "/relative/t5?query_positions=1,7,9:20:3&key_positions=9:0:-1&dtype=int64",
    f"/relative/t5?{SCORES}",
    f"/relative/deberta?{SCORES}&bucket_size=4&max_position=12",
    f"/relative/shaw?{SCORES}&max_relative_position=2&descending=true&max_after=1",
    f"/relative/fire?{SCORES}&threshold=4",
    *(
        f"/relative/kerple?convention={name}&a=1,2&p=1&{SCORES}"
        for name in ("log", "power", "nemo")
    ),
    f"/relative/sandwich?num_heads=3&head_dim=8&{SCORES}",
    "/relative/swin?window_size=2,3&class_token=true",
    "/relative/swin-v2?window_size=3,4",
    "/relative/xlnet?d_model=5&query_len=3&key_len=4&bi_data=true&clamp_len=2",
    "/relative/transformer-xl?d_model=6&key_len=9007199254740992&clamp_len=5",
    "/relative/conformer?d_model=6&seq_len=5",
    "/relative/dynamic?seq_len=5",
    "/attention/temperature?convention=ministral3&original_max_position_embeddings=4&seq_len=9",
    "/attention/temperature?seq_len=3&seqlen_offsets=0,8190",
    "/resize?old_size=4&size=6&mode=bicubic",
    "/resize?old_size=4,5&size=6,7&mode=bilinear&part=gather",
    "/resize?old_size=4&size=6&mode=bilinear&part=dense",
    "/resize?old_size=4&size=6&mode=bilinear&exact=true",
    "/resize?old_size=7&size=10&convention=dino",
    "/rope/permutation?head_dim=8&num_attention_heads=2&num_key_value_heads=1",
    "/rope/frequencies?head_dim=8&rope_type=yarn&factor=4&original_max_position_embeddings=64",
]
EVERY = pytest.mark.parametrize("url", URLS)

CLAMPED = "/relative/transformer-xl?d_model=8&clamp_len=4"


def described(url: str) -> dict[str, Any]:
    return describe(DescribeParameters(url=url), default_settings()).content()


def numbers(url: str, start: int = 0, stop: int | None = None) -> Any:
    """Return the elements of the single array of a URL, as its format .bin has them."""
    (table,) = read_url(url).document.arrays.values()
    return np.asarray(table.read(start, size(table) if stop is None else stop))


def matrices(known: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield the URL of each matrix, its number among those of one file, and its part."""
    view = known["view"]
    leading, parts = view["leading"], view["parts"] or [""]
    for part, number in product(parts, range(int(leading["count"]) if leading else 1)):
        url = view["url"] + (f"&part={part}" if part else "")
        if leading and leading["parameter"]:
            yield f"{url}&{leading['parameter']}={places(leading)[number]}", 0, part
        else:
            yield url, number, part


def places(axis: dict[str, Any]) -> list[str]:
    """Return the text of each place along an axis that a request selects."""
    if axis["values"]:
        return [
            str(place)
            for item in axis["values"].split(",")
            for place in (range(*map(int, item.split(":"))) if ":" in item else [item])
        ]
    first, step = int(axis["first"]), int(axis["step"])
    return [str(first + step * index) for index in range(int(axis["count"]))]


def whole(known: dict[str, Any], url: str, number: int) -> Any:
    """Return the matrix at a URL that selects all of its rows and columns."""
    view = known["view"]
    rows, columns = int(view["rows"]["count"]), int(view["columns"]["count"])
    for axis in (view["rows"], view["columns"]):
        if axis["parameter"]:
            url += f"&{axis['parameter']}={','.join(places(axis))}"
    return numbers(url)[number * rows * columns :][: rows * columns].reshape(rows, columns)


@EVERY
def test_the_canonical_url_has_the_same_numbers_and_the_same_description(url: str) -> None:
    known = described(url)

    tables = read_url(url).document.arrays, read_url(known["url"]).document.arrays

    for name, table in tables[0].items():
        stop = min(size(table), 5000)
        assert np.asarray(table.read(0, stop)).tobytes() == tables[1][name].read(0, stop).tobytes()
    again = described(known["url"])
    assert {**again, "entry": None} == {**known, "entry": None}


def test_the_order_of_the_tokens_of_a_grid_is_told() -> None:
    query = "height=2&width=3&d_model=8"
    by_rows, by_columns, neither = (
        described(f"/encoding/grid?convention={name}&{query}")["view"]
        for name in ("mae", "moco-v3", "moco-v3&cls_token=true")
    )

    assert (by_rows["grid"], by_rows["is_by_columns"]) == ([2, 3], False)
    assert (by_columns["grid"], by_columns["is_by_columns"]) == ([3, 2], True)
    assert (neither["grid"], neither["is_by_columns"]) == (None, False)


@EVERY
def test_matrices_have_the_numbers_of_the_table(url: str) -> None:
    known, arrays = described(url), read_url(url).document.arrays
    view = known["view"]
    if int(view["rows"]["count"]) > 1000:
        return

    made: dict[str, list[Any]] = {}
    for place, number, part in matrices(known):
        made.setdefault(part, []).append(whole(known, place, number))

    for part, several in made.items():
        shown = part or next(iter(arrays))
        table = arrays[shown]
        expected = np.asarray(table.read(0, size(table))).view(several[0].dtype)
        if known["axes"][-1] == "coordinate":
            expected = expected.reshape(-1, 2).T
        if known["axes"][0].startswith("channel("):
            expected = expected.reshape(several[0].shape[1], -1).T
        assert np.concatenate(several).tobytes() == np.ascontiguousarray(expected).tobytes()


@EVERY
def test_a_window_has_the_bytes_of_the_same_rows_and_columns_of_the_whole_matrix(url: str) -> None:
    known = described(url)
    view = known["view"]
    if int(view["rows"]["count"]) > 1000:
        return
    for place, number, _ in matrices(known):
        matrix = whole(known, place, number)
        chosen, selected = [], place
        for axis, count in zip((view["rows"], view["columns"]), matrix.shape, strict=True):
            some = slice(min(1, count - 1), None, 2) if axis["parameter"] else slice(None)
            chosen.append(some)
            if axis["parameter"]:
                selected += f"&{axis['parameter']}={','.join(places(axis)[some])}"
        window = matrix[tuple(chosen)]
        start = number * window.size

        assert numbers(selected, start, start + window.size).tobytes() == window.tobytes()


@EVERY
def test_rows_by_range_are_rows_of_the_view_where_nothing_is_selected(url: str) -> None:
    view = described(url)["view"]
    if view["rows"]["parameter"] or view["columns"]["parameter"]:
        return
    leading = view["leading"] or {"parameter": None}
    place, _, _ = next(matrices({"view": view}))
    count = 1 if leading["parameter"] else int(leading.get("count", 1))

    (table,) = read_url(place).document.arrays.values()

    assert size(table) == count * int(view["rows"]["count"]) * int(view["columns"]["count"])
    assert table.dtype.name == view["dtype"]


@pytest.mark.parametrize(
    ("url", "axis", "name", "values"),
    [
        (
            "/encoding/curves?d_model=64&seq_len=9&dimensions=4,9,10",
            "columns",
            "dimension",
            "4,9,10",
        ),
        (f"{CLAMPED}&key_len=8", "rows", "position", "4,4,4,4,3:-1:-1"),
        (f"{CLAMPED}&key_len=9007199254740992", "rows", "row", None),
    ],
)
def test_axis_that_no_parameter_selects_states_its_places_or_counts_rows(
    url: str, axis: str, name: str, values: str | None
) -> None:
    known = described(url)["view"][axis]

    assert (known["axis"], known["values"], known["parameter"]) == (name, values, None)


@EVERY
def test_numbers_lie_in_the_value_range(url: str) -> None:
    known = described(url)
    if known["value_range"] is None or int(known["view"]["rows"]["count"]) > 1000:
        return
    (low, high), tables = known["value_range"], read_url(url).document.arrays
    for table in tables.values():
        elements = np.asarray(table.read(0, size(table)))
        if elements.dtype.kind == "c":
            elements = elements.view(f"f{elements.itemsize // 2}")
        values = elements if elements.dtype.kind == "i" else to_float64(elements, table.dtype)
        assert low <= values.min()
        assert values.max() <= high


@EVERY
def test_columns_are_the_sines_and_cosines_of_their_frequencies(url: str) -> None:
    known = described(url)
    view = known["view"]
    if not known["channels"]:
        return
    columns = np.zeros(int(view["columns"]["count"]), dtype=int)
    for run in known["channels"]:
        columns[run["start"] :: run["step"]][: run["count"]] += 1
    assert (columns == 1).all()
    if not view["is_even"] or abs(int(view["rows"]["first"])) > 1000:
        return
    frequencies = numbers(f"{known['frequencies']}&part={_first(known['frequencies'])}")
    at = np.array(places(view["rows"]), dtype=float) + known["parameters"].get("offset", 0)
    _, high = known["value_range"]
    for place, number, part in matrices(known):
        matrix = to_float64(whole(known, place, number), _dtype(view["dtype"]))
        for run in known["channels"]:
            pairs = run["pair"] + run["pair_step"] * np.arange(run["count"])
            wave = np.cos if (part or run["part"]) == "cos" else np.sin
            expected = high * wave(np.outer(at, frequencies[pairs]))
            own = matrix[:, run["start"] :: run["step"]][:, : run["count"]]
            is_negated = "bi_data=true" in url and run["part"] == "sin"
            close = np.abs(own) - np.abs(expected) if is_negated else own - expected
            assert np.abs(close).max() < 1e-2


def _first(url: str) -> str:
    return next(iter(read_url(url).document.arrays))


def _dtype(name: str) -> DType:
    return REAL_DTYPES[name]


@EVERY
def test_every_format_can_be_requested(url: str, client: Client) -> None:
    known = described(url)
    assert known["formats"]
    for form in known["formats"]:
        answer = client.head(form["url"])
        assert (answer.status_code, answer.headers["content-type"]) == (200, form["media_type"])
    for name in ("frequencies", "unscaled_frequencies"):
        if known[name] is not None:
            assert client.get(known[name]).status_code == 200


@EVERY
def test_every_array_has_its_own_axes_and_url(url: str) -> None:
    known, document = described(url), read_url(url).document

    for own in known["arrays"]:
        (alone,) = described(own["url"])["arrays"]
        assert {**alone, "url": own["url"]} == own
        (table,) = read_url(own["url"]).document.arrays.values()
        assert [own["shape"], own["dtype"]] == [[*table.shape], table.dtype.name]
        assert len(own["axes"]) == len(own["shape"])
        assert document.arrays[own["name"]].shape == table.shape
    assert known["axes"] == known["arrays"][0]["axes"]


@pytest.mark.parametrize(
    ("query", "axes"),
    [
        ("old_size=4&size=6&mode=bicubic", ["place", "tap"]),
        ("old_size=4&size=6&mode=bicubic&part=width_weight", ["place", "tap"]),
        ("old_size=4,5&size=6,7&mode=bilinear&part=gather", ["place", "tap"]),
        ("old_size=4&size=6&mode=bilinear&part=dense", ["place", "old place"]),
        ("old_size=7&size=10&convention=sam_rel_pos&part=gather", ["query", "key", "tap"]),
    ],
)
def test_columns_of_a_resize_are_taps_or_old_places(query: str, axes: list[str]) -> None:
    known = described(f"/resize?{query}")

    assert known["axes"] == axes
    assert known["view"]["columns"]["axis"] == axes[-1]


def test_directions_of_xlnet_are_told_apart() -> None:
    known = described("/relative/xlnet?d_model=8&query_len=3&key_len=3&bi_data=true")

    assert [(each["part"], each["start"], each["axis"]) for each in known["channels"]] == [
        ("sin", 0, "position"),
        ("cos", 4, "position"),
        ("sin", 8, "negated position"),
        ("cos", 12, "negated position"),
    ]
    some = described("/relative/xlnet?d_model=8&query_len=3&key_len=3&bi_data=true&channels=0:4")
    assert some["channels"] is None


def test_answer_is_cached_by_its_tag(client: Client) -> None:
    url = f"/describe?url={quote(URLS[0], safe='')}"
    answer = client.get(url)

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "private, max-age=86400"
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    known = client.get(url, If_None_Match=answer.headers["etag"])
    assert (known.status_code, known.content) == (304, b"")
    head = client.head(url)
    assert head.headers["content-length"] == str(len(answer.content))
    text = client.get(url, Accept="text/plain")
    assert text.headers["content-type"].startswith("text/plain")
    assert text.headers["etag"] != answer.headers["etag"]
    assert client.post(url).status_code == 405


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("/compare", "/compare is a report, which is no table"),
        ("/model", "/model is made of what is POSTed to a server"),
        ("/livez", "There is no table at /livez"),
        ("/openapi.json", "There is no table at /openapi"),
    ],
)
def test_what_is_no_table_is_not_denied(url: str, rule: str, client: Client) -> None:
    answer = client.get(f"/describe?url={url}")

    assert answer.status_code == 404
    assert answer.json()["detail"].startswith(rule)


@pytest.mark.parametrize(
    "url",
    ["/rope?head_dim=5", "/nothing?x=1", "/rope?head=3", "/encoding.foo?d=1", "/rope?revision=9"],
)
def test_an_error_is_that_of_the_url(url: str, client: Client) -> None:
    answer = client.get(f"/describe?url={quote(url, safe='')}")
    with pytest.raises(PosrefError) as error:
        read_url(url).document  # noqa: B018

    assert answer.json()["detail"] == error.value.detail
    assert answer.status_code == client.get(url).status_code


@pytest.mark.parametrize(
    ("url", "unit"),
    [
        ("/rope?head_dim=8&seq_len=4", "position"),
        ("/encoding?convention=perceiver&seq_len=9&d_model=7&max_resolution=8", "coordinate"),
        ("/rope/axial?convention=dinov3&head_dim=64&grid=3,5", "coordinate"),
        ("/rope/axial/frequencies?convention=dinov3&head_dim=64", "coordinate"),
        ("/encoding/grid?convention=mae&height=2&width=3&d_model=8", "coordinate"),
    ],
)
def test_frequencies_multiply_positions_or_coordinates(url: str, unit: str) -> None:
    assert described(url)["turns_by"] == unit


def test_rows_with_a_position_along_each_axis_are_tokens() -> None:
    for rows in ("grid=1,4,6", "positions_t=0,1&positions_h=0,4&positions_w=2,5"):
        description = described(f"{M_ROPE}&{rows}&pack=concat")

        assert description["axes"] == ["token", "channel"]
        assert description["view"]["rows"]["axis"] == "token"
    assert described(f"{M_ROPE}&seq_len=6&pack=concat")["axes"] == ["position", "channel"]
