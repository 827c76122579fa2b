"""Every URL in an answer can be followed as it is: a GET of it returns the whole table it names."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
import safetensors.numpy
from httpx import Response
from numpy.typing import NDArray

from service.__main__ import find_body
from service.analysis.explanation.engine import Explanation
from service.app import create_app
from service.delivery.endpoints import RESOURCES, Endpoint, JsonObject, ReportedArrays
from service.models.translation import ModelDocument
from service.numerics.dtypes import FLOAT32
from service.numerics.tables import StoredTable
from service.routes import REPORTS
from service.routes.another_table import as_another_table
from service.routes.model_links import ConfigParameters
from service.routes.rope_config import report_config
from service.routes.table_urls import TableLink, link_to, read_url, table_request, tables
from service.settings import default_settings
from tests.analysis.test_identified_tables import NOT_IDENTIFIED
from tests.client import Client, client_of, load_npy, npy_bytes

MODELS = json.loads((Path(__file__).parents[1] / "data/rope_models.json").read_text())["models"]
EVERY_MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
EVERY_RESOURCE = pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda each: each.path)
NPY = {"Content-Type": "application/x-npy"}
URL = re.compile(r"/[a-z][a-z0-9/-]*(?:\.[a-z]+)?\?[^\s\"'<>]*[^\s\"'<>.,;?]")
TEXT_BYTES, RESPONSE_BYTES = 100_000, 300_000
# HEAD describes a table that is too long for one answer, too.
MOST_BYTES = default_settings().max_response_bytes
SHORT_URLS = default_settings().model_copy(update={"max_url_bytes": 300})


@pytest.fixture(scope="module")
def small() -> Iterator[Client]:
    """Return a client of a server whose limits are low."""
    limits = {"max_text_bytes": TEXT_BYTES, "max_response_bytes": RESPONSE_BYTES}
    with client_of(create_app(default_settings().model_copy(update=limits))) as client:
        yield client


def urls_in(content: object) -> set[str]:
    """Return the URLs with a query in the strings of an answer."""
    if isinstance(content, Mapping):
        return {url for value in content.values() for url in urls_in(value)}
    if isinstance(content, list):
        return {url for value in content for url in urls_in(value)}
    return set(URL.findall(content)) if isinstance(content, str) else set()


def links_of(report: Any) -> Iterator[Any]:
    """Yield the objects with the links of a report about a config."""
    for entry in report["rope"].values():
        yield from (entry, *entry.get("regimes", ()))


def without_rows(url: str) -> str:
    return re.sub("&seq_len=[0-9]+", "", url)


def rotation_of(client: Client, report: Any, links: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Return x, (3, head_dim), rotated by the frequencies of a model to the positions 0, 7, 19."""
    frequencies = client.get(links["frequencies"]).json()["data"]
    angles = np.multiply.outer([0, 7, 19], frequencies["inv_freq"])
    width = 2 * angles.shape[1]
    channels = {
        "half": [slice(width // 2), slice(width // 2, width)],
        "interleaved": [slice(0, width, 2), slice(1, width, 2)],
    }
    first, second = channels[report["layout"]]
    turned = (x[:, first] + 1j * x[:, second]) * np.exp(1j * angles)
    result = x.copy()
    first, second = channels[report.get("writes", report["layout"])]
    result[:, first] = turned.real * frequencies["attention_factor"]
    result[:, second] = turned.imag * frequencies["attention_factor"]
    return result


def arrays_of(answer: Response) -> dict[str, NDArray[Any]]:
    """Return the cosines and sines of an answer with both."""
    assert answer.status_code == 200, answer.text
    if answer.headers["Content-Type"] == "application/json":
        return {name: np.array(rows) for name, rows in answer.json()["data"].items()}
    return safetensors.numpy.load(answer.content)


def reported(client: Client, path: str, array: NDArray[Any], **query: str) -> Any:
    query_text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    answer = client.post(f"{path}?{query_text}", content=npy_bytes(array), headers=NPY)
    assert answer.status_code == 200, answer.text
    return answer.json()


@EVERY_MODEL
def test_links_of_a_model_are_its_whole_tables(client: Client, model: dict[str, Any]) -> None:
    report = client.post("/rope/config", json=model["hf_config"]).json()
    assert report["rope"]
    for links in links_of(report):
        longest = next(iter(report["rope"].values()))["max_position_embeddings"]
        rows = links.get("context_length", longest)
        width = 2 * len(client.get(links["frequencies"]).json()["data"]["inv_freq"])
        for name in ("table", "file", "cos", "sin"):
            described = client.head(links[name])
            assert described.status_code == 200
            assert described.headers["Array-Shape"] == f"{rows}, {width}"
            assert described.headers["Array-Dtype"] == links["dtype"]
            assert links["shape"] == [rows, width]
            assert int(described.headers.get("Content-Length", "0")) <= MOST_BYTES
            assert parse_qs(urlsplit(links[name]).query)["pack"] == [report["layout"]]
        last = load_npy(client.get(f"{without_rows(links['sin'])}&positions={rows - 1}"))
        part = client.get(links["sin"], range=f"bytes=-{last.nbytes}")
        assert part.content == last.tobytes()


@EVERY_MODEL
def test_rotation_of_a_model_is_by_its_frequencies_and_layout(
    client: Client, model: dict[str, Any]
) -> None:
    report = client.post("/rope/config", json=model["hf_config"]).json()
    for entry in report["rope"].values():
        for links in (entry, *entry.get("regimes", ())):
            x = np.random.default_rng(0).standard_normal((3, entry["head_dim"]))
            url = f"{links['apply']}&positions=0,7,19"
            rotated = load_npy(client.post(url, content=npy_bytes(x), headers=NPY))
            expected = rotation_of(client, report, links, x)

            np.testing.assert_allclose(rotated, expected, rtol=0, atol=1e-12)


def sent(config: dict[str, Any]) -> ModelDocument:
    return ModelDocument("transformers", "/model_type", config)


@pytest.mark.parametrize(
    ("config", "query"),
    [
        ({"model_type": "nanochat"}, {"layout": ["half"], "inverse": ["true"]}),
        (
            {"model_type": "deepseek_v4", "head_dim": 512, "qk_rope_head_dim": 64},
            {"layout": ["interleaved"], "rotary_offset": ["448"]},
        ),
        ({"model_type": "deepseek_v3"}, {"layout": ["interleaved"], "output_layout": ["half"]}),
    ],
)
def test_rotation_of_a_model_has_the_order_and_the_sign_of_its_class(
    client: Client, config: dict[str, Any], query: dict[str, list[str]]
) -> None:
    (entry, *_) = client.post("/rope/config", json=config).json()["rope"].values()
    x = [[1.0] * entry["head_dim"]] * 2

    assert query.items() <= parse_qs(urlsplit(entry["apply"]).query).items()
    assert client.post(entry["apply"], json={"x": x}).json()["shape"] == [2, entry["head_dim"]]


def test_model_with_two_position_axes_has_its_rotation(client: Client) -> None:
    report = client.post("/rope/config", json={"model_type": "neomme"}).json()
    grid = {"positions_h": [0, 1], "positions_w": [0, 5]}

    for entry in report["rope"].values():
        x = [[1.0] * entry["head_dim"]] * 2
        answer = client.post(entry["apply"], json={"x": x, **grid})
        assert answer.status_code == 200, answer.text


@EVERY_MODEL
def test_links_of_a_model_are_answered_whole_within_low_limits(
    small: Client, model: dict[str, Any]
) -> None:
    report = small.post("/rope/config", json=model["hf_config"]).json()
    assert "fewer-rows" in [warning["code"] for warning in report["warnings"]]
    for links in links_of(report):
        frequencies = small.get(links["frequencies"]).json()["data"]
        angles = np.multiply.outer([0, 7], frequencies["inv_freq"])
        halves = np.concatenate([angles, angles], axis=1)
        expected = np.repeat(angles, 2, axis=1) if report["layout"] == "interleaved" else halves
        table, file = (arrays_of(small.get(links[name])) for name in ("table", "file"))

        for name, function in (("cos", np.cos), ("sin", np.sin)):
            numbers = load_npy(small.get(links[name]))
            np.testing.assert_array_equal(file[name], numbers)
            assert links["shape"] == list(numbers.shape)
            np.testing.assert_array_equal(table[name].astype(np.float32), numbers)
            exact = function(expected) * frequencies["attention_factor"]
            np.testing.assert_allclose(numbers[[0, 7]], exact, rtol=0, atol=1e-6)


def test_table_is_json_where_json_is_short_enough(small: Client) -> None:
    config = {"model_type": "llama", "head_dim": 8, "max_position_embeddings": 100}
    links = small.post("/rope/config", json=config).json()["rope"]["default"]

    assert links["table"].startswith("/rope.json?")
    assert arrays_of(small.get(links["table"]))["cos"].shape == (100, 8)


@pytest.mark.full
@pytest.mark.parametrize("model", [model for model in MODELS if "Phi-3" in model["name"]])
def test_parameters_too_long_for_a_url_are_posted_to_it(
    client: Client, model: dict[str, Any]
) -> None:
    config = model["hf_config"] | {"max_position_embeddings": 8192}
    whole, posted = (
        report_config(ConfigParameters(), sent(config), settings).content()
        for settings in (default_settings(), SHORT_URLS)
    )

    for links, others in zip(links_of(whole), links_of(posted), strict=True):
        assert "post" not in links
        for name in ("frequencies", "table", "file", "cos", "sin"):
            assert len(others[name]) <= SHORT_URLS.max_url_bytes
            answer = client.post(others[name], json=others["post"])
            assert answer.content == client.get(links[name]).content
        x = {"x": [[1.0] * whole["rope"]["default"]["head_dim"]] * 2}
        applied = client.post(others["apply"], json=others["post"] | x)
        assert applied.json()["data"] == client.post(links["apply"], json=x).json()["data"]


def test_many_positions_of_a_table_are_posted(client: Client) -> None:
    positions = ",".join(str(row * row) for row in range(80))
    url = f"/encoding?d_model=4&positions={positions}"
    requests = [table_request(url), read_url(url).request]

    for link in (link_to(request, tables(request), SHORT_URLS) for request in requests):
        assert link["url"] == "/encoding"
        assert client.post(link["url"], json=link["post"]).content == client.get(url).content


def test_text_of_a_config_begins_with_the_request_for_its_file() -> None:
    (model,) = [model for model in MODELS if "Phi-3" in model["name"]]
    report = report_config(ConfigParameters(), sent(model["hf_config"]), SHORT_URLS)
    links = report.rope["default"]

    assert report.text().startswith(f"POST {json.dumps(links.post)} to {links.file}\n")


def test_sentence_about_a_table_too_long_for_a_url_says_what_to_post(client: Client) -> None:
    positions = ",".join(str(row * row) for row in range(80))
    expected = table_request(f"/encoding?d_model=4&positions={positions}")
    array = load_npy(client.get("/rope.npy?head_dim=4&seq_len=80&pack=concat"))
    have = {"rope": StoredTable(array, FLOAT32)}

    found = as_another_table(Explanation("none"), have, expected, SHORT_URLS)

    (sentence,) = [mistake.sentence for mistake in found.mistakes]
    ((posted, url),) = re.findall(r"POST ({.+?}) to (\S+[a-z])", sentence)
    assert client.post(url, json=json.loads(posted)).json()["shape"] == [80, 4]


@EVERY_RESOURCE
def test_links_to_other_formats_are_answered_with_the_same_table(
    client: Client, small: Client, resource: Endpoint
) -> None:
    for each, limit_bytes in ((client, MOST_BYTES), (small, RESPONSE_BYTES)):
        answer = each.get(f"{resource.path}?{resource.example}")
        alternates = re.findall(r"<(.+?)>", answer.headers["Link"])
        assert alternates
        for url in (answer.headers["Content-Location"], *alternates):
            linked = each.head(url)
            assert linked.status_code == 200
            assert int(linked.headers.get("Content-Length", "0")) <= limit_bytes
            assert linked.headers.get("Array-Shape") == answer.headers.get("Array-Shape")


def test_links_are_to_formats_in_which_one_answer_has_the_table(small: Client) -> None:
    described = small.head("/encoding.npy?seq_len=30&d_model=512")
    long = small.head("/encoding.npy?seq_len=1000&d_model=512")

    linked = re.findall(r"<(.+?)>", described.headers["Link"])
    paths = [urlsplit(url).path for url in linked]
    assert paths == ["/encoding.safetensors", "/encoding.bin"]
    assert all(small.get(url).status_code == 200 for url in linked)
    assert "Link" not in long.headers


@pytest.mark.parametrize(
    "resource",
    [each for each in RESOURCES.values() if each.path not in NOT_IDENTIFIED],
    ids=lambda each: each.path,
)
def test_url_of_an_identified_example_returns_it(client: Client, resource: Endpoint) -> None:
    arrays = safetensors.numpy.load(
        client.get(f"{resource.path}.safetensors?{resource.example}").content
    )
    if len(arrays) > 1 and arrays.keys() != {"cos", "sin"}:
        # safetensors lists its arrays in any order.
        ordered = (arrays[name] for name in sorted(arrays))
        arrays = {"x": max(ordered, key=lambda each: (each.size, each.dtype.kind == "f"))}
    headers = {"Content-Type": "application/vnd.safetensors"}
    answer = client.post("/identify", content=safetensors.numpy.save(arrays), headers=headers)
    report = answer.json()

    assert all(client.get(url).status_code == 200 for url in urls_in(report))
    found = client.get(report["hypotheses"][0]["url"], accept=headers["Content-Type"])
    (array,), (sent,) = safetensors.numpy.load(found.content).values(), arrays.values()
    np.testing.assert_allclose(array.reshape(sent.shape), sent, rtol=1e-6)


@pytest.mark.parametrize(
    "path", ["/encoding?d_model=128&seq_len=60", "/rope?rotary_dim=128&seq_len=60&pack=concat"]
)
def test_url_of_a_table_too_long_for_json_names_a_format(small: Client, path: str) -> None:
    array = load_npy(small.get(path.replace("?", ".npy?")))
    url = reported(small, "/identify", array)["hypotheses"][0]["url"]

    assert urlsplit(url).path.endswith(".npy")
    np.testing.assert_array_equal(load_npy(small.get(url)), array)
    assert b"".join(find_body(url).blocks()) == npy_bytes(array)
    compared = reported(small, "/compare", array, to=url)
    assert (compared["equal_bytes"], compared["to"]) == (True, url)
    diagnosed = reported(small, "/diagnose", array, to=url)
    assert (diagnosed["verdict"], diagnosed["correct"]) == ("equal", {"url": url})


def test_links_of_reports_outlast_the_revision_in_to(client: Client) -> None:
    url = "/encoding?seq_len=20&d_model=8"
    (array, other), to = (
        [load_npy(client.get(f"{url.replace('?', '.npy?')}{more}")) for more in ("", "&base=500")],
        f"{url}&revision=1",
    )
    reports = [
        reported(client, path, each, to=to)
        for path in ("/compare", "/diagnose")
        for each in (array, other)
    ]

    for report in reports:
        assert urls_in(report) >= {url}
        assert not any("revision" in each for each in urls_in(report))


def test_every_url_in_a_sentence_about_another_table_can_be_followed(small: Client) -> None:
    array = load_npy(small.get("/relative/alibi.npy?num_heads=8&query_len=32"))
    report = reported(
        small, "/diagnose", array, to="/relative/sandwich?num_heads=8&head_dim=4&query_len=32"
    )

    assert [mistake["name"] for mistake in report["mistakes"]] == ["another-table"]
    assert len(urls_in(report["mistakes"])) == 2
    assert all(small.get(url).status_code == 200 for url in urls_in(report))


@pytest.mark.parametrize("report", REPORTS.values(), ids=lambda report: report.path)
def test_every_url_in_the_example_of_a_report_can_be_followed(
    client: Client, small: Client, report: Endpoint
) -> None:
    for each, limit_bytes in ((client, MOST_BYTES), (small, RESPONSE_BYTES)):
        assert isinstance(report.inputs, JsonObject | ReportedArrays)
        query, body = report.example, dict(report.inputs.example)
        answer = each.post(f"{report.path}?{query}", json=body)
        urls = urls_in(answer.json())
        assert urls
        for url in urls:
            is_posted, x = url.startswith("/rope/apply?"), {"x": [[1.0] * 128]}
            followed = each.post(url, json=x) if is_posted else each.head(url)
            assert followed.status_code == 200
            assert int(followed.headers.get("Content-Length", "0")) <= limit_bytes


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_links_of_a_model_are_what_its_rotation_is_diagnosed_with(
    client: Client, layout: str
) -> None:
    model_type = {"half": "llama", "interleaved": "cohere"}[layout]
    config = {"model_type": model_type, "head_dim": 8, "max_position_embeddings": 16}
    links = client.post("/rope/config", json=config).json()["rope"]["default"]
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    query = f"layout={layout}&head_dim=8&rope_theta={links['rope_theta']}"
    applied = client.post(f"/rope/apply.npy?{query}", content=npy_bytes(x), headers=NPY)
    body = safetensors.numpy.save({"x": x, "rotated": load_npy(applied)})
    headers = {"Content-Type": "application/vnd.safetensors"}

    for to in (links["table"], links["file"], f"/rope/apply?{query}"):
        answer = client.post(f"/diagnose?to={quote(to)}", content=body, headers=headers).json()
        assert answer["verdict"] == "equal"
        correct = arrays_of(client.get(answer["correct"]["url"]))["cos"].astype(np.float32)
        np.testing.assert_array_equal(correct, load_npy(client.get(links["cos"])))


@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=1000000&d_model=512",
        "/encoding.csv?seq_len=1000000&d_model=512",
        "/rope.json?head_dim=128&seq_len=1000000&pack=half",
        "/encoding.json?seq_len=1000000&d_model=512&dtype=bfloat16",
    ],
)
def test_problem_of_a_long_answer_names_a_url_that_works(client: Client, url: str) -> None:
    answer = client.get(url)
    (named,) = urls_in(answer.json()["detail"])

    assert answer.status_code == 413
    assert client.head(named).status_code == 200
    assert parse_qs(urlsplit(named).query) == parse_qs(urlsplit(url).query)


def test_problem_of_a_long_picture_names_a_file_with_all_numbers(small: Client) -> None:
    url = "/encoding.png?seq_len=50&d_model=8"
    detail = small.get(url).json()["detail"]
    (named,) = urls_in(detail)

    assert "Range" not in detail
    assert small.get(named).json()["shape"] == [50, 8]


def test_problem_of_a_long_answer_to_a_post_names_the_call_that_works(small: Client) -> None:
    x = np.ones((40, 500))
    url = "/rope/apply.json?rope_theta=500&layout=half"
    detail = small.post(url, content=npy_bytes(x), headers=NPY).json()["detail"]
    (named,) = urls_in(detail)
    turned = load_npy(small.post(named, content=npy_bytes(x), headers=NPY))

    assert "Range" not in detail
    np.testing.assert_array_equal(
        turned[:1],
        load_npy(
            small.post(
                "/rope/apply?rope_theta=500&layout=half", content=npy_bytes(x[:1]), headers=NPY
            )
        ),
    )


def test_problem_of_a_long_file_names_a_range_that_works(small: Client) -> None:
    url = "/encoding.npy?seq_len=1000&d_model=512"
    for each in (url, url.replace(".npy", ".json")):
        detail = small.get(each).json()["detail"]
        (named,) = re.findall(r"Range: (bytes=[0-9]+-[0-9]+)", detail)

        assert urls_in(detail) == {url}
        assert len(small.get(url, range=named).content) == RESPONSE_BYTES


def test_text_of_a_report_has_the_parameters_too_long_for_a_url(client: Client) -> None:
    positions = ",".join(str(row * row) for row in range(80))
    request = table_request(f"/encoding?d_model=4&positions={positions}")
    link = TableLink(**link_to(request, tables(request), SHORT_URLS))
    posted, url = re.findall(r"POST ({.+}) to (.+)", str(link))[0]

    assert client.post(url, json=json.loads(posted)).json()["shape"] == [80, 4]
    assert f"post: {posted}" in link.text()


def test_every_link_of_the_directory_can_be_followed(client: Client) -> None:
    links = client.get("/").json()["links"]
    page = client.get("/", accept="text/html").text

    got = {link["href"].partition("?")[0] for link in links if link["method"] == "GET"}
    for link in links:
        # Without parameters, one that also answers GET asks for them.
        without = 422 if link["href"] in got else 405
        expected = 200 if link["method"] == "GET" else without
        assert client.get(link["href"]).status_code == expected, link
    hrefs = [href.replace("&amp;", "&") for href in re.findall(r'href="(.+?)"', page)]
    assert len(hrefs) > len(RESOURCES)
    assert all(client.get(href).status_code == 200 for href in hrefs)
