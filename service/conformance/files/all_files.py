"""All vector files, in the order of the index."""

from service.conformance.files import (
    ids_and_sizes,
    published_configs,
    relative_tables,
    rotated_vectors,
    scaling_rules,
    several_axes,
    sinusoidal_tables,
)
from service.conformance.files.vector_file import VectorFile

FILES: tuple[VectorFile, ...] = (
    *scaling_rules.FILES,
    *several_axes.FILES,
    *rotated_vectors.FILES,
    *published_configs.FILES,
    *sinusoidal_tables.FILES,
    *relative_tables.FILES,
    *ids_and_sizes.FILES,
)
