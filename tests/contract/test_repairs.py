"""What is meant by a misspelled request: as data, and as a URL that is valid."""

from urllib.parse import quote

import pytest

from service.errors import Overloaded
from service.routes import RESOURCES
from tests.client import Client

BROWSER = "text/html,*/*;q=0.8"

REPAIRED = {
    "/encoding?seq_len=4&dmodel=512": ("d_model", "/encoding?seq_len=4&d_model=512"),
    "/encoding.npy?seq_len=4&d_model=8&dtype=fp16": (
        "float16",
        "/encoding.npy?seq_len=4&d_model=8&dtype=float16",
    ),
    "/rope?head_dim=4&seq_len=2&batch=True": ("true", "/rope?head_dim=4&seq_len=2&batch=true"),
    "/rope?hea%64dim=4&seq_len=2": ("head_dim", "/rope?head_dim=4&seq_len=2"),
    "/resize?convention=clip&size=4&old_size=2": (
        "vit",
        "/resize?convention=vit&size=4&old_size=2",
    ),
    "/ropee.npy?head_dim=4&seq_len=2": ("/rope", "/rope.npy?head_dim=4&seq_len=2"),
    "/alibi?num_heads=8&query_len=4": (
        "/relative/alibi",
        "/relative/alibi?num_heads=8&query_len=4",
    ),
    "/whisper?seq_len=4&d_model=4": (
        "/encoding?convention=whisper",
        "/encoding?convention=whisper&seq_len=4&d_model=4",
    ),
    "/catalogue?entry=rope:lama3": ("rope:llama3", "/catalogue?entry=rope%3Allama3"),
    "/catalogue?entri=rope:llama3": ("entry", "/catalogue?entry=rope:llama3"),
    "/rope.npyy?head_dim=4&seq_len=2": ("npy", "/rope.npy?head_dim=4&seq_len=2"),
    "/rope.npyy.sha256?head_dim=4&seq_len=2": ("npy", "/rope.npy.sha256?head_dim=4&seq_len=2"),
    # Another format holds the table, or is not too long.
    "/rope.csv?head_dim=4&seq_len=2&pack=half": (
        "json",
        "/rope.json?head_dim=4&seq_len=2&pack=half",
    ),
    "/encoding.csv?seq_len=1048576&d_model=64": ("npy", "/encoding.npy?seq_len=1048576&d_model=64"),
    "/encoding?seq_len=1048576&d_model=64": ("npy", "/encoding.npy?seq_len=1048576&d_model=64"),
}

NOT_REPAIRED = {
    # Another fault remains.
    "/encoding?dmodel=512": "d_model",
    "/rope?head_dim=4&seq_len=2&dtype=fp16&pack=halff": "half",
    "/ropee": "/rope",
    # The table would be impossible, too long, or impossible in the format.
    "/rope?head_dim=4&seq_len=2&rope_type=yarnn": "yarn",
    f"/rope?hed_dim=4&seq_len={2**53}": "head_dim",
    "/encoding.npy?seq_len=4&d_model=4&dtype=bf16": "bfloat16",
    # Not a table, and too long a URL.
    "/docss": "/docs",
    f"/encoding?seq_len=4&d_model=4&bse=1{'&' * 2048}": "base",
}


@pytest.mark.parametrize("url", REPAIRED)
def test_a_misspelling_has_the_name_that_is_meant_and_the_repaired_url(
    client: Client, url: str
) -> None:
    meant, repaired = REPAIRED[url]

    fault = client.get(url).json()["errors"][0]

    assert (fault["suggestion"], fault["url"]) == (meant, repaired)
    assert client.head(repaired).status_code == 200


@pytest.mark.parametrize("url", NOT_REPAIRED)
def test_a_url_is_only_given_if_one_change_makes_it_valid(client: Client, url: str) -> None:
    faults = client.get(url).json()["errors"]

    assert NOT_REPAIRED[url] in [fault.get("suggestion") for fault in faults]
    assert not [fault for fault in faults if "url" in fault]


@pytest.mark.parametrize("host", ["", "https://host.example:8000"])
def test_a_description_has_the_repaired_url_that_it_is_about(client: Client, host: str) -> None:
    url, repaired = "/encoding?seq_len=4&dmodel=512", "/encoding?seq_len=4&d_model=512"

    fault = client.get(f"/describe?url={quote(host + url, safe='')}").json()["errors"][0]

    assert (fault["suggestion"], fault["url"]) == ("d_model", repaired)


def test_a_posted_misspelling_has_no_url(client: Client) -> None:
    (fault,) = client.post("/encoding", json={"seq_len": 4, "d_model": 4, "bse": 1}).json()[
        "errors"
    ]

    assert (fault["suggestion"], "url" in fault) == ("base", False)


def test_the_url_for_a_browser_has_a_page_of_any_length(client: Client) -> None:
    page = client.get(f"/rope?hed_dim=4&seq_len={2**53}", accept=BROWSER)

    repaired = f"/rope?head_dim=4&amp;seq_len={2**53}"
    assert page.status_code == 422
    assert f'<a href="{repaired}">' in page.text
    assert client.get(repaired.replace("&amp;", "&"), accept=BROWSER).status_code == 200


@pytest.mark.parametrize("path", RESOURCES)
def test_every_parameter_of_every_table_is_repaired(client: Client, path: str) -> None:
    resource = RESOURCES[path]
    for field in resource.example.split("&"):
        name, _, value = field.partition("=")
        misspelled = f"{path}?{resource.example}".replace(field, f"{name}q={value}")

        faults = client.get(misspelled).json()["errors"]

        own = [fault for fault in faults if fault.get("suggestion") == name]
        assert [fault["url"] for fault in own] == [f"{path}?{resource.example}"] * len(own)
        if len(name) > 1:
            assert own, misspelled


def test_a_problem_without_time_for_repairs_is_still_a_problem(
    fresh_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = next(iter(REPAIRED))
    fresh_client.get(url)

    async def refuse(*_: object) -> None:
        raise Overloaded("no work can begin")

    monkeypatch.setattr(fresh_client.app.state.delivery.scheduler, "run", refuse)
    answer = fresh_client.get(url)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["suggestion"] == "d_model"
    assert "url" not in answer.json()["errors"][0]


@pytest.mark.parametrize("path", ["/model", "/rope/config"])
@pytest.mark.parametrize(
    ("config", "meant"),
    [
        ({"model_type": "lama"}, "llama"),
        ({"rope_scaling": {"rope_type": "yarnn", "factor": 4}}, "yarn"),
        ({"_class_name": "FluxTransformer2DModell"}, "FluxTransformer2DModel"),
    ],
)
def test_a_fault_of_a_model_says_what_is_meant_as_its_sentence_does(
    client: Client, path: str, config: dict[str, object], meant: str
) -> None:
    body = {"hidden_size": 64, "num_attention_heads": 4, "model_type": "llama"} | config
    body = config if "_class_name" in config or "lama" in config.values() else body

    (fault,) = client.post(path, json=body).json()["errors"]

    assert fault["suggestion"] == meant
    assert f"did you mean {meant}" in fault["detail"]
