"""What a person drops or pastes: arrays that are examined, and models that are read."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.system.explorer.browser import Tab
from tests.system.servers import Server

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload

pytestmark = pytest.mark.system

TABLE = "/rope?head_dim=64&seq_len=512&pack=concat&rope_theta=500000"
OMNI = {
    "model_type": "qwen2_5_omni_thinker",
    "text_config": {
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "rope_theta": 1000000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    },
    "vision_config": {"depth": 32, "embed_dim": 1280, "num_heads": 16},
    "audio_config": {"d_model": 1280},
}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "num_hidden_layers": 34,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "sliding_window": 1024,
}
PHI = {
    "model_type": "phi3",
    "hidden_size": 96,
    "num_attention_heads": 8,
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0, 1.0, 1.1, 1.2, 1.3, 1.4],
        "long_factor": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    },
}
DROP = """async ([name, bytes]) => {
  const data = new DataTransfer()
  data.items.add(new File([Uint8Array.from(bytes)], name))
  const event = {bubbles: true, cancelable: true, dataTransfer: data}
  document.querySelector("main h2").dispatchEvent(new DragEvent("drop", event))
}"""


def npy_of(server: Server, url: str, folder: Path) -> Path:
    path = folder / "mine.npy"
    path.write_bytes(server.get(url.replace("?", ".npy?", 1)).content)
    return path


@pytest.mark.parametrize(
    ("sent", "word", "row"),
    [(TABLE.replace("500000", "10000"), "500000", 1), (f"{TABLE}&start=1", "start", 0)],
)
def test_mistake_of_a_file_is_named_and_marked(
    sent: str, word: str, row: int, tab: Tab, server: Server, tmp_path: Path
) -> None:
    tab.open("/#view=file")
    tab.page.get_by_label("What it should be").fill(TABLE)

    tab.page.locator("input[type=file]").first.set_input_files(npy_of(server, sent, tmp_path))

    tab.page.locator(".verdict h1").wait_for()
    # The text is read once more when nobody has typed for a while.
    tab.settle()
    tab.wait_for("() => document.querySelector('main .map')?.heatmap.marks.length")
    marks = "() => document.querySelector('main .map').heatmap.marks.map(each => Number(each.row))"
    assert tab.value(marks) == [row]
    report = tab.page.locator(".report").inner_text()
    assert word in report
    links = [each.get_attribute("href") or "" for each in tab.page.locator(".call a").all()]
    assert any("rope_theta=500000" in link for link in links)
    assert all(server.request("HEAD", link).status_code == 200 for link in links)


def table(server: Server, url: str) -> NDArray[Any]:
    content = server.get(url.replace("?", ".npy?", 1)).content
    numbers: NDArray[Any] = np.load(BytesIO(content))
    return numbers


def examine(tab: Tab, folder: Path, array: NDArray[Any], expected: str) -> str:
    """Examine an array, and return the report and what is said around the map."""
    np.save(folder / "mine.npy", array)
    tab.page.get_by_label("What it should be").fill(expected)
    tab.page.locator("input[type=file]").first.set_input_files(folder / "mine.npy")
    tab.settle()
    text: str = tab.page.locator(".found").inner_text()
    return text


MARKS = """() => document.querySelector("main .map").heatmap.marks
  .map(({row, column, text}) => [Number(row), Number(column), text])"""


def test_file_is_compared_with_the_table_and_the_part_that_it_should_be(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    numbers = table(server, TABLE)
    cosines, sines = np.split(numbers, 2, axis=1)
    tab.open("/#view=file")

    named_otherwise = examine(tab, tmp_path, np.stack([cosines, sines], axis=-1), TABLE)
    assert "packed otherwise" in named_otherwise
    assert "largest difference" not in named_otherwise

    examine(tab, tmp_path, cosines + 1j * sines, TABLE)
    assert tab.value(MARKS) == []
    tab.page.get_by_role("button", name="Difference").wait_for()

    exchanged = examine(tab, tmp_path, np.hstack([sines, cosines]), TABLE)
    assert "Wrong from the start; at position 0, channel 0: 0 in place of 1." in exchanged
    assert tab.value(MARKS) == [[0, 0, "first wrong: position 0"]]

    angles = table(server, TABLE.replace("concat", "angle"))
    assert "Right angles" in examine(tab, tmp_path, angles, TABLE)
    wrong = np.where(np.arange(512)[:, np.newaxis] == 3, 7, numbers)
    assert "Not all right" in examine(tab, tmp_path, wrong, TABLE)

    assert "Right as far as it goes" in examine(tab, tmp_path, numbers[:300], TABLE)
    assert tab.page.locator(".call a").get_attribute("href") == TABLE


def test_exchanged_axes_have_neither_the_names_of_the_table_nor_marks(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    turned = table(server, TABLE).T
    tab.open("/#view=file")
    for expected in (TABLE, ""):
        assert "row ↓  column →" in examine(tab, tmp_path, turned, expected)
        assert tab.page.locator(".dial").is_hidden()
    assert "Transposed" in tab.page.locator(".verdict.doubt").inner_text()


READOUT = "() => document.querySelector('main .readout').innerText.replace(/\\s+/g, ' ')"


@pytest.mark.parametrize(
    ("expected", "index", "said", "readout"),
    [
        (
            "/encoding/grid?convention=detr&height=8&width=12&d_model=64",
            (40, 3, 5),
            "at channel 40, height 3, width 5:",
            "token 41 channel 40 File 7 Table 0.5646425 File − Table 6.435358",
        ),
        (
            "/relative/swin-v2?window_size=8,8",
            (3, 4, 1),
            "at dy −4, dx −3, coordinate 1:",
            "dy −4 dx −3 File 7 Table −0.7156138 File − Table 7.715614",
        ),
        (
            "/rope?head_dim=128&mrope_section=16,24,24&grid=1,4,6&pack=concat",
            (10, 5),
            "at token 10, channel 5:",
            "token 10 channel 5 File 7 Table 1 File − Table 6",
        ),
    ],
)
def test_difference_is_laid_out_as_the_table_is(
    expected: str,
    index: tuple[int, ...],
    said: str,
    readout: str,
    tab: Tab,
    server: Server,
    tmp_path: Path,
) -> None:
    wrong = table(server, expected)
    wrong[index] = 7
    tab.open("/#view=file")

    report = examine(tab, tmp_path, wrong, expected)
    tab.page.get_by_role("button", name="Difference").click()
    tab.wait_for_map()

    assert said in report
    assert "Not explained" not in report
    assert tab.value(READOUT) == readout
    most = "() => document.querySelector('main .map').heatmap.scale.high"
    assert tab.value(most) == abs(float(7 - float(table(server, expected)[index])))


def test_channels_of_a_fortran_array_are_where_they_belong(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    grid = "/encoding/grid?convention=detr&height=8&width=12&d_model=64"
    tab.open("/#view=file")

    examine(tab, tmp_path, np.asfortranarray(table(server, grid)), grid)
    tab.page.get_by_role("button", name="Difference").click()
    tab.wait_for_map()

    scale = "() => [...document.querySelector('main .map').heatmap.seen]"
    assert tab.value(scale) == [0, 0]


def test_a_part_along_an_inner_axis_has_no_difference(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    grid = "/encoding/grid?convention=detr&height=8&width=12&d_model=64"
    tab.open("/#view=file")

    examine(tab, tmp_path, table(server, grid)[:, :, :10], grid)

    assert tab.page.get_by_role("button", name="Table").count() == 1
    assert tab.page.get_by_role("button", name="Difference").count() == 0
    assert "row →" in tab.page.locator(".where").inner_text()


def test_buckets_of_the_other_direction_are_marked_in_the_colours_of_the_table(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    # They fit better with their axes exchanged, which is not their mistake.
    buckets = "/relative/t5?query_len=256&key_len=256"
    tab.open("/#view=file")

    sent = table(server, f"{buckets}&bidirectional=false")
    report = examine(tab, tmp_path, sent, buckets)

    assert "at query 0, key 1: 0 in place of 17." in report
    assert tab.value(MARKS) == [[0, 1, "first wrong: query 0"]]
    assert tab.value("() => document.querySelector('main .map').heatmap.scale.kind") == "index"
    assert tab.page.locator(".legend li").count() == len(np.unique(sent))


def test_matrices_of_heads_open_at_the_first_wrong_number(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    biases = "/relative/alibi?num_heads=12&query_len=16&key_len=16"
    numbers = table(server, biases)
    right = str(numbers[5, 10, 3]).replace("-", "−")
    numbers[5, 10, 3] = -7
    tab.open("/#view=file")

    report = examine(tab, tmp_path, numbers, biases)

    assert f"at head 5, query 10, key 3: −7 in place of {right}." in report
    assert tab.value(MARKS) == [[10, 3, "first wrong: query 10"]]
    readout = tab.page.locator(".readout")
    assert readout.inner_text().split() == ["query", "10", "key", "3", "−7"]
    head = tab.page.get_by_label("head")
    assert head.input_value() == "5"
    head.fill("6")
    head.press("Enter")
    tab.wait_for_map()
    assert tab.value(MARKS) == []
    assert readout.inner_text().split()[-1] == str(numbers[6, 10, 3]).replace("-", "−")


def test_numbers_of_a_file_are_written_in_its_own_type(
    new_tab: Callable[..., Tab], server: Server, tmp_path: Path
) -> None:
    frequencies = "/rope/frequencies?head_dim=128&part=inv_freq"
    numbers = table(server, frequencies).astype(np.float32)
    numbers[5] *= 1.5
    tab = new_tab(viewport={"width": 360, "height": 800})
    tab.open("/#view=file")

    report = examine(tab, tmp_path, numbers, frequencies)

    assert "Right up to pair 4; at pair 5: 0.7304513 in place of 0.4869675251658631." in report
    name = tab.page.locator(".call span").first
    assert name.evaluate("name => name.clientHeight") < 2 * 13


def test_nearest_table_says_how_many_numbers_agree(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    numbers = table(server, TABLE)
    numbers[:, 7] *= 1.01
    biases = table(server, "/relative/alibi?num_heads=12&query_len=16&key_len=16")
    biases[5, 10, 3] = -7
    tab.open("/#view=file")

    report = examine(tab, tmp_path, numbers, "")
    assert "98.4375 % of the numbers agree with it." in report
    assert tab.value(MARKS) == [[0, 7, "first wrong: position 0"]]

    report = examine(tab, tmp_path, biases, "")
    assert "99.96745 % of the numbers agree with it." in report
    assert tab.value(MARKS) == [[10, 3, "first wrong: query 10"]]


@pytest.mark.parametrize("wrong", [1, 3])
def test_right_numbers_of_another_arithmetic_are_not_marked_as_wrong(
    tab: Tab, server: Server, tmp_path: Path, wrong: int
) -> None:
    url = "/rope?head_dim=64&seq_len=64&start=1000000&pack=concat"
    numbers = table(server, f"{url}&angle=float32")
    numbers[37, 7 : 7 + wrong] += 0.5
    tab.open("/#view=file")

    report = examine(tab, tmp_path, numbers, url)

    assert "row 37" in report
    place = "position 1\N{THIN SPACE}000\N{THIN SPACE}037"
    assert tab.value(MARKS) == [[37, 7, f"first wrong: {place}"]]


@pytest.mark.parametrize("part", ["cos", "sin"])
def test_one_part_without_a_name_is_compared_with_that_part(
    tab: Tab, server: Server, tmp_path: Path, part: str
) -> None:
    url = "/rope?head_dim=64&seq_len=512&pack=half&rope_theta="
    tab.open("/#view=file")

    report = examine(tab, tmp_path, table(server, f"{url}10000&part={part}"), f"{url}500000")

    assert "Right up to position 0; at position 1, channel 1:" in report


def test_elements_without_a_header_have_the_shape_that_is_said(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "mine.bin"
    path.write_bytes(server.get(TABLE.replace("?", ".bin?", 1)).content)
    tab.open("/#view=file")
    tab.page.locator("input[type=file]").first.set_input_files(path)
    shape = tab.page.get_by_label("Shape")

    for text in ("512x64", "512 × 64"):
        shape.fill("512;64")
        shape.press("Enter")
        tab.role("alert").get_by_text("512 × 128").wait_for()
        shape.fill(text)
        shape.press("Enter")
        tab.page.locator(".verdict.good").wait_for()


def test_config_without_a_table_opens_as_a_model(tab: Tab, server: Server, tmp_path: Path) -> None:
    bert = {"model_type": "bert", "hidden_size": 64, "max_position_embeddings": 512}
    tab.open("/#view=file")
    examine(tab, tmp_path, table(server, TABLE), json.dumps(bert))
    tab.role("alert").wait_for()
    tab.expect_refusal(422)

    tab.page.get_by_role("button", name="Open in Model").click()

    tab.page.locator(".found h1").get_by_text("bert").wait_for()


def test_dropped_file_is_identified(tab: Tab, server: Server, tmp_path: Path) -> None:
    tab.open("/#view=file")
    tab.page.locator("main h2").first.wait_for()

    tab.value(DROP, ["mine.npy", list(npy_of(server, TABLE, tmp_path).read_bytes())])

    tab.page.locator(".verdict.good").wait_for()
    link = tab.page.locator(".call a").first.get_attribute("href") or ""
    assert (
        server.get(link.replace("?", ".bin?", 1)).content[-1024:]
        == (server.get(TABLE.replace("?", ".bin?", 1)).content[-1024:])
    )


def test_file_with_the_right_numbers_in_another_packing_is_not_called_right(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    pairs = TABLE.replace("concat", "pair")
    tab.open("/#view=file")
    tab.page.get_by_label("What it should be").fill(TABLE)

    tab.page.locator("input[type=file]").first.set_input_files(npy_of(server, pairs, tmp_path))

    verdict = tab.page.locator(".verdict.doubt")
    verdict.wait_for()
    assert "packed as pair" in verdict.inner_text()
    tab.page.get_by_role("button", name="Difference").wait_for()


def test_file_that_is_none_is_refused_in_words(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "broken.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00 broken")
    tab.open("/#view=file")

    tab.page.locator("input[type=file]").first.set_input_files(path)

    tab.role("alert").wait_for()
    assert len(tab.role("alert").inner_text()) > 20


def paste(tab: Tab, label: str, config: object) -> None:
    tab.page.get_by_label(label, exact=True).fill(json.dumps(config))


def test_pasted_model_shows_a_chart_for_each_kind_of_layer(tab: Tab, server: Server) -> None:
    tab.open("/#view=model")

    paste(tab, "Model", OMNI)

    tab.page.locator(".chart-card svg").nth(2).wait_for()
    assert tab.page.locator(".chart-card svg").count() == 3
    links = tab.page.locator(".found a").all()
    targets = {link.get_attribute("href") or "" for link in links}
    assert len(targets) >= 6
    page = {"Accept": "text/html"}
    failed = {each for each in targets if server.request("HEAD", each, **page).status_code != 200}
    assert failed == set()


def test_model_with_two_regimes_has_a_table_of_each(tab: Tab, server: Server) -> None:
    tab.open("/#view=model")

    paste(tab, "Model", PHI)

    tab.page.locator(".chart-card .name-1").get_by_text("up to 131\u202f072").wait_for()
    opened = [link.get_attribute("href") or "" for link in tab.page.get_by_text("Open up to").all()]
    described = [server.get(f"/describe?{urlencode({'url': each})}").json() for each in opened]
    assert [each["parameters"]["context_length"] for each in described] == [4096, 131072]
    assert [each["parameters"]["seq_len"] for each in described] == [4096, 131072]


def test_two_models_show_where_they_differ(tab: Tab) -> None:
    tab.open("/#view=model")
    paste(tab, "Model", GEMMA)
    tab.page.get_by_text("Compare with a second model").click()

    paste(tab, "Second model", {**GEMMA, "rope_theta": 500000.0})

    tab.page.get_by_text("Two models").wait_for()
    found = tab.page.locator(".found").inner_text()
    assert "rope_theta" in found
    assert "500000" in found
    assert "1000000" in found


def test_model_that_is_not_read_says_why(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open("/#view=model")

    paste(tab, "Model", {"model_type": "llama", "rope_theta": "many"})

    tab.role("alert").wait_for()
    assert "rope_theta" in tab.role("alert").inner_text()
    tab.settle()
    tab.complaints[:] = [each for each in tab.complaints if "status of 4" not in each]


KEEP_BODY = """const own = window.fetch
window.fetch = async (url, options) => {
  if (options?.body instanceof Blob) window.sent = await options.body.text()
  return own(url, options)
}"""


@pytest.mark.parametrize("chosen", ["cos", "sin"])
def test_one_array_of_a_file_keeps_its_name_for_a_model(
    chosen: str, tab: Tab, server: Server
) -> None:
    config = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}
    halves = "/rope.safetensors?head_dim=64&seq_len=64&pack=half"
    content = server.get(halves).content
    tab.page.add_init_script(KEEP_BODY)
    tab.open("/#view=file")
    paste(tab, "What it should be", config)
    file: FilePayload = {"name": "both.safetensors", "mimeType": "", "buffer": content}
    tab.page.locator("input[type=file]").first.set_input_files(file)
    tab.page.locator(".verdict").wait_for()

    array = tab.page.get_by_label("Array", exact=True)
    array.select_option(label=f"{chosen}: 64 × 64 float32")

    tab.wait_for('name => window.sent?.includes(`{"${name}":`)', chosen)
    tab.page.locator(".verdict.good").wait_for()
    assert f"part={chosen}" in tab.page.locator(".call").inner_text()


def test_a_tensor_that_is_called_model_is_not_taken_for_the_model(tab: Tab, server: Server) -> None:
    content = server.get(TABLE.replace("?", ".safetensors?")).content
    tab.open("/#view=file")
    paste(tab, "What it should be", {"model_type": "llama", "rope_theta": 500000, "head_dim": 64})
    renamed = content.replace(b'"rope": {', b'"model":{').replace(b'"rope":{', b'"model":{')
    length = int.from_bytes(content[:8], "little") + len(renamed) - len(content)
    file: FilePayload = {
        "name": "model.safetensors",
        "mimeType": "",
        "buffer": length.to_bytes(8, "little") + renamed[8:],
    }

    tab.page.locator("input[type=file]").first.set_input_files(file)

    tab.page.locator(".verdict.good, .verdict.doubt").wait_for()
