"""Families of integers and of biases that distances between queries and keys decide."""

from service.analysis.distances import (
    alibi_biases,
    bucket_matrices,
    fire_coordinates,
    index_matrices,
    kernel_biases,
    log_tables,
    sandwich_biases,
    slopes,
)
from service.analysis.question import Family

FAMILIES: tuple[Family, ...] = (
    bucket_matrices.t5,
    bucket_matrices.deberta,
    index_matrices.shaw,
    index_matrices.swin,
    index_matrices.permutations,
    slopes.slopes,
    alibi_biases.alibi,
    kernel_biases.kerple,
    sandwich_biases.sandwich,
    fire_coordinates.fire,
    log_tables.swin_v2,
    log_tables.dynamic,
)
"""One for each resource, whose proposals are about it alone."""
