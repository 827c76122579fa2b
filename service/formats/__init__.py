"""Table to bytes and back, one module a format, and the registry that finds them."""

from collections.abc import Mapping
from types import MappingProxyType

from service.formats.csv_text import CSV
from service.formats.format import Format
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.png import PNG
from service.formats.raw import RAW
from service.formats.safetensors_file import SAFETENSORS

FORMATS: Mapping[str, Format] = MappingProxyType(
    {form.extension: form for form in (JSON, NPY, SAFETENSORS, RAW, CSV, PNG)}
)
"""Every format by extension; the first is the default."""
