"""All vector files, in the order of the index."""

from service.conformance.files import (
    ids_and_sizes,
    relative_tables,
    scaling_rules,
    sinusoidal_tables,
)
from service.conformance.files.vector_file import VectorFile

FILES: tuple[VectorFile, ...] = (
    *scaling_rules.FILES,
    *sinusoidal_tables.FILES,
    *relative_tables.FILES,
    *ids_and_sizes.FILES,
)
