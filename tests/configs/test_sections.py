"""Sections for several position axes."""

from tests.configs.settings import entry_of, llama, value_of


def test_sections_and_their_order_are_read_or_the_class_s_own() -> None:
    said = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    class_s = {"model_type": "qwen3_vl_text"}

    assert value_of(llama(rope_scaling=said), "mrope_interleaved") is True
    assert value_of(class_s, "mrope_section") == (24, 20, 20)
    assert value_of(class_s, "mrope_interleaved") is True


def test_sections_of_a_class_that_do_not_fit_are_left_out() -> None:
    config = {"model_type": "qwen2_vl_text", "hidden_size": 64, "num_attention_heads": 8}

    assert "mrope_section" not in entry_of(config).values


def test_sections_in_another_order_are_left_out_of_the_table() -> None:
    assert "mrope_section" not in entry_of({"model_type": "ernie4_5_vl_moe_text"}).values
