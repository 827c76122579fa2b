"""How exactly a real type holds a number, and how the type is asked for."""

from service.analysis.sample import Sample
from service.tables.document import ParameterValue
from service.tables.dtypes import FLOAT32, REAL_DTYPES, rounding_bound

# A few roundings: of a parameter, of a product, of what comes out.
_ROUNDINGS = 4


def rounding_of(sample: Sample) -> float:
    """Bound by how much of its size rounding to the real type of a sample moves a number."""
    return rounding_bound(sample.element_dtype, 1.0)


def share_of(sample: Sample) -> float:
    """Bound by how much of their size the numbers of a sample are off, a few roundings in all.

    Those of float64 are taken for float32 ones, which they often come from.
    """
    dtype = sample.element_dtype
    is_real = dtype.name in REAL_DTYPES
    single = rounding_bound(FLOAT32, 1.0)
    return _ROUNDINGS * (max(rounding_of(sample), single) if is_real else single)


def dtype_parameters(sample: Sample) -> dict[str, ParameterValue]:
    """Ask for the type of a sample, unless it is the default or none for real numbers."""
    dtype = sample.element_dtype
    if dtype is FLOAT32 or dtype.name not in REAL_DTYPES:
        return {}
    return {"dtype": dtype.name}
