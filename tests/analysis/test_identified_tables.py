"""Tables of every family, convention, pack and rule are identified."""

from collections.abc import Iterator, Mapping

import pytest

from service.analysis.identification.search import identify
from service.delivery.endpoints import RESOURCES
from service.encodings.absolute.conventions import CONVENTIONS
from service.encodings.family import choices
from service.encodings.grid.grid_encoding import GridEncoding
from service.encodings.rotary.angles import PACKS
from service.encodings.rotary.axial import Axial
from service.routes.table_urls import tables
from tests.analysis.samples import agreeing, input_of

GRIDS: Mapping[str, str] = {
    "timm-fourier": "num_bands=8",
    "positional-encodings": "d_model=10",
    "tensor2tensor": "d_model=18",
    "perceiver": "num_bands=4&max_resolution=20",
}
AXIAL: Mapping[str, str] = {
    "timm_pixels": "grid=4,6&head_dim=32&max_freq=224",
    "rotary_embedding_torch_pixel": "grid=4,6&head_dim=32&max_freq=10",
    "cogvideox": "grid=3,4,6&head_dim=64",
    "allegro": "pack=concat&grid=3,4,6&head_dim=48",
    "wan": "grid=3,4,6&head_dim=48",
    "cosmos": "grid=3,4,6&head_dim=48",
    "qwen_image": "grid=3,4,6&axes_dim=16,16,16",
    "flux": "grid=1,4,6&axes_dim=8,28,28",
    "minimax_m3": "grid=2,4,6&head_dim=48",
}


NOT_PROPOSED = frozenset(("deformable-detr", "cogview4", "ltx", "ltx2"))
"""Conventions of coordinates that no function proposes: their tables are not identified."""


def listed(factors: Iterator[float]) -> str:
    return ",".join(f"{factor:.6g}" for factor in factors)


RULES = (
    "rope_theta=500000",
    "rope_theta=1e6",
    "rope_theta=100",
    "rotary_dim=32",
    "rope_type=linear&factor=4",
    "rope_type=linear&factor=2.5&rope_theta=1e6",
    "rope_type=dynamic&factor=2&max_position_embeddings=2048&context_length=8192",
    "rope_type=dynamic&alpha=1000",
    "rope_type=ntk&factor=8",
    "rope_type=ntk&factor=8&mixed_b=0.625",
    "rope_type=yarn&factor=16&original_max_position_embeddings=4096",
    (
        "rope_type=yarn&factor=32&original_max_position_embeddings=4096&rope_theta=150000"
        "&truncate=false"
    ),
    "rope_type=yarn&factor=40&original_max_position_embeddings=4096&mscale=1&mscale_all_dim=1",
    (
        "rope_type=yarn&factor=4&original_max_position_embeddings=32768&rope_theta=1e6"
        "&attention_factor=1.25"
    ),
    (
        "rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4&rope_theta=500000"
        "&original_max_position_embeddings=8192"
    ),
    (
        "rope_type=longrope&factor=32&original_max_position_embeddings=4096&context_length=131072"
        f"&short_factor={listed(1 + k / 50 for k in range(32))}"
        f"&long_factor={listed(1 + k * k / 16 for k in range(32))}"
    ),
    "rope_type=proportional&partial_rotary_factor=0.25&rope_theta=1e6",
    f"freq_factors={listed(1 + k / 8 for k in range(32))}",
)
INV_FREQ = listed(0.9 / (1 + k * k) for k in range(32))


def urls() -> Iterator[str]:
    for convention in CONVENTIONS:
        bands = "15&max_resolution=224" if convention == "perceiver" else "4"
        yield f"/encoding?convention={convention}&seq_len=64&d_model={bands}"
    for convention in sorted({*choices(GridEncoding, "convention")} - NOT_PROPOSED):
        query = GRIDS.get(convention, "d_model=16")
        yield f"/encoding/grid?convention={convention}&height=4&width=6&{query}"
    for convention in sorted({*choices(Axial, "convention")} - NOT_PROPOSED):
        query = AXIAL.get(convention, "grid=4,6&head_dim=32")
        pack = "" if "pack=" in query else "pack=half&"
        yield f"/rope/axial?convention={convention}&{pack}{query}"
    yield from (f"/rope?head_dim=64&seq_len=64&pack={pack}" for pack in PACKS)
    yield from (f"/rope?head_dim=64&seq_len=64&pack=concat&{rule}" for rule in RULES)
    yield from (
        "/encoding?d_model=64&base=100&seq_len=64",
        "/encoding/frequencies?d_model=64&part=frequency",
        "/rope/frequencies?head_dim=64&part=inv_freq",
        "/rope?head_dim=64&pack=compact&part=cos&seq_len=64",
        f"/rope?inv_freq={INV_FREQ}&pack=concat&seq_len=64",
        (
            "/rope?head_dim=64&mrope_section=16,8,8&pack=half&positions_t=0:8,8,8,8,8"
            "&positions_h=0:8,8,8,9,9&positions_w=0:8,8,9,8,9"
        ),
    )


def is_identified(url: str) -> bool:
    """Return whether there are hypotheses for a table, all of which are right."""
    request = input_of(url)
    proposals = [each.proposal for each in identify(request, tables).hypotheses]
    return len(agreeing(request, proposals, error=2.0**-20)) == len(proposals) > 0


NOT_IDENTIFIED: tuple[str, ...] = ("/attention/temperature", "/resize")
"""Paths of families for which no function of analysis/identification/search.py proposes tables."""


def test_example_of_every_family_is_identified() -> None:
    unidentified = []
    for resource in RESOURCES.values():
        part = "&part=wavelength" if resource.path.endswith("/frequencies") else ""
        if not is_identified(f"{resource.path}?{resource.example}{part}"):
            unidentified.append(resource.path)

    assert unidentified == list(NOT_IDENTIFIED), (
        "propose it in identification/search.py, or name it"
    )


@pytest.mark.full
@pytest.mark.parametrize("url", [*urls()])
def test_tables_of_every_convention_pack_and_rule_are_identified(url: str) -> None:
    assert is_identified(url)
