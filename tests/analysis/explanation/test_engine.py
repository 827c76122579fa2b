"""Steps of the search: arrays that phases, frequencies or the packing alone do not explain."""

import ml_dtypes
import numpy as np
import pytest

from service.analysis.explanation.engine import Explanation
from service.numerics.dtypes import BFLOAT16, FLOAT32, DType
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable
from tests.analysis.turning import DTYPES, explained, names, packed, powers, turned

PLAIN = "/rope?head_dim=32&pack=concat"
YARN = f"{PLAIN}&rope_type=yarn&factor=4&original_max_position_embeddings=4096"
LONGROPE = (
    f"{PLAIN}&rope_type=longrope&short_factor={','.join(['1.5'] * 16)}"
    f"&long_factor={','.join(str(1.5 + k) for k in range(16))}"
    "&original_max_position_embeddings=32&context_length=32&factor=2"
)


def found(positions: Float64s | int, url: str = PLAIN) -> Explanation:
    return explained(packed(*turned(powers(32), positions), "concat"), url)


@pytest.mark.parametrize(
    ("positions", "name"),
    [
        (np.r_[0:40, 0:24], "positions-reset"),
        (np.minimum(np.arange(64), 40), "positions-stuck"),
        (np.arange(64)[::-1], "positions-reversed"),
    ],
    ids=str,
)
def test_a_mistake_of_positions_is_named_beside_one_of_the_base(
    positions: Float64s, name: str
) -> None:
    arrays = packed(*turned(powers(32, 5e5), positions), "concat")

    assert names(explained(arrays, PLAIN)) == sorted([name, "wrong-base"])


@pytest.mark.parametrize("part", [0, 1], ids=["cosines", "sines"])
@pytest.mark.parametrize(
    ("positions", "name"),
    [
        (np.arange(64)[::-1], "positions-reversed"),
        (np.minimum(np.arange(64), 40), "positions-stuck"),
        (np.arange(100, 164), "position-offset"),
    ],
    ids=str,
)
def test_positions_of_one_part_alone_are_matched(positions: Float64s, name: str, part: int) -> None:
    arrays = {"x": packed(*turned(powers(32), positions), "compact")[("cos", "sin")[part]]}

    url = f"/rope?head_dim=32&pack=compact&part={('cos', 'sin')[part]}"
    assert names(explained(arrays, url)) == [name]


def test_positions_too_far_apart_for_matching_are_not_matched() -> None:
    positions = np.array([0.0, 20000000.0, 5.0])
    arrays = {"x": packed(*turned(powers(32), positions + 3), "compact")["cos"]}
    url = "/rope?head_dim=32&pack=compact&part=cos&positions=0,20000000,5"

    assert explained(arrays, url).verdict == "none"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("what", ["positions", "angles"])
def test_what_is_narrow_is_named_far_from_position_0(dtype: str, what: str) -> None:
    where, omega = np.arange(4000.0, 4064.0), powers(32)
    narrow = DTYPES[dtype]
    if what == "positions":
        arrays = packed(*turned(omega, _rounded(where, narrow)), "concat")
    else:
        angles = _rounded(np.outer(where, omega), narrow)
        arrays = packed(np.cos(angles), np.sin(angles), "concat")

    assert names(explained(arrays, f"{PLAIN}&start=4000")) == [f"narrow-{what}"]


@pytest.mark.parametrize("part", ["frequencies", "angles"])
def test_numbers_near_the_middle_of_two_are_no_fault_of_a_large_narrow_table(part: str) -> None:
    positions, omega = np.arange(8192.0), powers(64)
    # Float32 is wrong by a few times 2^-24 before the rounding to the narrow type.
    wrong = 1 + 4 * 2.0**-24 * np.sin(np.arange(32))
    if part == "frequencies":
        arrays = packed(*turned(_rounded(omega * wrong, BFLOAT16), positions), "concat")
    else:
        angles = _rounded(np.outer(positions, omega * wrong), BFLOAT16)
        arrays = packed(np.cos(angles), np.sin(angles), "concat")

    assert names(explained(arrays, "/rope?head_dim=64&pack=concat")) == [f"narrow-{part}"]


def _rounded(numbers: Float64s, dtype: DType) -> Float64s:
    kind = ml_dtypes.bfloat16 if dtype is BFLOAT16 else np.float16
    rounded: Float64s = numbers.astype(np.float32).astype(kind).astype(np.float64)
    return rounded


@pytest.mark.parametrize(("counted", "how"), [(0, "not at all"), (2, "twice")])
def test_the_offset_of_a_cache_shows_in_one_row(counted: int, how: str) -> None:
    (wrong,) = found(np.array([17.0 * counted]), f"{PLAIN}&start=17").mistakes

    assert (wrong.name, wrong.values["how"]) == ("cache-offset", how)


@pytest.mark.parametrize("packing", ["concat", "flat"])
def test_the_wrong_sign_of_all_numbers_is_named(packing: str) -> None:
    ((name, table),) = packed(*turned(powers(32), 40), packing).items()
    negated = StoredTable(-table.elements, table.dtype)
    url = f"/rope?head_dim=32&pack={packing}"

    assert names(explained({name: negated}, url)) == ["wrong-sign"]
    negated.elements[7, 3] += 0.5
    assert explained({name: negated}, url).verdict == "none"


@pytest.mark.parametrize("factor", [32**0.5, 512**0.5, 1 / 3, 1.1])
def test_a_factor_is_named_by_no_more_digits_than_were_measured(factor: float) -> None:
    cosine, sine = (part * factor for part in turned(powers(32), 40))

    (wrong,) = explained(packed(cosine, sine, "concat"), PLAIN).mistakes

    assert wrong.values["factor"] == pytest.approx(factor, rel=2.0**-24)
    assert len(f"{wrong.values['factor']}") <= len("22.6274170")


def test_a_factor_of_cosines_alone_is_named() -> None:
    cosine, sine = turned(powers(32), 40)

    (wrong,) = explained(packed(1.2 * cosine, sine, "concat"), PLAIN).mistakes

    assert (wrong.name, wrong.values["have"]) == ("one-sided-factor", "cosines")
    spoilt = packed(1.2 * cosine, np.where(np.arange(40)[:, None] == 7, 0.3, sine), "concat")
    assert explained(spoilt, PLAIN).verdict == "none"


@pytest.mark.parametrize("order", ["rising", "mixed"])
def test_each_position_with_its_own_list_is_named_in_any_order(order: str) -> None:
    positions = np.arange(64) if order == "rising" else np.r_[60:64, 0:60]
    short, long = powers(32) / 1.5, powers(32) / (1.5 + np.arange(16))
    omega = np.where(positions[:, None] < 32, short, long)
    angles, scale = positions[:, None] * omega, np.sqrt(1 + np.log(2) / np.log(32))
    url = LONGROPE if order == "rising" else f"{LONGROPE}&positions=60:64,0:60"

    arrays = packed(scale * np.cos(angles), scale * np.sin(angles), "concat")

    assert names(explained(arrays, url)) == ["list-by-position"]


def test_a_size_beyond_any_factor_of_longrope_is_no_error() -> None:
    arrays = packed(*turned(powers(32), 40, 250.0), "concat")

    assert explained(arrays, LONGROPE).verdict in {"none", "diagnosed"}


def test_the_packing_of_a_table_whose_url_leaves_it_open_is_no_mistake() -> None:
    arrays = packed(*turned(powers(32), 40), "concat")

    assert names(explained(arrays, "/rope?head_dim=32")) == ["equal"]
    assert names(explained(arrays, "/rope?head_dim=32&pack=flat")) == ["layout-swapped"]


def test_equal_rows_are_a_table_that_does_not_turn_and_nothing_else() -> None:
    cosine, sine = turned(np.zeros(16), 40)

    assert names(explained(packed(cosine, sine, "concat"), PLAIN)) == ["not-rotated"]
    stacked = StoredTable(np.stack([cosine, sine], axis=1).astype(np.float32), FLOAT32)
    assert names(explained({"x": stacked}, "/rope?head_dim=32&pack=compact")) == ["not-rotated"]


def test_one_nan_in_the_last_row_is_no_padding() -> None:
    cosine, sine = turned(powers(32), 40)
    sine[-1, 3] = np.nan

    assert explained(packed(cosine, sine, "concat"), PLAIN).verdict == "none"
    sine[-1], cosine[-1] = np.nan, np.nan
    assert names(explained(packed(cosine, sine, "concat"), PLAIN)) == ["truncated"]


def test_numbers_of_float32_that_are_large_have_no_few_decimals() -> None:
    (wrong,) = explained(packed(*turned(powers(32), 40, 16.0), "concat"), PLAIN).mistakes

    assert wrong.name == "extra-factor"


def test_channels_of_an_odd_number_are_explained_without_an_error() -> None:
    for width in (1, 3, 7):
        whole = packed(*turned(powers(8), 20), "flat")["x"]
        arrays = {"x": StoredTable(whole.elements[:, :width].copy(), whole.dtype)}
        for url in (
            "/encoding?d_model=8",
            "/rope?head_dim=8",
            "/encoding?convention=fairseq&d_model=8",
        ):
            explained(arrays, url)


def test_alternatives_add_no_mistake_that_makes_no_difference() -> None:
    explanation = explained(packed(*turned(powers(32, 5e5), 40), "concat"), PLAIN)

    assert names(explanation) == ["wrong-base"]
    assert all(each.name != "wrong-base" for other in explanation.alternatives for each in other)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "rule",
    [
        "dynamic&factor=1.86&original_max_position_embeddings=4096&context_length=32769",
        "dynamic&alpha=3",
        "yarn&factor=8&original_max_position_embeddings=40&rope_theta=100000000000",
        "llama3&factor=8&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=64",
    ],
    ids=lambda rule: rule.partition("&")[0],
)
def test_few_numbers_of_any_frequencies_are_explained_without_an_error(
    rule: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    omega = rng.uniform(0, 1, 8) ** rng.integers(1, 9)
    positions = rng.permutation(9).astype(np.float64) if seed % 3 else np.arange(9.0)
    arrays = packed(*turned(omega, positions), "concat")
    if seed % 4 == 3:
        cosine, sine = rng.standard_normal((2, 9, 8))
        arrays = packed(cosine, sine, "concat")

    assert explained(arrays, f"/rope?head_dim=16&pack=concat&rope_type={rule}").elements == 144
