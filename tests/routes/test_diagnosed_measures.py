"""``POST /diagnose`` names a number as exactly as it was measured, and what an array shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.client import Client, diagnose, load_npy

Array = NDArray[Any]
FLOAT = np.float32


def table(client: Client, url: str) -> Array:
    return load_npy(client.get(url.replace("?", ".npy?", 1)))


def names(report: Any) -> list[str]:
    return [mistake["name"] for mistake in report["mistakes"]]


def concat(angles: Array) -> Array:
    return np.hstack([np.cos(angles), np.sin(angles)])


def angles_of(base: float, width: int = 128, rows: int = 200) -> Array:
    return np.arange(rows)[:, None] * base ** (-np.arange(0, width, 2) / width)


def by_power(base: float, width: int, rows: int) -> Array:
    exponents = np.arange(0, width, 2, dtype=FLOAT) / FLOAT(width)
    return np.outer(np.arange(rows, dtype=FLOAT), FLOAT(1) / FLOAT(base) ** exponents)


def by_division(base: float, width: int, rows: int) -> Array:
    exponents = np.arange(0, width, 2, dtype=FLOAT) / FLOAT(width)
    return np.arange(rows, dtype=FLOAT)[:, None] / FLOAT(base) ** exponents


def by_products(base: float, width: int, rows: int) -> Array:
    ratio = FLOAT(base) ** FLOAT(-2 / width)
    columns = [np.arange(rows, dtype=FLOAT)]
    while len(columns) < width // 2:
        columns.append(columns[-1] * ratio)
    return np.stack(columns, axis=1)


def by_powers_of_ratio(base: float, width: int, rows: int) -> Array:
    ratio = FLOAT(base) ** FLOAT(-2 / width)
    powers = ratio ** np.arange(width // 2, dtype=FLOAT)
    return np.outer(np.arange(rows, dtype=FLOAT), powers)


def by_divisions(base: float, width: int, rows: int) -> Array:
    ratio = FLOAT(base) ** FLOAT(2 / width)
    columns = [np.arange(rows, dtype=FLOAT)]
    while len(columns) < width // 2:
        columns.append(columns[-1] / ratio)
    return np.stack(columns, axis=1)


def running(base: float, width: int) -> Array:
    return np.append(FLOAT(1), np.full(width // 2 - 1, FLOAT(base ** (2 / width))))


def by_running_products(base: float, width: int, rows: int) -> Array:
    omega = FLOAT(1) / np.multiply.accumulate(running(base, width))
    return np.outer(np.arange(rows, dtype=FLOAT), omega)


def by_running_quotients(base: float, width: int, rows: int) -> Array:
    omega = np.divide.accumulate(running(base, width))
    return np.outer(np.arange(rows, dtype=FLOAT), omega)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("base", [12345, 700000, 77, 123450])
def test_round_base_that_explains_every_number_has_no_interval(
    client: Client, base: int, dtype: str
) -> None:
    to = f"/rope?head_dim=128&rope_theta=500000&seq_len=200&pack=concat&dtype={dtype}"

    report = diagnose(client, to, concat(angles_of(base)).astype(dtype))

    assert names(report) == ["wrong-base"]
    assert report["sentence"] == f"The base is {base}; it should be 500000."
    assert f"rope_theta={base}&" in report["yours"]["url"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("base", [11111.123456, 12344.87, 9999.95])
def test_every_base_of_an_interval_gives_the_numbers(
    client: Client, base: float, dtype: str
) -> None:
    to = f"/rope?head_dim=128&rope_theta=500000&seq_len=200&pack=concat&dtype={dtype}"
    have = concat(angles_of(base)).astype(dtype)

    (mistake,) = diagnose(client, to, have)["mistakes"]

    low, high = mistake["low"], mistake["high"]
    # A few steps of the type: also sines of float32 angles are allowed.
    room = 1e-6 if dtype == "float32" else 1e-3
    assert low <= base <= high or high - low < 1e-8 * base
    for end in (low, high):
        assert np.abs(concat(angles_of(end)) - have).max() < room
    if "any from" in mistake["sentence"]:
        about = float(mistake["sentence"].split(":")[0].split()[-1])
        assert low <= about <= high
    else:
        assert f"The base is {base};" in mistake["sentence"]


@pytest.mark.parametrize("width", [6, 8, 10])
@pytest.mark.parametrize("base", [9999.99, 10000.002])
def test_few_frequencies_in_float64_show_another_base(
    client: Client, base: float, width: int
) -> None:
    to = f"/rope?head_dim={width}&seq_len=4096&pack=concat"

    assert diagnose(client, to, concat(angles_of(base, width, 4096)))["verdict"] != "equal"


@pytest.mark.parametrize("engine", [by_power, by_division, by_products])
@pytest.mark.parametrize("width", [6, 8, 10])
def test_few_frequencies_of_float32_in_float64_are_equal(
    client: Client, width: int, engine: Callable[[float, int, int], Array]
) -> None:
    to = f"/rope?head_dim={width}&seq_len=4096&pack=concat"
    angles = engine(10000, width, 4096).astype(np.float64)

    assert diagnose(client, to, concat(angles))["verdict"] == "equal"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("base", [9999.95, 9999.98, 10000.05, np.exp(9.21034)])
def test_exact_table_of_a_base_near_the_expected_one_is_not_equal(
    client: Client, base: float, width: int, dtype: str
) -> None:
    to = f"/rope?head_dim={width}&seq_len=200&pack=concat"

    report = diagnose(client, to, concat(angles_of(base, width)).astype(dtype))

    assert report["verdict"] != "equal"
    assert names(report) in ([], ["wrong-base"])


@pytest.mark.parametrize(
    "engine",
    [
        by_power,
        by_division,
        by_products,
        by_powers_of_ratio,
        by_divisions,
        by_running_products,
        by_running_quotients,
    ],
)
@pytest.mark.parametrize("base", [10000, 500000, 1000000])
@pytest.mark.parametrize("rows", [4, 33, 512, 2048])
@pytest.mark.parametrize("width", [8, 64, 80, 96, 128])
def test_table_of_an_engine_in_float32_is_equal(
    client: Client, width: int, rows: int, base: int, engine: Callable[[float, int, int], Array]
) -> None:
    to = f"/rope?head_dim={width}&seq_len={rows}&rope_theta={base}&pack=concat"

    report = diagnose(client, to, concat(engine(base, width, rows)))

    assert report["verdict"] == "equal"


@pytest.mark.parametrize("base", [9999.9, 10000.1])
def test_repeated_multiplication_of_another_base_is_not_equal(client: Client, base: float) -> None:
    to = "/rope?head_dim=64&seq_len=200&pack=concat"

    assert diagnose(client, to, concat(by_products(base, 64, 200)))["verdict"] != "equal"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("width", [64, 80])
def test_ntk_without_its_division_is_named(client: Client, width: int, dtype: str) -> None:
    to = f"/rope?head_dim={width}&seq_len=64&pack=concat&rope_type=ntk&factor=4&dtype={dtype}"

    report = diagnose(client, to, concat(angles_of(40000, width, 64)).astype(dtype))

    assert names(report) == ["missing-division"]
    assert f"not divided by 4^(2/d), where d is {width}" in report["sentence"]
    right = concat(angles_of(40000, width, 64) / 4 ** (2 / width))
    np.testing.assert_allclose(table(client, to), right, atol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("base", [400, 1600])
def test_growth_of_the_base_is_no_second_mistake_of_it(client: Client, base: int) -> None:
    to = "/rope?head_dim=80&seq_len=64&pack=concat&rope_type=ntk&factor=4"

    report = diagnose(client, to, concat(angles_of(base, 80, 64)).astype(FLOAT))

    assert names(report) == ["config-key-ignored", "wrong-base"]
    assert "any from" not in report["sentence"]


@pytest.mark.parametrize(
    ("pack", "have", "expected"),
    [
        ("flat", "sin_concat", ["layout-swapped"]),
        ("ggml", "sin_concat", ["layout-swapped"]),
        ("concat", "sin_flat", ["layout-swapped"]),
        ("concat", "sin_concat", ["halves-swapped"]),
        ("flat", "sin_flat", ["halves-swapped"]),
    ],
)
def test_order_of_cosines_and_sines_is_named_once(
    client: Client, pack: str, have: str, expected: list[str]
) -> None:
    angles = angles_of(10000, 16, 16)
    parts = np.sin(angles), np.cos(angles)
    made = np.hstack(parts) if have == "sin_concat" else np.stack(parts, axis=-1).reshape(16, 16)

    report = diagnose(client, f"/rope?head_dim=16&seq_len=16&pack={pack}", made.astype(FLOAT))

    assert names(report) == expected


@pytest.mark.parametrize(
    ("steps", "shift"), [("1,5,7,250,981", 1), ("10,20,30", 10), ("10,11,12,13", 10)]
)
def test_times_of_a_diffusion_model_have_no_cache(client: Client, steps: str, shift: int) -> None:
    url = "/encoding/timesteps?d_model=64&timesteps="
    moved = ",".join(str(int(each) + shift) for each in steps.split(","))

    report = diagnose(client, f"{url}{steps}", table(client, f"{url}{moved}"))

    assert names(report) == ["position-offset"]


@pytest.mark.parametrize(
    ("have", "want", "name"),
    [
        ("start=10&seq_len=6", "start=5&seq_len=6", "cache-offset"),
        ("positions=10,14,16", "positions=5,9,11", "position-offset"),
    ],
)
def test_only_rows_that_count_up_have_an_offset_of_a_cache(
    client: Client, have: str, want: str, name: str
) -> None:
    url = "/rope?head_dim=32&pack=concat&"

    assert names(diagnose(client, url + want, table(client, url + have))) == [name]


@pytest.mark.parametrize("pack", ["complex", "concat"])
@pytest.mark.parametrize(
    ("twice", "note"),
    [
        (lambda z: np.concatenate([z, z], axis=1), "second half"),
        (lambda z: np.repeat(z, 2, axis=1), "twice in a row"),
    ],
)
def test_complex_pairs_that_are_there_twice_are_noted(
    client: Client, twice: Callable[[Array], Array], note: str, pack: str
) -> None:
    z = np.exp(1j * angles_of(10000, 8, 6)).astype(np.complex64)

    report = diagnose(client, f"/rope?head_dim=8&seq_len=6&pack={pack}", twice(z))

    assert report["verdict"] == "equal"
    assert any(note in each for each in report["wrapper"]["notes"])
    plain = diagnose(client, f"/rope?head_dim=8&seq_len=6&pack={pack}", z)
    assert "notes" not in plain.get("wrapper", {})


MROPE = (
    "/rope?head_dim=128&mrope_section=16,24,24&pack=concat&positions_t=0,1,2,3,4,4,4,4,8,9"
    "&positions_h=0,1,2,3,4,4,5,5,8,9&positions_w=0,1,2,3,4,5,4,5,8,9"
)


@pytest.mark.parametrize(
    ("axis", "own", "have"),
    [
        ("h", "0,1,2,3,4,4,5,5,8,9", [0, 0, 2]),
        ("w", "0,1,2,3,4,5,4,5,8,9", [0, 1, 0]),
    ],
)
def test_section_with_the_positions_of_another_axis_is_one_mistake(
    client: Client, axis: str, own: str, have: list[int]
) -> None:
    wrong = MROPE.replace(f"positions_{axis}={own}", f"positions_{axis}=0,1,2,3,4,4,4,4,8,9")

    (mistake,) = diagnose(client, MROPE, table(client, wrong))["mistakes"]

    assert mistake["name"] == "sections-exchanged"
    assert mistake["have"] == have


def test_exponents_of_shifts_are_written_as_people_write_them(client: Client) -> None:
    to = "/encoding/timesteps?d_model=64&timesteps=1,5,7,250,981&downscale_freq_shift="

    report = diagnose(client, f"{to}1", table(client, f"{to}0"))

    assert names(report) == ["downscale-shift"]
    assert "are k/n, with n frequencies; they should be k/(n − 1)." in report["sentence"]


def test_exponent_of_a_table_between_two_ends_is_spelled(client: Client) -> None:
    rows, k = np.arange(40)[:, None], np.arange(32)
    angles = rows * 10000.0 ** (-k / 32)
    have = np.hstack([np.sin(angles), np.cos(angles)]).astype(FLOAT)

    report = diagnose(client, "/encoding?convention=tensor2tensor&seq_len=40&d_model=64", have)

    assert names(report) == ["tutorial-slip"]
    assert "it should be k/(n − 1)." in report["sentence"]
