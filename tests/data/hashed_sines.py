"""Sinusoids of relative positions that are hashed, and their shift."""

from collections.abc import Iterator

from service.encodings.relative import sines as relative_sines
from service.encodings.relative import sines as shift
from service.numerics.dtypes import REAL_DTYPES, DType
from service.numerics.tables import Table
from tests.data.hashed_samples import of_document, pseudo_random, special


def tables() -> Iterator[tuple[str, Table]]:
    """Give those of every model, clamped and not, of both directions and of one."""
    for dtype in REAL_DTYPES.values():
        for d_model in (16, 33):
            yield from _transformer_xl(d_model, dtype)
            yield from _xlnet(d_model, dtype)
        document = relative_sines.conformer(d_model=46, base=10000.0, seq_len=90, dtype=dtype)
        yield from of_document("90 frames", document)
        yield from _shifted(dtype)


def _transformer_xl(d_model: int, dtype: DType) -> Iterator[tuple[str, Table]]:
    for clamp_len in (-1, 60):
        document = relative_sines.transformer_xl(
            d_model=d_model, base=10000.0, key_len=150, clamp_len=clamp_len, dtype=dtype
        )
        yield from of_document(f"{d_model} channels, clamped {clamp_len}", document)


def _xlnet(d_model: int, dtype: DType) -> Iterator[tuple[str, Table]]:
    for bi_data in (False, True):
        for attn_type, query_len, clamp_len in (("bi", 40, -1), ("bi", 40, 25), ("uni", None, -1)):
            document = relative_sines.xlnet(
                d_model=d_model,
                base=100.0,
                query_len=query_len,
                key_len=70,
                attn_type="bi" if attn_type == "bi" else "uni",
                bi_data=bi_data,
                clamp_len=clamp_len,
                dtype=dtype,
            )
            name = f"{d_model} channels, {attn_type}, two directions {bi_data}, clamped {clamp_len}"
            yield from of_document(name, document)


def _shifted(dtype: DType) -> Iterator[tuple[str, Table]]:
    for name, x in {
        "scores": pseudo_random((5, 8, 2, 3), dtype),
        "special values": special((12, 20), dtype),
    }.items():
        for zero_triu in (False, True):
            document = shift.shift_transformer_xl(x, zero_triu=zero_triu)
            yield from of_document(f"{name}, zeros {zero_triu}", document)
        yield from of_document(f"{name}, xlnet", shift.shift_xlnet(x, key_len=6))
