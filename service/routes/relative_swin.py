"""``/relative/swin``: relative positions within a window, and the biases that they select."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.delivery.parameters import Parameters
from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, spelled
from service.routes.gathered import GatheredParameters, check_fits, wrong_rows
from service.routes.parameters import IndexDType, Integers, impossible, index_dtype_field
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES, INT64
from service.tables.table import StoredTable
from service.tables.windows import Window, WindowTable, index

_MAX_TOKENS = 2**31 - 1


class WindowParameters(Parameters):
    """The size of a window."""

    window_size: Integers = Field(
        min_length=2,
        max_length=2,
        description="Height and width of the window, in tokens.",
        examples=["2,3"],
    )

    def window(self, *, class_token: bool) -> Window:
        """Give the window; raises InvalidParameters."""
        height, width = self.window_size
        if min(height, width) < 1 or height * width > _MAX_TOKENS:
            rule = f"window_size must be two numbers of 1 or more, of at most {_MAX_TOKENS} tokens"
            raise impossible("window_size", self.window_size, rule)
        return Window(height, width, class_token)


class SwinParameters(ArrayParameters, WindowParameters):
    """Parameters of relative positions within a window."""

    class_token: Boolean = Field(
        default=False,
        description="Whether a class token comes before the others, as BEiT has it.",
        examples=[True],
    )
    dtype: IndexDType = index_dtype_field()


class SwinBiasParameters(WindowParameters, GatheredParameters):
    """Parameters of biases within a window."""

    class_token: Boolean | None = Field(
        default=None,
        description="Whether a class token comes before the others; as the rows of the array have "
        "it unless given.",
        examples=[False],
    )


def _index(parameters: SwinParameters) -> Document:
    window, dtype = parameters.window(class_token=parameters.class_token), parameters.dtype
    check_fits(INDEX_DTYPES[dtype], window.count - 1)
    return index(window, INDEX_DTYPES[dtype])


def _bias(parameters: SwinBiasParameters, arrays: Mapping[str, StoredTable]) -> Document:
    weight, said = arrays["weight"], parameters.class_token
    windows = [parameters.window(class_token=has) for has in (False, True)]
    fitting = [one for one in windows if said in {None, one.class_token}]
    for window in fitting:
        if weight.shape[0] == window.count:
            table = WindowTable(window, INT64)
            return parameters.of_heads("relative-swin-bias", window.parameters(), weight, table)
    counts = " or ".join(
        f"{one.count} {'with' if one.class_token else 'without'} a class token" for one in fitting
    )
    rule = f"{counts} for window_size={spelled(parameters.window_size)}"
    raise wrong_rows(weight.shape[0], rule)


INDEX = Resource(
    path="/relative/swin",
    operation="RelativeSwin",
    summary="The number of the relative position of every two tokens of a window",
    parameters=SwinParameters,
    document=_index,
    example="window_size=2,3",
)
BIAS = Composition(
    path="/relative/swin/bias",
    operation="RelativeSwinBias",
    summary="The bias of every head and every two tokens of a window, from its learned table",
    parameters=SwinBiasParameters,
    inputs=(
        InputArray(
            name="weight",
            description="the learned table, ((2·rows - 1)·(2·columns - 1), heads), with three rows "
            "more for a class token",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]],
        ),
    ),
    document=_bias,
    example="window_size=1,2&head=0",
)
