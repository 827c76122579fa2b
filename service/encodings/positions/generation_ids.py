"""Conventions of models that make images and videos: axes of text, latents and references."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from service.encodings.family import about
from service.encodings.positions.patches import Grids, PatchConvention, Sizes, TextLength
from service.encodings.positions.pieces import Piece, Progress, constant, grid_piece
from service.grammar import Integer


class Flux(PatchConvention, name="flux"):
    """The ids of FLUX.1: text, the latent image, and reference images.

    Formula: axes t,h,w: text (0, 0, 0); the latent, the first of sizes, (0, y, x); references
        (1, y, x).
    Source: diffusers 0.42.1 ``FluxPipeline`` and ``FluxKontextPipeline``, in the order in which
        ``FluxTransformer2DModel`` joins them.
    Trap: sizes are of packed latents, 2×2 of the VAE's: 1024 pixels are 64.
    """

    example: ClassVar[Mapping[str, Any]] = {"text": 2, "sizes": [[3, 4], [2, 2]]}

    sizes: Sizes
    text: TextLength = 0

    def pieces(self) -> Iterator[Piece]:
        yield Piece(self.text, (constant(0),) * 3)
        for number, size in enumerate(self.sizes):
            yield grid_piece((min(number, 1), 0, 0), (1, *size))


class Krea2(Flux, name="krea2"):
    """The ids of Krea 2: text at the origin, and the latent image.

    Formula: axes t,h,w: text (0, 0, 0); the latent, the only one of sizes, (0, y, x).
    Source: diffusers 0.42.1 ``Krea2Pipeline.prepare_position_ids``.
    Trap: all of the text has one position: its order is not in the ids.
    """

    example: ClassVar[Mapping[str, Any]] = {"text": 2, "sizes": [[3, 4]]}

    def pieces(self) -> Iterator[Piece]:
        self.single("sizes")
        return super().pieces()


class Flux2(PatchConvention, name="flux2"):
    """The ids of FLUX.2: text, the latent image, and reference images.

    Formula: axes t,h,w,l: text (0, 0, 0, i); the latent, the first of sizes, (0, y, x, 0);
        reference j, from 0, (scale·(1 + j), y, x, 0).
    Source: diffusers 0.42.1 ``Flux2Pipeline._prepare_text_ids``, ``_prepare_latent_ids`` and
        ``_prepare_image_ids``.
    Trap: FLUX.1 has three axes, and no order of the text.
    """

    axis_names: ClassVar[str] = "t,h,w,l"
    example: ClassVar[Mapping[str, Any]] = {"text": 2, "sizes": [[3, 4], [2, 2], [1, 3]]}

    sizes: Sizes
    text: TextLength = 0
    scale: Annotated[
        Integer, about("The distance of references on the axis t.", 10, ge=1, le=10**6)
    ] = 10

    def pieces(self) -> Iterator[Piece]:
        yield Piece(self.text, (*(constant(0),) * 3, Progress(0)))
        for number, size in enumerate(self.sizes):
            image = grid_piece((self.scale * number, 0, 0), (1, *size))
            yield Piece(image.count, (*image.axes, constant(0)))


class QwenImage(PatchConvention, name="qwen_image"):
    """The ids of Qwen-Image: text, and images around the origin.

    Formula: axes t,h,w: image j, from 0, has (j + k, y − (h − ⌊h/2⌋), x − (w − ⌊w/2⌋)) at frame k,
        row y and column x; text m, m + 1, … on all axes, m the largest ⌊h/2⌋ or ⌊w/2⌋ of all
        images. Text is first.
    Source: diffusers 0.42.1 ``QwenEmbedRope`` with scale_rope=True.
    Trap: of an odd side the negative half is the longer one. The position of text depends on the
        largest image.
    """

    example: ClassVar[Mapping[str, Any]] = {"text": 3, "grids": [[1, 5, 4], [1, 3, 6]]}

    grids: Grids
    text: TextLength = 0

    def pieces(self) -> Iterator[Piece]:
        first = max(side // 2 for grid in self.grids for side in grid[1:])
        yield Piece(self.text, (Progress(first),) * 3)
        for number, grid in enumerate(self.grids):
            _, height, width = grid
            yield grid_piece((number, height // 2 - height, width // 2 - width), grid)


class Wan(PatchConvention, name="wan"):
    """The ids of Wan's video tokens.

    Formula: axes t,h,w: (k, y, x).
    Source: diffusers 0.42.1 ``WanRotaryPosEmbed``.
    Trap: grids are of patches, 1×2×2 latents; text has no ids.
    """

    example: ClassVar[Mapping[str, Any]] = {"grids": [[2, 3, 4]]}

    grids: Grids

    def pieces(self) -> Iterator[Piece]:
        yield grid_piece((0, 0, 0), self.single("grids"))


class HunyuanVideo(Wan, name="hunyuan_video"):
    """The ids of HunyuanVideo's video tokens.

    Formula: axes t,h,w: (k, y, x).
    Source: diffusers 0.42.1 ``HunyuanVideoRotaryPosEmbed``.
    Trap: grids are of patches, 1×2×2 latents; text has no ids, and is not rotated.
    """
