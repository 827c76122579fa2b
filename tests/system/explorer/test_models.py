"""What the page shows of a model: all that a porter needs, each table once."""

import json
from typing import Any

import pytest

from tests.system.explorer.browser import Tab

pytestmark = pytest.mark.system

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
YARN = {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096}  # fmt: skip
DEEPSEEK = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_scaling": YARN}
SWIN = {"model_type": "swinv2", "image_size": 256, "depths": [2, 2, 6, 2], "window_size": 8}
LONGROPE = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
PHI = {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32,
       "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
       "rope_scaling": LONGROPE}  # fmt: skip


def describe(tab: Tab, model: dict[str, Any] | str, place: str = "Model") -> None:
    text = model if isinstance(model, str) else json.dumps(model)
    tab.page.get_by_label(place, exact=True).fill(text)


@pytest.fixture
def model_tab(tab: Tab) -> Tab:
    tab.open("/#view=model")
    return tab


def test_factors_of_attention_and_what_a_layer_writes_are_shown(model_tab: Tab) -> None:
    describe(model_tab, DEEPSEEK)

    row = model_tab.page.locator("tr", has_text="softmax_scale_multiplier")
    row.wait_for()
    assert "1.8738542070926265" in row.inner_text()
    assert "/rope_scaling/mscale_all_dim" in row.inner_text()
    assert "half" in model_tab.page.locator("dt", has_text="writes").locator("+ dd").inner_text()


def test_encodings_with_one_table_are_one_part_with_all_names(model_tab: Tab) -> None:
    describe(model_tab, SWIN)

    title = model_tab.page.locator(".part h2")
    title.first.wait_for()
    assert [each.count("relative-bias.") for each in title.all_inner_texts()] == [4]
    assert model_tab.page.locator("dt", has_text="counts").locator("~ dd").count() >= 4


def test_wavelengths_are_a_line_for_each_axis_or_length(model_tab: Tab) -> None:
    lines, names = (
        model_tab.page.locator(f".chart-card {each}").nth for each in (".chart", ".muted")
    )
    model_tab.role("button", "Qwen2-VL 7B").click()

    names(1).get_by_text("axis 1").wait_for()
    assert lines(1).locator(".series").count() == 2

    describe(model_tab, PHI)
    model_tab.page.get_by_label("Context length").fill("8192")
    model_tab.page.get_by_label("Context length").press("Enter")
    model_tab.role("link", "Open up to 8\u2009192").wait_for()
    names(0).get_by_text("up to 131\u2009072").wait_for()
    assert lines(0).locator(".series:not(.series-2)").count() == 2


def test_two_models_are_told_apart_and_sizes_of_heads_have_no_first_position(
    model_tab: Tab,
) -> None:
    describe(model_tab, LLAMA)
    model_tab.page.get_by_text("Compare with a second model").click()

    describe(model_tab, DEEPSEEK, "Second model")

    model_tab.role("heading", "First model: llama").wait_for()
    found = model_tab.page.locator(".found").inner_text()
    assert "rotary and rotary differ" in found
    assert "at position" not in found

    describe(model_tab, "/rope?head_dim=128&seq_len=4", "Second model")
    model_tab.page.get_by_text("rotary and the second are the same").wait_for()
    for url, words in (("/garbage", "There is no table"), ("/rope?head_dim=7", "7, not an even")):
        describe(model_tab, url, "Second model")
        alert = model_tab.role("alert")
        alert.get_by_text(words).wait_for()
        assert alert.locator("p").first.inner_text().startswith("second ")
        assert "names no table" not in alert.inner_text()
    describe(model_tab, "{x}", "Second model")
    model_tab.role("alert").get_by_text("this is not JSON").wait_for()
    model_tab.expect_refusal(422)


def test_layers_of_two_models_are_counted_where_both_have_them(model_tab: Tab) -> None:
    describe(model_tab, {**LLAMA, "num_hidden_layers": 32})
    model_tab.page.get_by_text("Compare with a second model").click()

    describe(model_tab, {**LLAMA, "num_hidden_layers": 28, "rope_theta": 500}, "Second model")

    model_tab.role("heading", "Two models: their encodings differ").wait_for()
    part = model_tab.page.locator(".part", has_text="Two models").inner_text()
    assert "all 28 layers" not in part
    assert "28 layers" in part
    assert "layers 28–31" in part


def test_a_reason_why_an_encoding_is_not_known_is_given_once(model_tab: Tab) -> None:
    keys: dict[str, Any] = {"block_count": 32, "context_length": 8192, "embedding_length": 4096}
    keys |= {"attention.head_count": 32, "rope.freq_base": 500000.0}
    own = {f"llama.{name}": value for name, value in keys.items()}

    describe(model_tab, {"general.architecture": "llama", **own})

    model_tab.page.get_by_text("Not known: ").wait_for()
    found = model_tab.page.locator(".found").inner_text()
    assert found.count("would divide the frequencies") == 1
    assert "open the file with it" in found
    assert "its code is not known" not in found


def test_learned_positions_are_said_to_be_in_the_weights(model_tab: Tab) -> None:
    describe(model_tab, {"model_type": "bert", "max_position_embeddings": 512})

    model_tab.role("heading", "learned positions: the weights").wait_for()
    assert model_tab.role("link", "Open the table").count() == 0


def test_a_grid_is_taken_as_shapes_are(model_tab: Tab) -> None:
    model_tab.role("button", "Qwen2-VL 7B").click()
    grid = model_tab.page.get_by_label("Grid of tokens")

    grid.fill("2 × 4x6")
    grid.press("Enter")

    model_tab.page.locator(".found a[href*='grid=2,4,6']").first.wait_for()
