"""Every family proposes the tables of its resource among its first proposals.

URLs are written with their alternatives in braces: ``{seq_len=4|seq_len=9&start=3}``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice, product, zip_longest

import pytest

from service.analysis.array import IdentifyInput, Proposal, ProposalFamily
from service.analysis.families.axial_tables import propose_axial
from service.analysis.families.bands import propose_band_frequencies, propose_bands
from service.analysis.families.grid_tables import propose_grid
from service.analysis.families.index_matrices import (
    propose_deberta,
    propose_permutation,
    propose_shaw,
    propose_swin,
    propose_t5,
)
from service.analysis.families.kernel_biases import propose_kerple, propose_sandwich
from service.analysis.families.log_coordinates import (
    propose_dynamic,
    propose_fire,
    propose_swin_v2,
)
from service.analysis.families.mrope_sections import propose_mrope
from service.analysis.families.rotary_tables import propose_angles, propose_inverse_frequencies
from service.analysis.families.shift_operators import propose_operators, propose_similarity
from service.analysis.families.sinusoid_tables import propose_encoding_frequencies
from service.analysis.families.slope_biases import propose_alibi, propose_slopes
from service.analysis.identification.search import propose_rows
from service.encodings.absolute.conventions import CONVENTIONS
from service.encodings.rotary.angles import PACKS
from tests.analysis.samples import agreeing, input_of

EVERY = 1000
DTYPES = ("float32", "float64", "float16", "bfloat16")
DTYPE = "dtype={float32|float64|float16|bfloat16}"

# A few units in the last place: of the measured numbers, and of the table.
SHARES = {"float32": 2.0**-21, "float64": 2.0**-48, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SLOPE_SHARES = {**SHARES, "float32": 2.0**-22, "float64": 2.0**-50}
GRID_ERRORS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
PACK_ERRORS = {"float32": 2.0**-20}


@dataclass(frozen=True)
class Group:
    """URLs whose tables are proposed.

    Attributes:
        propose: the family.
        urls: of tables, with alternatives in braces.
        first: among how many first proposals each is.
        errors: the largest error in each element type.
        shares: the largest relative error in each element type.
    """

    propose: ProposalFamily
    urls: str
    first: int = 4
    errors: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)


def one_of(*choices: str) -> str:
    return "{" + "|".join(choices) + "}"


def expanded(url: str) -> list[str]:
    """Return a URL for each choice among the alternatives in braces."""
    fixed, choices = re.split(r"\{[^}]*\}", url), re.findall(r"\{([^}]*)\}", url)
    chosen = product(*(each.split("|") for each in choices))
    every = ("".join(chain(*zip_longest(fixed, each, fillvalue=""))) for each in chosen)
    return [re.sub(r"&+", "&", each).replace("?&", "?").rstrip("&") for each in every]


def propose_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    return chain(propose_encoding_frequencies(request), propose_band_frequencies(request))


def of_resource(path: str) -> ProposalFamily:
    """Return the proposals of rows of sines and cosines for one resource."""

    def propose(request: IdentifyInput) -> Iterator[Proposal]:
        return (each for each in propose_rows(request) if each.request.resource.startswith(path))

    return propose


propose_rotary, propose_relative = of_resource("rope"), of_resource("relative/")
propose_encodings = of_resource("encoding")


def propose_packed(request: IdentifyInput) -> Iterator[Proposal]:
    return chain(propose_rotary(request), propose_angles(request))


ROTARY_RULES = one_of(
    "",
    "rope_theta=500000",
    "rope_type=linear&factor=8",
    "rope_type=yarn&factor=16&original_max_position_embeddings=4096",
    "rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"
    "&original_max_position_embeddings=8192&rope_theta=500000",
)
MORE_ROTARY_RULES = one_of(
    "rope_type=dynamic&alpha=1000",
    "rope_type=ntk&factor=8",
    "rope_type=ntk&factor=8&mixed_b=0.625",
    "rope_type=proportional&partial_rotary_factor=0.25",
)
# Text, an image of 3 by 4 patches, and text again.
MROPE_POSITIONS = (
    "positions_t=0:4,4,4,4,4,4,4,4,4,4,4,4,4,8:12"
    "&positions_h=0:4,4,4,4,4,5,5,5,5,6,6,6,6,8:12"
    "&positions_w=0:4,4,5,6,7,4,5,6,7,4,5,6,7,8:12"
)
SECTIONS = one_of(
    "head_dim=128&mrope_section=16,24,24&rope_theta=1000000",
    "head_dim=32&mrope_section=4,6,6",
    "head_dim=128&mrope_section=24,20,20&mrope_interleaved=true&rope_theta=5000000",
    "head_dim=64&mrope_section=12,10,10&mrope_interleaved=true&rope_theta=500000",
)
MROPE_PACKS = "pack={half|pair|complex|concat|interleaved}"
# The halves of each axis are proposed for no table.
EACH_PACK = f"pack={one_of(*(pack for pack in PACKS if pack != 'half_by_axis'))}"
SHORT_ROWS = "{seq_len=4|seq_len=1&start=4095|positions=3,9,1000}"
ROWS = "seq_len=200&pack=half"
ROTARY = (
    Group(propose_rotary, f"/rope?head_dim={{64|128}}&{ROWS}&{ROTARY_RULES}", first=6),
    Group(propose_rotary, f"/rope?head_dim={{64|128}}&{ROWS}&{MORE_ROTARY_RULES}", first=6),
    Group(propose_packed, f"/rope?head_dim=32&seq_len=40&{EACH_PACK}", first=3),
    Group(propose_rotary, f"/rope?head_dim=64&seq_len=300&start=3&pack=half&{DTYPE}", first=1),
    Group(propose_rotary, f"/rope?head_dim=64&pack=half&{SHORT_ROWS}", first=1),
    Group(
        propose_inverse_frequencies,
        f"/rope/frequencies?head_dim=128&part={{inv_freq|wavelength}}&{ROTARY_RULES}",
        first=EVERY,
    ),
    Group(
        propose_angles,
        f"/rope?head_dim=64&seq_len=20&pack=angle&dtype=float64&start={{0|30}}&{ROTARY_RULES}",
        first=EVERY,
    ),
    Group(propose_mrope, f"/rope?{SECTIONS}&{MROPE_POSITIONS}&{MROPE_PACKS}", errors=GRID_ERRORS),
    Group(propose_mrope, f"/rope?{SECTIONS}&grid=2,5,7", errors=GRID_ERRORS),
    Group(propose_mrope, f"/rope?{SECTIONS}&{MROPE_POSITIONS}&dtype={{float16|bfloat16}}"),
)

AXIAL_IMAGES = one_of(
    "convention=qwen2_vl&head_dim=32",
    "convention=qwen2_vl&head_dim=32&spatial_merge_size=2",
    "convention=pixtral&head_dim=32&rope_theta=1000",
    "convention=llama4&head_dim=32",
    "convention=llama4&head_dim=32&class_token=last",
    "convention=dinov3&head_dim=32",
    "convention=dinov3&head_dim=32&rope_theta=50",
    "convention=dinov3&head_dim=32&normalize_coords=max&min_period=0.5&max_period=20",
    "convention=timm&head_dim=32&reference_grid=16,16&grid_indexing=xy",
    "convention=timm&head_dim=32&grid_offset=1&class_token=first",
    "convention=timm_pixels&head_dim=32",
    "convention=timm_pixels&head_dim=32&max_freq=64&linear_bands=true",
    "convention=rotary_embedding_torch&head_dim=32&grid_offset=2,5",
    "convention=rotary_embedding_torch_pixel&head_dim=32",
    "convention=rotary_embedding_torch_constant&head_dim=32",
    "convention=diffusers_2d&head_dim=32&grid_start=2,1&grid_stop=10,9",
    "convention=lumina&head_dim=32&rope_theta=20000&interpolation_scale=2",
    "convention=flux&head_dim=32&axes_dim=8,24",
)
AXIAL_VIDEOS = one_of(
    "convention=cogvideox&head_dim=48",
    "convention=allegro&head_dim=48&interpolation_scale=1,2,2",
    "convention=flux&axes_dim=8,20,20",
    "convention=minimax_m3&head_dim=48",
)
PATCHES = "normalize_coords={separate|max|min}&grid_offset={0|0.5}"
IMAGES = (
    "convention=mae&d_model=16",
    "convention=mae&d_model=16&cls_token=true&base=500",
    "convention=transformers&d_model=24",
    "convention=moco-v3&d_model=16",
    "convention=simple-vit&d_model=16",
    "convention=timm&d_model=16&reverse_coord=true",
    "convention=timm&d_model=16&interleave_sin_cos=true",
    "convention=timm-fourier&num_bands=5",
    "convention=detr&d_model=16",
    "convention=detr&d_model=16&normalize=true",
    "convention=detr&d_model=16&normalize=true&scale=2&base=20&channels_first=false",
    "convention=diffusers&d_model=16&base_size=32&interpolation_scale=2",
    "convention=diffusers&d_model=16&cls_token=true&extra_tokens=3",
    "convention=positional-encodings&d_model=14",
    "convention=tensor2tensor&d_model=18&min_timescale=2&max_timescale=5000",
    "convention=perceiver&num_bands=4&max_resolution=6,9",
    "convention=perceiver&num_bands=4&max_resolution=32&sine_only=true",
)
VOLUMES = one_of(
    "convention=diffusers&d_model=32&spatial_interpolation_scale=1.875",
    "convention=positional-encodings&d_model=7&channels_first=true",
    "convention=tensor2tensor&d_model=14",
)
IMAGE_SIZES = "{height=6&width=9|height=7&width=4|height=8&width=8}"
NARROW = "dtype={float16|bfloat16}"
GRIDS = (
    *(
        Group(propose_axial, f"/rope/axial?{table}", errors=GRID_ERRORS)
        for table in (
            f"{AXIAL_IMAGES}&grid={{4,6|8,8}}",
            f"{AXIAL_VIDEOS}&grid=3,4,6",
            f"convention=dinov3&head_dim=32&grid=5,8&{PATCHES}",
            "convention=timm_pixels&head_dim=32&max_freq={32|224|500}&interpolation_scale=2&grid=5,8",
            f"convention=pixtral&head_dim=32&grid=6,5&{NARROW}",
        )
    ),
    Group(
        propose_axial,
        f"/rope/axial?convention=dinov3&head_dim=16&grid=5,3&{EACH_PACK}",
        errors=PACK_ERRORS,
    ),
    Group(
        propose_axial,
        "/rope/axial?convention=llama4&head_dim=16&grid=1,7",
        first=12,
        errors=GRID_ERRORS,
    ),
    *(
        Group(propose_grid, f"/encoding/grid?{table}", errors=GRID_ERRORS)
        for table in (
            f"{one_of(*IMAGES)}&{IMAGE_SIZES}",
            f"{one_of(*IMAGES[::3])}&height=6&width=9&{DTYPE}",
            f"{VOLUMES}&depth=4&height=2&width=3",
        )
    ),
)

SIZES = ((8, 4, 0), (64, 50, 7), (13, 16, 1), (128, 1, 5), (64, 300, -3))
ENCODINGS = one_of(
    *(
        f"convention={name}&dtype={dtype}&d_model={width}&seq_len={rows}&start={start}"
        for (number, (name, dtype)), other in product(
            enumerate(product(CONVENTIONS, DTYPES)), (0, 2)
        )
        for width, rows, start in [SIZES[(number + other) % len(SIZES)]]
        if name != "perceiver" and (width % 2 == 0 or CONVENTIONS[name].odd != "refused")
    )
)
OFFSETS = one_of(
    "d_model=8&offset=1&base=100",
    "d_model=64&offset=3",
    "d_model=64&offset=-17&base=500",
    "d_model=2&offset=2",
    "d_model=8&offset=0",
)
SIMILAR = "{offsets=0:50&dtype=float64|offsets=-20:21&base=500000|offsets=-20:21&dtype=bfloat16}"
BANDS = one_of(
    "d_model=33",
    "d_model=32&concat_pos=false",
    "d_model=7&concat_pos=false&sine_only=true",
    "d_model=8&sine_only=true",
)
BAND_ROWS = one_of(
    "seq_len=12&max_resolution=64",
    "seq_len=50&max_resolution=50",
    "seq_len=200&max_resolution=224",
    "seq_len=300&max_resolution=101",
)
TIMESTEPS = one_of(
    "timesteps=0,1,2.5,250,999&d_model=32",
    "timesteps=0,1,2.5,250,999&d_model=32&flip_sin_to_cos=true&downscale_freq_shift=0",
    "timesteps=3,7.25,42&d_model=15&max_period=1000",
    "timesteps=0,1,2.5,250,999&d_model=32&downscale_freq_shift=0.5",
    "num_timesteps=1000&d_model=64",
)
DESCENDING = one_of(
    "transformer-xl?d_model=16&key_len=12",
    "transformer-xl?d_model=10&key_len=300&clamp_len=200",
    "transformer-xl?d_model=15&key_len=40&base=100",
    "xlnet?d_model=16&key_len=8&query_len=5",
    "xlnet?d_model=12&key_len=7&attn_type=uni",
    "xlnet?d_model=8&key_len=9&query_len=3&clamp_len=2",
    "xlnet?d_model=8&key_len=9&query_len=3&bi_data=true",
    "conformer?d_model=16&seq_len=7",
    "conformer?d_model=64&seq_len=200&dtype=float64",
)
FREQUENCY_LISTS = one_of(
    "d_model=64",
    "d_model=4&base=100",
    "d_model=64&convention=fairseq",
    "d_model=32&convention=mlx&min_freq=0.003&full_turns=true",
    "d_model=32&convention=tensor2tensor&min_timescale=2&max_timescale=500",
    "d_model=65&convention=perceiver&max_resolution=224",
)
SINUSOIDS = (
    Group(propose_encodings, f"/encoding?{ENCODINGS}", first=8),
    Group(propose_encodings, f"/encoding/timesteps?{TIMESTEPS}", first=EVERY),
    Group(propose_relative, f"/relative/{DESCENDING}", first=EVERY),
    Group(
        propose_frequencies,
        f"/encoding/frequencies?{FREQUENCY_LISTS}&part={{frequency|wavelength}}",
        first=EVERY,
    ),
    Group(
        propose_operators,
        f"/relative?{OFFSETS}&layout={{interleaved|concatenated}}&{DTYPE}",
        first=EVERY,
    ),
    Group(propose_similarity, f"/relative/similarity?d_model={{4|64|512}}&{SIMILAR}", first=EVERY),
    Group(
        propose_bands,
        f"/encoding?convention=perceiver&{BANDS}&{BAND_ROWS}&{DTYPE}",
        first=EVERY,
    ),
)

ALIBI = one_of("convention=original", "convention=paper", "form=symmetric")
ALIBI_HEADS = "num_heads={2|8|12|32&alibi_bias_max=16}"
ALIBI_POSITIONS = one_of(
    "query_len=5",
    "query_len=64",
    "query_len=4&key_len=9",
    "query_len=3&query_start=6&key_len=9",
    "query_len=1&query_start=20&key_len=21",
    "query_len=5&key_start=30&key_len=8",
    "query_positions=3,7,19&key_len=40",
    "query_positions=3,7&key_positions=0,1,5,7,20",
    "query_len=40&masked=true",
    "query_len=40&head=1",
    "query_len=40&head=1&masked=true",
    "query_len=4&total_heads=40",
)
SLOPES = "num_heads={1|2|3|8|12|16|20|32|40|112}&alibi_bias_max={8|16}"
KERNEL_POSITIONS = one_of(
    "query_len=8",
    "query_len=64",
    "query_len=3&query_start=6&key_len=9",
    "query_len=1&query_start=20&key_len=21",
    "query_len=16&causal=false",
    "query_len=4&query_start=5&key_len=20&causal=false",
    "query_positions=3,9,30&key_len=40",
    "query_positions=3,9,30&key_len=40&causal=false",
)
KERPLES = one_of(
    "a=1,0.5&p=2,1",
    "a=0.73,1.9,0.02&p=0.3,0.8,1.7",
    "a=0.8123456&p=0.3123456",
    "convention=power&a=1.1,0.4,0.9&p=2,1.5,0.3",
    "convention=nemo&num_heads=12",
    "convention=nemo&a=0.5,0.7&b=0.3,0.2&p=1.3,0.6",
)
SANDWICHES = one_of(
    "num_heads=4&head_dim=16",
    "num_heads=12&head_dim=64",
    "num_heads=12&head_dim=96",
    "num_heads=8&head_dim=128",
    "num_heads=8&head_dim=64&head=2",
)
FIRE = "{|c=0.25|threshold=8|threshold=100&c=0.37}"
FIRE_POSITIONS = "{query_len=8|query_len=200|query_len=4&key_len=9|query_len=1&key_len=21}"
WINDOWS = "window_size={8,8|4,6|2,2|24,12|2,9}"
WINDOW_NORMS = "{|mode=cr|pretrained_window_size=6,6|pretrained_window_size=8,24}"
SWIN_V2 = f"{WINDOWS}&{{|axis=x|axis=y}}&{WINDOW_NORMS}"
BIASES = tuple(
    Group(propose, f"/relative/{table}&{DTYPE}", first, shares=shares)
    for propose, table, first, shares in (
        (propose_alibi, f"alibi?{ALIBI_HEADS}&{ALIBI}&{ALIBI_POSITIONS}", 4, SLOPE_SHARES),
        (
            propose_slopes,
            f"alibi/slopes?{SLOPES}&convention={{original|paper}}",
            EVERY,
            SLOPE_SHARES,
        ),
        (propose_kerple, f"kerple?{KERPLES}&{KERNEL_POSITIONS}", 3, SHARES),
        (propose_sandwich, f"sandwich?{SANDWICHES}&{KERNEL_POSITIONS}", 4, SHARES),
        (propose_fire, f"fire?{FIRE_POSITIONS}&{FIRE}", 4, SHARES),
        (propose_swin_v2, f"swin-v2?{SWIN_V2}", 1, SHARES),
        (propose_dynamic, "dynamic?seq_len={2|7|300}&{|log_distance=true}", 1, SHARES),
    )
)

INDEX_POSITIONS = (
    "query_len=40",
    "query_len=300",
    "query_len=16&key_len=64",
    "query_len=5&query_start=395&key_len=400",
    "query_len=1&query_start=200&key_len=400",
    "query_positions=3,10,90,91&key_len=200",
    "query_len=20&key_start=7&key_len=100",
    "query_len=200&key_len=1",
    "query_positions=0:200:7&key_len=200",
    "query_len=100&key_positions=0:100:9",
)
T5_SIZES = "{|num_buckets=16&max_distance=64|num_buckets=48&max_distance=200}"
DEBERTA_SIZES = "{|bucket_size=16&max_position=64|bucket_size=24&max_position=300}"
SHAW_POSITIONS = one_of(
    "query_len=40",
    "query_len=300",
    "query_len=5&key_len=70",
    "query_len=3&query_start=7&key_len=10",
    "query_len=5&query_start=395&key_len=400",
    "query_positions=3,10,90,91&key_len=300",
    "query_len=1&query_start=100&key_len=300",
)
PERMUTED_HEADS = one_of(
    "head_dim=64",
    "head_dim=64&rotary_dim=16",
    "head_dim=80&rotary_dim=32&rotary_offset=16",
    "head_dim=16&rotary_offset=4&num_attention_heads=5",
    "head_dim=128&num_attention_heads=8",
)
INDICES = tuple(
    Group(propose, table, first=1)
    for propose, table in (
        (
            propose_t5,
            f"/relative/t5?{T5_SIZES}&{{|bidirectional=false}}&{one_of(*INDEX_POSITIONS)}",
        ),
        (propose_deberta, f"/relative/deberta?{DEBERTA_SIZES}&{one_of(*INDEX_POSITIONS[:6])}"),
        (propose_shaw, f"/relative/shaw?max_relative_position={{1|3|16|100}}&{SHAW_POSITIONS}"),
        (
            propose_swin,
            "/relative/swin?window_size={7,7|3,5|8,2|2,2|4,6|16,16}&{|class_token=true}",
        ),
        (propose_permutation, f"/rope/permutation?{PERMUTED_HEADS}&layout={{interleaved|half}}"),
    )
)

CASES = [
    (group, url)
    for group in (*ROTARY, *GRIDS, *SINUSOIDS, *BIASES, *INDICES)
    for url in expanded(group.urls)
]


@pytest.mark.parametrize(("group", "url"), CASES, ids=[url for _, url in CASES])
def test_a_table_is_among_the_first_proposals_of_its_family(group: Group, url: str) -> None:
    request = input_of(url)
    dtype = next((name for name in DTYPES if f"dtype={name}" in url), "float32")
    first = islice(group.propose(request), group.first)

    assert agreeing(request, first, group.shares.get(dtype, 0.0), group.errors.get(dtype, 0.0))
