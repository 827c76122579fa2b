"""Parameters that say how cosines and sines are laid out, for which consumer, in which type."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field

from service.delivery.resource import ArrayParameters
from service.grammar import Boolean
from service.routes.parameters import RealDType, dtype_field, impossible
from service.tables import rotary
from service.tables.document import Document
from service.tables.dtypes import FLOAT16, REAL_DTYPES
from service.tables.packs import CONSUMERS, PACKS, pack_of
from service.tables.turns import Turns

PackName: TypeAlias = Literal[
    "pair",
    "complex",
    "flat",
    "concat",
    "sin_concat",
    "compact",
    "half",
    "interleaved",
    "half_concat",
    "sin_half_concat",
    "sin_interleaved_concat",
    "angle",
    "transformers",
    "cohere",
    "diffusers",
    "stable_audio",
    "allegro",
    "llama",
    "llama4",
    "lumina",
    "gptj",
    "vllm",
    "sglang",
    "flashinfer",
    "flash_attn",
    "onnx",
    "onnxruntime",
    "torchtune",
    "torchtune_phi3",
    "torchtune_qwen2",
    "ggml",
    "dinov3",
    "timm_dinov3",
    "timm_mrope",
    "timm_cat",
    "sam2",
]
_PACK_DESCRIPTION = (
    "How cosines and sines are laid out: "
    + "; ".join(f"{name} {pack.description}" for name, pack in PACKS.items())
    + ". Or the consumer: "
    + ", ".join(f"{consumer} ({pack})" for consumer, pack in CONSUMERS.items())
)


class PackParameters(ArrayParameters):
    """Parameters of the form of a rotary table."""

    pack: PackName = Field(default="pair", description=_PACK_DESCRIPTION, examples=["pair"])
    part: Literal["cos", "sin"] | None = Field(
        default=None,
        description="Answer one of the two arrays of compact, half or interleaved alone.",
        examples=["cos"],
    )
    batch: Boolean = Field(
        default=False, description="Add a leading axis of length 1.", examples=[False]
    )
    dtype: RealDType = dtype_field()

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the batch."""
        return {"batch": "leave out batch"}

    def packed(self, kind: str, turns: Turns) -> Document:
        """Describe a table of a kind in this form."""
        pack, dtype = pack_of(self.pack), REAL_DTYPES[self.dtype]
        if pack == "complex" and self.dtype not in {"float32", "float64"}:
            rule = "pack=complex needs dtype float32 (complex64) or float64 (complex128)"
            raise impossible("dtype", self.dtype, rule)
        if pack == "angle" and dtype is FLOAT16:
            rule = "pack=angle needs a dtype with room for angles, not float16"
            raise impossible("dtype", self.dtype, rule)
        return rotary.rope(turns=turns, pack=pack, dtype=dtype, batch=self.batch, kind=kind)
