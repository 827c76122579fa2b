"""The documentation page in a real browser."""

from collections.abc import Iterator

import pytest

from tests.system.chromium import Page, opened
from tests.system.servers import Server

pytestmark = pytest.mark.system

HOST = "posref.test"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with opened(HOST) as tab:
        yield tab


def shown(page: Page, server: Server, place: str = "") -> None:
    page.open(f"http://{HOST}:{server.port}/docs{place}")
    page.wait_for("document.querySelectorAll('.opblock').length")


def test_every_operation_is_shown_without_console_errors(server: Server, page: Page) -> None:
    shown(page, server)

    paths = server.get("/openapi.json").json()["paths"]
    expected = sum(len(operations) for operations in paths.values())
    assert page.value("document.querySelectorAll('.opblock').length") == expected
    assert page.complaints == []


def test_fragment_of_the_url_expands_its_operation(server: Server, page: Page) -> None:
    shown(page, server, "#/rope/getRope")

    page.wait_for("document.querySelectorAll('.opblock.is-open .parameters tr').length > 10")
    page.wait_for("document.querySelectorAll('.opblock.is-open .response').length > 5")
    assert page.complaints == []


@pytest.mark.parametrize(
    ("place", "member"), [("rope/getRope", "parameters"), ("rope/postRopeConfig", "warnings")]
)
def test_opened_operation_is_tried_out(server: Server, page: Page, place: str, member: str) -> None:
    shown(page, server, f"#/{place}")
    page.wait_for("document.querySelector('.opblock.is-open .try-out__btn')")
    assert "$ref" not in page.value("document.querySelector('.opblock.is-open').innerText")

    page.value("document.querySelector('.opblock.is-open .try-out__btn').click()")
    page.wait_for("document.querySelector('.opblock.is-open .execute')")
    page.value("document.querySelector('.opblock.is-open .execute').click()")

    page.wait_for("document.querySelector('.live-responses-table .response')")
    answer = page.value("document.querySelector('.live-responses-table .response').innerText")
    assert answer.startswith("200")
    assert f'"{member}": ' in answer
    assert page.complaints == []


def test_page_reads_the_document_once_and_compressed(server: Server, page: Page) -> None:
    shown(page, server)

    read = page.value(
        "performance.getEntriesByName(new URL('/openapi.json', location).href)"
        ".map(each => [each.encodedBodySize, each.decodedBodySize])"
    )

    ((encoded_bytes, decoded_bytes),) = read
    assert encoded_bytes < decoded_bytes / 4
    assert page.complaints == []


def test_closed_operations_take_no_more_than_their_lines(server: Server, page: Page) -> None:
    shown(page, server)

    operations, elements = page.value(
        "[document.querySelectorAll('.opblock'), document.querySelectorAll('*')]"
        ".map(each => each.length)"
    )

    assert elements < 30 * operations


def test_page_requests_no_other_host(server: Server, page: Page) -> None:
    shown(page, server)

    loaded = page.value("performance.getEntriesByType('resource').map(each => each.name)")

    assert len(loaded) >= 3
    assert all(name.startswith((f"http://{HOST}:{server.port}/", "data:")) for name in loaded)


def test_injected_script_does_not_run(server: Server, page: Page) -> None:
    shown(page, server)

    page.value(
        "const added = document.createElement('script');"
        "added.textContent = 'window.ran = true';"
        "document.body.append(added)"
    )

    assert page.value("window.ran") is None
    page.wait_for("true")
    assert any("Content Security Policy" in complaint for complaint in page.complaints)
