"""The search for an encoding, and the form of its parameters."""

import pytest

from tests.system.explorer.browser import Tab

pytestmark = pytest.mark.system

FOUND = {
    "rotary": "RoPE, default",
    "m-rope": "RoPE, default",
    "xpos": "RoPE, default",
    "absolute": "Attention Temperature, llama4",
    "swin_v2": "Swin V2",
    "mistral": "RoPE, default",
    "gpt-neox": "RoPE, default",
    "deepseek": "RoPE, yarn",
    "hunyuan": "RoPE, alpha",
    "bloom": "ALiBi, bloom",
    "dinov2": "Resize, vit",
    "video": "Axial, cogvideox",
    "llama 3.1": "RoPE, llama3",
    "Gemma 3": "RoPE, default",
    "internvl": "Resize, vit",
    "musicgen": "Timestep Embedding",
    "ntk-aware": "RoPE, dynamic",
    "interpolate": "Resize, torch",
    "rope_scaling": "RoPE, linear",
    "stable diffusion": "Timestep Embedding",
    "Stable Diffusion 3": "Grid Encoding, diffusers",
    "rope_type": "RoPE, default",
    "partial_rotary_factor": "RoPE, default",
    "beta_fast": "RoPE, yarn",
}
NOTHING = ("nope", "roberta", "opt", "nerf", "gpt2", "bert", "bart", "electra")
NEAR = {"whsiper": "whisper", "roep": "default", "alibbi": "original"}
IS_ABOVE = """() => {
  const help = document.querySelector(".field.set .help")
  const {left, top, width, height} = help.getBoundingClientRect()
  return help.contains(document.elementFromPoint(left + width / 2, top + height / 2))
}"""


def test_search_finds_by_any_spelling_group_and_parameter(tab: Tab) -> None:
    tab.open("/")
    search, options = tab.role("combobox", "Find an encoding"), tab.page.locator("#encodings")
    options.locator("[aria-selected=true]").wait_for()

    for typed, title in FOUND.items():
        search.fill(typed)
        first = options.locator("[role=option]").first.locator("span")
        assert title.endswith(first.inner_text()), typed
    for typed, name in NEAR.items():
        search.fill(typed)
        assert options.get_by_text("Nothing found. Perhaps:").count() == 1
        assert options.locator("span").first.inner_text() == name
    for typed in NOTHING:
        search.fill(typed)
        assert options.get_by_text("Nothing found. Perhaps:").count() == 1
        assert options.locator("span").count() == 0, typed
    options.get_by_text("a model, by its config").click()

    tab.page.get_by_label("Model", exact=True).wait_for()


def test_help_of_a_field_lies_above_the_map(tab: Tab) -> None:
    tab.open("/")
    tab.wait_for_map()

    tab.page.locator("#parameter-head_dim").click()

    tab.wait_for(IS_ABOVE)
