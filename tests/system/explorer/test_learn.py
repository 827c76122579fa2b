"""The guided views: every step is a permalink, and its numbers are those of the server."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from tests.system.explorer.browser import Tab
from tests.system.servers import ROOT, Server

pytestmark = pytest.mark.system

WORDS = json.loads((ROOT / "service" / "explorer" / "stories.json").read_text())
STORIES = {story["name"]: story for story in WORDS}
STEPS = [(name, at + 1) for name, story in STORIES.items() for at in range(len(story["steps"]))]
EXACT = "/rope.bin?head_dim=128&rope_theta=500000&pack=concat&positions=1,8,32,131072"
FREQUENCIES = "/rope/frequencies?head_dim=128&rope_theta=500000"
LEAD = ".learn .lead"


def text_of(tab: Tab, story: str, step: int) -> str:
    """Open a step and return its text."""
    tab.open(f"/#view=learn&story={story}&step={step}")
    wait_for_step(tab, story, step)
    return str(tab.page.locator(LEAD).inner_text())


def wait_for_step(tab: Tab, story: str, step: int) -> None:
    tab.page.get_by_role("heading", name=STORIES[story]["title"]).wait_for()
    tab.page.get_by_text(f"{step} of {len(STORIES[story]['steps'])}", exact=True).wait_for()


@pytest.fixture
def wavelengths(server: Server) -> Callable[[str], Any]:
    return lambda rule: np.array(server.get(FREQUENCIES + rule).json()["data"]["wavelength"])


def test_arrow_keys_lead_through_every_step_and_back(tab: Tab) -> None:
    texts = [text_of(tab, *STEPS[0])]
    for story, step in STEPS[1:]:
        tab.press("ArrowRight")
        wait_for_step(tab, story, step)
        texts.append(tab.page.locator(LEAD).inner_text())
        assert tab.page.locator(".learn .figure > *").count() == 1

    assert len(set(texts)) == len(STEPS)
    assert not re.search(r"[{}]|undefined|NaN", " ".join(texts))
    assert tab.page.url.endswith("story={}&step={}".format(*STEPS[-1]))
    for story, step in STEPS[-2::-1]:
        tab.press("ArrowLeft")
        wait_for_step(tab, story, step)
    assert tab.page.locator(LEAD).inner_text() == texts[0]
    tab.page.go_back()
    wait_for_step(tab, *STEPS[1])


def test_next_button_leads_on(tab: Tab) -> None:
    text_of(tab, *STEPS[0])

    tab.role("link", "Next").click()

    wait_for_step(tab, *STEPS[1])


def test_differences_are_those_of_the_tables(tab: Tab, server: Server) -> None:
    def rows(target: str) -> Any:
        content = server.get(f"{target}&dtype=float64").content
        return np.frombuffer(content, "<f8").reshape(4, 128)

    def most(target: str) -> Any:
        return abs(rows(EXACT) - rows(target)).max(axis=1)

    wrong, rounded = most(EXACT.replace("500000", "10000")), most(f"{EXACT}&angle=float32")

    told = numbers_in(text_of(tab, "positions", 3))
    np.testing.assert_allclose([told[0], told[2], told[4]], wrong[:3], rtol=0.05)
    told = numbers_in(text_of(tab, "positions", 4))
    assert told[0] == pytest.approx(rounded[0], rel=0.05)
    assert told[2] == pytest.approx(rounded[3], rel=0.05)
    url = "/rope?head_dim=128&seq_len=131072&rope_theta=500000&pack=concat"
    pair = {"have": f"{url}&angle=float32", "to": url}
    largest = server.get(f"/compare?{urlencode(pair)}").json()["largest"]["absolute"]["error"]
    assert told[3] == pytest.approx(largest, rel=0.01)


def test_wavelengths_are_those_of_the_rules(tab: Tab, wavelengths: Callable[[str], Any]) -> None:
    before = wavelengths("")
    rules = [step["rule"] for step in STORIES["scaling"]["steps"]]
    counts = [
        (int((ratio < 1.001).sum()), int((ratio > 15.99).sum()))
        for ratio in (wavelengths(rule) / before for rule in rules)
    ]

    assert f"{(before > 8192).sum()} of 64 pairs" in text_of(tab, "scaling", 1)
    text = text_of(tab, "scaling", 2)
    assert f"{wavelengths(rules[1])[0]:.1f} positions" in text
    assert f"instead of {before[0]:.3f}." in text
    slowest = (wavelengths(rules[2]) / before)[-1]
    assert f"{slowest:.0f} times slower" in text_of(tab, "scaling", 3)
    for step in (4, 5):
        text = text_of(tab, "scaling", step)
        kept, stretched = counts[step - 1]
        assert f"{kept} " in text
        assert f"{stretched} " in text


@pytest.mark.parametrize(("step", "position"), [(2, 0), (3, 1)])
def test_rotated_vectors_are_those_of_the_layouts(
    step: int, position: int, tab: Tab, server: Server
) -> None:
    text = text_of(tab, "layout", step)
    body = {"x": [[1] * 8] * 2}
    half, interleaved = (
        np.array(
            tab.page.request.post(server.url(f"/rope/apply?layout={name}"), data=body).json()[
                "data"
            ]
        )[position]
        for name in ("half", "interleaved")
    )

    assert f"{(half != interleaved).sum()} of 8 channels" in text
    shown = tab.page.locator(".learn tbody tr").all_inner_texts()
    told = [numbers_in(row) for row in shown]
    np.testing.assert_allclose(told, [half, interleaved], atol=5e-5)


def numbers_in(text: str) -> list[float]:
    plain = text.replace("\N{MINUS SIGN}", "-").replace("\N{THIN SPACE}", "").replace("131 072", "")
    return [float(each) for each in re.findall(r"(?<![\w.])-?\d[\d.]*(?:e-?\d+)?(?![\w])", plain)]
