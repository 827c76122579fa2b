"""Sinusoids of relative positions that are hashed, and their shift."""

from collections.abc import Iterator

from service.encodings.relative.sines import Conformer, RelativeShift, TransformerXL, XLNet
from service.numerics.dtypes import REAL_DTYPES, DType
from service.numerics.tables import Table
from tests.data.hashed_samples import of_document, of_family, pseudo_random, special


def tables() -> Iterator[tuple[str, Table]]:
    """Give those of every model, clamped and not, of both directions and of one."""
    for name, dtype in REAL_DTYPES.items():
        for d_model in (16, 33):
            yield from _transformer_xl(d_model, name)
            yield from _xlnet(d_model, name)
        conformer = Conformer.model_validate({"d_model": 46, "seq_len": 90, "dtype": name})
        yield from of_family("90 frames", conformer)
        yield from _shifted(dtype)


def _transformer_xl(d_model: int, dtype: str) -> Iterator[tuple[str, Table]]:
    for clamp_len in (-1, 60):
        values = {"d_model": d_model, "key_len": 150, "clamp_len": clamp_len, "dtype": dtype}
        name = f"{d_model} channels, clamped {clamp_len}"
        yield from of_family(name, TransformerXL.model_validate(values))


def _xlnet(d_model: int, dtype: str) -> Iterator[tuple[str, Table]]:
    for bi_data in (False, True):
        for attn_type, query_len, clamp_len in (("bi", 40, -1), ("bi", 40, 25), ("uni", None, -1)):
            values = {
                "d_model": d_model,
                "base": 100.0,
                "query_len": query_len,
                "key_len": 70,
                "attn_type": attn_type,
                "bi_data": bi_data,
                "clamp_len": clamp_len,
                "dtype": dtype,
            }
            name = f"{d_model} channels, {attn_type}, two directions {bi_data}, clamped {clamp_len}"
            yield from of_family(name, XLNet.model_validate(values))


def _shifted(dtype: DType) -> Iterator[tuple[str, Table]]:
    for name, x in {
        "scores": pseudo_random((5, 8, 2, 3), dtype),
        "special values": special((12, 20), dtype),
    }.items():
        for zero_triu in (False, True):
            document = RelativeShift(zero_triu=zero_triu).document({"x": x})
            yield from of_document(f"{name}, zeros {zero_triu}", document)
        xlnet = RelativeShift(convention="xlnet", key_len=6).document({"x": x})
        yield from of_document(f"{name}, xlnet", xlnet)
