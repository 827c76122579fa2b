"""``/relative/kerple``: KERPLE's kernels of distances, from numbers or arrays for each head."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.delivery.resource import ArrayParameters, Resource
from service.errors import InvalidBody, PosrefError
from service.grammar import Boolean, Integer, spelled
from service.routes.parameters import RealDType, Reals, dtype_field, impossible
from service.routes.query_key import HeadParameters, QueryKeyParameters, causal_field
from service.tables import kerple
from service.tables.angle import Float64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import REAL_DTYPES, widened
from service.tables.exponential import MAX_EXPONENT
from service.tables.kerple import CLAMP, LEAST, MAX_POWER, MOST
from service.tables.limits import MAX_CHANNELS
from service.tables.table import StoredTable

Convention: TypeAlias = Literal["log", "power", "nemo"]

_NAMES = ("a", "b", "p")
_MAX_EXPONENTS = MappingProxyType({"power": MAX_POWER, "nemo": MAX_EXPONENT})

# Makes the error of numbers of a name, of which one is shown, that break a rule.
_Fault: TypeAlias = Callable[[str, float | None, str], PosrefError]


class KernelParameters(QueryKeyParameters, HeadParameters):
    """Which kernel, and for which queries and keys."""

    convention: Convention = Field(
        default="log",
        description="log: -p·ln(1 + a·|d|); power: -a·|d|^p; nemo: -b·ln(1 + a·|d|^p).",
        examples=["nemo"],
    )
    clamp: Boolean = Field(
        default=False,
        description="Whether a and p below 0.01 are raised to it, and the p of power above 2 is "
        "lowered to it, as the code of KERPLE does with what it has learned.",
        examples=[True],
    )
    causal: Boolean = causal_field()
    dtype: RealDType = dtype_field()

    def numbers(self, given: Mapping[str, Float64s], fault: _Fault) -> dict[str, Float64s]:
        """Hold the numbers of every head to the kernel, clamped where that is wanted."""
        self._check_names(given, fault)
        if self.convention == "nemo":
            heads = len(next(iter(given.values())))
            given = {"a": np.ones(heads), "p": np.ones(heads), **given}
        elif self.clamp:
            given = {name: np.maximum(values, CLAMP) for name, values in given.items()}
            if self.convention == "power":
                given["p"] = np.minimum(given["p"], MAX_POWER)
        for name, values in given.items():
            self._check_range(name, values, fault)
        return {name: given[name] for name in _NAMES if name in given}

    def _check_names(self, given: Mapping[str, Float64s], fault: _Fault) -> None:
        if self.convention == "nemo":
            if self.clamp:
                raise impossible("clamp", self.clamp, "NeMo clamps nothing")
            return
        if "b" in given:
            raise fault("b", None, f"b does not go with {self.convention}, which has a and p")
        for name in ("a", "p"):
            if name not in given:
                raise fault(name, None, f"{name} is required with {self.convention}")

    def _check_range(self, name: str, values: Float64s, fault: _Fault) -> None:
        is_exponent = name == "p" and self.convention in _MAX_EXPONENTS
        most = _MAX_EXPONENTS[self.convention] if is_exponent else MOST
        # What NeMo learns b to be is of either sign.
        sizes = np.abs(values) if name == "b" else values
        is_right = ((sizes == 0) & (not is_exponent)) | ((sizes >= LEAST) & (sizes <= most))
        if not is_right.all():
            wrong = float(values[~is_right][0])
            least = f"{LEAST:g}" if is_exponent else f"0, or {LEAST:g}"
            of = " in size" if name == "b" else ""
            rule = f"{name} must be {least} to {most:g}{of} with {self.convention}"
            raise fault(name, wrong, rule)

    def described(
        self, kind: str, numbers: Mapping[str, Float64s], parameters: dict[str, ParameterValue]
    ) -> Document:
        """Describe the biases of numbers for each head."""
        kernel = kerple.kernel(self.convention, numbers, is_causal=self.causal)
        return kerple.bias(
            kind=kind,
            parameters={"convention": self.convention, **parameters},
            kernel=kernel,
            pairs=self.pairs(),
            head=self.checked_head(kernel.outer.count),
            dtype=REAL_DTYPES[self.dtype],
        )


class KerpleParameters(ArrayParameters, KernelParameters):
    """Parameters of kernels whose numbers are in the query."""

    num_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Number of heads; as many as numbers unless given. One number is for all.",
        examples=[4],
    )
    a: Reals | None = Field(
        default=None,
        description="A number for each head; with nemo 1 unless given.",
        examples=["1,0.5"],
    )
    b: Reals | None = Field(
        default=None,
        description="A number for each head, of either sign, with nemo alone; ALiBi's slopes "
        "unless given.",
        examples=["0.5,0.25"],
    )
    p: Reals | None = Field(
        default=None,
        description="A number for each head; with nemo 1 unless given.",
        examples=["1,2"],
    )

    def given(self) -> dict[str, Float64s]:
        """Give the numbers of every head; raises InvalidParameters where they do not agree."""
        lists = {name: values for name in _NAMES if (values := getattr(self, name)) is not None}
        heads = self.num_heads or max(map(len, lists.values()), default=0)
        if not 1 <= heads <= MAX_CHANNELS:
            rule = f"num_heads is required where there are no numbers, and at most {MAX_CHANNELS}"
            raise impossible("num_heads", None, rule)
        for name, values in lists.items():
            if len(values) not in {1, heads}:
                rule = f"{name} must be one number, or one for each of {heads} heads"
                raise impossible(name, values, rule)
        every = {name: np.zeros(heads) + values for name, values in lists.items()}
        return every if every or self.convention != "nemo" else {"a": np.ones(heads)}


def _kerple(parameters: KerpleParameters) -> Document:
    numbers = parameters.numbers(parameters.given(), impossible)
    described: dict[str, ParameterValue] = {"num_heads": len(numbers["a"])}
    described |= {name: tuple(values.tolist()) for name, values in numbers.items()}
    return parameters.described("relative-kerple", numbers, described)


def _bias(parameters: KernelParameters, arrays: Mapping[str, StoredTable]) -> Document:
    given = {name: widened(sent.elements, sent.dtype) for name, sent in arrays.items()}
    heads = {len(values) for values in given.values()}
    if len(heads) != 1 or max(heads) > MAX_CHANNELS:
        raise InvalidBody(f"arrays must be of one length, at most {MAX_CHANNELS} heads")
    numbers = parameters.numbers(given, _body_fault)
    return parameters.described("relative-kerple-bias", numbers, {"clamp": parameters.clamp})


def _body_fault(name: str, value: float | None, rule: str) -> PosrefError:
    return InvalidBody(rule, f"/{name}", None if value is None else spelled(value))


_of_heads = partial(InputArray, ranks=(1,), is_required=False)

KERPLE = Resource(
    path="/relative/kerple",
    operation="RelativeKerple",
    summary="KERPLE's bias of every head, query and key",
    parameters=KerpleParameters,
    document=_kerple,
    example="a=1,0.5&p=2,1&head=0&query_len=4",
)
BIAS = Composition(
    path="/relative/kerple/bias",
    operation="RelativeKerpleBias",
    summary="KERPLE's biases from the arrays that a model has learned",
    parameters=KernelParameters,
    inputs=(
        _of_heads(
            name="a",
            description="the factor of distances, or of powers, (heads,)",
            example=[1.0, 0.5],
        ),
        _of_heads(
            name="b", description="the factor of NeMo's logarithms, (heads,)", example=[0.5, 0.25]
        ),
        _of_heads(
            name="p",
            description="the factor of logarithms, or the exponent, (heads,)",
            example=[2.0, 1.0],
        ),
    ),
    document=_bias,
    example="convention=nemo&query_len=2&key_len=3&head=0",
)
