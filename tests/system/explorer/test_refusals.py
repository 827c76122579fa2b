"""What the page refuses in words: addresses, numbers, files, and a server that failed once."""

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest

from tests.system.explorer.browser import Tab

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Route

pytestmark = pytest.mark.system

TABLE = "/rope?head_dim=8&seq_len=64&pack=concat"
GRID = "/encoding/grid?convention=mae&height=8&width=8&d_model=16"
ALIBI = "/relative/alibi?query_len=16&num_heads={}"
HOSTILE = "//evil.example/encoding?seq_len=4&d_model=4"
LARGE = "/relative/swin?window_size=96,96"
READY = "() => document.querySelector('main .map')?.dataset.state === 'ready'"
KEEP_COPY = """if (navigator.clipboard)
  navigator.clipboard.writeText = async text => { window.copied = text }"""
GO = "url => { history.pushState(null, '', url); dispatchEvent(new Event('popstate')) }"
CHOICES = "() => [...document.querySelectorAll('.choice input')].map(each => each.value).join()"
DROP_TWO = """() => {
  const dataTransfer = new DataTransfer()
  for (const name of ["a.npy", "b.npy"]) dataTransfer.items.add(new File(["x"], name))
  const event = {bubbles: true, cancelable: true, dataTransfer}
  document.querySelector("main h2").dispatchEvent(new DragEvent("drop", event))
}"""


def alert(tab: Tab, words: str) -> None:
    tab.role("alert").get_by_text(words).first.wait_for()


def test_no_address_leads_to_another_server(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    assert tab.open(HOSTILE) == 404
    tab.role("alert").wait_for()
    links = "() => [...document.querySelectorAll('nav a')].map(each => each.origin)"
    assert set(tab.value(links)) == {tab.origin}
    tab.settle()
    tab.expect_refusal(404)

    tab.open(f"{TABLE}#vs={quote(HOSTILE, safe='')}")
    tab.wait_for_map()
    tab.role("button", "Swap").click()

    alert(tab, "evil.example")
    assert tab.page.url.startswith(tab.origin + TABLE)


def test_what_is_no_url_is_refused_in_words(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(TABLE)
    bar = tab.page.get_by_label("Request", exact=True).last
    for typed in ("http://[", "http://"):
        bar.fill(typed)
        bar.press("Enter")
        alert(tab, typed)

    tab.open("/#view=post&entry=encoding/apply")
    tab.page.locator(".map").wait_for()
    requests = len(tab.requested)
    for typed in ("http://[", "https://evil.example/encoding/apply"):
        tab.page.get_by_label("Path").fill(typed)
        tab.role("button", "Send").click()
        alert(tab, typed)
    assert len(tab.requested) == requests


def test_numbers_of_a_fragment_are_whole_and_in_bounds_or_not_read(tab: Tab) -> None:
    wrong = [(f"{TABLE}#channels={each}", 0) for each in ("-1", "1.5,x", "8")]
    for number in ("abc", "-1", "1.5", "16"):
        wrong.append((f"{GRID}#image={number}&frame={number}", 1))
        wrong.append((f"{ALIBI.format(2)}#head={number}", 1))
    for heads in (2, 4):
        other = quote(ALIBI.format(6 - heads), safe="")
        wrong.append((f"{ALIBI.format(heads)}#head=3&vs={other}", 1))
    tab.open(TABLE)
    for target, choices in wrong:
        tab.value(GO, target)
        tab.wait_for(f"text => ({CHOICES})() === text", ",".join("0" * choices))
        tab.wait_for_map()
        assert tab.role("alert").count() == 0, target


def refuse_once(route: "Route", refused: set[str]) -> None:
    url = route.request.url
    if url in refused:
        route.continue_()
        return
    refused.add(url)
    problem = {"title": "Overloaded", "status": 503, "detail": "waiting"}
    route.fulfill(status=503, body=json.dumps(problem), content_type="application/problem+json")


def test_page_recovers_from_requests_that_failed_once(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    refused: set[str] = set()
    for pattern in ("**/catalogue", "**/frequencies?*", "**/describe?*"):
        tab.page.route(pattern, lambda route: refuse_once(route, refused))
    tab.open(TABLE)
    alert(tab, "waiting")

    tab.role("alert").get_by_role("button", name="Try again").click()
    tab.page.locator("#encodings [data-id]").first.wait_for()
    tab.wait_for(READY)
    tab.value(GO, f"{TABLE}#vs={quote(TABLE.replace('=64', '=32'), safe='')}")
    alert(tab, "waiting")
    tab.role("alert").get_by_role("button", name="Try again").click()
    tab.wait_for(READY)

    assert tab.role("alert").count() == 0
    assert len(refused) == 3
    tab.page.route("**/file.js", lambda route: route.fulfill(status=404, body=""))
    tab.role("link", "File").click()
    tab.page.unroute("**/file.js")
    tab.role("button", "Reload the page").click()
    tab.role("heading", "No file yet").wait_for()
    tab.expect_refusal(503)
    tab.expect_refusal(404)


OTHERS = ["null", "[]", "{}", '{"data": {"wavelength": "abc"}}', "<p>"]
OTHERS += ['{"entries": []}', '{"entries": [{"path": "/rope"}], "groups": [1]}']
OTHERS += ['{"entries": {"length": 1}, "groups": [1]}']


@pytest.mark.parametrize("body", OTHERS)
def test_answer_of_another_kind_is_one_sentence_in_the_page(body: str, tab: Tab) -> None:
    tab.page.route(
        re.compile("/(catalogue|model|[^#]*frequencies)([?]|$)"),
        lambda route: route.fulfill(body=body, content_type="application/json"),
    )

    tab.open(TABLE)
    alert(tab, "another one")
    tab.role("alert").get_by_role("button", name="Try again").wait_for()
    tab.role("status", "").get_by_text("cut off").wait_for()
    tab.open("/#view=model")
    tab.role("button", "Llama 3.1 8B").click()
    tab.page.locator(".found").get_by_text("cut off").wait_for()
    tab.open("/#view=learn&story=scaling&step=2")
    alert(tab, "cut off")


def test_copies_are_of_what_their_addresses_have(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.page.add_init_script(KEEP_COPY)
    tab.open(LARGE)
    tab.wait_for(READY)
    tab.role("button", "Copy as").click()
    tab.page.get_by_role("menuitem", name="Python").click()
    tab.wait_for("() => window.copied")
    assert "# 9216 × 9216, int32" in tab.value("() => window.copied")
    assert "row = 9216\n" in tab.value("() => window.copied")
    tab.open("/rope?head_dim=128&seq_len=9007199254740992")
    tab.wait_for(READY)
    tab.role("button", "Copy as").click()
    tab.page.get_by_role("menuitem", name="curl").click()
    tab.wait_for("() => window.copied")
    program = tab.value("() => window.copied")
    assert ", rows in order, one position in 3\n" in program
    bar = tab.page.get_by_label("Request", exact=True).last
    bar.fill(program.replace("\n", " "))
    bar.press("Enter")
    tab.page.wait_for_url(re.compile(r"/rope[?].*positions=\d+:\d+:3"))
    tab.wait_for(READY)

    tab.open("/relative?d_model=4&offsets=5,-3")
    tab.wait_for(READY)
    tab.role("button", "Copy as").click()
    tab.page.get_by_role("menuitem", name="Numbers in sight").click()
    alert(tab, "no parameter selects one offset")


def npy(shape: str, descr: str = "<f4", version: int = 1, size: int = 32) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + bytes(size)


def tensors(size: int, *described: Mapping[str, Any]) -> bytes:
    """Return a safetensors file whose tensors all have the name `a` if they have none."""
    members = (f'"{each.get("name", "a")}": {json.dumps(dict(each))}' for each in described)
    header = f"{{{', '.join(members)}}}".encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def tensor(shape: object, *offsets: int, dtype: str = "F32", name: str = "a") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, "name": name}


MALFORMED = {
    "a shape that is shorter than its bytes": tensors(32, tensor([2, 2], 0, 32)),
    "tensors that overlap": tensors(32, tensor([4, 2], 0, 32), tensor([2], 24, 32, name="b")),
    "bytes of no tensor": tensors(32, tensor([2, 2], 0, 16)),
    "a name twice": tensors(32, tensor([4, 2], 0, 32), tensor([2, 4], 0, 32)),
    "lengths as texts": tensors(32, tensor(["4", "2"], 0, 32)),
    "lengths in lists": tensors(32, tensor([[4], 2], 0, 32)),
    "a negative offset": tensors(32, tensor([4, 2], -8, 24)),
    "a negative length": npy("(-4, -2)"),
    "a fraction": npy("(0.4, 20)"),
    "version 9": npy("(4, 2)", version=9),
    "extended precision": npy("(2, 1)", "<f16"),
    "void": npy("(4, 2)", "|V4"),
    "8 bits": tensors(32, tensor([16, 2], 0, 32, dtype="F8_E4M3")),
    "4 bits": tensors(32, tensor([32, 2], 0, 32, dtype="F4")),
    "one number": npy("()", size=4),
    "no element": npy("(0, 4)", size=0),
}


def give(tab: Tab, name: str, content: bytes, outcome: str) -> None:
    """Open a file with this content in the File view, wait for an outcome, and forget it."""
    file: FilePayload = {"name": f"{name}.npy", "mimeType": "", "buffer": content}
    tab.page.locator("input[type=file]").first.set_input_files(file)
    tab.page.locator("[data-name=told]", has_text=name).wait_for()
    tab.page.locator(".found").get_by_text(outcome).first.wait_for()
    tab.page.locator(".found").evaluate("found => found.replaceChildren()")


def test_file_that_the_server_would_refuse_is_not_sent(tab: Tab) -> None:
    tab.open("/#view=file")
    for name, content in MALFORMED.items():
        give(tab, name, content, "This file cannot be read")

    tab.value(DROP_TWO)
    alert(tab, "One file at a time")
    assert not [each for each in tab.requested if "/identify" in each]


NO_ARRAYS = {
    "array.json": b"[[1.0, 0.0], [0.0, 1.0]]",
    "short.json": b"[1, 2]",
    "config.json": b'{\n  "model_type": "llama"\n}',
    "arrays.npz": b"PK\x03\x04" + bytes(40),
}


def test_json_and_archives_are_not_taken_for_elements_alone(tab: Tab) -> None:
    tab.open("/#view=file")
    for name, content in NO_ARRAYS.items():
        give(tab, name, content, "A config goes in “What it should be”")
        assert tab.page.get_by_label("Shape").is_hidden()

    give(tab, "elements", np.ones(8, dtype="<f4").tobytes(), "say the shape of its elements")
    assert tab.page.get_by_label("Shape").is_visible()


def test_a_table_that_is_not_there_is_refused_without_names_of_parameters(
    new_tab: Callable[..., Tab],
) -> None:
    tab = new_tab()
    tab.open("/#view=file")
    tab.page.get_by_label("What it should be").fill("/garbage")
    file: FilePayload = {"name": "a.npy", "mimeType": "", "buffer": npy("(4, 2)")}

    tab.page.locator("input[type=file]").first.set_input_files(file)

    alert(tab, "There is no table at /garbage")
    assert "names no table" not in tab.role("alert").inner_text()
    tab.settle()
    tab.expect_refusal(422)


def test_addresses_without_a_scheme_and_with_escapes_are_understood(tab: Tab) -> None:
    tab.open("/%72ope?head_dim=8&seq_len=64")
    tab.wait_for_map()
    assert tab.page.get_by_text("No encoding has this address").is_hidden()
    bar = tab.page.get_by_label("Request", exact=True).last
    for at, typed in enumerate(
        ("localhost:1/rope?head_dim={}", "curl localhost/rope?head_dim={}",
         "curl -s '127.0.0.1:1/rope?head_dim={}' -o x", "rope?head_dim={}", "GET /rope?head_dim={}")
    ):  # fmt: skip
        query = f"{2 * at + 4}&seq_len=9"
        bar.fill(typed.format(query))
        bar.press("Enter")
        tab.page.wait_for_url(f"{tab.origin}/rope?head_dim={query}*")
        tab.wait_for_map()


def test_a_table_that_the_server_proposes_fills_what_it_should_be(
    new_tab: Callable[..., Tab],
) -> None:
    tab = new_tab()
    fault = {"detail": "give the link", "pointer": None, "url": f"/diagnose?to={quote(TABLE)}"}
    problem = {"title": "Invalid body", "status": 422, "detail": "no", "errors": [fault]}
    refused = {"status": 422, "body": json.dumps(problem)}
    tab.page.route("**/diagnose?*", lambda route: route.fulfill(**refused))
    tab.open("/#view=file")
    expected = tab.page.get_by_label("What it should be")
    for url in (fault["url"], TABLE.replace("?", ".npy?")):
        fault["url"] = url
        refused["body"] = json.dumps(problem)
        expected.fill("{}")
        file: FilePayload = {"name": "a.npy", "mimeType": "", "buffer": npy("(4, 2)")}
        tab.page.locator("input[type=file]").first.set_input_files(file)

        tab.page.locator(f".fault a[href='{url}']").click()

        assert expected.input_value() == TABLE
    tab.expect_refusal(422)


def test_well_formed_file_is_sent(tab: Tab) -> None:
    numbers = np.arange(8, dtype="<f4").tobytes()
    two = tensors(0, tensor([2, 2], 16, 32, name="b"), tensor([4], 0, 16))
    tab.open("/#view=file")
    for name, head in {
        "two": two,
        "old": npy("(4L, 2L)", size=0),
        "one": npy("(8,)", size=0),
    }.items():
        give(tab, name, head + numbers, "None of the tables that were tried")
