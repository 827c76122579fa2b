"""All vector files, in the order of the index."""

from service.conformance.files import scaling_rules
from service.conformance.files.vector_file import VectorFile

FILES: tuple[VectorFile, ...] = (*scaling_rules.FILES,)
