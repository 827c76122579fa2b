"""How well a number of a real type is known, and how its type is asked for."""

from service.analysis.sample import Sample
from service.tables.document import ParameterValue
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, REAL_DTYPES

# Half of a unit in the last place, as a share of a number: float64 ones may come from float32.
_SHARES = {FLOAT16: 2.0**-11, BFLOAT16: 2.0**-8}
_FINEST = 2.0**-24

# A few roundings: of a parameter, of a product, of what comes out.
_ROUNDINGS = 4


def share_of(sample: Sample) -> float:
    """Bound by how much of their size the numbers of a sample are off, a few roundings in all."""
    return _ROUNDINGS * _SHARES.get(sample.element_dtype, _FINEST)


def dtype_parameters(sample: Sample) -> dict[str, ParameterValue]:
    """Ask for the type of a sample, unless it is the default or none for real numbers."""
    dtype = sample.element_dtype
    if dtype is FLOAT32 or dtype.name not in REAL_DTYPES:
        return {}
    return {"dtype": dtype.name}
