"""The search for an encoding, and the form of its parameters."""

from collections.abc import Callable

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
    "Llama-3.2-1B": "RoPE, llama3",
    "qwen2.5-7b-instruct": "RoPE, default",
    "phi-3-mini-4k": "RoPE, longrope",
    "pythia-160m": "RoPE, default",
    "flan-t5": "T5",
    "t5-small": "T5",
    "sdxl": "Timestep Embedding",
}
NOTHING = (
    "nope",
    "roberta",
    "roberta-large",
    "opt",
    "opt-125m",
    "nerf",
    "gpt2",
    "bert",
    "bart",
    "electra",
)
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


def test_fields_change_the_table_and_a_refused_one_is_repaired(
    new_tab: Callable[..., Tab],
) -> None:
    tab = new_tab()
    tab.open("/encoding/timesteps?num_timesteps=64&d_model=16")
    tab.wait_for_map()
    tab.page.locator("form details", has_text="More parameters").first.click()

    tab.page.get_by_label("flip_sin_to_cos").select_option("true")
    tab.page.wait_for_url("**?num_timesteps=64&d_model=16&flip_sin_to_cos=true*")
    size = tab.page.get_by_label("d_model")
    size.fill("24")
    tab.page.wait_for_url("**?num_timesteps=64&d_model=24&flip_sin_to_cos=true*")
    tab.page.get_by_role("heading", name="64 × 24").wait_for()
    assert tab.value("() => document.activeElement.name") == "d_model"
    tab.page.get_by_label("flip_sin_to_cos").select_option("false")
    tab.page.wait_for_url("**&flip_sin_to_cos=false*")
    tab.page.go_back()
    tab.page.wait_for_url("**&flip_sin_to_cos=true*")
    assert tab.page.get_by_label("flip_sin_to_cos").input_value() == "true"

    tab.open("/encoding/timesteps?num_timesteps=64&d_model=16&flip_sin_to_cos=yes")
    assert tab.page.get_by_label("flip_sin_to_cos").input_value() == "yes"
    tab.open("/encoding/timesteps?num_timesteps=64&d_modl=16")
    tab.role("button", "Use d_model").click()
    tab.page.wait_for_url("**?num_timesteps=64&d_model=16")
    tab.wait_for_map()
    tab.expect_refusal(422)
