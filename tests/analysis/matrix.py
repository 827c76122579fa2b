"""Tables of every convention, pack and rule, with the outcome of their identification.

    python -m tests.analysis.matrix [WORD…]

prints the outcomes of each group; words choose the groups whose names have them.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Sample, TableRequest
from service.analysis.identification.search import identify
from service.encodings.absolute.conventions import CONVENTIONS
from service.encodings.family import choices
from service.encodings.grid.grid_encoding import GridEncoding
from service.encodings.rotary.angles import PACKS
from service.encodings.rotary.axial import Axial
from service.errors import InvalidRequest
from service.numerics.dtypes import INDEX_DTYPES, INT64
from service.numerics.tables import Document, StoredTable, Table, size
from service.routes.table_urls import tables, url_of

Given: TypeAlias = dict[str, Any]
Outcome: TypeAlias = Literal["named", "ambiguous", "same", "wrong", "none"]

DTYPES = ("float32", "float64", "float16", "bfloat16")

# Rows from the beginning, from an offset, far out, and every other of an offset.
ROWS: Mapping[str, Given] = {
    "first": {"seq_len": 64},
    "few": {"seq_len": 4},
    "long": {"seq_len": 600},
    "offset": {"seq_len": 50, "start": 7},
    "far": {"seq_len": 40, "start": 100000},
    "negative": {"seq_len": 40, "start": -20},
    "subset": {"positions": "3,4,5,9,20:60:3,100"},
}

RULES: Mapping[str, Given] = {
    "default": {},
    "theta 500000": {"rope_theta": 500000},
    "theta 1e6": {"rope_theta": 1e6},
    "theta 100": {"rope_theta": 100},
    "partial": {"rotary_dim": 32},
    "linear": {"rope_type": "linear", "factor": 4},
    "linear 2.5": {"rope_type": "linear", "factor": 2.5, "rope_theta": 1e6},
    "dynamic": {
        "rope_type": "dynamic",
        "factor": 2,
        "max_position_embeddings": 2048,
        "context_length": 8192,
    },
    "dynamic alpha": {"rope_type": "dynamic", "alpha": 1000},
    "ntk": {"rope_type": "ntk", "factor": 8},
    "ntk mixed": {"rope_type": "ntk", "factor": 8, "mixed_b": 0.625},
    "yarn": {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 4096},
    "yarn gpt-oss": {
        "rope_type": "yarn",
        "rope_theta": 150000,
        "factor": 32,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    },
    "yarn deepseek": {
        "rope_type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 4096,
        "mscale": 1,
        "mscale_all_dim": 1,
    },
    "yarn explicit": {
        "rope_type": "yarn",
        "rope_theta": 1e6,
        "factor": 4,
        "original_max_position_embeddings": 32768,
        "attention_factor": 1.25,
    },
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500000,
        "factor": 8,
        "low_freq_factor": 1,
        "high_freq_factor": 4,
        "original_max_position_embeddings": 8192,
    },
    "longrope": {
        "rope_type": "longrope",
        "original_max_position_embeddings": 4096,
        "factor": 32,
        "short_factor": ",".join(f"{1 + k / 50:g}" for k in range(32)),
        "long_factor": ",".join(f"{1 + k * k / 16:g}" for k in range(32)),
        "context_length": 131072,
    },
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    "freq_factors": {"freq_factors": ",".join(f"{1 + k / 8:g}" for k in range(32))},
    "inv_freq": {"inv_freq": ",".join(f"{0.9 / (1 + k * k):.6g}" for k in range(32))},
}

GRIDS: Mapping[str, tuple[Given, ...]] = {
    "mae": ({"d_model": 16}, {"d_model": 48, "cls_token": True}),
    "transformers": ({"d_model": 16},),
    "moco-v3": ({"d_model": 16},),
    "simple-vit": ({"d_model": 16},),
    "timm": ({"d_model": 16}, {"d_model": 32, "interleave_sin_cos": True}),
    "timm-fourier": ({"num_bands": 8},),
    "detr": ({"d_model": 16}, {"d_model": 16, "normalize": True}),
    "diffusers": ({"d_model": 16}, {"d_model": 16, "base_size": 16}, {"d_model": 32, "depth": 3}),
    "positional-encodings": ({"d_model": 10}, {"d_model": 12, "depth": 3}),
    "tensor2tensor": ({"d_model": 18}, {"d_model": 14, "depth": 3}),
    "perceiver": ({"num_bands": 4, "max_resolution": 20},),
}

RELATIVE: Mapping[str, tuple[Given, ...]] = {
    "relative": ({"d_model": 8, "offset": 3}, {"d_model": 16, "offset": -5, "base": 100}),
    "relative/similarity": ({"d_model": 16, "offsets": "-20:21"},),
    "relative/t5": (
        {"query_len": 20, "key_len": 150},
        {"query_len": 1, "query_start": 300, "key_len": 301, "bidirectional": False},
        {"query_len": 300, "key_len": 300, "num_buckets": 64, "max_distance": 256},
        {"query_len": 40, "key_len": 40, "query_start": 30},
    ),
    "relative/deberta": (
        {"query_len": 60, "key_len": 60, "bucket_size": 16, "max_position": 64},
        {"query_len": 300, "key_len": 300, "bucket_size": 256, "max_position": 512},
    ),
    "relative/shaw": (
        {"query_len": 12, "key_len": 20, "max_relative_position": 4},
        {"query_len": 40, "key_len": 40, "max_relative_position": 16},
    ),
    "relative/swin": (
        {"window_size": "7,7"},
        {"window_size": "3,5"},
        {"window_size": "4,4", "class_token": True},
    ),
    "relative/swin-v2": (
        {"window_size": "8,8"},
        {"window_size": "4,6"},
        {"window_size": "12,12", "pretrained_window_size": "8,8"},
        {"window_size": "7,7", "mode": "cr"},
    ),
    "relative/alibi/slopes": tuple(
        {"num_heads": heads, **other}
        for heads in (4, 8, 12, 16, 40)
        for other in ({}, {"convention": "paper"}, {"convention": "mpt", "alibi_bias_max": 16})
    ),
    "relative/alibi": (
        {"num_heads": 8, "query_len": 6},
        {"num_heads": 12, "query_len": 6, "query_start": 4, "key_len": 10},
        {"num_heads": 8, "query_len": 6, "form": "symmetric"},
        {"convention": "bloom", "num_heads": 12, "key_len": 30},
        {"convention": "mpt", "num_heads": 16, "key_len": 30},
        {"num_heads": 8, "head": 2, "query_len": 9},
    ),
    "relative/kerple": (
        {"a": "1,0.5,0.25", "p": "2,1,0.5", "query_len": 12},
        {"convention": "power", "a": "0.5,0.125", "p": "1.5,0.75", "query_len": 12},
    ),
    "relative/sandwich": ({"num_heads": 4, "head_dim": 16, "query_len": 12},),
    "relative/fire": ({"query_len": 20}, {"query_len": 40, "threshold": 16, "c": 0.5}),
    "relative/dynamic": ({"seq_len": 9}, {"seq_len": 12, "log_distance": True}),
    "relative/transformer-xl": (
        {"d_model": 16, "key_len": 20},
        {"d_model": 16, "key_len": 20, "clamp_len": 12},
    ),
    "relative/xlnet": (
        {"d_model": 16, "query_len": 6, "key_len": 10},
        {"d_model": 16, "query_len": 6, "key_len": 10, "attn_type": "uni"},
    ),
    "relative/conformer": ({"d_model": 16, "seq_len": 12}, {"d_model": 64, "seq_len": 100}),
    "rope/permutation": ({"head_dim": 8}, {"head_dim": 16, "rotary_dim": 8}),
}

AXIAL: Mapping[str, Given] = {
    "qwen2_vl": {},
    "pixtral": {},
    "llama4": {},
    "dinov3": {},
    "timm": {},
    "timm_pixels": {"max_freq": 224},
    "rotary_embedding_torch": {},
    "rotary_embedding_torch_pixel": {"max_freq": 10},
    "rotary_embedding_torch_constant": {},
    "diffusers_2d": {},
    "lumina": {},
    "cogvideox": {"grid": "3,4,6", "head_dim": 64},
    "allegro": {"grid": "3,4,6", "head_dim": 48},
    "flux": {"grid": "1,4,6", "axes_dim": "8,28,28", "head_dim": None},
    "minimax_m3": {"grid": "2,4,6", "head_dim": 48},
}


@dataclass(frozen=True)
class Case:
    """A table of the matrix.

    Attributes:
        group: in which it is counted.
        request: the table.
    """

    group: str
    request: TableRequest

    @property
    def hint(self) -> Any:
        """The positions that are sent with the array, where they are not one apart."""
        if "positions" not in self.request.parameters:
            return None
        return np.array([3.0, 4, 5, 9, *range(20, 60, 3), 100])


def cases() -> Iterator[Case]:
    return chain(_encodings(), _ropes(), _vectors(), _grids(), _axials(), _sections(), _relative())


def _made(group: str, resource: str, *given: Given) -> Iterator[Case]:
    """Yield a case, unless there is no such table."""
    joined = {name: value for part in given for name, value in part.items()}
    request = TableRequest(
        resource, {name: value for name, value in joined.items() if value is not None}
    )
    try:
        tables(request)
    except InvalidRequest:
        return
    yield Case(group, request)


def _encodings() -> Iterator[Case]:
    for convention, width, dtype, rows in product(CONVENTIONS, (4, 15, 64), DTYPES, ROWS):
        bands = {"max_resolution": 224} if convention == "perceiver" else {}
        yield from _made(
            f"encoding {convention}",
            "encoding",
            {"convention": convention, "d_model": width, "dtype": dtype},
            bands,
            ROWS[rows],
        )
    for base, layout in product((100, 500000), ("interleaved", "concatenated")):
        for rows in ROWS:
            series: Given = {"d_model": 64, "base": base, "layout": layout}
            yield from _made("encoding base", "encoding", series, ROWS[rows])
    for flip, shift, dtype in product((True, False), (0, 1), DTYPES):
        given = {
            "timesteps": "0,1,2.5,10,40,999",
            "d_model": 32,
            "flip_sin_to_cos": flip,
            "downscale_freq_shift": shift,
            "dtype": dtype,
        }
        yield from _made("encoding timesteps", "encoding/timesteps", given)


def _ropes() -> Iterator[Case]:
    for rule, dtype, rows in product(RULES, DTYPES, ROWS):
        joined: Given = {"pack": "concat", "dtype": dtype}
        yield from _made(f"rope {rule}", "rope", _of_rule(rule), joined, ROWS[rows])
    for pack, rule, dtype in product(PACKS, ("default", "yarn", "llama3"), DTYPES):
        for rows in ("first", "offset", "subset"):
            typed: Given = {"pack": pack, "dtype": dtype}
            yield from _made(f"pack {pack}", "rope", _of_rule(rule), typed, ROWS[rows])
    for part, pack, rows in product(("cos", "sin"), ("compact", "half", "interleaved"), ROWS):
        single: Given = {"pack": pack, "part": part}
        yield from _made("pack, one part", "rope", _of_rule("default"), single, ROWS[rows])


def _of_rule(rule: str) -> Given:
    return {"head_dim": None if rule == "inv_freq" else 64, **RULES[rule]}


def _vectors() -> Iterator[Case]:
    for rule, part in product(RULES, ("inv_freq", "wavelength")):
        yield from _made(part, "rope/frequencies", _of_rule(rule), {"part": part})
    for convention, part in product(CONVENTIONS, ("frequency", "wavelength")):
        given = {"convention": convention, "d_model": 64, "part": part}
        bands = {"max_resolution": 224} if convention == "perceiver" else {}
        yield from _made(part, "encoding/frequencies", given, bands)


def _grids() -> Iterator[Case]:
    for convention in choices(GridEncoding, "convention"):
        for given, (height, width), dtype in product(
            GRIDS[convention], ((4, 6), (6, 6), (14, 9)), DTYPES
        ):
            shape = {"convention": convention, "height": height, "width": width, "dtype": dtype}
            yield from _made(f"grid {convention}", "encoding/grid", shape, given)


def _axials() -> Iterator[Case]:
    for convention in choices(Axial, "convention"):
        for pack, grid, dtype in product(("half", "pair", "concat"), ("4,6", "8,8"), DTYPES):
            given = {"convention": convention, "head_dim": 32, "grid": grid, "pack": pack}
            yield from _made(
                f"axial {convention}", "rope/axial", given, AXIAL[convention], {"dtype": dtype}
            )


def _sections() -> Iterator[Case]:
    places = {
        "positions_t": "0:8,8,8,8,8",
        "positions_h": "0:8,8,8,9,9",
        "positions_w": "0:8,8,9,8,9",
    }
    for interleaved, dtype, pack in product((False, True), DTYPES, ("half", "concat")):
        given = {
            "head_dim": 64,
            "mrope_section": "16,8,8" if not interleaved else "12,10,10",
            "mrope_interleaved": interleaved,
            "pack": pack,
            "dtype": dtype,
        }
        yield from _made("rope mrope", "rope", given, places)


def _relative() -> Iterator[Case]:
    for resource, settings in RELATIVE.items():
        for given in settings:
            yield from _made(resource, resource, given)


def asked(case: Case) -> tuple[IdentifyInput, Document]:
    """Return the input of a case, and its document."""
    document = tables(case.request)
    arrays = {name: _sent(table) for name, table in document.arrays.items()}
    return IdentifyInput(arrays, positions=case.hint), document


def _sent(table: Table) -> Sample:
    """Read a table as it is sent: integers of every type are int64."""
    elements = table.read(0, size(table)).reshape(table.shape)
    if table.dtype.name in INDEX_DTYPES:
        return Sample.of(StoredTable(elements.astype("<i8"), INT64))
    return Sample.of(StoredTable(elements, table.dtype))


def outcome(case: Case) -> Outcome:
    """Identify a case.

    ``named``: only the table itself matches; ``ambiguous``: others with the same numbers match as
    well; ``same``: only others with the same numbers match; ``wrong``: one with other numbers does.
    """
    inputs, document = asked(case)
    found = identify(inputs, tables)
    if found.outcome == "none":
        return "none"
    documents = [tables(verdict.proposal.request) for verdict in found.hypotheses]
    if any(not _is_same(document, other) for other in documents):
        return "wrong"
    if document.parameters not in [other.parameters for other in documents]:
        return "same"
    return "named" if len(documents) == 1 else "ambiguous"


def _is_same(one: Document, other: Document) -> bool:
    """Tell whether two documents have the same numbers, except for axes of length 1.

    The last place may differ by the rounding of a float64 parameter.
    """
    for name, table in one.arrays.items():
        its = other.arrays.get(name) or next(iter(other.arrays.values()))
        if size(its) != size(table):
            return False
        mine, theirs = (_sent(each).reals().reshape(-1) for each in (table, its))
        unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(table.dtype.name, 2.0**-20)
        both = np.isfinite(mine) & np.isfinite(theirs)
        if (np.isfinite(mine) != np.isfinite(theirs)).any():
            return False
        if np.abs(mine - theirs)[both].max(initial=0) > unit * np.abs(mine[both]).max(initial=1):
            return False
    return True


def main(words: list[str]) -> None:
    """Print the outcomes by group, and the URLs that were not identified."""
    counts: dict[str, Counter[Outcome]] = {}
    seconds = 0.0
    for case in cases():
        if words and not any(word in case.group for word in words):
            continue
        begun = perf_counter()
        found = outcome(case)
        seconds += perf_counter() - begun
        counts.setdefault(case.group, Counter())[found] += 1
        if found in {"same", "wrong", "none"}:
            print(f"  {found}: {url_of(case.request)}")  # noqa: T201
    for group, counted in counts.items():
        print(f"{group}: {dict(counted)} of {counted.total()}")  # noqa: T201
    total = sum(counts.values(), Counter[Outcome]())
    print(f"all: {dict(total)} of {total.total()} in {seconds:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
