"""Numbers and coordinates of relative positions within a window or a sequence."""

from math import log, log2

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.relative.windows import DynamicDistances, Swin, log_distances
from service.numerics.dtypes import to_float64
from service.numerics.phase import MAX_POSITION
from service.numerics.tables import overflows
from tests.client import Client, load_data
from tests.exact import UNIT

mpf = mpmath.mpf


def counted(height: int, width: int) -> list[list[int]]:
    """Number relative positions by counting the steps from every token to every other."""
    steps = [(dy, dx) for dy in range(1 - height, height) for dx in range(1 - width, width)]
    places = [(row, column) for row in range(height) for column in range(width)]
    return [[steps.index((q[0] - k[0], q[1] - k[1])) for k in places] for q in places]


def numbers_of(window: Swin) -> list[list[int]]:
    table = window.table()
    rows: list[list[int]] = table.read(0, window.tokens**2).reshape(table.shape).tolist()
    return rows


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (4, 1), (2, 3), (3, 5), (7, 7)])
def test_numbers_count_relative_positions_row_by_row(size: tuple[int, int]) -> None:
    window = Swin(window_size=size)

    assert numbers_of(window) == counted(*size)
    assert window.count == len({number for row in numbers_of(window) for number in row})


@pytest.mark.parametrize("size", [(1, 1), (4, 6), (3, 3)])
def test_a_class_token_has_three_numbers_of_its_own(size: tuple[int, int]) -> None:
    window = Swin(window_size=size, class_token=True)
    first, *others = numbers_of(window)
    most = window.between_tokens

    assert first == [most + 2, *[most] * (size[0] * size[1])]
    assert [row[0] for row in others] == [most + 1] * (size[0] * size[1])
    assert [row[1:] for row in others] == counted(*size)
    assert window.count == most + 3


@pytest.mark.parametrize("has_class", [False, True])
def test_a_part_of_a_large_window_is_read_alone(has_class: bool) -> None:
    window = Swin(window_size=(2**15, 2**15), class_token=has_class, dtype="int64")
    table, width = window.table(), window.tokens

    last = table.read(width**2 - 2, width**2).tolist()
    across = table.read(width - 1, width + 1 + has_class).tolist()

    centre = (window.between_tokens - 1) // 2
    assert last == [centre + 1, centre]
    if has_class:
        assert across == [window.between_tokens, window.between_tokens + 1, centre]
    else:
        assert across == [0, centre + 1]


@settings(max_examples=400)
@given(st.one_of(st.integers(-MAX_POSITION, MAX_POSITION), st.integers(-300, 300)))
def test_a_logarithm_of_a_distance_is_rounded_once(distance: int) -> None:
    (value,) = log_distances(np.array([distance], dtype=np.int64)).tolist()

    true = mpmath.sign(distance) * mpmath.log1p(abs(distance))
    assert abs(mpf(value) - true) <= abs(true) * 1.1 * UNIT


@settings(max_examples=600)
@given(st.integers(-(2**30), 2**30), st.one_of(st.integers(2, 60), st.integers(2, 2**30)))
def test_a_coordinate_in_a_window_is_rounded_once(distance: int, window: int) -> None:
    (value,) = log_distances(np.array([distance], dtype=np.int64), window).tolist()

    scaled = mpf(8 * abs(distance)) / (window - 1)
    true = mpmath.sign(distance) * mpmath.log(1 + scaled, 2) / 3
    assert abs(mpf(value) - true) <= abs(true) * 1.1 * UNIT


def test_integer_coordinates_are_exact() -> None:
    """With W = 9, 8d/(W − 1) is d: log2 8/log2 8 at d = 7."""
    assert log_distances(np.array([7, -7, 0]), 9).tolist() == [1.0, -1.0, 0.0]


def test_opposite_distances_have_opposite_values_and_0_no_negative_zero() -> None:
    distances = np.arange(-20, 21)

    for values in (log_distances(distances), log_distances(distances, 7)):
        assert (values == -values[::-1]).all()
        assert not np.signbit(values[20])


@pytest.mark.parametrize("distance", [2**58 + 2**34 + 1, 2**58 + 3 * 2**34 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_far_distances_are_rounded_once(distance: int, sign: int) -> None:
    """The distance is so near the middle of two float32 numbers that float64 rounds it there."""
    length = 2**60
    table = DynamicDistances(seq_len=length).table()
    place = length - 1 + sign * distance

    assert table.read(place, place + 1).tolist() == [sign * (2**58 + 2**35)]


@pytest.mark.parametrize(
    ("length", "dtype", "log_distance", "expected"),
    [
        (65_520, "float16", False, False),
        (65_521, "float16", False, True),
        (2**62, "float16", True, False),
        (2**62, "float32", False, False),
    ],
)
def test_distances_overflow_if_the_last_one_does(
    length: int, dtype: str, log_distance: bool, expected: bool
) -> None:
    values = {"seq_len": length, "dtype": dtype, "log_distance": log_distance}
    table = DynamicDistances.model_validate(values).table()

    assert overflows(table) == expected
    assert np.isinf(to_float64(table.read(0, 1), table.dtype)[0]) == expected


SWIN = "/relative/swin"


def test_rows_are_queries_and_numbers_lead_from_the_key_to_the_query(client: Client) -> None:
    answer = client.get(f"{SWIN}?window_size=1,3").json()

    assert answer["axes"] == ["query", "key"]
    assert answer["parameters"] == {"window_size": [1, 3], "class_token": False}
    assert answer["data"] == [[2, 1, 0], [3, 2, 1], [4, 3, 2]]


def test_numbers_beyond_32_bits_need_int64(client: Client) -> None:
    near, far = f"{SWIN}.npy?window_size=16384,32768", f"{SWIN}.npy?window_size=20000,32768"

    assert client.head(near).headers["Array-Shape"] == f"{2**29}, {2**29}"
    assert client.head(far).status_code == 422
    assert client.head(f"{far}&dtype=int64").headers["Array-Dtype"] == "int64"


def test_the_rows_of_a_learned_table_tell_whether_there_is_a_class_token(client: Client) -> None:
    results = {}
    for rows in (9, 12):
        weight = [[float(row)] for row in range(rows)]
        answer = client.post(f"{SWIN}/bias?window_size=2,2", json={"weight": weight}).json()
        results[rows] = (answer["parameters"]["class_token"], answer["data"][0][0][0])

    assert results == {9: (False, 4.0), 12: (True, 11.0)}


def test_an_impossible_number_of_rows_is_refused_with_the_possible_ones(client: Client) -> None:
    answer = client.post(f"{SWIN}/bias?window_size=2,2", json={"weight": [[1.0]] * 10})

    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "weight has 10 rows, but must have 9 without a class token or 12 with a class token "
        "for window_size=2,2"
    )


def test_coordinates_reach_the_sides_of_the_window(client: Client) -> None:
    both = load_data(client.get("/relative/swin-v2?window_size=2,3&dtype=float64"))

    assert both.shape == (3, 5, 2)
    assert both[:, 0, 0] == pytest.approx([-log2(9) / 3, 0, log2(9) / 3])
    assert both[0, :, 1] == pytest.approx([-log2(9) / 3, -log2(5) / 3, 0, log2(5) / 3, log2(9) / 3])
    for place, axis in enumerate("yx"):
        alone = load_data(
            client.get(f"/relative/swin-v2?window_size=2,3&dtype=float64&axis={axis}")
        )
        assert alone.tolist() == both[:, :, place].tolist()


def test_a_pretrained_window_normalizes_distances(client: Client) -> None:
    query = "/relative/swin-v2?window_size=2,3&axis=x&dtype=float64"
    own = client.get(query)

    other = client.get(f"{query}&pretrained_window_size=9,9").json()

    assert other["data"][0][4] == pytest.approx(log2(3) / 3)
    assert list(other["parameters"]) == ["window_size", "mode", "pretrained_window_size", "axis"]
    for same in ("0,0", "2,3"):
        assert client.get(f"{query}&pretrained_window_size={same}").content == own.content


def test_mode_cr_is_plain_logarithms(client: Client) -> None:
    values = load_data(client.get("/relative/swin-v2?window_size=1,3&mode=cr&axis=x&dtype=float64"))

    assert values[0] == pytest.approx([-log(3), -log(2), 0, log(2), log(3)], rel=1e-15)


def test_dynamic_distances_of_a_sequence_have_shape_2n_minus_1_by_1(client: Client) -> None:
    plain = load_data(client.get("/relative/dynamic?seq_len=3"))
    logs = load_data(client.get("/relative/dynamic?seq_len=3&log_distance=true&dtype=float64"))

    assert plain.tolist() == [[-2], [-1], [0], [1], [2]]
    assert logs[:, 0] == pytest.approx([-log(3), -log(2), 0, log(2), log(3)], rel=1e-15)


def test_a_window_one_patch_wide_is_refused_with_the_reason(client: Client) -> None:
    answer = client.get("/relative/swin-v2?window_size=8,1")

    assert "divided by each side minus 1" in answer.json()["detail"]
