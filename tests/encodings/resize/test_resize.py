"""Resized tables: the forms of the weights agree, and sent tables get exactly these sums."""

import re
from typing import Any

import numpy as np
import pytest

from service.encodings.resize.resize import ResizedRows
from tests.client import Client, npy_bytes

GRID = np.random.default_rng(1).standard_normal((5, 4, 3))


def arrays_of(client: Client, query: str) -> dict[str, Any]:
    answer = client.get(f"/resize.json?{query}")
    assert answer.status_code == 200, answer.text
    return {name: np.array(own) for name, own in answer.json()["data"].items()}


def resized(client: Client, query: str, x: Any) -> Any:
    answer = client.post(f"/resize/apply?{query}", json={"x": x.tolist()})
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


@pytest.mark.parametrize(
    "query",
    [
        "size=6,8&mode=bicubic",
        "size=3,8&mode=bilinear&antialias=true",
        "size=6,8&convention=qwen3_vl",
        "size=6,8&mode=bicubic&spatial_merge_size=2",
    ],
)
def test_sparse_dense_and_gathered_weights_and_applied_ones_agree(
    client: Client, query: str
) -> None:
    of_table = f"{query}&old_size=5,4"
    dense, gather = (arrays_of(client, f"{of_table}&part={part}") for part in ("dense", "gather"))
    sparse, out = arrays_of(client, of_table), resized(client, query, GRID)
    raster = np.einsum("ya,xb,abc->yxc", dense["height"], dense["width"], GRID)
    flat = GRID.reshape(20, 3)[gather["index"]]

    for name in ("height", "width"):
        rebuilt = np.zeros_like(dense[name])
        places = np.arange(len(rebuilt))[:, np.newaxis]
        np.add.at(rebuilt, (places, sparse[f"{name}_index"]), sparse[f"{name}_weight"])
        assert (rebuilt == dense[name]).all()
    np.testing.assert_allclose(
        (flat * gather["weight"][..., np.newaxis]).sum(1), out.reshape(-1, 3), atol=1e-14
    )
    if "merge" in query or "qwen" in query:
        height, width = raster.shape[:2]
        raster = raster.reshape(height // 2, 2, width // 2, 2, 3).swapaxes(1, 2).reshape(-1, 3)
    np.testing.assert_allclose(out, raster, atol=1e-14)


def test_class_tokens_extra_rows_and_a_leading_axis_are_kept(client: Client) -> None:
    rows = np.random.default_rng(2).standard_normal((1, 1 + 16, 2))
    out = resized(client, "size=6&convention=vit", rows)
    window = np.random.default_rng(3).standard_normal((9 + 3, 2))
    biases = resized(client, "size=3&convention=beit_rel_pos", window)

    answer = client.post("/resize/apply?size=6&convention=vit", json={"x": rows.tolist()})
    assert answer.headers["Array-Axes"] == "batch, position, channel"
    assert out.shape == (1, 37, 2)
    assert (out[0, 0] == rows[0, 0]).all()
    assert biases.shape == (28, 2)
    assert (biases[-3:] == window[-3:]).all()


def test_the_same_size_changes_nothing(client: Client) -> None:
    for convention in ("vit", "dino", "timm", "timm_rel_pos"):
        rows = np.random.default_rng(4).standard_normal((1 + 9 - (convention[-3:] == "pos"), 2))
        size = 2 if convention == "timm_rel_pos" else 3

        assert (resized(client, f"size={size}&convention={convention}", rows) == rows).all()


def test_exact_rationals_are_in_json_alone(client: Client) -> None:
    url = "old_size=4&size=6&mode=bicubic&exact=true"
    exact = client.get(f"/resize.json?{url}").json()["exact"]["height"]
    file = client.get(f"/resize.safetensors?{url}")

    assert exact["numerator"][0] == ["313", "-25", "0", "0"]
    assert exact["denominator"][0] == "288"
    assert file.status_code == 422
    assert "exact" in file.text


def bicubic_in_float32(x: Any, new: int) -> Any:
    """Resize the first axis as torch's interpolate does on a CPU."""
    old, one = len(x), np.float32(1)
    a, scale = np.float32(-0.75), np.float32(len(x)) / np.float32(new)
    places = scale * (np.arange(new, dtype=np.float32) + np.float32(0.5)) - np.float32(0.5)
    t = places - np.floor(places)

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + one

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(t + one), near(t), near(one - t), far((one - t) + one))
    taps = np.clip(np.floor(places).astype(int)[:, np.newaxis] + np.arange(-1, 3), 0, old - 1)
    return sum(
        own[:, np.newaxis, np.newaxis] * x[tap] for own, tap in zip(weights, taps.T, strict=True)
    )


@pytest.mark.parametrize(
    ("old", "new"), [((2, 2), (25, 28)), ((9, 9), (54, 35)), ((12, 10), (45, 56))]
)
def test_float32_of_libraries_is_within_the_bound_of_the_warning(
    client: Client, old: tuple[int, int], new: tuple[int, int]
) -> None:
    query = f"mode=bicubic&old_size={old[0]},{old[1]}&size={new[0]},{new[1]}"
    warning = client.get(f"/resize.json?{query}").json()["warnings"][0]["detail"]
    (places,) = re.findall(r"within (\d+)·2\^-23 ", warning)
    dense = arrays_of(client, f"{query}&part=dense")
    signs = np.sign(np.random.default_rng(6).standard_normal((*old, 40))).astype(np.float32)

    theirs = bicubic_in_float32(signs.swapaxes(0, 1), new[1]).swapaxes(0, 1)
    theirs = bicubic_in_float32(theirs, new[0]).astype(np.float64)
    exact = np.einsum("ya,xb,abc->yxc", dense["height"], dense["width"], signs)
    distance = np.abs(theirs - exact).max(-1)

    assert theirs.dtype == np.float64
    assert (distance < int(places) * 2.0**-23).all()
    # A bound that is sixteen times smaller would not hold.
    assert (distance > int(places) * 2.0**-27).any()


@pytest.mark.parametrize(
    ("query", "shape", "hint"),
    [
        ("size=3&convention=vit", (11, 2), "old_size"),
        ("size=3&mode=bicubic", (1, 9, 2), "two readings"),
        ("size=3&mode=bicubic", (1, 3, 2, 2), "send old_size"),
        ("size=3&mode=bicubic&old_size=4", (3, 3, 2), "old_size=4"),
        ("size=3&mode=bicubic&num_prefix_tokens=1", (3, 3, 2), "num_prefix_tokens"),
        ("size=3&convention=timm_rel_pos", (3, 3, 2), "height, width"),
        ("size=3&convention=timm_rel_pos", (8, 2), "old_size"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    client: Client, query: str, shape: tuple[int, ...], hint: str
) -> None:
    answer = client.post(f"/resize/apply?{query}", json={"x": np.ones(shape).tolist()})

    assert answer.status_code == 422
    assert hint in answer.text


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        (
            "size=5,1&mode=bilinear&antialias=true&old_size=8",
            ["library-rounding", "library-defect"],
        ),
        ("size=8,6&convention=sam_rel_pos&old_size=9", ["library-rounding", "library-rows"]),
        ("size=5&convention=beit_rel_pos&old_size=3,4", ["library-rounding", "library-defect"]),
        ("size=5&mode=nearest&old_size=3", []),
    ],
)
def test_what_libraries_do_otherwise_has_a_warning(
    client: Client, query: str, codes: list[str]
) -> None:
    answer = client.get(f"/resize.json?{query}")

    assert [each["code"] for each in answer.json().get("warnings", [])] == codes
    assert answer.headers.get("Array-Warnings", "") == ", ".join(codes)
    assert "Array-Warnings" in answer.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize(
    ("options", "dtype", "largest", "status"),
    [
        ("bilinear", "float32", 3e38, 200),
        ("bilinear", "float16", 65000, 200),
        ("area", "float64", 1.7e308, 200),
        ("bilinear", "float32", np.inf, 422),
        ("bicubic", "float32", 1.7e38, 200),
        ("bicubic", "float32", 3e38, 422),
        ("bicubic&a=-1", "float32", 1.7e38, 422),
        ("bicubic&antialias=true", "float16", 4000, 200),
    ],
)
def test_json_holds_what_cannot_become_infinite(
    client: Client, options: str, dtype: str, largest: float, status: int
) -> None:
    # The largest sums are those of numbers with the signs of the weights.
    signs = np.outer([-1, 1, 1, -1], [-1, 1, 1, -1])[..., np.newaxis]
    x = (largest * signs).astype(dtype)
    headers = {"Content-Type": "application/x-npy"}

    url = f"/resize/apply.json?mode={options}&size=1"
    answer = client.post(url, content=npy_bytes(x), headers=headers)

    assert answer.status_code == status


def test_a_table_past_the_limit_is_refused_before_it_is_computed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResizedRows, "numbers", None)
    x = [[[0.5] * 100], [[0.25] * 100]]

    answer = client.post("/resize/apply?mode=bicubic&size=4096&old_size=2,1", json={"x": x})

    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("model", "convention"),
    [("dinov2", "vit"), ("clip", "vit"), ("swin", "timm_rel_pos"), ("beit", "beit_rel_pos"),
     ("sam", "sam_rel_pos"), ("internvl", "vit"), ("dinov2_with_registers", "timm")],
)  # fmt: skip
def test_a_model_leads_to_the_function_that_resizes_its_table(
    client: Client, model: str, convention: str
) -> None:
    answer = client.get(f"/resize?old_size=2&size=3&convention={model}")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["detail"] == f"did you mean convention={convention}?"


@pytest.mark.parametrize(
    ("model", "place"),
    [("dinov3", "/rope/axial?convention=dinov3"), ("radio", "mode"), ("yolos", "mode")],
)
def test_a_model_without_a_function_of_its_name_leads_to_what_has_it(
    client: Client, model: str, place: str
) -> None:
    (error,) = client.get(f"/resize?old_size=2&size=3&convention={model}").json()["errors"]

    assert place in error["detail"]
    assert "did you mean" not in error["detail"]
