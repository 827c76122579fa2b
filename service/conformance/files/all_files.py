"""All vector files, in the order of the index."""

from service.conformance.files import (
    published_configs,
    rotated_vectors,
    scaling_rules,
    several_axes,
)
from service.conformance.files.vector_file import VectorFile

FILES: tuple[VectorFile, ...] = (
    *scaling_rules.FILES,
    *several_axes.FILES,
    *rotated_vectors.FILES,
    *published_configs.FILES,
)
