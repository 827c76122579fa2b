"""Conventions of vision encoders: the row and column of each patch, windows, and buckets."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from operator import mul
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from service.encodings.family import about, impossible
from service.encodings.positions.convention import NamedTables, PatchSize, SpatialMergeSize
from service.encodings.positions.patches import Grids, PatchConvention, Sizes, refused
from service.encodings.positions.pieces import Piece, PiecesTable, Progress, Row, constant
from service.encodings.positions.segments import PaddedLength, Size
from service.grammar import Boolean, Integer
from service.numerics.dtypes import INT32
from service.numerics.phase import Int64s
from service.numerics.tables import Caution, StoredTable, Table

_MAX_END = 2**31 - 1
# Below this many patches times buckets float32 puts only borders of buckets elsewhere.
_MAX_PATCHES, _MAX_BUCKETS = 4096, 1024


class MergedPatches(PatchConvention):
    """Base of the conventions of grids that are merged in blocks."""

    grids: Grids
    spatial_merge_size: SpatialMergeSize = 2

    def checked(self) -> Iterator[tuple[int, int, int]]:
        """Yield the grids; raises InvalidBody for one that the merge does not divide."""
        for number, grid in enumerate(self.grids):
            if any(side % self.spatial_merge_size for side in grid[1:]):
                rule = f"spatial_merge_size={self.spatial_merge_size} must divide h and w"
                raise refused("grids", number, grid, rule)
            yield grid


class VisionGrid(MergedPatches, name="vision_grid"):
    """The row and column of each patch of images and videos, in blocks that are merged.

    Formula: axes h,w, or t,h,w with include_temporal: in each frame the blocks of
        spatial_merge_size² patches row by row, and in a block its patches row by row.
        cu_frame_seqlens are the patches before each frame, and all.
    Source: transformers 5.23.0 ``get_vision_position_ids`` and ``get_vision_cu_seqlens``; of
        merge 1 (Pixtral, Kimi-K2.5) rows; with include_temporal MiniMax-M3-VL.
    Trap: in rows from left to right every second pair of patches has another place than in blocks;
        processors send them in blocks.
    """

    arrays: ClassVar[tuple[str, ...]] = ("position_ids", "cu_frame_seqlens")
    example: ClassVar[Mapping[str, Any]] = {"grids": [[1, 4, 6]]}

    include_temporal: Annotated[Boolean, about("Whether t is the first axis.", True)] = False

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:  # noqa: ARG002
        pieces, ends, total = [], [Piece(1, (constant(0),))], 0
        for frames, height, width in self.checked():
            count, merge = height * width, self.spatial_merge_size
            axes: tuple[Progress, ...] = (
                Progress(0, merge, count // merge, partial(_row_in_blocks, width, merge)),
                Progress(0, 1, merge * width, partial(_column_in_blocks, merge)),
            )
            if self.include_temporal:
                axes = (Progress(0, count), *axes)
            pieces.append(Piece(frames * count, axes))
            ends.append(Piece(frames, (Progress(total + count, ramp=partial(mul, count)),)))
            total += frames * count
        if total > _MAX_END:
            raise impossible("grids", None, "grids has 2^31 patches or more")
        tables: dict[str, Table] = {
            "position_ids": self.flat(pieces, "grids"),
            "cu_frame_seqlens": PiecesTable([Row(tuple(ends))], dtype=INT32, is_batch=False),
        }
        return NamedTables(tables, {"axes": "t,h,w" if self.include_temporal else "h,w"})


def _row_in_blocks(width: int, merge: int, steps: Int64s) -> Int64s:
    """Return the row of each run of ``merge`` patches, of which a row of blocks has ``width``."""
    return steps // width * merge + steps % merge


def _column_in_blocks(merge: int, steps: Int64s) -> Int64s:
    return steps // merge**2 * merge + steps % merge


class VisionWindows(MergedPatches, name="vision_windows"):
    """The order of merged tokens in windows, and where windows end.

    Formula: a window has side² merged tokens, side = window_size // spatial_merge_size //
        patch_size, or fewer at the right and the bottom; window_index are the numbers of the tokens
        in each frame window by window, row by row; cu_window_seqlens are the patches before each
        window, and all.
    Source: transformers 5.23.0 ``get_vision_window_index`` (Qwen2.5-VL).
    Trap: cu_window_seqlens counts patches, window_index merged tokens: spatial_merge_size² patches
        move together.
    """

    arrays: ClassVar[tuple[str, ...]] = ("window_index", "cu_window_seqlens")
    example: ClassVar[Mapping[str, Any]] = {"grids": [[1, 18, 26]]}

    window_size: Annotated[Integer, about("Pixels of a side of a window.", 112, ge=1, le=2**31)] = (
        112
    )
    patch_size: PatchSize = 14

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:  # noqa: ARG002
        merge = self.spatial_merge_size
        side = self.window_size // merge // self.patch_size
        if not side:
            rule = f"a window of {self.window_size} has no merged token of {merge} patches"
            raise impossible("window_size", self.window_size, rule)
        index, ends, total = [], [Piece(1, (constant(0),))], 0
        for frames, *sides in self.checked():
            windows = _Windows(side, *(each // merge for each in sides))
            index.append(Piece(frames * windows.tokens, (Progress(total, ramp=windows.order),)))
            ramp = partial(windows.end_of, merge**2)
            ends.append(Piece(frames * windows.count, (Progress(total * merge**2, ramp=ramp),)))
            total += frames * windows.tokens
        if total * merge**2 > _MAX_END:
            raise impossible("grids", None, "grids has 2^31 patches or more")
        tables: dict[str, Table] = {
            "window_index": PiecesTable([self.row_of(index, "grids")], is_batch=False),
            "cu_window_seqlens": PiecesTable([Row(tuple(ends))], dtype=INT32, is_batch=False),
        }
        return NamedTables(tables, {})


class _Windows:
    """The windows of the frames of one grid of merged tokens."""

    def __init__(self, side: int, height: int, width: int) -> None:
        self.side, self.height, self.width = side, height, width
        self.columns = -(-width // side)
        self.tokens, self.count = height * width, -(-height // side) * self.columns

    def order(self, places: Int64s) -> Int64s:
        """Return the number of the token that stands at each place of the frames."""
        frame, place = np.divmod(places, self.tokens)
        band, place = np.divmod(place, self.side * self.width)
        rows = np.minimum(self.side, self.height - band * self.side)
        column, place = np.divmod(place, rows * self.side)
        columns = np.minimum(self.side, self.width - column * self.side)
        row, place = np.divmod(place, columns)
        row, place = band * self.side + row, column * self.side + place
        return np.asarray(frame * self.tokens + row * self.width + place)

    def end_of(self, factor: int, windows: Int64s) -> Int64s:
        """Return the tokens of the frames up to the end of each window, times a factor."""
        frame, window = np.divmod(windows, self.count)
        band, column = np.divmod(window, self.columns)
        rows = np.minimum(self.side, self.height - band * self.side)
        before = frame * self.tokens + band * self.side * self.width
        return np.asarray(
            (before + np.minimum((column + 1) * self.side, self.width) * rows) * factor
        )


class Gemma4(PatchConvention, name="gemma4"):
    """The column and row of each patch of Gemma 4's images, column first.

    Formula: axes x,y: (i mod w, ⌊i/w⌋) of the patches of each image, then (−1, −1) up to length,
        (2, images, length).
    Source: transformers 5.23.0 ``Gemma4ImageProcessorPil``.
    Trap: x, the column, is the first axis. Rotations turn the −1 of padding, too, as transformers
        does, which masks its tokens.
    """

    models: ClassVar[tuple[str, ...]] = ("gemma4_vision",)
    example: ClassVar[Mapping[str, Any]] = {"sizes": [[3, 4]], "length": 15}

    sizes: Sizes
    length: PaddedLength | None = None

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:  # noqa: ARG002
        length = self.length or max(height * width for height, width in self.sizes)
        rows = []
        for number, (height, width) in enumerate(self.sizes):
            count = height * width
            if count > length:
                rule = f"{count} patches are more than length={length}"
                raise refused("sizes", number, (height, width), rule)
            patches = Piece(count, (Progress(0, 1, width), Progress(0, width)))
            padding = Piece(length - count, (constant(-1), constant(-1)))
            rows.append(self.row_of([patches, padding], "sizes"))
        return NamedTables(
            {"position_ids": PiecesTable(rows, 2)}, {"axes": "x,y", "length": length}
        )


class Buckets(PatchConvention, name="buckets"):
    """The row of a square table of positions for each patch of images of other sizes.

    Formula: ⌊y·side/h⌋·side + ⌊x·side/w⌋ for patch (y, x) of h×w, side = num_patches_per_side.
        With canvas the patches of a canvas, (images, patches), 0 outside of the image; without it
        those of all images, one after the other.
    Source: transformers 5.23.0 ``Idefics2VisionEmbeddings`` (Idefics 3, SmolVLM, Phi-4-multimodal
        the same), with canvas; ``get_vision_nearest_position_ids`` (MiniCPM-V), without.
    Trap: libraries compare float32 fractions with float32 borders: a patch on the border of two
        buckets may be in the one before. ``library-rounding`` names the sides where it is so on
        x86-64; other processors round other borders.
    """

    models: ClassVar[tuple[str, ...]] = ("idefics2_vision", "idefics3_vision", "smolvlm_vision")
    example: ClassVar[Mapping[str, Any]] = {"num_patches_per_side": 7, "sizes": [[3, 5]]}

    num_patches_per_side: Annotated[
        Integer, about("Rows and columns of the table of positions.", 70, ge=1, le=_MAX_BUCKETS)
    ]
    sizes: Sizes
    canvas: Annotated[Size, about("Patches h,w that images are padded to.", [7, 7])] | None = None

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:  # noqa: ARG002
        side, pieces = self.num_patches_per_side, []
        for number, size in enumerate(self.sizes):
            most = self.canvas or (_MAX_PATCHES, _MAX_PATCHES)
            most = min(most[0], _MAX_PATCHES), min(most[1], _MAX_PATCHES)
            if size[0] > most[0] or size[1] > most[1]:
                raise refused("sizes", number, size, f"at most {most[0]}×{most[1]} patches fit")
            width = self.canvas[1] if self.canvas else size[1]
            count = self.canvas[0] * width if self.canvas else size[0] * width
            pieces.append(Piece(count, (Progress(0, ramp=partial(_bucket, side, size, width)),)))
        if self.canvas:
            table = PiecesTable([self.row_of([piece], "canvas") for piece in pieces])
        else:
            table = PiecesTable([self.row_of(pieces, "sizes")], is_batch=False)
        return NamedTables({"position_ids": table}, {}, tuple(self._cautions()))

    def _cautions(self) -> Iterator[Caution]:
        """Yield a warning of the sides whose buckets differ in float32."""
        sides = sorted({side for size in self.sizes for side in size})
        borders = _borders(self.num_patches_per_side)
        found = []
        for library, has_canvas in (("MiniCPM-V", False), ("Idefics", True)):
            differ = [side for side in sides if self._differs(side, borders, has_canvas=has_canvas)]
            if differ and (has_canvas or self.canvas is None):
                found.append(f"{', '.join(map(str, differ))} ({library})")
        if found:
            detail = (
                f"in float32 some patches of sides {'; '.join(found)} "
                "are in the bucket before or after; these are the exact buckets"
            )
            yield Caution("library-rounding", detail)

    def _differs(self, count: int, borders: NDArray[np.float32], *, has_canvas: bool) -> bool:
        """Return whether float32 puts one of the patches of a side into another bucket."""
        place, one = np.arange(count), np.float32(1)
        shares = place.astype(np.float32)
        if has_canvas:
            shares = np.minimum(shares * (one / np.float32(count)), np.float32(1 - 1e-6))
        else:
            shares /= np.float32(count)
        found = np.searchsorted(borders, shares, "right")
        return bool((found != place * self.num_patches_per_side // count).any())


def _bucket(side: int, size: Sequence[int], width: int, places: Int64s) -> Int64s:
    """Return the bucket of patches of a canvas of some width, 0 outside of the image."""
    row, column = np.divmod(places, width)
    buckets = row * side // size[0] * side + column * side // size[1]
    return np.where((row < size[0]) & (column < size[1]), buckets, 0)


def _borders(side: int) -> NDArray[np.float32]:
    """Return the float32 borders k/side of torch.arange(1/side, 1, 1/side) on a processor.

    torch 2.13.0 computes 16 at a time as two vectors of 8, whose first number it rounds, and the
    last ones one by one.
    """
    step = 1 / side
    number = np.arange(ceil((1 - step) / step))
    lane = np.where(number < len(number) // 16 * 16, number % 8, 0)
    first = (step + step * (number - lane)).astype(np.float32)
    return (first + step * lane).astype(np.float32)
