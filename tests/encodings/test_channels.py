"""``channels=`` returns columns of any table with an axis of channels, bit for bit."""

import re
from io import BytesIO

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load

from service.formats import FORMATS
from service.numerics.dtypes import Elements
from service.numerics.phasors import PhasorTable
from service.numerics.positions import Positions
from service.numerics.tables import Table, size
from service.routes import RESOURCES
from service.routes.table_urls import read_url
from tests.client import Client, load_npy

WIDTH = 16
TABLES = [
    "/encoding?seq_len=10&d_model=16",
    "/encoding?seq_len=10&d_model=16&batch=true&layout=concatenated&dtype=bfloat16",
    "/encoding?positions=0.5,1.5,7&d_model=16&dtype=float64",
    "/encoding?positions=9:0:-2,4&d_model=16&convention=fairseq",
    "/encoding?seq_len=5&d_model=17&convention=fairseq",
    "/encoding?seq_len=5&d_model=17&convention=perceiver&max_resolution=10",
    "/encoding/grid?convention=mae&height=3&width=4&d_model=16",
    "/encoding/grid?convention=detr&height=3&width=4&d_model=16",
    "/encoding/grid?convention=detr&height=1&width=1&d_model=16",
    "/encoding/timesteps?timesteps=0,2.5,999&d_model=16",
    "/encoding/timesteps?num_timesteps=5&d_model=17&scale=-3",
    "/relative/conformer?d_model=16&seq_len=4",
    "/relative/transformer-xl?d_model=16&key_len=6&clamp_len=2",
    "/relative/xlnet?d_model=16&query_len=2&key_len=3&bi_data=true",
    "/relative/xlnet?d_model=15&query_len=2&key_len=3",
    "/rope?head_dim=16&seq_len=5&pack=flat&dtype=float16",
    "/rope?head_dim=16&seqlen_offsets=0,7&seq_len=3&pack=concat",
    "/rope?head_dim=16&seq_len=5&pack=sin_concat&angle=float32",
    "/rope?head_dim=32&seq_len=5&pack=compact",
    "/rope?head_dim=32&seq_len=5&pack=angle",
    "/rope?head_dim=16&seq_len=5&pack=half&part=sin&rope_type=linear&factor=4",
    "/rope?head_dim=16&seq_len=5&pack=interleaved&xpos=query",
    "/rope?head_dim=8&seq_len=5&pack=half_concat",
    "/rope?head_dim=16&grid=2,5,10&mrope_section=2,3,3&pack=flat",
    "/rope/axial?convention=qwen2_vl&grid=4,4&head_dim=16&pack=half",
    "/rope/axial?convention=allegro&grid=2,4,4&head_dim=48&pack=half_by_axis",
]
HUGE = "/encoding?start=4611686018427387000&seq_len=5&d_model=65536"


def elements(table: Table) -> Elements:
    return table.read(0, size(table)).reshape(table.shape)


@st.composite
def selections(draw: st.DrawFn) -> str:
    """Draw channels and ranges of the first WIDTH channels, in any order and repeated."""
    items = []
    for _ in range(draw(st.integers(1, 5))):
        first, last = draw(st.integers(0, WIDTH - 1)), draw(st.integers(0, WIDTH - 1))
        step = draw(st.integers(1, 5)) * (1 if last >= first else -1)
        items += [str(first), f"{first}:{last + (1 if last >= first else -1)}:{step}"]
    return ",".join(items[:: draw(st.sampled_from([1, 2]))])


@pytest.mark.parametrize("url", TABLES)
@given(selection=selections(), cut=st.integers(0, 200))
def test_selected_channels_are_the_columns_of_the_whole_table(
    url: str, selection: str, cut: int
) -> None:
    whole, chosen = read_url(url).document, read_url(f"{url}&channels={selection}").document
    axis, columns = whole.channel_axis, expanded(selection)
    assert axis is not None

    for name, table in chosen.arrays.items():
        expected = elements(whole.arrays[name]).take(columns, axis=axis)
        assert table.shape == expected.shape
        assert elements(table).tobytes() == expected.tobytes()
        cut = min(cut, size(table))
        parts = [table.read(0, cut), table.read(cut, size(table))]
        assert np.concatenate(parts).tobytes() == expected.tobytes()


def expanded(selection: str) -> list[int]:
    """Return the channels of a selection."""
    parts = [[*map(int, item.split(":")), 1] for item in selection.split(",")]
    return [
        channel
        for part in parts
        for channel in (range(part[0], part[1], part[2]) if len(part) > 2 else part[:1])
    ]


def test_every_table_with_an_axis_of_channels_has_the_parameter_and_no_other() -> None:
    for path, resource in RESOURCES.items():
        is_packed = "pack" in resource.parameters.model_fields
        pack = "&pack=flat" if is_packed else ""
        document = read_url(f"{path}?{resource.example}{pack}").document
        has_channels = document.channel_axis is not None
        assert has_channels == ("channels" in resource.parameters.model_fields), path
        if has_channels:
            chosen = read_url(f"{path}?{resource.example}{pack}&channels=0").document
            lengths = {table.shape[chosen.channel_axis or 0] for table in chosen.arrays.values()}
            assert lengths == {1}


def test_few_channels_of_wide_rows_cost_what_they_are() -> None:
    document = read_url(f"{HUGE}&channels=65535,0:65536:1024").document

    (table,) = document.arrays.values()
    assert isinstance(table, PhasorTable)
    assert table.rule.count <= 65
    whole = read_url(HUGE).document
    columns = [65535, *range(0, 65536, 1024)]
    (every,) = whole.arrays.values()
    assert elements(table).tobytes() == elements(every)[:, columns].tobytes()
    assert document.seconds < whole.seconds / 100


@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=6&d_model=16",
        "/encoding/grid?convention=mae&height=2&width=3&d_model=16",
        "/rope?head_dim=16&seq_len=6&pack=sin_interleaved_concat",
        "/relative/conformer?d_model=16&seq_len=4",
    ],
)
def test_every_format_has_the_selected_channels(client: Client, url: str) -> None:
    path, _, query = url.partition("?")
    whole = load_npy(client.get(f"{path}.npy?{query}"))
    expected = np.ascontiguousarray(whole[:, 2:15:3])

    def get(extension: str) -> bytes:
        answer = client.get(f"{path}.{extension}?{query}&channels=2:15:3")
        assert answer.status_code == 200
        assert answer.headers["array-shape"] == f"{len(whole)}, 5"
        assert re.fullmatch(r"[^,]+, channel", answer.headers["array-axes"])
        return answer.content

    content = orjson.loads(get("json"))
    assert content["shape"] == [len(whole), 5]
    assert content["parameters"]["channels"] == "2:15:3"
    assert np.array(content["data"], dtype=np.float32).tobytes() == expected.tobytes()
    assert np.array_equal(np.load(BytesIO(get("npy"))), expected)
    assert get("bin") == expected.tobytes()
    (tensor,) = load(get("safetensors")).values()
    assert tensor.tobytes() == expected.tobytes()
    rows = get("csv").decode().splitlines()
    assert [[*map(np.float32, row.split(","))] for row in rows] == expected.tolist()
    assert Image.open(BytesIO(get("png"))).width > 0
    assert {*FORMATS} == {"json", "npy", "bin", "safetensors", "csv", "png"}


def test_a_selection_is_a_table_of_its_own_with_tag_name_ranges_and_revision(
    client: Client,
) -> None:
    url = "/encoding.bin?seq_len=600&d_model=512"
    answer = client.get(f"{url}&channels=0:512:8")
    whole, same = client.get(url), client.get(f"{url}&channels=0,8,16:512:8")

    assert answer.headers["etag"] == same.headers["etag"] != whole.headers["etag"]
    assert "encoding_600x64_" in answer.headers["content-disposition"]
    assert client.head(f"{url}&channels=0:512:8").headers["content-length"] == str(600 * 64 * 4)
    part = client.get(f"{url}&channels=0:512:8", range="bytes=1001-9000")
    assert (part.status_code, part.content) == (206, answer.content[1001:9001])
    lasting = client.get(f"{url}&channels=0:512:8&revision=1")
    assert "immutable" in lasting.headers["cache-control"]
    known = client.get(f"{url}&channels=0:512:8", if_none_match=answer.headers["etag"])
    assert known.status_code == 304


def test_a_body_may_have_channels_as_a_list(client: Client) -> None:
    body = {"head_dim": 8, "seq_len": 3, "pack": "half", "channels": [7, "0:4:2"], "part": "cos"}
    answer = client.post("/rope.npy", json=body)
    url = "/rope.npy?head_dim=8&seq_len=3&pack=half&part=cos"

    expected = load_npy(client.get(url))[:, [7, 0, 2]]
    assert load_npy(answer).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("/encoding?seq_len=2&d_model=16&channels=16", "0 to 15, those of the table: 16 is none"),
        ("/encoding?seq_len=2&d_model=16&channels=3:-2:-1", "those of the table: -1 is none"),
        ("/encoding?seq_len=2&d_model=16&channels=", "not empty"),
        ("/encoding?seq_len=2&d_model=16&channels=5:5", "5:5 is empty"),
        ("/encoding?seq_len=2&d_model=16&channels=0:9:0", "has a step of 0"),
        ("/encoding?seq_len=2&d_model=16&channels=0-3", "is no range: write 0:4"),
        ("/encoding?seq_len=2&d_model=16&channels=1.0", "1.0 must be an integer"),
        ("/encoding?seq_len=2&d_model=16&channels=1,,2", "an item is empty"),
        ("/encoding?seq_len=2&d_model=16&channels=0:4611686018427387904", "at most 65536"),
        ("/encoding?seq_len=2&d_model=16&channels=0:4611686018427387905", "at most 65536"),
        ("/encoding?seq_len=2&d_model=16&channels=9223372036854775807", "must lie within ±2^62"),
        ("/encoding?seq_len=2&d_model=16&channels=" + "0:16," * 4097 + "0", "at most 65536"),
        ("/rope?seq_len=2&head_dim=16&channels=0", "pack=flat has the same numbers as channels"),
        ("/rope?seq_len=2&head_dim=16&pack=llama&channels=0", "pack=flat has the same numbers"),
        ("/rope?seq_len=2&head_dim=16&pack=compact&channels=8", "0 to 7, those of the table"),
        ("/relative/t5?query_len=2&channels=0", "channels is not a parameter here"),
        ("/encoding?seq_len=2&d_model=16&channel=0", "did you mean channels?"),
    ],
)
def test_other_channels_are_refused(client: Client, url: str, rule: str) -> None:
    answer = client.get(url)

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["parameter"] in {"channels", "channel"}
    assert rule in fault["detail"]


def test_the_numbers_of_channels_are_those_of_the_whole_table_in_reports(client: Client) -> None:
    url = "/encoding?seq_len=8&d_model=64&channels=0:64:8"
    array = elements(next(iter(read_url(url).document.arrays.values()))).copy()
    array[5, 3] += 0.5

    report = client.post("/compare", params={"to": url}, json={"x": array.tolist()}).json()
    refused = client.post("/diagnose", params={"to": url}, json={"x": array.tolist()})

    assert report["first_beyond"]["channel"] == 24
    assert report["first_beyond"]["index"] == [5, 3]
    assert [each["first"] for each in report["errors_by_channel"]] == [*range(0, 64, 8)]
    assert refused.status_code == 422
    assert "name the whole table" in refused.json()["errors"][0]["detail"]
    assert read_url(url).document.places["channel"] == Positions.of_integers(np.arange(0, 64, 8))
