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
