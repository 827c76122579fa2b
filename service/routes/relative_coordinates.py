"""``/relative/swin-v2`` and ``/relative/dynamic``: what networks of positions take in."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer
from service.routes.parameters import Integers, RealDType, dtype_field, impossible
from service.tables import log_coordinates
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_LENGTH

_MAX_WINDOW = 2**30


class SwinV2Parameters(ArrayParameters):
    """Parameters of log-spaced coordinates in a window."""

    window_size: Integers = Field(
        min_length=2,
        max_length=2,
        description="Height and width of the window, in patches.",
        examples=["8,8"],
    )
    pretrained_window_size: Integers | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="Height and width of the window that the model was trained with, by which "
        "distances are normalised; 0,0, or nothing, where that is the window itself.",
        examples=["12,12"],
    )
    mode: Literal["swin", "cr"] = Field(
        default="swin",
        description="swin: sign(d)·log2(1 + |8d/(W - 1)|)/log2 8; cr: sign(d)·ln(1 + |d|).",
        examples=["cr"],
    )
    axis: Literal["y", "x"] | None = Field(
        default=None,
        description="One coordinate alone: shape (2h - 1, 2w - 1). Both unless given, y first.",
        examples=["y"],
    )
    dtype: RealDType = dtype_field()

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the two coordinates."""
        return {"coordinate": "add axis=y"}

    def window(self) -> tuple[int, int]:
        """Give the window; raises InvalidParameters unless it is one."""
        if not all(1 <= side <= _MAX_WINDOW for side in self.window_size):
            rule = f"window_size must be two numbers of patches, 1 to {_MAX_WINDOW}"
            raise impossible("window_size", self.window_size, rule)
        height, width = self.window_size
        return height, width

    def normalized_by(self) -> tuple[int, int] | None:
        """Give the W of each axis; None where distances are not normalised."""
        trained = self.pretrained_window_size
        is_own = trained in {None, (0, 0)}
        if self.mode == "cr":
            if not is_own:
                rule = "pretrained_window_size does not go with mode=cr, which normalises nothing"
                raise impossible("pretrained_window_size", trained, rule)
            return None
        name = "window_size" if is_own else "pretrained_window_size"
        height, width = self.window() if trained is None or is_own else trained
        if not all(2 <= side <= _MAX_WINDOW for side in (height, width)):
            rule = f"{name} must be at least 2 by 2: distances are divided by each side less one"
            raise impossible(name, (height, width), rule)
        return height, width


class DynamicParameters(ArrayParameters):
    """Parameters of the distances that a dynamic position bias is made of."""

    seq_len: Integer = Field(
        ge=1,
        le=MAX_LENGTH,
        description="Number of keys: distances reach from -(seq_len - 1) to seq_len - 1.",
        examples=[8],
    )
    log_distance: Boolean = Field(
        default=False,
        description="Whether they are sign(d)·ln(1 + |d|).",
        examples=[True],
    )
    dtype: RealDType = dtype_field()


def _windows(parameters: SwinV2Parameters) -> Document:
    return log_coordinates.windows(
        window=parameters.window(),
        normalized_by=parameters.normalized_by(),
        axis=None if parameters.axis is None else "yx".index(parameters.axis),
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _distances(parameters: DynamicParameters) -> Document:
    return log_coordinates.distances(
        seq_len=parameters.seq_len,
        is_log=parameters.log_distance,
        dtype=REAL_DTYPES[parameters.dtype],
    )


SWIN_V2 = Resource(
    path="/relative/swin-v2",
    operation="RelativeSwinV2",
    summary="Swin V2's log-spaced coordinates of every distance in a window",
    parameters=SwinV2Parameters,
    document=_windows,
    example="window_size=4,4&axis=y",
)
DYNAMIC = Resource(
    path="/relative/dynamic",
    operation="RelativeDynamic",
    summary="The distances that a dynamic position bias is made of",
    parameters=DynamicParameters,
    document=_distances,
    example="seq_len=4&log_distance=true",
)
