"""The transformer classes of diffusers: every encoding with a table, a shape or a reason."""

import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from tests.client import Client

_FOLDER = files("service.models")
FACTS = json.loads((_FOLDER / "facts" / "diffusers-0.42.1.json").read_text())
ENTRIES = tomllib.loads((_FOLDER / "bodies" / "diffusers.toml").read_text())
UNREVIEWED = tomllib.loads((_FOLDER / "bodies" / "unreviewed.toml").read_text())

# Classes whose defaults do not determine their positions: what is missing, or does not fit.
UNBUILT = {
    "EasyAnimateTransformer3DModel": "patch_size is required",
    "HiDreamImageTransformer2DModel": "the sum of axes_dims_rope must be attention_head_dim",
    "HunyuanDiT2DModel": "patch_size is required",
    "LatteTransformer3DModel": "patch_size is required",
    "OmniGenTransformer2DModel": "short_factor is required",
}
WITHOUT = {
    "DreamLiteTransformer2DModel",
    "Transformer2DModel",
    "TransformerTemporalModel",
}


def described(client: Client, name: str, **config: Any) -> dict[str, Any]:
    answer = client.post("/model", json={"_class_name": name, **config})
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


def encodings(client: Client, name: str, **config: Any) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in described(client, name, **config)["encodings"]}


def values(encoding: dict[str, Any]) -> dict[str, Any]:
    return {name: each["value"] for name, each in encoding["values"].items()}


def test_every_class_of_the_library_has_entries() -> None:
    assert set(ENTRIES) == set(FACTS["types"])


def test_bodies_of_every_class_have_been_reviewed() -> None:
    """A body that is not among those of ``reviewed`` is to be read again, and its entries too."""
    unreviewed = set(UNREVIEWED["diffusers-0.42.1"])
    for name, facts in FACTS["types"].items():
        bodies = {module["body"] for module in facts.get("modules", ())}
        bodies |= set(facts.get("functions", {}).values())
        assert bodies <= {*ENTRIES[name]["reviewed"], *unreviewed}, name


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(UNBUILT)))
def test_every_encoding_of_a_class_has_links_or_a_reason(client: Client, name: str) -> None:
    report = described(client, name)

    assert report["knowledge"] == {"library": "diffusers 0.42.1", "status": "known"}
    assert not report["warnings"]
    assert bool(report["encodings"]) == (name not in WITHOUT)
    for encoding in report["encodings"]:
        assert encoding["known"]
        assert encoding["served"] != ("reason" in encoding)
        for url in encoding.get("links", {}).values():
            assert client.head(url).status_code == 200, url


@pytest.mark.parametrize("name", UNBUILT)
def test_defaults_that_do_not_determine_the_positions_are_refused(
    client: Client, name: str
) -> None:
    answer = client.post("/model", json={"_class_name": name})

    assert answer.status_code == 422
    assert UNBUILT[name] in answer.json()["detail"]


@pytest.mark.parametrize(
    "config",
    [
        {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 64]},
        {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": None},
        {"_class_name": "Flux2Transformer2DModel", "rope_theta": None},
        {"_class_name": "ChronoEditTransformer3DModel", "attention_head_dim": 64},
        {"_class_name": "HunyuanImageTransformer2DModel", "patch_size": [1, 1, 1]},
        {"_class_name": "UNet2DConditionModel", "attention_type": "gated"},
        {"_class_name": "DualTransformer2DModel"},
    ],
)
def test_what_does_not_fit_or_is_not_known_is_refused(
    client: Client, config: dict[str, Any]
) -> None:
    assert client.post("/model", json=config).status_code == 422


def test_changed_settings_change_the_table(client: Client) -> None:
    wan = encodings(client, "WanTransformer3DModel", attention_head_dim=64)["rotary"]
    hunyuan = encodings(
        client, "HunyuanVideoTransformer3DModel", rope_theta=500.0, rope_axes_dim=[32, 48, 48]
    )["rotary"]

    assert values(wan)["head_dim"] == 64
    assert values(hunyuan)["rope_theta"] == 500.0
    assert hunyuan["values"]["axes_dim"]["from"] == ["/rope_axes_dim"]


def test_which_tables_there_are_depends_on_the_config(client: Client) -> None:
    name = "CogVideoXTransformer3DModel"
    assert set(encodings(client, name)) == {"sinusoidal", "timestep"}

    fitted = encodings(client, name, use_rotary_positional_embeddings=True)["rotary"]
    sliced = encodings(client, name, use_rotary_positional_embeddings=True, patch_size_t=2)
    assert values(fitted)["reference_grid"] == [30, 45]
    assert "reference_grid" not in values(sliced["rotary"])


def test_allegro_is_linked_in_the_order_of_its_consumer(client: Client) -> None:
    rotary = encodings(client, "AllegroTransformer3DModel")["rotary"]

    assert "pack=allegro" in rotary["links"]["cos"]
    assert values(rotary)["interpolation_scale"] == [2.2, 2.0, 2.0]


def test_split_rows_of_ltx_2_are_compact(client: Client) -> None:
    rotary = encodings(client, "LTX2VideoTransformer3DModel", rope_type="split")["rotary"]

    assert rotary["layout"] == "half"
    assert rotary["shape"] == [16 * 16 * 24, 2048]
    assert values(rotary)["grid_offset"] == [-7, 0, 0]


def test_mochi_has_no_table_because_its_frequencies_are_weights(client: Client) -> None:
    rotary = encodings(client, "MochiTransformer3DModel")["rotary"]

    assert not rotary["served"]
    assert rotary["shape"] == [3, 24, 64]


def test_shapes_of_learned_tables_follow_the_config(client: Client) -> None:
    learned = encodings(client, "AuraFlowTransformer2DModel", pos_embed_max_size=4096)["learned"]
    cosmos = encodings(client, "CosmosTransformer3DModel", max_size=[64, 128, 256])

    assert learned["shape"] == [1, 4096, 3072]
    assert [cosmos[f"patches.{axis}"]["shape"][0] for axis in "thw"] == [64, 64, 128]


def test_sections_of_cosmos_3_are_cut_at_the_width_of_a_head(client: Client) -> None:
    name = "Cosmos3OmniTransformer"
    narrow = encodings(client, name, head_dim=64)["rotary"]
    sent = encodings(client, name, rope_scaling={"mrope_section": [32, 16, 16]})["rotary"]

    assert values(narrow)["mrope_section"] == [11, 11, 10]
    assert values(sent)["mrope_section"] == [32, 16, 16]


def test_rope_scaling_is_read_only_by_the_classes_that_have_it(client: Client) -> None:
    factors = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    name = "OmniGenTransformer2DModel"

    assert encodings(client, name, rope_scaling=factors)["rotary"]["served"]
    config = {"_class_name": "FluxTransformer2DModel", "rope_scaling": factors}
    assert client.post("/model", json=config).status_code == 422


UNET = {
    "_class_name": "UNet2DConditionModel",
    "block_out_channels": [320, 640, 1280, 1280],
    "flip_sin_to_cos": True,
    "freq_shift": 0,
}


def test_an_autoencoder_has_no_positions_and_a_unet_timesteps(client: Client) -> None:
    vae = {"_class_name": "AutoencoderKL", "scaling_factor": 0.18215}
    sizes = {"addition_embed_type": "text_time", "addition_time_embed_dim": 256}

    without = client.post("/model", json=vae).json()
    one, two = client.post("/model", json={**UNET, **sizes}).json()["encodings"]

    assert (without["encodings"], without["reason"]) == (
        [],
        "convolutions, and attention without positions",
    )
    assert (one["shape"], two["shape"]) == ([3, 320], [3, 256])
    other = client.post("/model", json={**UNET, "time_embedding_type": "fourier"})
    assert other.json()["errors"][0]["pointer"] == "/time_embedding_type"
