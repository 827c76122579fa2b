"""The suite over HTTP: the index, the files, their headers, and what is no longer served."""

from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import httpx
import pytest
from pydantic import SecretStr

from service.app import create_app
from service.conformance import release, served
from service.conformance.release import Release
from service.settings import default_settings
from tests.client import Client, client_of

RELEASE = Release.packaged()
ROOT = f"/conformance/{RELEASE.version}/"
FILES = [*RELEASE.files, "conformance.zip"]
FIRST = next(iter(RELEASE.contents))
PAGE = FIRST.removesuffix(".json")
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.fixture(scope="module")
def index(client: Client) -> Any:
    return client.get("/conformance/").json()


def test_index_describes_every_file(client: Client, index: Any) -> None:
    assert (index["suite"], index["format"]) == ("posref-conformance", 1)
    assert index["version"] == RELEASE.version
    assert [each["file"] for each in index["files"]] == [*RELEASE.contents]
    assert index["cases"] == sum(each["cases"] for each in index["files"])
    for each in [*index["files"], index["schema"], index["sums"], index["zip"]]:
        answer = client.get(each["url"])
        assert answer.status_code == 200
        assert len(answer.content) == each["bytes"]
        assert sha256(answer.content).hexdigest() == each["sha256"]
    for each in index["files"]:
        content = client.get(each["url"]).json()
        assert content["name"] == each["name"]
        assert len(content["cases"]) == each["cases"]


def test_version_is_the_digest_of_the_sums(client: Client, index: Any) -> None:
    sums = client.get(index["sums"]["url"])

    assert sha256(sums.content).hexdigest()[:12] == index["version"]
    listed = [line.split("  ") for line in sums.text.splitlines()]
    assert [name for _, name in listed] == sorted(name for _, name in listed)
    for digest, name in listed:
        assert sha256(client.get(ROOT + name).content).hexdigest() == digest


def test_changelog_of_the_index_begins_with_the_version(index: Any) -> None:
    assert index["changelog"][0]["version"] == index["version"]
    assert all(each["changes"] for each in index["changelog"])


def test_zip_has_every_file_stored_sorted_and_without_a_time(client: Client) -> None:
    with ZipFile(BytesIO(client.get(ROOT + "conformance.zip").content)) as archive:
        entries = archive.infolist()
        assert [each.filename for each in entries] == sorted(RELEASE.files)
        for each in entries:
            assert (each.compress_type, each.date_time) == (ZIP_STORED, (1980, 1, 1, 0, 0, 0))
            assert archive.read(each) == client.get(ROOT + each.filename).content


@pytest.mark.parametrize("name", FILES)
def test_file_is_immutable_and_has_a_strong_tag(client: Client, name: str) -> None:
    answer = client.get(ROOT + name)

    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.headers["ETag"].startswith('"')
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("path", ["/conformance/", ROOT + FIRST, ROOT + "conformance.zip"])
def test_head_304_and_gzip_are_as_of_other_files(client: Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert dict(head.headers) == dict(got.headers)

    known = client.get(path, if_none_match=got.headers["ETag"])
    assert (known.status_code, known.content) == (304, b"")
    assert known.headers["Cache-Control"] == got.headers["Cache-Control"]

    coded = client.get(path, accept_encoding="gzip")
    assert coded.headers["Content-Encoding"] == "gzip"
    assert coded.headers["ETag"].startswith('W/"')
    assert int(coded.headers["Content-Length"]) < len(got.content)
    assert coded.content == got.content


@pytest.mark.parametrize("path", ["/conformance/", ROOT + FIRST, ROOT + PAGE])
def test_parameters_are_refused(client: Client, path: str) -> None:
    for accept in ("*/*", BROWSER):
        refused = client.get(f"{path}?x=1", accept=accept)
        assert refused.status_code == 422
        assert "x" in refused.text


def test_what_is_not_in_the_version_is_404(client: Client) -> None:
    for path in (
        ROOT + "rope_nothing.json",
        f"/conformance/{'0' * 12}/{FIRST}",
        ROOT + "index.json",
    ):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:posref:problem:not-found"
        assert RELEASE.version in answer.json()["detail"]
    # Not a path of the suite.
    assert client.get(f"{ROOT}{FIRST}/1").status_code == 404
    assert client.post(ROOT + FIRST).status_code == 405


def test_the_path_of_the_version_is_its_index(client: Client, index: Any) -> None:
    assert client.get(ROOT).json() == index
    assert client.get(ROOT, accept=BROWSER).text == client.get("/conformance/", accept=BROWSER).text
    for accept in ("*/*", BROWSER):
        unknown = client.get(f"/conformance/{'0' * 12}/", accept=accept)
        assert unknown.status_code == 404
        assert RELEASE.version in unknown.text


def test_version_that_was_released_once_is_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = "0123456789ab"
    monkeypatch.setattr(served, "changes", lambda: {older: "", **release.changes()})

    for name in ("", FIRST, "conformance.zip", PAGE):
        answer = client.get(f"/conformance/{older}/{name}")
        assert answer.status_code == 410
        assert answer.json()["type"] == "urn:posref:problem:revision-retired"
        assert f"the current one is {RELEASE.version}: /conformance/" in answer.json()["detail"]
    for name in ("", FIRST):
        page = client.get(f"/conformance/{older}/{name}", accept=BROWSER)
        assert page.status_code == 410
        assert RELEASE.version in page.text


@pytest.fixture(scope="module")
def gated() -> Iterator[Client]:
    settings = default_settings().model_copy(update={"api_keys": SecretStr("k" * 16)})
    with client_of(create_app(settings)) as fresh:
        yield fresh


@pytest.mark.parametrize("path", ["/conformance/", ROOT + FIRST, ROOT + "conformance.zip"])
def test_suite_needs_a_key_where_tables_do(gated: Client, path: str) -> None:
    assert gated.get(path).status_code == 401

    answer: httpx.Response = gated.get(path, authorization=f"Bearer {'k' * 16}")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"].startswith("private")


def test_home_links_to_the_suite(client: Client) -> None:
    assert "/conformance/" in {link["href"] for link in client.get("/").json()["links"]}
    assert 'href="/conformance/"' in client.get("/", accept=BROWSER).text
