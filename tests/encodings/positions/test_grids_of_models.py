"""Positions of grids: vision encoders, models that make images, and fractions of videos."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.positions.position_ids import PositionIds
from service.errors import InvalidRequest
from service.numerics.tables import size
from tests.client import Client
from tests.encodings.positions.test_one_axis import arrays_of

MERGES = st.integers(1, 3)


def grids(merge: int) -> Any:
    side = st.integers(1, 5).map(lambda number: number * merge)
    return st.lists(st.tuples(st.integers(1, 3), side, side), min_size=1, max_size=3)


@given(MERGES.flatmap(lambda merge: st.tuples(st.just(merge), grids(merge))), st.booleans())
def test_patches_are_numbered_block_by_block(
    case: tuple[int, list[tuple[int, int, int]]], include_temporal: bool
) -> None:
    merge, sent = case
    places = [
        (frame, row + y, column + x)[not include_temporal :]
        for frames, height, width in sent
        for frame in range(frames)
        for row in range(0, height, merge)
        for column in range(0, width, merge)
        for y in range(merge)
        for x in range(merge)
    ]

    found = arrays_of(
        {
            "convention": "vision_grid",
            "grids": sent,
            "spatial_merge_size": merge,
            "include_temporal": include_temporal,
        }
    )

    assert list(zip(*found["position_ids"], strict=True)) == places
    frames = [height * width for count, height, width in sent for _ in range(count)]
    assert found["cu_frame_seqlens"] == [0, *np.cumsum(frames).tolist()]


@given(MERGES.flatmap(lambda merge: st.tuples(st.just(merge), grids(merge))), st.integers(1, 4))
def test_windows_take_the_tokens_of_each_frame(
    case: tuple[int, list[tuple[int, int, int]]], side: int
) -> None:
    merge, sent = case
    order, ends, first = [], [0], 0
    for frames, *sides in sent:
        height, width = (each // merge for each in sides)
        for frame in range(frames):
            for top in range(0, height, side):
                for left in range(0, width, side):
                    window = [
                        first + (frame * height + row) * width + column
                        for row in range(top, min(top + side, height))
                        for column in range(left, min(left + side, width))
                    ]
                    order += window
                    ends.append(ends[-1] + len(window) * merge**2)
        first += frames * height * width

    found = arrays_of(
        {
            "convention": "vision_windows",
            "grids": sent,
            "spatial_merge_size": merge,
            "patch_size": 14,
            "window_size": 14 * merge * side + 13,
        }
    )

    assert found == {"window_index": order, "cu_window_seqlens": ends}


def test_padding_of_gemma_4_is_behind_each_image() -> None:
    found = arrays_of({"convention": "gemma4", "sizes": [[1, 2], [2, 2]], "length": 5})

    x, y = found["position_ids"]
    assert x == [[0, 1, -1, -1, -1], [0, 1, 0, 1, -1]]
    assert y == [[0, 0, -1, -1, -1], [0, 0, 1, 1, -1]]


@given(st.integers(1, 80), st.integers(1, 12), st.integers(1, 12))
def test_a_bucket_is_the_exact_share_of_the_side(side: int, height: int, width: int) -> None:
    body = {"convention": "buckets", "num_patches_per_side": side, "sizes": [[height, width]]}

    buckets = [
        [side * y // height * side + side * x // width for x in range(width)] for y in range(height)
    ]
    assert arrays_of(body)["position_ids"] == [each for row in buckets for each in row]
    canvas = arrays_of({**body, "canvas": [height + 1, width + 2]})["position_ids"]
    shown = [[*row, 0, 0] for row in buckets] + [[0] * (width + 2)]
    assert np.array_equal(canvas, [np.ravel(shown)])


# torch 2.13.0 on x86-64 with the two functions of transformers 5.23.0, of sides up to 142.
OTHERS_IN_FLOAT32 = {
    (70, True): [25, 49, 50, 55, 82, 94, 98, 100, 110, 115, 122, 135],
    (70, False): [],
    (27, True): [],
    (27, False): [27, 54],
    (64, True): [82, 94, 110, 122],
    **{(side, with_canvas): [] for side in (7, 14, 16, 24, 32) for with_canvas in (True, False)},
}


@pytest.mark.parametrize(("side", "with_canvas"), OTHERS_IN_FLOAT32)
def test_a_warning_names_the_sides_that_libraries_round(side: int, with_canvas: bool) -> None:
    sizes = [[number, 1] for number in range(1, 2 * side + 3)]
    body = {"convention": "buckets", "num_patches_per_side": side, "sizes": sizes}
    if with_canvas:
        body["canvas"] = [2 * side + 2, 2]

    warnings = PositionIds.model_validate(body).resolve({}).warnings

    named = [each.detail.split("sides ")[1].split(" are")[0] for each in warnings]
    libraries = {True: "Idefics", False: "MiniCPM-V"}
    expected = "; ".join(
        f"{', '.join(map(str, OTHERS_IN_FLOAT32[side, each]))} ({libraries[each]})"
        for each in {with_canvas, True}
        if OTHERS_IN_FLOAT32[side, each]
    )
    assert named == [expected] * bool(expected)
    assert {each.code for each in warnings} <= {"library-rounding"}


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (
            {"convention": "flux", "text": 1, "sizes": [[1, 2], [1, 1], [1, 1]]},
            [(0, 0, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 0)],
        ),
        ({"convention": "krea2", "text": 1, "sizes": [[2, 1]]}, [(0, 0, 0), (0, 0, 0), (0, 1, 0)]),
        (
            {"convention": "flux2", "text": 2, "scale": 7, "sizes": [[1, 1], [2, 1], [1, 1]]},
            [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 0), (7, 0, 0, 0), (7, 1, 0, 0), (14, 0, 0, 0)],
        ),
        (
            {"convention": "qwen_image", "text": 2, "grids": [[1, 1, 3], [2, 1, 1]]},
            [(1, 1, 1), (2, 2, 2), (0, -1, -2), (0, -1, -1), (0, -1, 0), (1, -1, -1), (2, -1, -1)],
        ),
        ({"convention": "wan", "grids": [[2, 1, 2]]}, [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]),
    ],
)
def test_images_have_the_ids_of_their_pipeline(body: dict[str, Any], rows: list[Any]) -> None:
    assert list(zip(*arrays_of(body)["position_ids"], strict=True)) == rows


@pytest.mark.parametrize(
    ("body", "times"),
    [
        ({"convention": "cosmos", "fps": 29.97}, [k * 24 / Fraction(29.97) for k in range(4)]),
        ({"convention": "cosmos"}, [Fraction(k) for k in range(4)]),
        (
            {"convention": "ltx", "rope_interpolation_scale": "0.3,32,32"},
            [k * Fraction(0.3) / 20 for k in range(4)],
        ),
        (
            {"convention": "ltx_condition", "fps": 25, "frame_index": 16},
            [Fraction(frame + 16, 25) for frame in (0, 1, 9, 17)],
        ),
        ({"convention": "ltx2"}, [Fraction(each, 48) for each in (1, 10, 26, 42)]),
        (
            {"convention": "ltx2", "patch_size_t": 3, "scale_factors": "4,32,32"},
            [Fraction(each, 48) for each in (0 + 9, 9 + 21)],
        ),
    ],
)
def test_times_are_the_exact_fractions_rounded_once(
    body: dict[str, Any], times: list[Fraction]
) -> None:
    found = arrays_of({**body, "grids": [[4, 1, 1]]})

    assert found["position_ids"][0] == [float(each) for each in times]
    pairs = zip(found["numerator"][0], found["denominator"][0], strict=True)
    assert [Fraction(*pair) for pair in pairs] == times


def test_audio_of_ltx_2_begins_with_a_short_frame() -> None:
    found = arrays_of({"convention": "ltx2_audio", "num_frames": 3})

    assert found["starts"] == [[0.0, 0.01, 0.05]]
    assert found["ends"] == [[0.01, 0.05, 0.09]]
    assert found["position_ids"] == [[0.005, 0.03, 0.07]]


def test_visual_tokens_of_v2pe_advance_by_delta() -> None:
    body = {"convention": "v2pe", "delta": 0.25, "steps": 2}
    rows = [[{"text": 2}, {"image": [1, 2, 2]}, {"text": 1}], [{"pad": 3}, {"text": 4}]]

    found = arrays_of({**body, "rows": rows})

    assert found["position_ids"] == [[0, 1, 1.25, 1.5, 1.75, 2, 3], [1, 1, 1, 0, 1, 2, 3]]
    assert found["decode_position_ids"] == [[4, 5], [4, 5]]
    assert found["denominator"] == [[4] * 7] * 2
    assert np.array_equal(np.array(found["numerator"]) / 4, found["position_ids"])
    assert found["attention_mask"] == [[1] * 7, [0] * 3 + [1] * 4]
    raw = arrays_of(
        body, token_types=[[0, 0, 1, 1, 1, 1, 0]] * 2, image_grids=[[1, 2, 2], [1, 1, 4]]
    )
    assert raw["position_ids"] == [found["position_ids"][0]] * 2
    # A step of 1 needs no text: the first token has 0.
    whole = arrays_of({"convention": "v2pe", "delta": 1, "rows": [[{"image": [1, 1, 2]}]]})
    assert whole["position_ids"] == [[0, 1]]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"convention": "vision_grid", "grids": [[1, 4, 4], [1, 3, 4]]}, "/grids/1"),
        ({"convention": "vision_grid", "grids": [[1, 2**31, 2**31]]}, "grids"),
        ({"convention": "vision_windows", "grids": [[1, 4, 4]], "window_size": 27}, "window_size"),
        ({"convention": "gemma4", "sizes": [[1, 2], [3, 4]], "length": 5}, "/sizes/1"),
        ({"convention": "buckets", "num_patches_per_side": 7, "sizes": [[5000, 1]]}, "/sizes/0"),
        (
            {
                "convention": "buckets",
                "num_patches_per_side": 7,
                "sizes": [[3, 3]],
                "canvas": [2, 9],
            },
            "/sizes/0",
        ),
        ({"convention": "krea2", "sizes": [[1, 1], [1, 1]]}, "sizes"),
        ({"convention": "flux", "sizes": [[2**31, 2**31]] * 3}, "sizes"),
        ({"convention": "flux", "sizes": [[1, 1]], "scale": 10}, "scale"),
        ({"convention": "cosmos", "grids": [[5000, 1, 1]]}, "grids"),
        ({"convention": "cosmos", "grids": [[900, 1, 1]], "fps": 0.0012345}, "fps"),
        (
            {"convention": "cosmos", "grids": [[900, 1, 1]], "base_fps": 0.0012345, "fps": 24},
            "base_fps",
        ),
        *(
            (
                {"convention": "ltx", "grids": [[1024, 1, 2]], "rope_interpolation_scale": scale},
                "rope_interpolation_scale",
            )
            for scale in ("1e308,1,1", "1,1,1e-308", "-1,1,1", "0,1,1")
        ),
        *(
            (body, "scale_factors")
            for body in (
                {"convention": "ltx2_audio", "num_frames": 5, "scale_factors": [10**400]},
                {"convention": "ltx2", "grids": [[1, 1, 1]], "scale_factors": [8, 10**400, 8]},
                {"convention": "ltx_condition", "grids": [[1, 1, 1]], "scale_factors": [10**7] * 3},
            )
        ),
        ({"convention": "ltx2", "grids": [[1, 1, 1]], "scale_factors": "8,32"}, "scale_factors"),
        (
            {"convention": "ltx2_audio", "num_frames": 1, "scale_factors": "-4"},
            "scale_factors",
        ),
        ({"convention": "v2pe", "delta": 0.3, "rows": [[{"text": 1}]]}, "delta"),
        ({"convention": "v2pe", "delta": 0.25, "rows": [[{"image": [1, 1, 2]}]]}, "/rows/0/0"),
        (
            {
                "convention": "v2pe",
                "delta": 0.5,
                "padding_side": "left",
                "rows": [[{"text": 9}], [{"text": 0}, {"image": [1, 2, 2]}, {"text": 2}]],
            },
            "/rows/1/1",
        ),
    ],
)
def test_a_refusal_names_the_place(body: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        arrays_of(body)

    assert caught.value.faults[0].where == where


@pytest.mark.parametrize(
    "body",
    [
        {"convention": "vision_grid", "grids": [[2, 4, 6], [1, 2, 8]]},
        {"convention": "vision_windows", "grids": [[2, 18, 10], [1, 6, 8]], "window_size": 84},
        {"convention": "buckets", "num_patches_per_side": 7, "sizes": [[3, 5]], "canvas": [6, 6]},
        {"convention": "flux2", "text": 3, "sizes": [[2, 3], [1, 2]]},
        {"convention": "ltx2", "grids": [[2, 2, 3]]},
        {"convention": "packed", "lengths": "3,0,4"},
    ],
)
def test_a_range_has_the_elements_of_the_whole(body: dict[str, Any]) -> None:
    for table in PositionIds.model_validate(body).resolve({}).arrays.values():
        whole = table.read(0, size(table))
        for start in range(0, size(table), 5):
            stop = min(start + 3, size(table))
            assert (table.read(start, stop) == whole[start:stop]).all()


@pytest.mark.parametrize(
    ("body", "url"),
    [
        (
            {"convention": "vision_grid", "grids": [[2, 4, 6], [1, 2, 4]]},
            "/rope/axial.json?convention=qwen2_vl&head_dim=16&pack=half",
        ),
        (
            {"convention": "flux", "text": 2, "sizes": [[2, 3]]},
            "/rope/axial.json?convention=flux&axes_dim=8,28,28&pack=half",
        ),
        (
            {"convention": "cosmos", "grids": [[3, 1, 2]], "fps": 30},
            "/rope/axial.json?convention=cosmos&head_dim=48&pack=half",
        ),
        ({"convention": "packed", "lengths": [3, 2]}, "/rope.json?head_dim=8"),
        ({"convention": "mask", "attention_mask": [[0, 1]], "steps": 2}, "/rope.json?head_dim=8"),
        (
            {"convention": "v2pe", "delta": 0.5, "rows": [[{"text": 1}, {"image": [1, 2, 2]}]]},
            "/encoding.json?d_model=8",
        ),
    ],
)
def test_an_answer_is_the_body_of_a_table(client: Client, body: dict[str, Any], url: str) -> None:
    numbered = client.post("/positions.safetensors", json=body)
    only = client.post("/positions.json?part=position_ids", json=body)
    if only.status_code == 422:
        only = client.post("/positions.json", json=body)

    headers = {"Content-Type": "application/vnd.safetensors"}
    table = client.post(url, content=numbered.content, headers=headers)

    assert table.status_code == 200, table.text
    expected = client.post(url, json={"positions": only.json()["data"]})
    assert table.json()["data"] == expected.json()["data"]
