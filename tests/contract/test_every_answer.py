"""The contract of every array resource in every format."""

import io
from base64 import b64encode
from hashlib import sha256
from itertools import product

import numpy as np
import pytest
import safetensors
from httpx import Response
from PIL import Image

from service.delivery.endpoints import Endpoint
from service.formats import FORMATS
from service.routes import RESOURCES
from tests.client import Client

SINGLE = {
    "/encoding/frequencies": "&part=frequency",
    "/rope": "&pack=flat",
    "/rope/axial": "&pack=flat",
    "/rope/axial/frequencies": "&part=inv_freq",
    "/rope/frequencies": "&part=inv_freq",
}
TEXT = {"json", "csv"}
UNCOUNTED = {*TEXT, "png"}


def example(resource: Endpoint) -> str:
    """Return a query of a resource whose answer is one array."""
    return resource.example + SINGLE.get(resource.path, "")


CASES = [
    (f"{resource.path}.{extension}?{example(resource)}", extension)
    for resource, extension in product(RESOURCES.values(), FORMATS)
]
EVERY_URL = pytest.mark.parametrize(("url", "extension"), CASES)

# A URL that CSV and PNG cannot hold, the hint in the refusal, and the replacement it asks for.
HINTS = [
    ("/encoding?seq_len=2&d_model=2&batch=true", "leave out batch", "&batch=true", ""),
    ("/rope?seq_len=2&head_dim=4&pack=flat&batch=true", "leave out batch", "&batch=true", ""),
    ("/relative/alibi?query_len=2&num_heads=2", "add head=0", "?", "?head=0&"),
    ("/relative/alibi?key_len=2&num_heads=2&form=key", "add head=0", "?", "?head=0&"),
    ("/relative/kerple?query_len=2&num_heads=2&convention=nemo", "add head=0", "?", "?head=0&"),
    ("/relative/sandwich?query_len=2&num_heads=2&head_dim=4", "add head=0", "?", "?head=0&"),
    ("/relative/swin-v2?window_size=2,2", "add axis=y", "?", "?axis=y&"),
    ("/relative?d_model=2&offsets=1", "give offset in place of offsets", "offsets", "offset"),
    (
        "/relative/xlnet?d_model=2&key_len=2&attn_type=uni&bi_data=true",
        "leave out bi_data",
        "&bi_data=true",
        "",
    ),
]


@pytest.mark.parametrize(("url", "hint", "old", "new"), HINTS, ids=[row[0] for row in HINTS])
@pytest.mark.parametrize("extension", ["csv", "png"])
def test_refusal_of_a_format_has_a_hint_that_works(
    client: Client, url: str, hint: str, old: str, new: str, extension: str
) -> None:
    url = url.replace("?", f".{extension}?")

    refused = client.get(url)

    assert refused.status_code == 422
    assert f"; {hint}; these formats can: " in refused.json()["detail"]
    assert client.get(url.replace(old, new)).status_code == 200


ALWAYS = {
    "Array-Shape",
    "Array-Dtype",
    "Table-Revision",
    "ETag",
    "Cache-Control",
    "Content-Disposition",
    "Content-Type",
    "Link",
    "Repr-Digest",
}


def read(answer: Response, extension: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the array of an answer, read as a client of its format does."""
    dtype = np.dtype(answer.headers["Array-Dtype"])
    shape = [int(length) for length in answer.headers["Array-Shape"].split(", ")]
    if extension == "npy":
        return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))
    if extension == "json":
        return np.array(answer.json()["data"]).astype(dtype)
    if extension == "safetensors":
        ((_, view),) = safetensors.deserialize(answer.content)  # type: ignore[no-untyped-call]
        return np.frombuffer(view["data"], dtype).reshape(view["shape"])
    if extension == "csv":
        return np.loadtxt(io.StringIO(answer.text), delimiter=",").astype(dtype).reshape(shape)
    return np.frombuffer(answer.content, dtype).reshape(shape)


@EVERY_URL
def test_every_format_has_the_same_array(client: Client, url: str, extension: str) -> None:
    answer = client.get(url)
    if extension == "png":
        assert_is_picture(answer.content)
        return
    reference = client.get(url.replace(f".{extension}?", ".npy?"))

    assert read(answer, extension).tobytes() == read(reference, "npy").tobytes()


def assert_is_picture(body: bytes) -> None:
    """Assert that a PNG has the size of all pictures and is not blank."""
    assert body.startswith(b"\x89PNG\r\n\x1a\n")
    dots = np.asarray(Image.open(io.BytesIO(body)))
    assert dots.shape[:2] == (600, 1000)
    assert dots.std() > 1


@EVERY_URL
def test_headers_describe_the_representation(client: Client, url: str, extension: str) -> None:
    answer = client.get(url)

    assert {name.title().replace("Etag", "ETag") for name in answer.headers} >= ALWAYS
    assert answer.headers["Content-Type"] == FORMATS[extension].media_type
    assert answer.headers["Cache-Control"] == "public, max-age=86400"
    assert "Content-Location" not in answer.headers
    assert answer.headers.get("Vary") == ("Accept-Encoding" if extension in TEXT else None)
    assert answer.headers.get("Accept-Ranges") == (None if extension in UNCOUNTED else "bytes")
    tag = answer.headers["ETag"]
    assert tag.startswith("W/") == (extension == "png")
    name = f'{tag.removeprefix("W/")[1:9]}.{extension}"'
    assert answer.headers["Content-Disposition"].endswith(name)


@EVERY_URL
def test_head_has_the_headers_of_get(client: Client, url: str, extension: str) -> None:
    get, head = client.get(url), client.head(url)

    expected = dict(get.headers)
    # Neither a digest nor the length of text or a picture is known before the body.
    for name in ("repr-digest", *(["content-length"] if extension in UNCOUNTED else [])):
        del expected[name]
    assert (head.status_code, head.content) == (200, b"")
    assert dict(head.headers) == expected


@EVERY_URL
def test_repeated_requests_have_the_same_bytes_and_entity_tag(
    client: Client, url: str, extension: str
) -> None:
    first, second = client.get(url), client.get(url)

    assert first.content == second.content
    assert first.headers["ETag"] == second.headers["ETag"]
    assert FORMATS[extension].media_type == second.headers["Content-Type"]


@EVERY_URL
def test_url_with_the_revision_is_immutable(client: Client, url: str, extension: str) -> None:
    plain = client.get(url)

    named = client.get(f"{url}&revision={plain.headers['Table-Revision']}")

    assert named.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert named.headers["ETag"] == plain.headers["ETag"]
    assert extension in named.headers["Content-Disposition"]


@EVERY_URL
def test_accept_gives_the_bytes_of_the_extension(client: Client, url: str, extension: str) -> None:
    by_extension = client.get(url)

    media_type = FORMATS[extension].media_type
    by_accept = client.get(url.replace(f".{extension}?", "?"), accept=media_type)

    assert by_accept.content == by_extension.content
    assert by_accept.headers["ETag"] == by_extension.headers["ETag"]
    assert by_accept.headers["Content-Location"] == url
    assert by_accept.headers["Cache-Control"] == "private, max-age=86400"
    assert by_accept.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.full
@EVERY_URL
def test_every_linked_alternate_exists(client: Client, url: str, extension: str) -> None:
    links = client.get(url).headers["Link"].split(", ")

    resource = url.partition(f".{extension}?")[0]
    assert len(links) == sum(other.startswith(f"{resource}.") for other, _ in CASES) - 1
    for link in links:
        target, relation, media_type = link.split("; ")
        answer = client.get(target.strip("<>"))
        assert relation == 'rel="alternate"'
        assert media_type == f'type="{answer.headers["Content-Type"]}"'
        assert answer.status_code == 200
    assert f".{extension}?" not in ", ".join(links)


@EVERY_URL
def test_digest_header_and_sha256_file_match_the_body(
    client: Client, url: str, extension: str
) -> None:
    answer = client.get(url)
    digest = client.get(url.replace(f".{extension}?", f".{extension}.sha256?"))

    expected = sha256(answer.content)
    spelled = b64encode(expected.digest()).decode()
    name = answer.headers["Content-Disposition"].split('"')[1]
    assert answer.headers["Repr-Digest"] == f"sha-256=:{spelled}:"
    assert digest.text == f"{expected.hexdigest()}  {name}\n"


@EVERY_URL
def test_304_has_the_headers_of_the_200(client: Client, url: str, extension: str) -> None:
    by_accept = url.replace(f".{extension}?", "?")
    for target in (url, by_accept):
        media_type = FORMATS[extension].media_type
        answer = client.get(target, accept=media_type)
        again = client.get(target, accept=media_type, if_none_match=answer.headers["ETag"])

        assert (again.status_code, again.content) == (304, b"")
        for name in ("Cache-Control", "Content-Location", "ETag", "Vary"):
            assert again.headers.get(name) == answer.headers.get(name)


@EVERY_URL
def test_if_match_compares_entity_tags_strongly(client: Client, url: str, extension: str) -> None:
    tag = client.get(url).headers["ETag"]

    # A picture has a weak tag.
    assert client.get(url, if_match=tag).status_code == (412 if extension == "png" else 200)
    other = client.get(url, if_match=f'"other", W/{tag}')
    assert other.status_code == 412
    assert other.json()["type"] == "urn:posref:problem:precondition-failed"
    assert extension in url


@EVERY_URL
def test_range_has_its_bytes(client: Client, url: str, extension: str) -> None:
    whole = client.get(url)

    part = client.get(url, range="bytes=3-9")

    if extension in UNCOUNTED:
        assert (part.status_code, part.content) == (200, whole.content)
        return
    assert (part.status_code, part.content) == (206, whole.content[3:10])
    expected = dict(whole.headers)
    expected["content-length"] = "7"
    expected["content-range"] = f"bytes 3-9/{len(whole.content)}"
    assert dict(part.headers) == expected


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: resource.path)
def test_post_has_the_body_of_get(client: Client, resource: Endpoint) -> None:
    path, example = resource.path, resource.example
    parameters = dict(field.split("=") for field in example.split("&"))

    assert client.post(path, json=parameters).content == client.get(f"{path}?{example}").content


def spelled(value: object) -> str:
    """Return a JSON parameter as text of a query."""
    return ",".join(map(spelled, value)) if isinstance(value, list) else str(value).lower()


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: resource.path)
def test_parameters_of_an_answer_reproduce_it(client: Client, resource: Endpoint) -> None:
    path, example = resource.path, resource.example
    answer = client.get(f"{path}?{example}")

    query = "&".join(
        f"{name}={spelled(value)}" for name, value in answer.json()["parameters"].items()
    )
    again = client.get(f"{path}?{query}")

    assert again.headers["ETag"] == answer.headers["ETag"]
