"""The families of tables whose rows are tokens along several axes."""

from service.analysis.grids import axial, grid_sincos, sections
from service.analysis.question import Family

FAMILIES: tuple[Family, ...] = (grid_sincos.propose, axial.propose, sections.propose)
"""``/encoding/grid``, ``/rope/axial``, and ``/rope`` with mrope_section."""
